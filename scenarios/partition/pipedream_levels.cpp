// PipeDream's dynamic programme over levels of bandwidth. Level l has m_l components with bandwidth B_l
// between them. A_l(i, j, m) is the best time of the layers between downsets i and j on m components of
// level l. T_l(i, j) is the time of these layers on one component. At the lowest level (l = 1), it is
// their time on one device. At a higher level, it is A_(l-1) on all components of level l - 1. W(i, j) are
// the bytes of the weights, and a_k are the bytes alive after downset k.
//
//   A_l(i, j, m) = min( U_l(i, j, m),  min over i < k < j, 1 <= r < m of
//                                        max(A_l(i, k, m - r), S_l(k, j, r), C_l(k, j, r)) )
//
// U is the time if the whole range is one stage, which is then the first stage of its level. S is the time of
// a stage at the end of the range, and C is the time of its cuts. As printed (SOSP'19, section 3.1), U = S =
// max(T, 2(m-1)W/B) / m and C = 2a_k/B. The objective `maximum` reduces once for each round of minibatches,
// over a ring. With L, the bytes that one device of each stage inside a component reduces, it uses
//
//   U = S = max( T_l / m,  2(m-1) L(i, j) / (B_l m^2) ),  L the sum of W_s / r_s over the stages inside
//
// and the table stores L beside the period. The released code (msr-fiddle/pipedream,
// optimizer_graph_hierarchical.py) uses, with d_1 = 1 and d_l = m_(l-1),
//
//   U = (T + 4(m-1)W / (B m d_l)) / m     S = (T + 4(r-1)W / (B r)) / r
//   C = max( 2a_k / (B r),  2a_j / (B r) unless j is the whole model )
//
// Here only the reduction of the first stage is divided by d_l. If a level splits a range, the range also
// includes the time of the cut after it. A straight pipeline has r = 1, and U only for m = 1. Below the
// highest level, a table has one column for each i, and the innermost loop runs over these columns. Tested by
// pipedream_partition_test.cpp.

#include "scenarios/partition/pipedream_partition.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "scenarios/partition/partition.hpp"
#include "schedules/ir/action.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

constexpr double kNoPlan = std::numeric_limits<double>::infinity();
// With more splits than this, computing bounds costs less than examining the splits that bounds exclude.
constexpr std::size_t kSplitsBetweenBounds = 64;

double transfer_ns(double bytes, double bytes_per_second) { return bytes * 1e9 / bytes_per_second; }

/// The times and ring bytes of the plans in adjacent columns of a table. All plans of a column begin after
/// the same downset.
template <typename Number>
struct Columns {
  std::span<Number> periods;
  std::span<Number> rings;
};

/// Appends a stage to each plan in `before`. A new plan replaces the plan in `best` if it is better.
void relax(Columns<const double> before, LevelPlan stage, Columns<double> best) {
  for (std::size_t i = 0; i < best.periods.size(); ++i) {
    const double period = std::max(before.periods[i], stage.period_ns);
    const double ring = before.rings[i] + stage.ring_bytes;
    // The loop has no branches, so that the compiler can vectorise it.
    const bool is_better =
        (period < best.periods[i]) | ((period == best.periods[i]) & (ring < best.rings[i]));
    best.periods[i] = is_better ? period : best.periods[i];
    best.rings[i] = is_better ? ring : best.rings[i];
  }
}

/// Returns the number of minibatches in flight on a device: one more than the WorkAhead, rounded up. This
/// is NOAM of section 3.2, computed for this stage and the later stages.
std::int64_t in_flight(WorkAhead ahead) {
  return 1 + (ahead.devices + ahead.components - 1) / ahead.components;
}

/// Returns, for each downset, all smaller downsets that it includes. If only one downset has a certain
/// size, all larger downsets include it, because each downset grows layer by layer. So the downsets of a
/// chain need no comparisons.
std::vector<std::vector<std::uint32_t>> smaller_downsets(std::span<const Downset> downsets) {
  std::map<std::int32_t, std::size_t> of_size;
  for (const Downset& set : downsets) ++of_size[set.size];
  std::vector<bool> alone;
  for (const Downset& set : downsets) alone.push_back(of_size[set.size] == 1);
  std::vector<std::vector<std::uint32_t>> smaller(downsets.size());
  for (std::size_t j = 0; j < downsets.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      if (alone[i] || alone[j] || downsets[j].includes(downsets[i]))
        smaller[j].push_back(static_cast<std::uint32_t>(i));
    }
  }
  return smaller;
}

