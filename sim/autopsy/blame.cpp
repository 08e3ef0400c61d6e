// Finds the stages, ranks and actions that make a run longer than an ideal run. A cause makes an action
// longer than in the ideal run. Its part of the makespan is this additional time, multiplied by the
// derivative of the makespan with respect to the action's duration. The derivative is averaged between the
// ideal and the real run (sim/why/account.hpp). For a stage or a rank, the part is the mean over all steps.
// For a single action, it is the part of the action's own step. Tests: tests/sim/autopsy_test.cpp.

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
constexpr double kLeastBlamed = 0.002;  // least part of the makespan that is reported

/// The largest number of nodes of cause graphs, summed over all steps that are analysed. If there would be
/// more nodes, some steps are left out.
constexpr std::size_t kMostNodes = std::size_t{1} << 22U;

/// The stage, rank or single action that adds a time to the makespan, with the cause of this time. Numbers
/// that do not apply are -1.
struct Place {
  IdleCause cause = IdleCause::variation;
  std::int32_t stage = -1;
  std::int32_t rank = -1;
  std::int64_t step = -1;  // step of a single action
  CauseNode node = kNoCauseNode;

  friend auto operator<=>(const Place&, const Place&) = default;
};

/// Returns the compute action for which a node of the cause graph stands. For an overlapped group, it is the
/// first action of the group.
const Action& action_of(const CausedRun& run, CauseNode node) {
  return run.flat.actions[index(run.graph.subjects[node])];
}

/// Returns the place of a single action in its own step.
Place single_place(const CausedRun& run, CauseNode node, IdleCause cause, std::size_t step) {
  return {.cause = cause,
          .stage = action_of(run, node).stage,
          .rank = run.graph.ranks[node],
          .step = static_cast<std::int64_t>(step),
          .node = node};
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
      return single_place(run, node, cause, step);
    case IdleCause::collective:
      place.stage = run.flat.actions[index(run.flat.messages[index(run.graph.subjects[node])].first)].stage;
      break;
    case IdleCause::launch:
    case IdleCause::step:
    case IdleCause::latency:
    case IdleCause::bandwidth:
    case IdleCause::shared_link:
    case IdleCause::queue:
    case IdleCause::offload:
      place.rank = rank;
      break;
  }
  return place;
}

/// Returns the median lag of the compute groups of each rank. A lag is the time by which a group starts later
/// than its causes allow.
std::map<std::int32_t, Ns> usual_lags(const CausedRun& run) {
  std::map<std::int32_t, std::vector<Ns>> lags;
  for (CauseNode node = 0; node < run.graph.finish(); ++node) {
    if (run.graph.kinds[node] == NodeKind::compute)
      lags[run.graph.ranks[node]].push_back(run.costs.lag[node]);
  }
  std::map<std::int32_t, Ns> usual;
  for (auto& [rank, of_rank] : lags) usual[rank] = median_of(std::move(of_rank));
  return usual;
}

/// The smallest lag of a single action, as a multiple of the usual lag on its rank. The lag must also be at
/// least the fraction kLeastSingle of what all lags of the rank add to the step. All other lags count as lags
/// of the rank.
constexpr Ns kUnusual = 4;
constexpr double kLeastSingle = 0.25;

/// Adds to `parts` the time that late starts add to the makespan of one step.
void add_late_starts(const CausedRun& run, const std::vector<double>& weights, std::size_t step,
                     std::map<Place, double>& parts) {
  std::map<std::int32_t, Ns> usual = usual_lags(run);
  std::map<std::int32_t, double> of_rank;
  const auto part_of = [&](CauseNode node) {
    return weights[end_of(node)] * static_cast<double>(run.costs.lag[node]);
  };
  for (CauseNode node = 0; node < run.graph.finish(); ++node) {
    if (run.graph.ranks[node] >= 0) of_rank[run.graph.ranks[node]] += part_of(node);
  }
  for (CauseNode node = 0; node < run.graph.finish(); ++node) {
    const std::int32_t rank = run.graph.ranks[node];
    const double part = rank < 0 ? 0 : part_of(node);
    if (part == 0) continue;
    const bool is_single = run.graph.kinds[node] == NodeKind::compute &&
                           run.costs.lag[node] > kUnusual * std::max<Ns>(0, usual[rank]) &&
                           part >= kLeastSingle * of_rank[rank];
    parts[is_single ? single_place(run, node, IdleCause::launch, step)
                    : place_of_cost(run, node, IdleCause::launch, step)] += part;
  }
}

