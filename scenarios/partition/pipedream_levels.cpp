// PipeDream (SOSP'19, section 3.1): A(i, j, m), the least period of the layers between downsets i and j on
// m components of a level, with T the time of one stage and a_s the bytes alive after downset s:
//
//   A(i, j, m) = min( T(i, j, m),  min over i < s < j, 1 <= r < m of
//                                    max(T(i, s, r), time of the cut a_s, A(s, j, m - r)) )
//   T(i, j, r)  from A of the level below on all its components; below the lowest it is the layers' time
//
// Here the first stage is split off, not the last one as in the paper: then m - r components come after it,
// which says how many minibatches it has in flight and so what it holds. The table of a level that is not
// the highest has a column for every j; the loop over columns is the innermost one.

#include "scenarios/partition/pipedream_levels.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/partition/layer_graph_downsets.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

__extension__ typedef __int128 Wide;

constexpr double kNoPlan = std::numeric_limits<double>::infinity();
constexpr std::size_t kSplitsBetweenBounds = 64;  // bounds cost less than the splits that they spare

double transfer_ns(double bytes, double bytes_per_second) { return bytes * 1e9 / bytes_per_second; }

/// best[i] becomes max(cost, rest[i]) where that is less.
void relax(std::span<const double> rest, double cost, std::span<double> best) {
  for (std::size_t i = 0; i < best.size(); ++i) best[i] = std::min(best[i], std::max(cost, rest[i]));
}

/// The minibatch at hand, and for each replica its part of what the devices behind the stage work on: NOAM of
/// section 3.2, counted from this stage on.
std::int64_t in_flight(WorkAhead ahead) {
  return 1 + (ahead.devices + ahead.components - 1) / ahead.components;
}

/// Of one size there is often a single downset, which all larger ones include, since each grows layer by
/// layer through every size; so a chain is done without a look at its members.
std::vector<std::vector<std::uint32_t>> larger_downsets(std::span<const Downset> downsets) {
  std::map<std::int32_t, std::size_t> of_size;
  for (const Downset& set : downsets) ++of_size[set.size];
  std::vector<bool> alone;
  for (const Downset& set : downsets) alone.push_back(of_size[set.size] == 1);
  std::vector<std::vector<std::uint32_t>> larger(downsets.size());
  for (std::size_t i = 0; i < downsets.size(); ++i) {
    for (std::size_t j = i + 1; j < downsets.size(); ++j) {
      if (alone[i] || alone[j] || downsets[j].includes(downsets[i]))
        larger[i].push_back(static_cast<std::uint32_t>(j));
    }
  }
  return larger;
}

}  // namespace

Bytes held_bytes(const Downset& before, const Downset& after, std::int64_t minibatches,
                 std::int64_t state_bytes_per_weight_byte) {
  // Each minibatch in flight keeps its activations and the weights that its forward used (weight stashing,
  // section 3.3); gradients and optimizer state are there once. 128 bits: a model times its minibatches may
  // not fit 64, and what is cut off at the most a Bytes can say still compares rightly with any limit.
  const Wide activations = static_cast<Wide>(after.kept) - before.kept;
  const Wide weights = static_cast<Wide>(after.weights) - before.weights;
  const Wide held = (activations + weights) * minibatches + weights * (1 + state_bytes_per_weight_byte);
  return static_cast<Bytes>(std::min<Wide>(held, std::numeric_limits<Bytes>::max()));
}

std::size_t PipeDreamLevels::Table::column(std::size_t to) const { return targets == 1 ? 0 : to; }

std::size_t PipeDreamLevels::Table::place(std::size_t from, std::int32_t used, std::size_t to) const {
  const auto rows = static_cast<std::size_t>(components);
  return (from * rows + static_cast<std::size_t>(used - 1)) * targets + column(to);
}

PipeDreamLevels::PipeDreamLevels(std::span<const Downset> downsets, std::span<const BandwidthLevel> levels,
                                 const PlanOptions& options, const DeviceCosts& costs)
    : downsets_(downsets),
      levels_(levels),
      options_(options),
      costs_(costs),
      larger_(larger_downsets(downsets)) {}

// --- what a stage takes ---------------------------------------------------------------------------------

WorkAhead PipeDreamLevels::ahead_of(std::size_t level, const LevelStage& stage, WorkAhead ahead) const {
  if (!options_.memory_limit) return {};  // nobody asks, and one table serves all stages
  std::int64_t devices_of_component = 1;
  for (std::size_t below = 0; below < level; ++below) devices_of_component *= levels_[below].components;
  const std::int64_t devices = stage.later * devices_of_component * ahead.components + ahead.devices;
  const std::int64_t components = stage.replicas * ahead.components;
  // Only the ratio matters: in lowest terms, stages with the same ratio share one table.
  const std::int64_t divisor = std::gcd(devices, components);
  return {.devices = devices / divisor, .components = components / divisor};
}

