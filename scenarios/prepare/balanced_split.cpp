// Searches for the division of layers with which the schedule is fastest. Ranks with equal work are not
// always best. The order of long and short stages decides how long the warm-up takes and how often ranks
// wait. So the search computes the time of the schedule for each list of layer counts that it tries:
//
//   start from: level by price; level without the ends; even; ends one less
//     -> move one layer from one stage to another; if that is faster, go on from there until no move helps
//   take the fastest list that fits in memory
//
// If a program has many microbatches, the search computes the time for fewer. For each missing microbatch it
// adds the work of the busiest rank, because a full pipeline advances at the rate of this rank.

#include "scenarios/prepare/schedule_outline.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/pricing/chain_costs.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "topology/presets.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

/// The largest number of compute actions in a program whose time the search computes. A longer program is
/// shortened to fewer microbatches.
constexpr std::int64_t kTimedActions = 1 << 15;
/// The largest total number of compute actions in all trials. Computing the times of so many actions takes
/// 0.1 to 0.2 s.
constexpr std::size_t kTriedActions = 30'000'000;

using Layers = std::vector<std::int64_t>;

/// Returns the unused memory of each rank in bytes. It is negative if the rank needs more memory than it
/// has. The needed memory includes one message in each direction to and from each neighbour. Returns an
/// empty list if the devices' memory is unknown.
std::vector<Bytes> spare_bytes(const SplitTask& task, const CostTable& costs) {
  std::vector<Bytes> spare;
  if (!task.work.device.usable_memory()) return spare;
  Bytes messages = 0;
  for (const EdgeCost& edge : costs.edges)
    messages = std::max(messages, 2 * (edge.activation + edge.gradient));
  for (std::size_t rank = 0; rank < task.outline.ranks.size(); ++rank) {
    const auto memory = device_of_rank(task.work, static_cast<std::int32_t>(rank)).usable_memory();
    if (!memory) return {};
    spare.push_back(*memory - least_peak_bytes(costs, task.outline.ranks[rank]) -
                    (task.outline.ranks.size() > 1 ? messages : 0));
  }
  return spare;
}

/// Returns the costs of stages with these layers, or nothing if a price exceeds 64 bits.
std::optional<CostTable> costs_of(const SplitTask& task, const Layers& layers) {
  const auto& ranks = task.outline.rank_of_stage;
  const std::vector<StagePrice> stages = price_stages(task.work, task.prices, layers, ranks);
  const RankStep step = longest_step(task.work, task.kernels, stages, ranks);
  if (chain_fault(stages, step, task.microbatches)) return std::nullopt;
  return chain_costs(stages, ranks, step, task.microbatches);
}

bool lacks_memory(const SplitTask& task, const CostTable& costs) {
  return std::ranges::any_of(spare_bytes(task, costs), [](Bytes spare) { return spare < 0; });
}

std::vector<std::int64_t> layers_of_ranks(const SplitTask& task, const Layers& layers) {
  std::vector<std::int64_t> of_ranks(task.outline.ranks.size(), 0);
  for (std::size_t s = 0; s < layers.size(); ++s) of_ranks[index(task.outline.rank_of_stage[s])] += layers[s];
  return of_ranks;
}

/// A list of layer counts that was tried: the time of its schedule, and whether all ranks have enough
/// memory (`fits`).
struct Trial {
  Layers layers;
  bool fits = false;
  double time_ns = std::numeric_limits<double>::infinity();
};

/// Returns true if a stage is on several ranks.
bool has_replicas(const ScheduleOutline& outline) {
  std::size_t held = 0;
  for (const RankOutline& rank : outline.ranks) held += rank.stages.size();
  return held > outline.rank_of_stage.size();
}

class Trials {
 public:
  Trials(const SplitTask& task, const OrderTimes& order)
      : task_(task),
        order_(order),
        times_(layer_times(task.work, task.prices.front())),
        links_(links_between_stages(task.work)),
        has_replicas_(has_replicas(task.outline)) {}

  /// Returns the fastest list that the search reaches from `starts`. A list that fits in memory is preferred
  /// to any list that does not.
  Layers best_from(const std::vector<Layers>& starts) {
    Trial best;
    for (const Layers& start : starts) {
      best_ = {};
      take_if_better(start);
      while (moved_once()) {
      }
      if (best_.fits > best.fits || (best_.fits == best.fits && best_.time_ns < best.time_ns)) best = best_;
    }
    return best.layers;
  }

 private:
  /// Returns true if the computation of the busiest rank alone takes longer than the whole schedule of the
  /// best list so far.
  bool is_too_slow(const Layers& layers) const {
    // `times_` are the layer times on the first kind of device. Other kinds may be faster, so the comparison
    // would be wrong for them. A rank with a replica of a stage runs only a part of the microbatches.
    if (!task_.work.later_devices.empty() || has_replicas_) return false;
    const auto ranks = rank_times(times_, layers, task_.outline.rank_of_stage);
    return std::ranges::max(ranks) * kNanosecondsPerSecond * static_cast<double>(task_.microbatches) >
           best_.time_ns;
  }

