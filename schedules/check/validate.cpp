// Runs the checks of validate_parts.hpp one after the other and implements the first of them. They go from
// the whole program (numbers, placement, stage edges) to the single action. A check may rely on earlier
// checks. For example, the stage of every action is checked before it is used as an index of a table. The
// first fault is returned. validate_units.cpp and validate_life.cpp have the other checks. Tests:
// tests/schedules/validate_test.cpp.

#include "schedules/check/validate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/check/validate_parts.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/text/program_text.hpp"

namespace penstock {

namespace {

constexpr std::int64_t kMostStatedUnits = std::numeric_limits<std::int32_t>::max();

/// Returns an error about the whole program, which names no position in a list.
template <typename... Arguments>
tl::unexpected<std::string> broken(fmt::format_string<Arguments...> rule, Arguments&&... arguments) {
  return tl::unexpected(fmt::format(rule, std::forward<Arguments>(arguments)...));
}

Checked check_numbers(const Program& program) {
  // In the text form the name is one word in a line, and `#` begins a comment.
  if (program.schedule.empty() || program.schedule.find_first_of(" \t\r\n#") != std::string::npos) {
    return broken("the schedule's name `{}` must be one word without `#`", program.schedule);
  }
  if (program.microbatches < 1) return broken("microbatches is {}, must be at least 1", program.microbatches);
  if (program.slices < 1) return broken("slices is {}, must be at least 1", program.slices);
  if (program.iterations < 1) return broken("iterations is {}, must be at least 1", program.iterations);
  const std::int64_t units = std::int64_t{program.microbatches} * program.slices;
  // The first comparison ensures that the product in the second one fits in 64 bits.
  if (units > kMostStatedUnits || units * program.iterations > kMostStatedUnits) {
    return broken("microbatches x slices x iterations is {} x {} x {}, must be at most {}",
                  program.microbatches, program.slices, program.iterations, kMostStatedUnits);
  }
  if (program.sharding < 0 || program.sharding > 3) {
    return broken("sharding is {}, must be a ZeRO stage of 0 to 3", program.sharding);
  }
  if (program.stage_count() == 0) return broken("the program has no stage, must have at least one");
  return {};
}

/// Checks the ranks and the route of a stage. It must have ranks, each in range and listed once.
Checked check_stage(const Program& program, std::size_t stage) {
  const StagePlacement& placement = program.placement.stages[stage];
  std::vector<std::int32_t> ranks = placement.ranks;
  if (ranks.empty()) return broken("stage {} is on no rank, must be on at least one", stage);
  // After sorting, only the first and the last entry can be out of range, and duplicates are neighbours.
  std::ranges::sort(ranks);
  for (const std::int32_t rank : {ranks.front(), ranks.back()}) {
    if (rank >= 0 && rank < program.rank_count()) continue;
    return broken("stage {} is on rank {}, must be on one of the ranks 0 to {}", stage, rank,
                  program.rank_count() - 1);
  }
  if (const auto twice = std::ranges::adjacent_find(ranks); twice != ranks.end()) {
    return broken("stage {} is twice on rank {}, each replica must be on a rank of its own", stage, *twice);
  }
  if (placement.route.empty()) return broken("stage {} has an empty route, must name a replica", stage);
  const auto replicas = static_cast<std::int32_t>(placement.ranks.size());
  for (const std::int32_t replica : placement.route) {
    if (replica >= 0 && replica < replicas) continue;
    return broken("stage {} routes to replica {}, must be one of its replicas 0 to {}", stage, replica,
                  replicas - 1);
  }
  return {};
}

/// Checks the edges that the program states. A program whose stages form a chain states none.
Checked check_edges(const Program& program) {
  const std::int32_t stages = program.stage_count();
  for (const StageEdge& edge : program.edges) {
    for (const std::int32_t stage : {edge.from, edge.to}) {
      if (stage >= 0 && stage < stages) continue;
      return broken("edge {}>{} names stage {}, must be one of the stages 0 to {}", edge.from, edge.to, stage,
                    stages - 1);
    }
  }
  if (!std::ranges::is_sorted(program.edges)) return broken("the stage edges must be sorted");
  const auto twice = std::ranges::adjacent_find(program.edges, &StageEdge::joins_same);
  if (twice != program.edges.end()) {
    return broken("edge {}>{} is given twice, delete one of the two", twice->from, twice->to);
  }
  for (const StageEdge& edge : program.edges) {
    if (edge.flows != EdgeFlows::gradient || carries(program.placement, edge, Flow::gradient)) continue;
    return broken("edge {0}<{1}! carries only gradients, but stage {2} runs only forwards; delete the edge",
                  edge.from, edge.to,
                  program.placement.stages[index(edge.from)].is_forward_only() ? edge.from : edge.to);
  }
  return {};
}

/// Checks that the waits between stages have no cycle. It removes stages that wait for no other stage, as
/// long as there are any. `next` has the stages that wait for each stage. If stages remain, they wait for
/// each other.
Checked check_acyclic(const std::vector<std::vector<std::int32_t>>& next) {
  std::vector<std::size_t> awaited(next.size(), 0);
  for (const std::vector<std::int32_t>& stages : next) {
    for (const std::int32_t stage : stages) ++awaited[index(stage)];
  }
  std::vector<std::int32_t> free_stages;
  for (std::int32_t stage = 0; stage < std::ssize(next); ++stage) {
    if (awaited[index(stage)] == 0) free_stages.push_back(stage);
  }
  for (std::size_t i = 0; i < free_stages.size(); ++i) {
    for (const std::int32_t stage : next[index(free_stages[i])]) {
      if (--awaited[index(stage)] == 0) free_stages.push_back(stage);
    }
  }
  if (free_stages.size() == awaited.size()) return {};
  const auto waiting = std::ranges::find_if(awaited, [](std::size_t count) { return count > 0; });
  return broken("the stage edges form a cycle that stage {} waits for, must have none",
                waiting - awaited.begin());
}

/// Checks that neither the activations nor the gradients of the edges form a cycle.
Checked check_acyclic(const Program& program) {
  const StageNeighbours neighbours = stage_neighbours(program);
  Checked activations = check_acyclic(neighbours.successors);
  return activations ? check_acyclic(neighbours.gradient_takers) : activations;
}

}  // namespace

Checked check_shape(const Program& program) {
  if (Checked numbers = check_numbers(program); !numbers) return numbers;
  for (std::size_t stage = 0; stage < program.placement.stages.size(); ++stage) {
    if (Checked placement = check_stage(program, stage); !placement) return placement;
  }
  return check_edges(program).and_then([&] { return check_acyclic(program); });
}

tl::unexpected<std::string> broken_at(const Program& program, std::int32_t rank, std::size_t position,
                                      const Action& action, std::string_view rule) {
  return tl::unexpected(fmt::format("rank {}, position {}: {} {}\n{}", rank, position, to_text(action), rule,
                                    schedule_grid(program, {.rank = rank, .position = position})));
}

tl::unexpected<std::string> missing_at(const Program& program, std::int32_t rank, std::string_view rule) {
  const std::size_t end = program.ranks[static_cast<std::size_t>(rank)].size();
  return tl::unexpected(
      fmt::format("rank {}: {}\n{}", rank, rule, schedule_grid(program, {.rank = rank, .position = end})));
}

tl::expected<void, std::string> validate(const Program& program) {
  if (Checked shape = check_shape(program); !shape) return shape;
  if (Checked actions = check_actions(program); !actions) return actions;
  if (Checked stage_actions = check_stage_actions(program); !stage_actions) return stage_actions;
  auto table = tabulate_units(program);
  if (!table) return tl::unexpected(std::move(table.error()));
  return check_order(program, *table)
      .and_then([&] { return check_versions(program); })
      .and_then([&] { return check_stage_lives(program); })
      .and_then([&] { return check_transfers(program, *table); })
      .and_then([&] { return check_waits(program, *table); })
      .and_then([&] { return check_host_copies(program, *table); });
}

// The checks of single actions: the action's numbers, its rank, and the earlier actions of its stage on its
// rank.
//
//   0F3@2     stage and microbatch must be in range and belong to the rank; a weight version must be allowed;
//             at least two 0STEP must be before it in the rank's list
//
// validate_units.cpp checks all actions of a microbatch together. Tested by validate_test.cpp.

namespace {

/// Returns true for the actions that a stage without backward passes may have. They are F, the messages of
/// activations, the WAITs for them, and the gathers of its weights.
bool runs_in_forward_only(const Action& action) {
  if (is_wait(action.kind)) return action.kind == ActionKind::wait_send_forward;
  if (is_transfer(action.kind)) return flow_of(action.kind) == Flow::activation;
  return action.kind == ActionKind::forward || gathers_or_drops(action.kind);
}

/// Returns a text about the first wrong number in the action, or nothing if all numbers are right. The next
/// functions also return their faults as texts.
std::optional<std::string> broken_number(const Program& program, const Action& action) {
  if (action.stage < 0 || action.stage >= program.stage_count()) {
    return fmt::format("names stage {}, must be 0 to {}", action.stage, program.stage_count() - 1);
  }
  const bool in_units = action.microbatch >= 0 && action.microbatch < program.unit_count();
  if (has_microbatch(action.kind) && !in_units) {
    return fmt::format("names microbatch {}, must be 0 to {}", action.microbatch, program.unit_count() - 1);
  }
  if (program.placement.stages[index(action.stage)].is_forward_only() && !runs_in_forward_only(action)) {
    return fmt::format("belongs to stage {}, which runs only forwards, must not exist", action.stage);
  }
  if (!has_microbatch(action.kind) && action.microbatch != kNoMicrobatch) {
    return fmt::format("carries microbatch {}, must carry none", action.microbatch);
  }
  if (!is_transfer(action.kind) && action.peer != kNoPeer) {
    return fmt::format("carries peer stage {}, must carry none", action.peer);
  }
  if (action.weight_version < 0 || (action.weight_version > 0 && !has_weight_version(action.kind))) {
    return fmt::format("carries weight version {}, must {}", action.weight_version,
                       has_weight_version(action.kind) ? "be at least 0" : "carry none");
  }
  return std::nullopt;
}

/// Returns a fault if the placement puts the action on another rank. Requires that the stage and the
/// microbatch are in range.
std::optional<std::string> wrong_rank(const Program& program, const Action& action, std::int32_t rank) {
  if (has_microbatch(action.kind)) {
    const std::int32_t right = program.placement.rank_of(action.stage, action.microbatch);
    if (right == rank) return std::nullopt;
    return fmt::format("is on the wrong rank, stage {} runs microbatch {} on rank {}", action.stage,
                       action.microbatch, right);
  }
  // An action without a microbatch is on the ranks of all replicas of its stage.
  if (program.placement.replica_on(action.stage, rank) >= 0) return std::nullopt;
  return fmt::format("is on the wrong rank, stage {} is on rank {}", action.stage,
                     fmt::join(program.placement.stages[static_cast<std::size_t>(action.stage)].ranks, ", "));
}

/// Returns a fault if a group contains an action that is not allowed in it. The actions of an overlapped
/// group start and end together on the compute queue. The SENDs and RECVs of a group of transfers are
/// posted together. Collectives and STEPs run between actions, so no group may contain them.
std::optional<std::string> broken_group(const std::vector<Action>& actions, std::size_t position) {
  const bool last = position + 1 == actions.size();
  const bool grouped =
      actions[position].overlaps_next || (position > 0 && actions[position - 1].overlaps_next);
  if (actions[position].overlaps_next && last) {
    return is_transfer(actions[position].kind)
               ? "is in a group with the action after it, but it is the list's last"
               : "overlaps the action after it, but it is the list's last";
  }
  const ActionKind kind = actions[position].kind;
  if (actions[position].no_wait && !(grouped && is_transfer(kind)))
    return "has `no_wait`, which only a SEND or RECV of a group may have";
  if (!grouped) return std::nullopt;
  if (actions[position].overlaps_next && actions[position + 1].no_wait != actions[position].no_wait)
    return "differs in `no_wait` from the next transfer of its group; all of a group must be alike";
  const bool beside_compute =
      (actions[position].overlaps_next && !is_transfer(actions[position + 1].kind)) ||
      (position > 0 && actions[position - 1].overlaps_next && !is_transfer(actions[position - 1].kind));
  if (has_weight_version(kind) || (is_transfer(kind) && !beside_compute)) return std::nullopt;
  return "is in an overlapped group, which must hold F, B, I, W or R only";
}

/// The state of one stage while a rank's list is read.
struct StageState {
  /// The rank to which this state belongs. The state is reset when the list of another rank is read.
  std::int32_t rank = -1;
  std::int32_t steps = 0;
};

/// Returns true for kinds of actions that must come before the STEP of a minibatch, if the stage has only
/// one STEP. UNSHARDs, RESHARDs and messages may come after it.
bool ends_with_step(ActionKind kind) { return is_compute(kind) || kind == ActionKind::reduce_grad; }

/// Returns a fault if the action comes after the single STEP of a minibatch. Also returns a fault if its
/// weight version needs more STEPs than come before it on the rank.
std::optional<std::string> broken_by_history(const Program& program, const Action& action,
                                             const StageState& before) {
  if (program.update == UpdateRule::minibatch && before.steps > 0 && ends_with_step(action.kind)) {
    if (action.kind == ActionKind::step) return "comes a second time, must come once with `update minibatch`";
    return fmt::format("comes after {}STEP, must come before it with `update minibatch`", action.stage);
  }
  if (!has_weight_version(action.kind)) return std::nullopt;
  if (action.weight_version > before.steps) {
    return fmt::format(
        "runs with weight version {}, must run with at most {}: so many STEPs of stage {} come "
        "before it on its rank",
        action.weight_version, before.steps, action.stage);
  }
  return std::nullopt;
}

/// Checks that all ranks of a stage have equally many collectives of this kind.
Checked check_collectives(const Program& program, ActionKind kind) {
  std::vector<std::vector<std::int64_t>> counts;
  counts.reserve(program.placement.stages.size());
  for (const StagePlacement& stage : program.placement.stages) counts.emplace_back(stage.ranks.size());
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    for (const Action& action : program.ranks[static_cast<std::size_t>(rank)]) {
      if (action.kind != kind) continue;
      const std::int32_t replica = program.placement.replica_on(action.stage, rank);
      ++counts[static_cast<std::size_t>(action.stage)][static_cast<std::size_t>(replica)];
    }
  }
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    const auto different = std::ranges::find_if(
        counts[stage], [&](std::int64_t count) { return count != counts[stage].front(); });
    if (different == counts[stage].end()) continue;
    const std::vector<std::int32_t>& ranks = program.placement.stages[stage].ranks;
    const std::int32_t rank = ranks[static_cast<std::size_t>(different - counts[stage].begin())];
    return missing_at(program, rank,
                      fmt::format("{}{} must come as often as on rank {} (there {}, here {})", stage,
                                  letters(kind), ranks.front(), counts[stage].front(), *different));
  }
  return {};
}

}  // namespace

