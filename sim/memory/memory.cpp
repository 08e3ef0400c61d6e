// Computes memory over time from the spans of each rank. It makes a list of holdings, which are numbers of
// bytes in one category with a start and an end. The class comment in memory.hpp lists the holdings of each
// category. The peak is the largest sum of all holdings at one time. It names the first action at which this
// sum was reached. For programs without sharding or weight versions, tape_peak.cpp and phase_peaks.cpp find
// only the peaks, but faster. Tests: tests/sim/memory_test.cpp.

#include "sim/memory/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/streamed_walk.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

/// The positions of one microbatch's actions on one stage of this rank, in the list of the rank's spans.
struct Passage {
  std::int32_t forward = kNoPosition;
  std::int32_t recompute = kNoPosition;
  std::int32_t backward = kNoPosition;       // position of B or I
  std::int32_t last = kNoPosition;           // position of B or W
  std::int32_t wait_forward = kNoPosition;   // position of WAIT_SEND_F
  std::int32_t wait_backward = kNoPosition;  // position of WAIT_SEND_B
};

using Positions = std::span<const std::int32_t>;

/// A builder of the holdings of one rank: the amounts of memory that it holds for some time. A position is an
/// index into the rank's spans, which include messages.
class RankHoldings {
 public:
  RankHoldings(std::span<const Span> spans, const Experiment& experiment, const EdgeNumbers& edges,
               const StageNeighbours& neighbours)
      : spans_(spans),
        program_(experiment.program),
        costs_(experiment.costs),
        edges_(edges),
        sizes_(experiment.costs, edges),
        neighbours_(neighbours),
        has_forward_only_stage_(has_forward_only_stage(experiment.program)),
        host_stays_(host_stays(spans)) {
    holdings_.reserve(spans.size());
    find_passages();
  }

  /// Returns all holdings. `stages` are the stages that the rank holds.
  std::vector<Holding> all(std::span<const std::int32_t> stages) {
    for (const std::int32_t stage : stages) hold_stage_state(stage);
    for (std::size_t i = 0; i < spans_.size(); ++i) hold_for_action(static_cast<std::int32_t>(i));
    return std::move(holdings_);
  }

 private:
  const Span& span(std::int32_t position) const { return spans_[index(position)]; }
  const StageCost& cost(std::int32_t stage) const { return costs_.stages[index(stage)]; }