/// Returns a time limit for each number of components. A last stage that takes at least this time cannot
/// improve a plan on that number of components or more.
std::vector<double> useful_below(std::span<const double> periods) {
  std::vector<double> bounds(periods.begin(), periods.end());
  for (std::size_t used = bounds.size(); --used > 0;)
    bounds[used - 1] = std::max(bounds[used - 1], bounds[used]);
  return bounds;
}

/// Returns true if a straight pipeline has fewer layers than devices, so that some devices remain idle.
bool leaves_devices_idle(std::span<const Downset> downsets, std::span<const BandwidthLevel> levels,
                         PlanForm form) {
  std::int64_t devices = 1;
  for (const BandwidthLevel& level : levels) devices *= level.components;
  return form == PlanForm::straight && downsets.back().size - downsets.front().size < devices;
}

}  // namespace

Bytes held_bytes(const Downset& before, const Downset& after, std::int64_t minibatches,
                 std::int64_t state_bytes_per_weight_byte) {
  // For each minibatch in flight, the device stores activations and the weights of its forward pass (weight
  // stashing, section 3.3). Gradients and optimizer state exist once. The sum uses 128 bits, because it may
  // exceed 64 bits. The result is then the largest `Bytes`, which exceeds every limit.
  const Wide activations = static_cast<Wide>(after.kept) - before.kept;
  const Wide weights = static_cast<Wide>(after.weights) - before.weights;
  const Wide held = (activations + weights) * minibatches + weights * (1 + state_bytes_per_weight_byte);
  return static_cast<Bytes>(std::min<Wide>(held, std::numeric_limits<Bytes>::max()));
}

std::size_t PipeDreamLevels::Table::place(std::size_t from, std::int32_t used, std::size_t to) const {
  const auto rows = static_cast<std::size_t>(components);
  return (to * rows + static_cast<std::size_t>(used - 1)) * sources + (sources == 1 ? 0 : from);
}

void PipeDreamLevels::Table::put(std::size_t place, LevelPlan plan) {
  periods[place] = plan.period_ns;
  rings[place] = plan.ring_bytes;
}

PipeDreamLevels::PipeDreamLevels(std::span<const Downset> downsets, std::span<const BandwidthLevel> levels,
                                 const PlanOptions& options, const DeviceCosts& costs)
    : downsets_(downsets),
      levels_(levels),
      options_(options),
      costs_(costs),
      may_idle_(leaves_devices_idle(downsets, levels, options.form)),
      smaller_(smaller_downsets(downsets)) {}

// --- times of stages ------------------------------------------------------------------------------------

WorkAhead PipeDreamLevels::ahead_of(std::size_t level, const LevelStage& stage, WorkAhead ahead) const {
  // Without a memory limit, the number of minibatches in flight does not matter, so all stages share one
  // table.
  if (!options_.memory_limit) return {};
  std::int64_t devices_of_component = 1;
  for (std::size_t below = 0; below < level; ++below) devices_of_component *= levels_[below].components;
  const std::int64_t devices = stage.later * devices_of_component * ahead.components + ahead.devices;
  const std::int64_t components = stage.replicas * ahead.components;
  // The fraction is reduced, so that stages with equal fractions share one table.
  const std::int64_t divisor = std::gcd(devices, components);
  return {.devices = devices / divisor, .components = components / divisor};
}

PipeDreamLevels::Component PipeDreamLevels::component_of(std::size_t level, const LevelStage& stage,
                                                         WorkAhead ahead) {
  Component component{.ahead = ahead_of(level, stage, ahead)};
  component.in_flight = in_flight(component.ahead);
  if (level > 0 && !may_idle_)
    component.below = &table(level - 1, component.ahead, levels_[level - 1].components);
  return component;
}

double PipeDreamLevels::device_ns(const LevelStage& stage, std::int64_t minibatches) const {
  const Downset& before = downsets_[stage.from];
  const Downset& after = downsets_[stage.to];
  if (options_.memory_limit &&
      held_bytes(before, after, minibatches, costs_.state_bytes_per_weight_byte) > *options_.memory_limit) {
    return kNoPlan;
  }
  return static_cast<double>(after.time_ns - before.time_ns) + 2 * static_cast<double>(costs_.overhead_ns);
}