  bool take_if_better(const Layers& layers) {
    if (best_.fits && is_too_slow(layers)) return false;
    // Every trial is counted in `actions_`, which limits the search, even if its layer counts do not fit into
    // memory. Computing the costs of a list takes as long as computing its time.
    actions_ += order_.actions();
    const auto costs = costs_of(task_, layers);
    if (!costs) return false;
    const bool fits = !lacks_memory(task_, *costs);
    if (best_.fits && !fits) return false;
    const double further = static_cast<double>(task_.microbatches - order_.microbatches());
    const double time_ns = static_cast<double>(order_.makespan_ns(*costs, links_)) +
                           further * order_.busiest_ns_per_microbatch(*costs);
    if (fits == best_.fits && time_ns >= best_.time_ns) return false;
    best_ = {.layers = layers, .fits = fits, .time_ns = time_ns};
    return true;
  }

  /// Tries to move one layer from one stage to another, and stops at the first move that makes the schedule
  /// faster. It starts after the move that the previous call tried last. Returns false if no move helps.
  bool moved_once() {
    const std::size_t stages = best_.layers.size();
    for (std::size_t tried = 0; tried < stages * stages; ++tried) {
      if (actions_ > kTriedActions) return false;
      next_ = (next_ + 1) % (stages * stages);
      const std::size_t from = next_ / stages;
      const std::size_t to = next_ % stages;
      const bool is_end = from == 0 || from + 1 == stages;
      if (from == to || best_.layers[from] <= (is_end ? 0 : 1)) continue;
      Layers moved = best_.layers;
      --moved[from];
      ++moved[to];
      if (take_if_better(moved)) return true;
    }
    return false;
  }

  const SplitTask& task_;
  const OrderTimes& order_;
  LayerTimes times_;
  UniformCluster links_;
  bool has_replicas_ = false;
  Trial best_;
  std::size_t next_ = 0;
  std::size_t actions_ = 0;
};

/// Returns the program whose time the search computes. If the whole program has many microbatches, the
/// returned program is shorter. Returns nothing if the schedule has no lists of actions.
std::optional<Program> timed_program(const StatedSchedule& schedule, const Program& placed) {
  const std::int64_t stages = placed.stage_count();
  const std::int64_t microbatches = placed.microbatches;
  const bool has_lists = std::ranges::any_of(placed.ranks, [](const auto& list) { return !list.empty(); });
  const bool is_short = 2 * stages * microbatches * placed.slices <= kTimedActions;
  if (has_lists && (is_short || schedule.program != nullptr)) return placed;
  if (schedule.program != nullptr) return std::nullopt;
  StatedSchedule shorter = schedule;
  shorter.shape.iterations = 1;
  if (!is_short) {
    // The number of microbatches of the shorter program is a multiple of the number of ranks. It is at least
    // four times that number, so that the pipeline is full for some time.
    const std::int64_t ranks = placed.rank_count();
    const std::int64_t rounds =
        std::max<std::int64_t>(4, kTimedActions / (2 * stages * ranks * placed.slices));
    shorter.shape.microbatches = static_cast<std::int32_t>(std::min(microbatches, rounds * ranks));
  }
  auto program = placed_program(shorter);
  // Some schedules accept M microbatches but not this smaller number.
  if (!program) return has_lists ? std::optional(placed) : std::nullopt;
  return *std::move(program);
}

/// Returns, for each rank, the time of all layers on its devices, divided by their time on the devices of the
/// first rank. Returns an empty list if all devices are of one kind.
std::vector<double> slowness_of_ranks(const SplitTask& task) {
  std::vector<double> slowness;
  if (task.work.later_devices.empty()) return slowness;
  const auto whole = [&](const LayerPrices& prices) {
    const LayerTimes times = layer_times(task.work, prices);
    return times.before.back() + times.head;
  };
  const double first = whole(task.prices.front());
  slowness.assign(task.outline.ranks.size(), 1);
  for (std::size_t later = 0; later < task.work.later_devices.size(); ++later) {
    const double slower = whole(task.prices[later + 1]) / first;
    for (std::size_t rank = index(task.work.later_devices[later].first_rank); rank < slowness.size(); ++rank)
      slowness[rank] = slower;
  }
  return slowness;
}

/// Returns the number of layers of each stage on unlike devices, chosen so that the longest stage is as
/// short as possible. A device that runs all layers n times slower also runs its stage n times slower.
Layers level_on_unlike_devices(const SplitTask& task) {
  const LayerTimes first = layer_times(task.work, task.prices.front());
  const std::vector<double> of_ranks = slowness_of_ranks(task);
  std::vector<double> slowness;
  slowness.reserve(task.outline.rank_of_stage.size());
  for (const std::int32_t rank : task.outline.rank_of_stage) slowness.push_back(of_ranks[index(rank)]);
  // The embedding and the head count as layers here. The first or the last stage may therefore consist of
  // only the embedding or the head.
  LayerGraph graph;
  const auto add = [&](double seconds) {
    graph.layers.push_back(
        {.name = "", .forward_ns = std::llround(seconds * kNanosecondsPerSecond), .inputs = {}});
  };
  add(first.embedding);
  for (std::size_t i = 0; i + 1 < first.before.size(); ++i) add(first.before[i + 1] - first.before[i]);
  add(first.head);
  const auto stages = static_cast<std::int32_t>(slowness.size());
  Layers layers;
  std::int64_t begin = 1;  // without the embedding
  for (const std::int32_t cut : balanced_cuts(graph, stages, slowness)) {
    layers.push_back(cut - begin);
    begin = cut;
  }
  layers.push_back(std::ssize(graph.layers) - 1 - begin);
  return layers;
}