  void find_passages() {
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      const Action& action = spans_[i].action;
      const bool computes = is_compute(action.kind) && has_microbatch(action.kind);
      if (!computes && !is_send_wait(action.kind)) continue;
      Passage& passage = passage_of(action);
      const auto position = static_cast<std::int32_t>(i);
      if (action.kind == ActionKind::wait_send_forward) passage.wait_forward = position;
      if (action.kind == ActionKind::wait_send_backward) passage.wait_backward = position;
      if (action.kind == ActionKind::forward) passage.forward = position;
      if (action.kind == ActionKind::recompute) passage.recompute = position;
      if (makes_input_gradient(action.kind)) passage.backward = position;
      if (makes_weight_gradient(action.kind)) passage.last = position;
    }
  }

  Passage& passage_of(const Action& action) { return passages_.at(action.stage, action.microbatch); }

  void hold(MemoryCategory category, Bytes bytes, Ns from, std::int32_t charged_by, Ns until,
            std::int32_t released_by) {
    if (bytes == 0) return;
    holdings_.push_back({.from_ns = from,
                         .until_ns = until,
                         .charged_by = charged_by,
                         .released_by = released_by,
                         .kind = static_cast<std::int32_t>(category),
                         .amount = bytes});
  }
  /// Adds a holding from the start of one action to the end of another. If `last` is kNoPosition, the holding
  /// never ends.
  void hold_between(MemoryCategory category, Bytes bytes, std::int32_t first, std::int32_t last) {
    hold(category, bytes, span(first).start_ns, first, last == kNoPosition ? kHeldForEver : span(last).end_ns,
         last);
  }

  Bytes share(std::int32_t stage, Bytes bytes, std::int32_t from_sharding) const {
    const auto group = static_cast<Bytes>(program_.placement.stages[index(stage)].ranks.size());
    // The bytes are divided among the `group` members, whose parts may differ by one byte. The largest part
    // counts, so the result is rounded up.
    return program_.sharding >= from_sharding ? (bytes + group - 1) / group : bytes;
  }

  // --- weights, versions, gradients, optimizer state ------------------------------------------------

  void hold_stage_state(std::int32_t stage) {
    const StageCost& figures = cost(stage);
    hold(MemoryCategory::weights, share(stage, figures.weights, 3), 0, kBeforeFirst, kHeldForEver,
         kBeforeFirst);
    hold(MemoryCategory::optimizer_state, share(stage, figures.optimizer_state, 1), 0, kBeforeFirst,
         kHeldForEver, kBeforeFirst);
    hold(MemoryCategory::weight_versions, share(stage, figures.cloned_weights, 3), 0, kBeforeFirst,
         kHeldForEver, kBeforeFirst);
    // A stage without weights and gradients has no versions and no gradient buffers.
    if (figures.weights == 0 && figures.gradients == 0) return;
    const Positions positions = positions_of(stage);
    hold_versions(stage, positions);
    hold_gradients(stage, positions);
    if (program_.sharding == 3) hold_gathered_weights(stage, positions);
  }

  /// Returns the positions of all spans of the stage except messages, in ascending order.
  Positions positions_of(std::int32_t stage) {
    const auto of = [this](std::int32_t position) { return span(position).action.stage; };
    if (by_stage_.empty()) {
      for (std::size_t i = 0; i < spans_.size(); ++i) {
        if (!is_transfer(spans_[i].action.kind)) by_stage_.push_back(static_cast<std::int32_t>(i));
      }
      // The positions are sorted once for all stages, and only if some stage has weights or gradients.
      std::ranges::stable_sort(by_stage_, {}, of);
    }
    const auto found = std::ranges::equal_range(by_stage_, stage, {}, of);
    return {found.begin(), found.end()};
  }

  void hold_gathered_weights(std::int32_t stage, Positions positions) {
    std::int32_t gathered = kNoPosition;
    for (const std::int32_t position : positions) {
      const ActionKind kind = span(position).action.kind;
      if (kind == ActionKind::unshard) gathered = position;
      if (kind != ActionKind::reshard || gathered == kNoPosition) continue;
      hold_between(MemoryCategory::weights, cost(stage).weights, gathered, position);
      gathered = kNoPosition;
    }
    // If no RESHARD follows, the gathered weights are held until the end of the run.
    if (gathered != kNoPosition)
      hold_between(MemoryCategory::weights, cost(stage).weights, gathered, kNoPosition);
  }

  void hold_versions(std::int32_t stage, Positions positions) {
    VersionLives versions;
    for (const std::int32_t position : positions) versions.note(span(position).action, position);
    for (const VersionLife& version : versions.all()) {
      // If no action uses the version after the STEP that replaces it, no copy is needed.
      if (!version.is_used_after_its_replacement()) continue;
      hold(MemoryCategory::weight_versions, share(stage, cost(stage).version_bytes(), 3),
           span(version.replaced_by).end_ns, version.replaced_by, span(version.last_used_by).end_ns,
           version.last_used_by);
    }
  }

  /// The positions of the actions at which the gradients of one minibatch begin or end to be held.
  struct GradientLife {
    // The first B or W. A replica without microbatches has neither, so this is its REDUCE_GRAD.
    std::int32_t first = kNoPosition;
    std::int32_t step = kNoPosition;
    /// For each reduction, the first B or W after the previous reduction, and the REDUCE_GRAD or its WAIT.
    /// The second position is kNoPosition if no REDUCE_GRAD follows.
    std::vector<std::pair<std::int32_t, std::int32_t>> sums;
  };

  void hold_gradients(std::int32_t stage, Positions positions) {
    GradientLife life;
    std::int32_t begun = kNoPosition;  // first B or W since the last REDUCE_GRAD
    for (const std::int32_t position : positions) {
      const ActionKind kind = span(position).action.kind;
      // The buffers of a reduction are held until its WAIT.
      if (kind == ActionKind::wait_reduce_grad && !life.sums.empty()) life.sums.back().second = position;
      const bool reduces = kind == ActionKind::reduce_grad;
      if (!reduces && !makes_weight_gradient(kind) && kind != ActionKind::step) continue;
      if (kind != ActionKind::step) {
        if (life.first == kNoPosition) life.first = position;
        if (begun == kNoPosition) begun = position;
        if (reduces) life.sums.emplace_back(std::exchange(begun, kNoPosition), position);
        continue;
      }
      // A replica without microbatches and reductions has no gradients at its STEP.
      if (life.first == kNoPosition) continue;
      if (begun != kNoPosition) life.sums.emplace_back(std::exchange(begun, kNoPosition), kNoPosition);
      life.step = position;
      hold_gradients(stage, std::exchange(life, {}));
    }
    // If no STEP follows, the gradients are held until the end of the run.
    if (begun != kNoPosition) life.sums.emplace_back(begun, kNoPosition);
    if (life.first != kNoPosition) hold_gradients(stage, life);
  }

  void hold_gradients(std::int32_t stage, const GradientLife& life) {
    const Bytes whole = cost(stage).gradients;
    const bool is_reduced = life.sums.front().second != kNoPosition;
    const Bytes kept = is_reduced ? share(stage, whole, 2) : whole;
    hold_between(MemoryCategory::gradients, kept, life.first, life.step);
    if (kept == whole) return;
    // After the first reduction, a sharded replica retains only its own part of the gradients. Until then, it
    // also holds the rest. For each later reduction, it holds a whole buffer in addition to the part.
    Bytes beside = whole - kept;
    for (const auto& [begun, reduced] : life.sums) {
      hold_between(MemoryCategory::gradients, beside, begun, reduced == kNoPosition ? life.step : reduced);
      beside = whole;
    }
  }

  // --- activations ------------------------------------------------------------------------------------

  Bytes input_bytes(const Action& forward) const {
    const std::vector<std::int32_t>& givers = givers_of(neighbours_, forward.stage, Flow::activation);
    // A stage without a predecessor gets its input from the data set.
    if (givers.empty()) return costs_.stage_of(forward).input;
    Bytes bytes = 0;
    for (const std::int32_t giver : givers) {
      bytes += transfer_bytes(costs_, edges_,
                              recv_of({.flow = Flow::activation,
                                       .from = giver,
                                       .to = forward.stage,
                                       .microbatch = forward.microbatch}));
    }
    return bytes;
  }

  void hold_activations(const Passage& passage) {
    const Action& forward = span(passage.forward).action;
    const StageCost& cost = costs_.stage_of(forward);
    std::int32_t kept_from = passage.forward;
    if (const auto stay = host_stays_.find({forward.stage, forward.microbatch}); stay != host_stays_.end()) {
      hold_between(MemoryCategory::activations, cost.kept, passage.forward, stay->second.released_by);
      if (stay->second.reload == kNoPosition) return;
      kept_from = stay->second.reload;
    }
    if (passage.recompute != kNoPosition) {
      hold_between(MemoryCategory::activations, input_bytes(forward), passage.forward, passage.backward);
      kept_from = passage.recompute;
    }
    // B releases all activations. I releases a part, and W the rest. In a truncated program, W may be
    // missing, and then the rest is never released.
    const Bytes at_gradient =
        passage.backward == kNoPosition ? 0 : released_activations(cost, span(passage.backward).action.kind);
    hold_between(MemoryCategory::activations, at_gradient, kept_from, passage.backward);
    hold_between(MemoryCategory::activations, cost.kept - at_gradient, kept_from, passage.last);
    if (passage.backward == kNoPosition) return;
    const Bytes recomputed = recomputed_activations(cost, span(passage.backward).action.kind);
    hold_between(MemoryCategory::activations, recomputed, passage.backward, passage.last);
  }

  /// Adds a holding for each output of an F that goes to a stage on the same rank, if the stage has no
  /// backward pass. A stage with a backward pass holds its output itself. A message to another rank has
  /// buffers.
  void hold_local_outputs(std::int32_t position) {
    const Action& forward = span(position).action;
    for (const std::int32_t taker : takers_of(neighbours_, forward.stage, Flow::activation)) {
      const StageMessage output{
          .flow = Flow::activation, .from = forward.stage, .to = taker, .microbatch = forward.microbatch};
      const std::int32_t consumer = passages_.at(taker, forward.microbatch).forward;
      if (consumer == kNoPosition) continue;
      hold(MemoryCategory::activations, transfer_bytes(costs_, edges_, send_of(output)),
           span(position).end_ns, position, span(consumer).end_ns, consumer);
    }
  }

  // --- buffers and transients ---------------------------------------------------------------------------

  void hold_for_action(std::int32_t position) {
    const Span& here = span(position);
    if (is_transfer(here.action.kind)) {
      hold_buffer(position);
    } else if (is_compute(here.action.kind) && has_microbatch(here.action.kind)) {
      const Bytes transient = transient_bytes(costs_.stage_of(here.action), here.action.kind);
      hold_between(MemoryCategory::transient, transient, position, position);
      if (here.action.kind == ActionKind::forward) {
        hold_activations(passage_of(here.action));
        if (has_forward_only_stage_ && program_.placement.stages[index(here.action.stage)].is_forward_only())
          hold_local_outputs(position);
      }
    }
  }

  void hold_buffer(std::int32_t position) {
    const Span& here = span(position);
    const Bytes bytes = sizes_.of(here.action);
    if (bytes == 0) return;
    const Passage& passage = passage_of(here.action);
    const bool activation = flow_of(here.action.kind) == Flow::activation;
    // A send buffer exists from the end of the message's producer to the arrival, or to the WAIT for it. A
    // receive buffer exists from the start of the transfer to the end of the consumer. `user` is the producer
    // or the consumer on this rank.
    const std::int32_t user = activation ? passage.forward : passage.backward;
    if (is_send(here.action.kind)) {
      const Ns produced = user == kNoPosition ? here.start_ns : span(user).end_ns;
      const std::int32_t wait = activation ? passage.wait_forward : passage.wait_backward;
      const std::int32_t last = wait == kNoPosition ? position : wait;
      hold(MemoryCategory::send_buffers, bytes, produced, position, span(last).end_ns, last);
    } else {
      const Ns consumed = user == kNoPosition ? kHeldForEver : span(user).end_ns;
      hold(MemoryCategory::receive_buffers, bytes, here.start_ns, position, consumed, user);
    }
  }

  std::span<const Span> spans_;
  const Program& program_;
  const CostTable& costs_;
  const EdgeNumbers& edges_;
  TransferSizes sizes_;
  const StageNeighbours& neighbours_;
  bool has_forward_only_stage_;
  HostStays host_stays_;
  // Positions of all spans except messages, sorted by stage. The vector is empty until positions_of() fills
  // it.
  std::vector<std::int32_t> by_stage_;
  StageUnitTable<Passage> passages_;
  std::vector<Holding> holdings_;
};

