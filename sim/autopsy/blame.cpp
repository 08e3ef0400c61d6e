// Finds the stages, ranks and actions that make a run longer than an ideal run. The part of the makespan that
// a cause adds is computed as in sim/why/account.hpp. It is the derivative of the makespan by a cost, times
// the time that the cause adds to this cost. The derivative is averaged between the ideal and the real run.
// Stages and ranks get the mean over all steps. A single action counts only in its own step. Tests:
// tests/sim/autopsy_test.cpp.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/print/units.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "sim/autopsy/autopsy.hpp"
#include "sim/autopsy/recording.hpp"
#include "sim/why/account.hpp"
#include "sim/why/explain.hpp"

namespace penstock {
namespace {

constexpr std::size_t kMostBlamed = 12;
constexpr double kLeastBlamed = 0.002;  // part of the makespan

/// The largest number of nodes of cause graphs, summed over all steps that are analysed. If there would be
/// more nodes, some steps are left out.
constexpr std::size_t kMostNodes = std::size_t{1} << 22U;

/// The place that is to blame for a cost: a stage, a rank, a step or a single action. Numbers that do not
/// apply are -1.
struct Place {
  IdleCause cause = IdleCause::variation;
  std::int32_t stage = -1;
  std::int32_t rank = -1;
  std::int64_t step = -1;  // of a single action
  CauseNode node = kNoCauseNode;