double PipeDreamLevels::device_ns(const LevelStage& stage, WorkAhead ahead) const {
  const Downset& before = downsets_[stage.from];
  const Downset& after = downsets_[stage.to];
  if (options_.memory_limit && held_bytes(before, after, in_flight(ahead),
                                          costs_.state_bytes_per_weight_byte) > *options_.memory_limit) {
    return kNoPlan;
  }
  return static_cast<double>(after.time_ns - before.time_ns) + 2 * static_cast<double>(costs_.overhead_ns);
}

double PipeDreamLevels::component_ns(std::size_t level, const LevelStage& stage, WorkAhead ahead) {
  if (level == 0) return device_ns(stage, ahead);
  return period_ns(
      level - 1, {.from = stage.from, .to = stage.to, .replicas = levels_[level - 1].components, .later = 0},
      ahead);
}

// As printed (maximum) and as released (sum). Both are for the minibatches of all replicas together;
// stage_ns() divides by them.
double PipeDreamLevels::reduction_ns(std::size_t level, const LevelStage& stage) const {
  const auto replicas = static_cast<double>(stage.replicas);
  const auto weights = static_cast<double>(downsets_[stage.to].weights - downsets_[stage.from].weights);
  const double bandwidth = levels_[level].bytes_per_second;
  switch (options_.objective) {
    case PlanObjective::maximum:
      return transfer_ns(2 * (replicas - 1) * weights, bandwidth);
    case PlanObjective::sum:
      return transfer_ns(4 * (replicas - 1) * weights, bandwidth * replicas);
  }
  return kNoPlan;
}

double PipeDreamLevels::stage_ns(std::size_t level, const LevelStage& stage, WorkAhead ahead) {
  const double compute = component_ns(level, stage, ahead_of(level, stage, ahead));
  const double reduction = reduction_ns(level, stage);
  switch (options_.objective) {
    case PlanObjective::maximum:
      return std::max(compute, reduction) / stage.replicas;
    case PlanObjective::sum:
      return (compute + reduction) / stage.replicas;
  }
  return kNoPlan;
}

double PipeDreamLevels::cut_ns(std::size_t level, std::size_t downset, std::int32_t replicas) const {
  if (options_.transfers == CutTransfers::free) return 0;
  const double bytes = 2 * static_cast<double>(downsets_[downset].alive);
  const double bandwidth = levels_[level].bytes_per_second;
  switch (options_.objective) {
    case PlanObjective::maximum:
      return transfer_ns(bytes, bandwidth);
    case PlanObjective::sum:
      return transfer_ns(bytes, bandwidth * replicas);
  }
  return kNoPlan;
}

// --- the tables -----------------------------------------------------------------------------------------

std::int32_t PipeDreamLevels::most_replicas(std::int32_t components) const {
  return options_.form == PlanForm::straight ? 1 : components;
}

PipeDreamLevels::Table& PipeDreamLevels::table(std::size_t level, WorkAhead ahead) {
  const auto key = std::pair(level, ahead);
  if (const auto found = tables_.find(key); found != tables_.end()) return found->second;
  const bool is_highest = level + 1 == levels_.size();
  Table table{.targets = is_highest ? 1 : downsets_.size(),
              .components = levels_[level].components,
              .closed = {},
              .open = {}};
  const auto rows = static_cast<std::size_t>(table.components);
  table.closed.assign(downsets_.size() * rows * table.targets, kNoPlan);
  table.open = table.closed;
  // From the largest downset down: a split of what is behind `from` looks up what is behind a larger one.
  for (std::size_t from = downsets_.size(); from-- > 0;) {
    add_last_stages(table, level, ahead, from);
    std::vector<double> of_use_below;
    for (std::size_t i = 0; i < larger_[from].size(); ++i) {
      if (i % kSplitsBetweenBounds == 0) of_use_below = useful_below(table, from);
      add_splits(table, level, ahead, from, larger_[from][i], of_use_below);
    }
  }
  return tables_.emplace(key, std::move(table)).first->second;
}

void PipeDreamLevels::add_last_stages(Table& table, std::size_t level, WorkAhead ahead, std::size_t from) {
  for (const std::size_t to : larger_[from]) {
    // The highest level is only asked for whole models, whose last downset is all layers.
    if (table.targets == 1 && to + 1 != downsets_.size()) continue;
    for (std::int32_t replicas = 1; replicas <= most_replicas(table.components); ++replicas) {
      const double time = stage_ns(level, {.from = from, .to = to, .replicas = replicas, .later = 0}, ahead);
      const std::size_t place = table.place(from, replicas, to);
      table.closed[place] = time;
      table.open[place] = std::max(time, cut_ns(level, from, replicas));
    }
  }
}