/// Returns the peaks of the holdings, and the memory over time if `options` asks for it. Memory over time
/// has one sample for each instant, with the bytes after all changes of this instant.
RankMemory run_through(std::span<const Holding> holdings, std::span<const Span> spans,
                       const MemoryOptions& options) {
  RankMemory memory;
  MemoryByCategory held{};
  Bytes total = 0;
  std::int32_t peak_by = kBeforeFirst;
  for (const HoldingChange& change : changes_in_order(holdings)) {
    const Holding& holding = holdings[index(change.holding)];
    const auto category = index(holding.kind);
    const Bytes delta = change.charge ? holding.amount : -holding.amount;
    held[category] += delta;
    total += delta;
    memory.peaks[category] = std::max(memory.peaks[category], held[category]);
    // If the peak is reached several times, the first time counts, so equal runs name the same action.
    if (total > memory.peak_bytes) {
      memory.peak_bytes = total;
      memory.peak_time_ns = change.time_ns;
      peak_by = holding.charged_by;
      memory.at_peak = held;
    }
    if (!options.samples) continue;
    if (memory.samples.empty() || memory.samples.back().time_ns != change.time_ns) {
      memory.samples.push_back({.time_ns = change.time_ns});
    }
    memory.samples.back().bytes = held;
  }
  if (peak_by != kBeforeFirst) memory.peak_action = to_text(spans[index(peak_by)].action);
  return memory;
}

}  // namespace