  friend auto operator<=>(const Place&, const Place&) = default;
};

/// Returns the first compute action of a node.
const Action& action_of(const CausedRun& run, CauseNode node) {
  return run.flat.actions[index(run.graph.subjects[node])];
}

Place place_of_cost(const CausedRun& run, CauseNode node, IdleCause cause, std::size_t step) {
  Place place{.cause = cause};
  const std::int32_t rank = run.graph.ranks[node];
  switch (cause) {
    case IdleCause::imbalance:
      place.stage = action_of(run, node).stage;
      break;
    case IdleCause::slow_rank:
      place.stage = action_of(run, node).stage;
      place.rank = rank;
      break;
    case IdleCause::variation:
      place.stage = action_of(run, node).stage;
      place.rank = rank;
      place.step = static_cast<std::int64_t>(step);
      place.node = node;
      break;
    case IdleCause::launch:
    case IdleCause::step:
    case IdleCause::latency:
    case IdleCause::bandwidth:
    case IdleCause::shared_link:
    case IdleCause::queue:
    case IdleCause::collective:
    case IdleCause::offload:
      place.rank = rank;
      break;
  }
  return place;
}

/// Adds the parts of one step's makespan to `parts`. The key of a part is the stage, rank or action that
/// causes it.
void add_parts(const RecordedRun& run, std::size_t step, std::int32_t samples,
               std::map<Place, double>& parts) {
  const CausedRun& caused = run.caused;
  const Account account = account_of(caused.graph, caused.flat, caused.costs, samples);
  for (CauseNode node = 0; node < caused.graph.finish(); ++node) {
    const double weight = account.moment_weights[end_of(node)];
    if (weight == 0) continue;
    const auto causes = causes_of(caused.graph.kinds[node]);
    const NodeCost& cost = caused.costs.nodes[node];
    for (std::size_t i = 0; i < causes.size(); ++i) {
      if (cost.added_ns[i] != 0)
        parts[place_of_cost(caused, node, causes[i], step)] += weight * static_cast<double>(cost.added_ns[i]);
    }
    if (caused.costs.lag[node] != 0 && caused.graph.ranks[node] >= 0) {
      parts[place_of_cost(caused, node, IdleCause::launch, step)] +=
          weight * static_cast<double>(caused.costs.lag[node]);
    }
  }
}

/// Returns the makespan that the run would have without the time that a place adds.
Ns makespan_without(const CausedRun& run, const Place& place) {
  GraphCosts costs = run.costs;
  for (CauseNode node = 0; node < run.graph.finish(); ++node) {
    const auto causes = causes_of(run.graph.kinds[node]);
    const auto is_here = [&](IdleCause cause) {
      Place own = place_of_cost(run, node, cause, 0);
      own.step = place.step;
      return own == place;
    };
    for (std::size_t i = 0; i < causes.size(); ++i) {
      if (costs.nodes[node].added_ns[i] != 0 && is_here(causes[i])) costs.nodes[node].added_ns[i] = 0;
    }
    if (run.graph.ranks[node] >= 0 && place.cause == IdleCause::launch && is_here(IdleCause::launch))
      costs.lag[node] = 0;
  }
  GraphTimes times(run.graph, costs);
  return times.compute(RealParts::all(1, 1));
}

Ns median_of_durations(std::vector<Ns>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Returns a text that compares the durations of a place. A stage on one rank is compared with its copies,
/// such as "F 2.50, B 2.27 times its copies". A stage is compared with the other stages.
std::string compared_durations(const CausedRun& run, const Place& place) {
  const bool of_rank = place.cause == IdleCause::slow_rank;
  std::map<ActionKind, std::array<std::vector<Ns>, 2>> durations;  // of others, own
  for (CauseNode node = 0; node < run.graph.finish(); ++node) {
    if (run.graph.kinds[node] != NodeKind::compute) continue;
    const Action& action = action_of(run, node);
    if (action.overlaps_next || (of_rank && action.stage != place.stage)) continue;
    const bool is_own = of_rank ? run.graph.ranks[node] == place.rank : action.stage == place.stage;
    durations[action.kind][is_own ? 1 : 0].push_back(run.durations.compute[index(run.graph.subjects[node])]);
  }
  std::vector<std::string> kinds;
  for (auto& [kind, both] : durations) {
    if (both[0].empty() || both[1].empty()) continue;
    const Ns other = median_of_durations(both[0]);
    const Ns own = median_of_durations(both[1]);
    if (of_rank && other > 0) {
      kinds.push_back(
          fmt::format("{} {:.2f}", letters(kind), static_cast<double>(own) / static_cast<double>(other)));
    } else if (!of_rank) {
      kinds.push_back(fmt::format("{} {} where others take {}", letters(kind), format_duration(own),
                                  format_duration(other)));
    }
  }
  if (kinds.empty()) return "";
  return fmt::format("{}{}", fmt::join(kinds, ", "), of_rank ? " times its copies" : "");
}

/// Returns a text that states how long a single action took. It also states how long other actions of this
/// kind took on the same rank.
std::string late_action(const CausedRun& run, CauseNode node) {
  const NodeCost& cost = run.costs.nodes[node];
  const Ns own = run.durations.compute[index(run.graph.subjects[node])];
  return fmt::format("{} where others take {}", format_duration(own),
                     format_duration(own - cost.added_ns[2]));
}

Blame blame_at(const Recording& recording, const std::vector<RecordedRun>& runs, std::size_t explained,
               const Place& place, double part) {
  const bool is_single = place.step >= 0;
  const std::size_t step = is_single ? static_cast<std::size_t>(place.step) : explained;
  const CausedRun& run = runs[step].caused;
  Blame blame{.cause = place.cause, .step = recording.steps[step].number, .ns = std::llround(part)};
  if (place.rank >= 0) blame.rank = recording.names[index(place.rank)];
  if (place.stage >= 0) blame.stage = place.stage;
  if (is_single) {
    const Action& action = action_of(run, place.node);
    blame.microbatch = action.microbatch < 0 ? 0 : action.microbatch / recording.copies;
    blame.action = text_in_copy(action, recording.copies);
    blame.detail = late_action(run, place.node);
  } else if (place.cause == IdleCause::slow_rank || place.cause == IdleCause::imbalance) {
    blame.detail = compared_durations(run, place);
  }
  if (!is_single || step == explained) blame.without_ns = makespan_without(run, place);
  return blame;
}

}  // namespace

std::vector<Blame> blame_of(const Recording& recording, const std::vector<RecordedRun>& runs,
                            std::size_t explained, std::int32_t samples) {
  const std::size_t nodes = std::max<std::size_t>(1, runs.front().caused.graph.size());
  const std::size_t most = std::max<std::size_t>(1, kMostNodes / nodes);
  const std::size_t stride = (runs.size() + most - 1) / most;
  std::map<Place, double> parts;
  std::size_t counted = 0;
  for (std::size_t step = explained % stride; step < runs.size(); step += stride, ++counted)
    add_parts(runs[step], step, samples, parts);

  std::vector<std::pair<double, Place>> ordered;
  const double least = kLeastBlamed * static_cast<double>(runs[explained].timeline.makespan_ns);
  for (const auto& [place, sum] : parts) {
    const double part = place.step >= 0 ? sum : sum / static_cast<double>(counted);
    if (part > least) ordered.emplace_back(part, place);
  }
  std::ranges::stable_sort(ordered, std::ranges::greater{}, &std::pair<double, Place>::first);
  if (ordered.size() > kMostBlamed) ordered.resize(kMostBlamed);
  std::vector<Blame> blame;
  blame.reserve(ordered.size());
  for (const auto& [part, place] : ordered)
    blame.push_back(blame_at(recording, runs, explained, place, part));
  return blame;
}

}  // namespace penstock
