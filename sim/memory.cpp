// Turns each rank's spans into holdings, category by category, and runs through their changes.

#include "sim/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/holdings.hpp"
#include "report/result.hpp"
#include "report/timeline.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/action.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/program.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }

bool is_backward_start(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}
bool makes_weight_gradient(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_weight;
}

/// The spans of one microbatch on one stage of this rank, as positions; kNone where there is none.
constexpr std::int32_t kNoPosition = -1;
struct Passage {
  std::int32_t forward = kNoPosition;
  std::int32_t recompute = kNoPosition;
  std::int32_t backward = kNoPosition;  // B or I
  std::int32_t last = kNoPosition;      // B or W
};

class RankHoldings {
 public:
  RankHoldings(std::int32_t rank, std::span<const Span> spans, const Experiment& experiment)
      : rank_(rank),
        spans_(spans),
        program_(experiment.program),
        costs_(experiment.costs),
        neighbours_(stage_neighbours(experiment.program)),
        of_stage_(index(experiment.program.stage_count())) {
    for (std::size_t i = 0; i < spans_.size(); ++i)
      of_stage_[index(spans_[i].action.stage)].push_back(static_cast<std::int32_t>(i));
    find_passages();
  }

  std::vector<Holding> all() {
    hold_stage_state();
    for (std::size_t i = 0; i < spans_.size(); ++i) hold_for_action(static_cast<std::int32_t>(i));
    return std::move(holdings_);
  }

 private:
  static std::uint64_t key(std::int32_t stage, std::int32_t microbatch) {
    return std::uint64_t{static_cast<std::uint32_t>(stage)} << 32U | static_cast<std::uint32_t>(microbatch);
  }
  const Span& span(std::int32_t position) const { return spans_[index(position)]; }
  const StageCost& cost(std::int32_t stage) const { return costs_.stages[index(stage)]; }

  void find_passages() {
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      const Action& action = spans_[i].action;
      if (!is_compute(action.kind) || !has_microbatch(action.kind)) continue;
      Passage& passage = passages_[key(action.stage, action.microbatch)];
      const auto position = static_cast<std::int32_t>(i);
      if (action.kind == ActionKind::forward) passage.forward = position;
      if (action.kind == ActionKind::recompute) passage.recompute = position;
      if (is_backward_start(action.kind)) passage.backward = position;
      if (makes_weight_gradient(action.kind)) passage.last = position;
    }
  }

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
  /// From the start of one action to the end of another; for ever where the other is missing.
  void hold_between(MemoryCategory category, Bytes bytes, std::int32_t first, std::int32_t last) {
    hold(category, bytes, span(first).start_ns, first, last == kNoPosition ? kHeldForEver : span(last).end_ns,
         last);
  }

  Bytes share(std::int32_t stage, Bytes bytes, std::int32_t from_sharding) const {
    const auto group = static_cast<Bytes>(program_.placement.stages[index(stage)].ranks.size());
    return program_.sharding >= from_sharding ? (bytes + group - 1) / group : bytes;
  }

  // --- weights, versions, gradients, optimizer state ------------------------------------------------

  void hold_stage_state() {
    for (std::int32_t stage = 0; stage < program_.stage_count(); ++stage) {
      if (program_.placement.replica_on(stage, rank_) < 0) continue;
      hold(MemoryCategory::weights, share(stage, cost(stage).weights, 3), 0, kBeforeFirst, kHeldForEver,
           kBeforeFirst);
      hold(MemoryCategory::optimizer_state, share(stage, cost(stage).optimizer_state, 1), 0, kBeforeFirst,
           kHeldForEver, kBeforeFirst);
      hold_versions(stage);
      hold_gradients(stage);
      if (program_.sharding == 3) hold_gathered_weights(stage);
    }
  }

  void hold_gathered_weights(std::int32_t stage) {
    std::int32_t gathered = kNoPosition;
    for (const std::int32_t position : of_stage_[index(stage)]) {
      const ActionKind kind = span(position).action.kind;
      if (kind == ActionKind::unshard) gathered = position;
      if (kind != ActionKind::reshard || gathered == kNoPosition) continue;
      hold_between(MemoryCategory::weights, cost(stage).weights, gathered, position);
      gathered = kNoPosition;
    }
    if (gathered != kNoPosition)
      hold_between(MemoryCategory::weights, cost(stage).weights, gathered, kNoPosition);
  }

  void hold_versions(std::int32_t stage) {
    std::vector<std::int32_t> last_user;  // by version
    std::vector<std::int32_t> steps;
    for (const std::int32_t position : of_stage_[index(stage)]) {
      const Action& action = span(position).action;
      if (!is_compute(action.kind)) continue;
      if (action.kind == ActionKind::step) {
        steps.push_back(position);
        continue;
      }
      if (last_user.size() <= index(action.weight_version))
        last_user.resize(index(action.weight_version) + 1, kNoPosition);
      last_user[index(action.weight_version)] = position;
    }
    for (std::size_t v = 0; v < std::min(steps.size(), last_user.size()); ++v) {
      if (last_user[v] <= steps[v]) continue;
      hold(MemoryCategory::weight_versions, share(stage, cost(stage).weights, 3), span(steps[v]).end_ns,
           steps[v], span(last_user[v]).end_ns, last_user[v]);
    }
  }

  /// What one minibatch makes of a stage's gradients.
  struct GradientLife {
    std::int32_t first = kNoPosition;  // B or W, or the REDUCE_GRAD of a replica without a microbatch
    std::int32_t reduced = kNoPosition;
    std::int32_t step = kNoPosition;
  };

  void hold_gradients(std::int32_t stage) {
    GradientLife life;
    for (const std::int32_t position : of_stage_[index(stage)]) {
      const ActionKind kind = span(position).action.kind;
      const bool reduces = kind == ActionKind::reduce_grad;
      if ((reduces || makes_weight_gradient(kind)) && life.first == kNoPosition) life.first = position;
      if (reduces) life.reduced = position;
      if (kind != ActionKind::step || life.first == kNoPosition) continue;
      life.step = position;
      hold_gradients(stage, std::exchange(life, {}));
    }
    if (life.first != kNoPosition) hold_gradients(stage, life);
  }

  void hold_gradients(std::int32_t stage, const GradientLife& life) {
    const Bytes whole = cost(stage).gradients;
    const Bytes kept = life.reduced == kNoPosition ? whole : share(stage, whole, 2);
    hold_between(MemoryCategory::gradients, kept, life.first, life.step);
    hold_between(MemoryCategory::gradients, whole - kept, life.first, life.reduced);
  }

  // --- activations ------------------------------------------------------------------------------------

  Bytes input_bytes(std::int32_t stage) const {
    const std::vector<std::int32_t>& sources = neighbours_.predecessors[index(stage)];
    if (sources.empty()) return cost(stage).input;
    Bytes bytes = 0;
    for (const std::int32_t source : sources) {
      bytes += transfer_bytes(
          costs_, {.kind = ActionKind::recv_forward, .stage = stage, .microbatch = 0, .peer = source});
    }
    return bytes;
  }

  void hold_activations(const Passage& passage) {
    const std::int32_t stage = span(passage.forward).action.stage;
    std::int32_t kept_from = passage.forward;
    if (passage.recompute != kNoPosition) {
      hold_between(MemoryCategory::activations, input_bytes(stage), passage.forward, passage.backward);
      kept_from = passage.recompute;
    }
    const bool split = passage.backward != kNoPosition && passage.last != passage.backward;
    const Bytes at_input = split ? cost(stage).released_by_input : 0;
    hold_between(MemoryCategory::activations, at_input, kept_from, passage.backward);
    hold_between(MemoryCategory::activations, cost(stage).kept - at_input, kept_from, passage.last);
  }

  // --- buffers and transients ---------------------------------------------------------------------------

  void hold_for_action(std::int32_t position) {
    const Span& here = span(position);
    if (is_transfer(here.action.kind)) {
      hold_buffer(position);
    } else if (is_compute(here.action.kind) && has_microbatch(here.action.kind)) {
      hold_between(MemoryCategory::transient, cost(here.action.stage).transient, position, position);
      if (here.action.kind == ActionKind::forward) {
        hold_activations(passages_.at(key(here.action.stage, here.action.microbatch)));
      }
    }
  }

  void hold_buffer(std::int32_t position) {
    const Span& here = span(position);
    const auto found = passages_.find(key(here.action.stage, here.action.microbatch));
    const Passage passage = found == passages_.end() ? Passage{} : found->second;
    const bool activation =
        here.action.kind == ActionKind::send_forward || here.action.kind == ActionKind::recv_forward;
    const std::int32_t user = activation ? passage.forward : passage.backward;
    const Bytes bytes = transfer_bytes(costs_, here.action);
    if (is_send(here.action.kind)) {
      const Ns produced = user == kNoPosition ? here.start_ns : span(user).end_ns;
      hold(MemoryCategory::send_buffers, bytes, produced, position, here.end_ns, position);
    } else {
      const Ns consumed = user == kNoPosition ? kHeldForEver : span(user).end_ns;
      hold(MemoryCategory::receive_buffers, bytes, here.start_ns, position, consumed, user);
    }
  }

  std::int32_t rank_;
  std::span<const Span> spans_;
  const Program& program_;
  const CostTable& costs_;
  StageNeighbours neighbours_;
  std::vector<std::vector<std::int32_t>> of_stage_;  // positions, ascending
  std::unordered_map<std::uint64_t, Passage> passages_;
  std::vector<Holding> holdings_;
};