double PipeDreamLevels::weights_between(const LevelStage& stage) const {
  return static_cast<double>(downsets_[stage.to].weights - downsets_[stage.from].weights);
}

LevelPlan PipeDreamLevels::component_plan(std::size_t level, const LevelStage& stage,
                                          const Component& component) {
  if (level == 0)
    return {.period_ns = device_ns(stage, component.in_flight), .ring_bytes = weights_between(stage)};
  const LevelStage whole{
      .from = stage.from, .to = stage.to, .replicas = levels_[level - 1].components, .later = 0};
  const std::int32_t used = used_components(whole);
  const Table& below =
      component.below != nullptr ? *component.below : table(level - 1, component.ahead, used);
  return below.at(below.place(stage.from, used, stage.to));
}

// Both functions below return the time for one minibatch on each replica. stage_plan() divides it by the
// number of replicas. `bytes` are the bytes on each device of a component.
double PipeDreamLevels::reduced_bytes_ns(std::size_t level, const LevelStage& stage, StagePlace place,
                                         double bytes) const {
  const auto replicas = static_cast<double>(stage.replicas);
  const double bandwidth = levels_[level].bytes_per_second;
  switch (options_.objective) {
    case PlanObjective::maximum:
      return transfer_ns(2 * (replicas - 1) * bytes, bandwidth * replicas);
    case PlanObjective::maximum_printed:
      return transfer_ns(2 * (replicas - 1) * weights_between(stage), bandwidth);
    case PlanObjective::sum: {
      const bool is_divided = place == StagePlace::first && level > 0;
      const double devices = is_divided ? levels_[level - 1].components : 1;
      return transfer_ns(4 * (replicas - 1) * weights_between(stage), bandwidth * replicas * devices);
    }
  }
  return kNoPlan;
}

double PipeDreamLevels::reduction_ns(std::size_t level, const LevelStage& stage, StagePlace place,
                                     WorkAhead ahead) {
  const LevelPlan component = component_plan(level, stage, component_of(level, stage, ahead));
  return reduced_bytes_ns(level, stage, place, component.ring_bytes);
}

LevelPlan PipeDreamLevels::stage_plan(std::size_t level, const LevelStage& stage, StagePlace place,
                                      const Component& of_stage) {
  const LevelPlan component = component_plan(level, stage, of_stage);
  const double reduction = reduced_bytes_ns(level, stage, place, component.ring_bytes);
  switch (options_.objective) {
    case PlanObjective::maximum:
      return {.period_ns = std::max(component.period_ns, reduction) / stage.replicas,
              .ring_bytes = component.ring_bytes / stage.replicas};
    case PlanObjective::maximum_printed:
      return {.period_ns = std::max(component.period_ns, reduction) / stage.replicas, .ring_bytes = 0};
    case PlanObjective::sum:
      return {.period_ns = (component.period_ns + reduction) / stage.replicas, .ring_bytes = 0};
  }
  return {.period_ns = kNoPlan, .ring_bytes = 0};
}

double PipeDreamLevels::cut_ns(std::size_t level, std::size_t downset, std::int32_t replicas) const {
  if (options_.transfers == CutTransfers::free) return 0;
  const double bytes = 2 * static_cast<double>(downsets_[downset].alive);
  const double bandwidth = levels_[level].bytes_per_second;
  switch (options_.objective) {
    case PlanObjective::maximum:
    case PlanObjective::maximum_printed:
      return transfer_ns(bytes, bandwidth);
    case PlanObjective::sum:
      return transfer_ns(bytes, bandwidth * replicas);
  }
  return kNoPlan;
}

/// Returns the time of the messages at both cuts of a stage, in nanoseconds. Requires a stage that is not
/// the first one. The cut after the whole model takes no time, because no output is alive there.
double PipeDreamLevels::around_ns(std::size_t level, const LevelStage& stage) const {
  const double before = cut_ns(level, stage.from, stage.replicas);
  // Of the three formulas, only that of the released code adds the times of the cuts on both sides.
  if (options_.objective != PlanObjective::sum) return before;
  return std::max(before, cut_ns(level, stage.to, stage.replicas));
}