/// Returns the lists of layer counts from which the search starts. The first is the list of level_split().
/// The lists of the other rules follow, if they can divide the layers.
std::vector<Layers> starts_of(const SplitTask& task) {
  std::vector<Layers> starts = {level_split(task)};
  LayerTimes times = layer_times(task.work, task.prices.front());
  times.embedding = 0;
  times.head = 0;
  starts.push_back(level_layers(times, task.outline.rank_of_stage, {}));
  const auto layers = static_cast<std::int64_t>(task.work.model.layers.size());
  const auto stages = static_cast<std::int32_t>(task.outline.rank_of_stage.size());
  for (const LayerSplit::Rule rule : {LayerSplit::Rule::even, LayerSplit::Rule::ends_one_less}) {
    if (auto split = split_layers({.rule = rule}, layers, stages)) starts.push_back(*std::move(split));
  }
  return starts;
}

}  // namespace

std::vector<std::int64_t> level_times_split(const SplitTask& task) {
  if (!task.work.later_devices.empty()) return level_on_unlike_devices(task);
  return level_layers(layer_times(task.work, task.prices.front()), task.outline.rank_of_stage, {});
}

std::vector<std::int64_t> level_split(const SplitTask& task) {
  Layers level = level_times_split(task);
  const auto costs = costs_of(task, level);
  return costs ? fitted_split(task, std::move(level), *costs) : level;
}

// Reduces the largest number of layers of each rank that lacks memory, and divides all layers again. The new
// number assumes that all bytes of the rank belong to layers, so it may be too small but not too large.
std::vector<std::int64_t> fitted_split(const SplitTask& task, std::vector<std::int64_t> level,
                                       const CostTable& level_costs) {
  Layers layers = level;
  std::vector<Bytes> spare = spare_bytes(task, level_costs);
  std::vector<std::int64_t> most(task.outline.ranks.size(), std::ssize(task.work.model.layers));
  std::optional<LayerTimes> times;  // times of the layers, computed for the first list that does not fit
  const std::vector<double> slowness = slowness_of_ranks(task);
  while (!spare.empty() && std::ranges::min(spare) < 0) {
    // If all ranks together need more memory than they have, no list of layer counts fits. The fastest list
    // is then the best answer.
    if (std::accumulate(spare.begin(), spare.end(), Bytes{0}) < 0) return level;
    const std::vector<std::int64_t> held = layers_of_ranks(task, layers);
    for (std::size_t rank = 0; rank < spare.size(); ++rank) {
      if (spare[rank] >= 0) continue;
      const Bytes usable = *device_of_rank(task.work, static_cast<std::int32_t>(rank)).usable_memory();
      const double part = static_cast<double>(-spare[rank]) / static_cast<double>(usable - spare[rank]);
      const auto given_up = static_cast<std::int64_t>(part * static_cast<double>(held[rank]));
      most[rank] = held[rank] - std::max<std::int64_t>(1, given_up);
      if (most[rank] < 0) return level;
    }
    if (!times) times = layer_times(task.work, task.prices.front());
    layers = level_layers(*times, task.outline.rank_of_stage, most, slowness);
    const auto costs = layers.empty() ? std::nullopt : costs_of(task, layers);
    if (!costs) return level;
    spare = spare_bytes(task, *costs);
  }
  return layers;
}

std::vector<std::int64_t> balanced_split(const Workload& work, const KernelTables& kernels,
                                         const StatedSchedule& schedule, const Program& placed) {
  const std::vector<LayerPrices> prices = layer_prices_of_kinds(work, kernels);
  const auto program = timed_program(schedule, placed);
  const std::int64_t microbatches = placed.microbatches;
  ScheduleOutline outline;
  if (program) {
    outline = outline_of_whole(outline_of(*program), microbatches);
  } else {
    outline.rank_of_stage = placed.placement.ranks_of_stages();
    outline.ranks.resize(index(placed.rank_count()));
  }
  const SplitTask task{
      .work = work, .kernels = kernels, .prices = prices, .outline = outline, .microbatches = microbatches};
  const auto order = program ? OrderTimes::of(*program) : std::nullopt;
  const std::vector<Layers> starts = starts_of(task);
  if (!order || !costs_of(task, starts.front())) return starts.front();
  return Trials(task, *order).best_from(starts);
}

}  // namespace penstock