/// By components: a first stage that takes as long as that improves no plan on so many of them or more. Stays
/// true while plans get better.
std::vector<double> PipeDreamLevels::useful_below(const Table& table, std::size_t from) const {
  std::vector<double> bounds(static_cast<std::size_t>(table.components) + 1, kNoPlan);
  if (table.targets != 1) return bounds;
  double slowest = 0;
  for (std::int32_t used = table.components; used > 0; --used) {
    const std::size_t place = table.place(from, used, 0);
    slowest = std::max({slowest, table.closed[place], table.open[place]});
    bounds[static_cast<std::size_t>(used)] = slowest;
  }
  return bounds;
}

void PipeDreamLevels::add_splits(Table& table, std::size_t level, WorkAhead ahead, std::size_t from,
                                 std::size_t to, std::span<const double> of_use_below) {
  const std::size_t columns = table.targets - table.column(to);
  for (std::int32_t replicas = 1; replicas <= most_replicas(table.components - 1); ++replicas) {
    double time = kNoPlan;
    for (std::int32_t later = 1; later <= table.components - replicas; ++later) {
      // Without a memory limit it does not matter how many come later.
      if (later == 1 || options_.memory_limit)
        time = stage_ns(level, {.from = from, .to = to, .replicas = replicas, .later = later}, ahead);
      const std::int32_t used = replicas + later;
      if (time >= of_use_below[static_cast<std::size_t>(used)]) break;
      const double closed = std::max(time, cut_ns(level, to, replicas));
      if (closed == kNoPlan) continue;
      const std::span rest(&table.open[table.place(to, later, to)], columns);
      const std::size_t place = table.place(from, used, to);
      relax(rest, closed, std::span(&table.closed[place], columns));
      relax(rest, std::max(closed, cut_ns(level, from, replicas)), std::span(&table.open[place], columns));
    }
  }
}

// --- reading plans back ---------------------------------------------------------------------------------

/// A straight pipeline leaves components idle where it has fewer layers than components.
std::int32_t PipeDreamLevels::used_components(const LevelStage& whole) const {
  if (options_.form == PlanForm::replicated) return whole.replicas;
  return std::min(whole.replicas, downsets_[whole.to].size - downsets_[whole.from].size);
}

double PipeDreamLevels::period_ns(std::size_t level, const LevelStage& whole, WorkAhead ahead) {
  const Table& plans = table(level, ahead);
  return plans.closed[plans.place(whole.from, used_components(whole), whole.to)];
}

/// The first stage of a best plan for `rest`, which begins the pipeline when its downset is
/// `pipeline_from`. Of several, the one with the smallest cut behind it, then the most replicas.
LevelStage PipeDreamLevels::first_stage(const Table& table, std::size_t level, const LevelStage& rest,
                                        WorkAhead ahead, std::size_t pipeline_from) {
  const bool is_first = rest.from == pipeline_from;
  const double goal = (is_first ? table.closed : table.open)[table.place(rest.from, rest.replicas, rest.to)];
  LevelStage best = rest;
  auto least = std::tuple(std::numeric_limits<Bytes>::max(), 0);
  for (const std::size_t to : larger_[rest.from]) {
    if (!downsets_[rest.to].includes(downsets_[to])) continue;
    for (std::int32_t replicas = 1; replicas <= most_replicas(rest.replicas); ++replicas) {
      const LevelStage stage{
          .from = rest.from, .to = to, .replicas = replicas, .later = rest.replicas - replicas};
      if ((to == rest.to) != (stage.later == 0)) continue;
      double period = stage_ns(level, stage, ahead);
      if (!is_first) period = std::max(period, cut_ns(level, stage.from, replicas));
      if (stage.later > 0) {
        period = std::max(
            {period, cut_ns(level, to, replicas), table.open[table.place(to, stage.later, rest.to)]});
      }
      const auto rank = std::tuple(stage.later == 0 ? Bytes{0} : downsets_[to].alive, -replicas);
      if (period > goal || rank >= least) continue;
      least = rank;
      best = stage;
    }
  }
  return best;
}

std::vector<LevelStage> PipeDreamLevels::stages(std::size_t level, const LevelStage& whole, WorkAhead ahead) {
  std::vector<LevelStage> result;
  LevelStage rest = whole;
  rest.replicas = used_components(whole);
  do {
    result.push_back(first_stage(table(level, ahead), level, rest, ahead, whole.from));
    rest.from = result.back().to;
    rest.replicas = result.back().later;
  } while (rest.replicas > 0);
  return result;
}

}  // namespace penstock