// --- the tables -----------------------------------------------------------------------------------------

std::int32_t PipeDreamLevels::most_replicas(std::int32_t components) const {
  return options_.form == PlanForm::straight ? 1 : components;
}

/// The components of each stage in a table. The WorkAhead of a stage depends on its replicas and on the
/// number of later components.
class PipeDreamLevels::StageComponents {
 public:
  StageComponents(PipeDreamLevels& programme, std::size_t level, WorkAhead ahead, std::int32_t components)
      : components_(static_cast<std::size_t>(components)) {
    for (std::int32_t replicas = 1; replicas <= components; ++replicas) {
      for (std::int32_t later = 0; later < components; ++later) {
        const LevelStage stage{.from = 0, .to = 0, .replicas = replicas, .later = later};
        const bool is_stage = replicas + later <= components;
        found_.push_back(is_stage ? programme.component_of(level, stage, ahead) : Component{});
      }
    }
  }

  const Component& of(const LevelStage& stage) const {
    const auto row = static_cast<std::size_t>(stage.replicas - 1) * components_;
    return found_[row + static_cast<std::size_t>(stage.later)];
  }

 private:
  std::size_t components_;
  std::vector<Component> found_;  // components, ordered by replicas and then by later components
};

PipeDreamLevels::Table& PipeDreamLevels::table(std::size_t level, WorkAhead ahead, std::int32_t components) {
  // Without a memory limit, the number of later components does not matter. One table then also contains the
  // plans on fewer components.
  if (!options_.memory_limit) components = levels_[level].components;
  const TableKey key{.level = level, .ahead = ahead, .components = components};
  if (const auto found = tables_.find(key); found != tables_.end()) return found->second;
  const bool is_highest = level + 1 == levels_.size();
  // At the highest level, all pipelines begin with the model's first layer, so one column is enough.
  Table table{
      .sources = is_highest ? 1 : downsets_.size(), .components = components, .periods = {}, .rings = {}};
  table.periods.assign(downsets_.size() * static_cast<std::size_t>(components) * table.sources, kNoPlan);
  table.rings.assign(table.periods.size(), 0);
  const StageComponents stages(*this, level, ahead, components);
  // Downsets are visited by size, because the best plan for a downset is computed from the plans for smaller
  // downsets.
  for (std::size_t to = 0; to < downsets_.size(); ++to) {
    add_whole_ranges(table, level, stages, to);
    std::vector<double> of_use_below(static_cast<std::size_t>(components), kNoPlan);
    for (std::size_t i = 0; i < smaller_[to].size(); ++i) {
      if (is_highest && i % kSplitsBetweenBounds == 0) {
        of_use_below = useful_below(
            std::span(table.periods).subspan(table.place(0, 1, to), static_cast<std::size_t>(components)));
      }
      // Larger splits come first, because a larger split leaves fewer layers for the last stage, which then
      // takes less time.
      add_splits(table, level, stages, smaller_[to][smaller_[to].size() - 1 - i], to, of_use_below);
    }
  }
  return tables_.emplace(key, std::move(table)).first->second;
}

/// Adds plans of a single stage to the table. The stage has all layers between an earlier downset and the
/// downset `to`.
void PipeDreamLevels::add_whole_ranges(Table& table, std::size_t level, const StageComponents& stages,
                                       std::size_t to) {
  for (const std::size_t from : smaller_[to]) {
    // At the highest level, all pipelines begin with the model's first layer, so the table has one column.
    if (table.sources == 1 && from > 0) break;
    for (std::int32_t replicas = 1; replicas <= most_replicas(table.components); ++replicas) {
      const LevelStage stage{
          .from = from, .to = to, .replicas = replicas, .later = table.components - replicas};
      table.put(table.place(from, replicas, to),
                stage_plan(level, stage, StagePlace::first, stages.of(stage)));
    }
  }
}