void set_device(RankMemory& memory, const Experiment& experiment, std::int32_t rank) {
  if (experiment.counts_activations) memory.unit = MemoryUnit::activations;
  // If the cluster has no device for the rank, the capacity is not known.
  if (rank >= experiment.cluster.device_count()) return;
  const Device& device = experiment.cluster.devices()[index(rank)];
  if (!device.memory_bytes) return;
  // The reserve is at most the capacity, so that usable and reserved bytes add up to the capacity.
  const Bytes reserved = std::min(device.reserved_bytes, *device.memory_bytes);
  const bool counts = experiment.counts_activations;
  memory.capacity = counts ? amount_of_activations(*device.memory_bytes) : *device.memory_bytes;
  memory.reserved = counts ? amount_of_activations(reserved) : reserved;
}

MemoryOfRanks::MemoryOfRanks(const Experiment& experiment, const MemoryOptions& options)
    : experiment_(experiment),
      options_(options),
      edges_(experiment.program),
      neighbours_(stage_neighbours(experiment.program)),
      stages_of_rank_(stages_by_rank(experiment.program.placement, experiment.program.ranks.size())) {}

RankMemory MemoryOfRanks::of(std::int32_t rank, std::span<const Span> spans) const {
  const auto holdings =
      RankHoldings(spans, experiment_, edges_, neighbours_).all(stages_of_rank_[index(rank)]);
  RankMemory memory = run_through(holdings, spans, options_);
  set_device(memory, experiment_, rank);
  return memory;
}

std::vector<RankMemory> memory_of(const EngineRun& run, const Experiment& experiment,
                                  const MemoryOptions& options) {
  const MemoryOfRanks memory(experiment, options);
  // Only one rank's spans are in memory at a time, because the spans of all ranks need many times the memory
  // of the run.
  RankSpans spans(run.flat, experiment.program.placement, run.times);
  std::vector<RankMemory> memories;
  memories.reserve(index(run.flat.rank_count));
  for (std::int32_t rank = 0; rank < run.flat.rank_count; ++rank)
    memories.push_back(memory.of(rank, spans.of(rank)));
  return memories;
}

std::vector<RankMemory> memory_of(const Timeline& timeline, const Experiment& experiment,
                                  const MemoryOptions& options) {
  const MemoryOfRanks memory(experiment, options);
  std::vector<RankMemory> memories;
  std::int32_t rank = 0;
  for (const Spans& spans : spans_by_rank(timeline)) memories.push_back(memory.of(rank++, spans));
  return memories;
}

}  // namespace penstock