/// Adds to `parts` the nanoseconds that each stage, rank or action adds to the makespan of one step. The key
/// is this stage, rank or action.
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
  }
  add_late_starts(caused, account.moment_weights, step, parts);
}

/// Returns the makespan that the run would have if the stage, rank or action `place` added no time.
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
    const bool lags_here = place.node == kNoCauseNode ? is_here(IdleCause::launch) : node == place.node;
    if (place.cause == IdleCause::launch && lags_here && run.graph.ranks[node] >= 0) costs.lag[node] = 0;
  }
  GraphTimes times(run.graph, costs);
  return times.compute(RealParts::all(1, 1));
}

/// Returns a text that compares the durations at `place` with other durations. For a stage on one rank, these
/// are the durations of its copies, such as "F 2.50, B 2.27 times its copies". For a stage, they are those of
/// the other stages.
std::string compared_durations(const CausedRun& run, const Place& place) {
  const bool of_rank = place.cause == IdleCause::slow_rank;
  // The durations of other places, and those of this place.
  std::map<ActionKind, std::array<std::vector<Ns>, 2>> durations;
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
    const Ns other = median_of(std::move(both[0]));
    const Ns own = median_of(std::move(both[1]));
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

/// Returns a text about a single action that took long or started late. It states this time, and the usual
/// time of other actions of this kind on the same rank.
std::string late_action(const CausedRun& run, CauseNode node, IdleCause cause) {
  if (cause == IdleCause::launch) {
    return fmt::format("starts {} after it could, where others start {} after they could",
                       format_duration(run.costs.lag[node]),
                       format_duration(usual_lags(run)[run.graph.ranks[node]]));
  }
  const NodeCost& cost = run.costs.nodes[node];
  const Ns own = run.durations.compute[index(run.graph.subjects[node])];
  return fmt::format("{} where others take {}", format_duration(own),
                     format_duration(own - cost.added_ns[2]));
}

/// Returns the rank that holds a stage, by its name in the first copy of the pipeline. Returns nothing if
/// several ranks of a copy hold the stage, or if the rank has different numbers in different copies.
std::optional<RankName> holder_of(const Recording& recording, const CausedRun& run, std::int32_t stage) {
  const std::vector<std::int32_t>& ranks = run.program.placement.stages[index(stage)].ranks;
  if (std::ssize(ranks) != recording.copies) return std::nullopt;
  const RankName& first = recording.names[index(ranks.front())];
  const bool is_one = std::ranges::all_of(
      ranks, [&](std::int32_t rank) { return recording.names[index(rank)].rank == first.rank; });
  return is_one ? std::optional(first) : std::nullopt;
}

Blame blame_at(const Recording& recording, const std::vector<RecordedRun>& runs, std::size_t explained,
               const Place& place, double part) {
  const bool is_single = place.step >= 0;
  const std::size_t step = is_single ? static_cast<std::size_t>(place.step) : explained;
  const CausedRun& run = runs[step].caused;
  Blame blame{.cause = place.cause, .step = recording.steps[step].number, .ns = std::llround(part)};
  if (place.rank >= 0) blame.rank = recording.names[index(place.rank)];
  if (place.stage >= 0) blame.stage = place.stage;
  if (place.cause == IdleCause::imbalance) {
    blame.rank = holder_of(recording, run, place.stage);
    blame.in_all_copies = blame.rank && recording.copies > 1;
  }
  if (is_single) {
    const Action& action = action_of(run, place.node);
    blame.microbatch = action.microbatch < 0 ? 0 : action.microbatch / recording.copies;
    blame.action = text_in_copy(action, recording.copies);
    blame.detail = late_action(run, place.node, place.cause);
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