void PipeDreamLevels::add_splits(Table& table, std::size_t level, const StageComponents& stages,
                                 std::size_t split, std::size_t to, std::span<const double> of_use_below) {
  // Each column belongs to one range. A range begins after a downset with a number smaller than `split`. If
  // the downset `split` does not include this downset, the period of the column is infinite.
  const std::size_t columns = table.sources == 1 ? std::min<std::size_t>(split, 1) : split;
  if (columns == 0) return;
  for (std::int32_t replicas = 1; replicas <= most_replicas(table.components - 1); ++replicas) {
    LevelPlan plan;
    const Component* component = nullptr;  // the component to which `plan` belongs
    for (std::int32_t before = 1; before <= table.components - replicas; ++before) {
      const std::int32_t used = before + replicas;
      const LevelStage stage{.from = split, .to = to, .replicas = replicas, .later = table.components - used};
      const Component& now = stages.of(stage);
      // At the lowest level, a plan depends only on the number of minibatches in flight.
      const bool is_known = component != nullptr && (level == 0 ? component->in_flight == now.in_flight
                                                                : component->ahead == now.ahead);
      if (!is_known) {
        component = &now;
        plan = stage_plan(level, stage, StagePlace::later, now);
        plan.period_ns = std::max(plan.period_ns, around_ns(level, stage));
      }
      if (plan.period_ns >= of_use_below[static_cast<std::size_t>(used - 1)]) {
        if (!options_.memory_limit) break;
        // If more components run the stages before this one, fewer components remain for later stages. Fewer
        // minibatches are then in flight, so the stage may still fit in memory.
        continue;
      }
      const std::size_t rest = table.place(0, before, split);
      const std::size_t whole = table.place(0, used, to);
      relax(
          {std::span(table.periods).subspan(rest, columns), std::span(table.rings).subspan(rest, columns)},
          plan,
          {std::span(table.periods).subspan(whole, columns), std::span(table.rings).subspan(whole, columns)});
    }
  }
}

// --- reading plans back ---------------------------------------------------------------------------------

std::int32_t PipeDreamLevels::used_components(const LevelStage& whole) const {
  if (!may_idle_) return whole.replicas;
  return std::min(whole.replicas, downsets_[whole.to].size - downsets_[whole.from].size);
}

double PipeDreamLevels::period_ns(std::size_t level, const LevelStage& whole, WorkAhead ahead) {
  const std::int32_t used = used_components(whole);
  const Table& plans = table(level, ahead, used);
  return plans.periods[plans.place(whole.from, used, whole.to)];
}

/// Returns the last stage of a best plan for `rest`. Among equally good plans, it prefers first the plan
/// with a single stage. It then prefers the last stage with most layers, and then the one with fewest
/// replicas. The released code does the same.
LevelStage PipeDreamLevels::last_stage(const Table& table, std::size_t level, const LevelStage& rest,
                                       WorkAhead ahead) {
  const LevelPlan goal = table.at(table.place(rest.from, rest.replicas, rest.to));
  if (rest.replicas <= most_replicas(table.components)) {
    const LevelPlan whole = stage_plan(level, rest, StagePlace::first, component_of(level, rest, ahead));
    if (whole.period_ns <= goal.period_ns && whole.ring_bytes <= goal.ring_bytes) return rest;
  }
  for (const std::size_t split : smaller_[rest.to]) {
    // The smallest split comes first, because its last stage has the most layers.
    if (split <= rest.from || !downsets_[split].includes(downsets_[rest.from])) continue;
    for (std::int32_t replicas = 1; replicas <= most_replicas(rest.replicas - 1); ++replicas) {
      const LevelStage stage{.from = split, .to = rest.to, .replicas = replicas, .later = rest.later};
      const LevelPlan before = table.at(table.place(rest.from, rest.replicas - replicas, split));
      const LevelPlan last = stage_plan(level, stage, StagePlace::later, component_of(level, stage, ahead));
      const double period = std::max({before.period_ns, last.period_ns, around_ns(level, stage)});
      if (period <= goal.period_ns && before.ring_bytes + last.ring_bytes <= goal.ring_bytes) return stage;
    }
  }
  return rest;
}

std::vector<LevelStage> PipeDreamLevels::stages(std::size_t level, const LevelStage& whole, WorkAhead ahead) {
  std::vector<LevelStage> result;
  LevelStage rest = whole;
  rest.replicas = used_components(whole);
  rest.later = 0;
  const Table& plans = table(level, ahead, rest.replicas);
  while (true) {
    const LevelStage last = last_stage(plans, level, rest, ahead);
    result.insert(result.begin(), last);
    if (last.from == rest.from) return result;
    rest.to = last.from;
    rest.replicas -= last.replicas;
    rest.later += last.replicas;
  }
}

}  // namespace penstock