Checked check_actions(const Program& program) {
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    const std::vector<Action>& actions = program.ranks[static_cast<std::size_t>(rank)];
    for (std::size_t position = 0; position < actions.size(); ++position) {
      const Action& action = actions[position];
      auto broken = broken_number(program, action);
      if (!broken) broken = wrong_rank(program, action, rank);
      if (!broken) broken = broken_group(actions, position);
      if (broken) return broken_at(program, rank, position, action, *broken);
    }
  }
  return {};
}

Checked check_stage_actions(const Program& program) {
  std::vector<StageState> states(program.placement.stages.size());
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    const std::vector<Action>& actions = program.ranks[static_cast<std::size_t>(rank)];
    for (std::size_t position = 0; position < actions.size(); ++position) {
      const Action& action = actions[position];
      StageState& state = states[static_cast<std::size_t>(action.stage)];
      // All ranks use one table, one after the other, because a table of ranks x stages could be far larger
      // than the lists.
      if (state.rank != rank) state = {.rank = rank};
      const auto broken = broken_by_history(program, action, state);
      if (broken) return broken_at(program, rank, position, action, *broken);
      if (action.kind == ActionKind::step) ++state.steps;
    }
  }
  return check_collectives(program, ActionKind::unshard).and_then([&] {
    return check_collectives(program, ActionKind::reduce_grad);
  });
}

}  // namespace penstock