RankMemory run_through(std::span<const Holding> holdings, std::span<const Span> spans,
                       const MemoryOptions& options) {
  RankMemory memory;
  MemoryByCategory held{};
  Bytes total = 0;
  for (const HoldingChange& change : changes_in_order(holdings)) {
    const Holding& holding = holdings[index(change.holding)];
    const auto category = index(holding.kind);
    const Bytes delta = change.charge ? holding.amount : -holding.amount;
    held[category] += delta;
    total += delta;
    memory.peaks[category] = std::max(memory.peaks[category], held[category]);
    if (total > memory.peak_bytes) {
      memory.peak_bytes = total;
      memory.peak_time_ns = change.time_ns;
      memory.peak_action = holding.charged_by < 0 ? "" : to_text(spans[index(holding.charged_by)].action);
      memory.at_peak = held;
    }
    if (!options.samples) continue;
    if (memory.samples.empty() || memory.samples.back().time_ns != change.time_ns) {
      memory.samples.push_back({.time_ns = change.time_ns});
    }
    memory.samples.back().bytes = held;
  }
  return memory;
}

}  // namespace

std::vector<RankMemory> memory_of(const Timeline& timeline, const Experiment& experiment,
                                  const MemoryOptions& options) {
  std::vector<RankMemory> memories;
  std::size_t begin = 0;
  for (std::int32_t rank = 0; rank < timeline.rank_count; ++rank) {
    std::size_t end = begin;
    while (end < timeline.spans.size() && timeline.spans[end].rank == rank) ++end;
    const auto spans = std::span(timeline.spans).subspan(begin, end - begin);
    memories.push_back(run_through(RankHoldings(rank, spans, experiment).all(), spans, options));
    if (rank < experiment.cluster.device_count()) {
      memories.back().capacity = experiment.cluster.devices()[index(rank)].memory_bytes;
    }
    begin = end;
  }
  return memories;
}

}  // namespace penstock
