// The checks that look at one action at a time: its numbers, its rank, and the earlier actions of its stage
// on its rank.
//
//   0F3@2     stage and microbatch must be in range and belong to the rank; a weight version must be allowed;
//             at least two 0STEP must be before it in the rank's list
//
// validate_units.cpp checks all actions of a microbatch together. Tested by validate_test.cpp.

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/check/validate_parts.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// Returns the fault in the action's own numbers, or nothing. The next functions also return a fault or
/// nothing.
std::optional<std::string> broken_number(const Program& program, const Action& action) {
  if (action.stage < 0 || action.stage >= program.stage_count()) {
    return fmt::format("names stage {}, must be 0 to {}", action.stage, program.stage_count() - 1);
  }
  const bool in_units = action.microbatch >= 0 && action.microbatch < program.unit_count();
  if (has_microbatch(action.kind) && !in_units) {
    return fmt::format("names microbatch {}, must be 0 to {}", action.microbatch, program.unit_count() - 1);
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

/// Returns a fault if a group holds an action that is not allowed there. All actions of a group start and end
/// together on the compute queue. Messages, collectives and STEPs separate the actions around them, so a
/// group must not hold them.
std::optional<std::string> broken_group(const std::vector<Action>& actions, std::size_t position) {
  const bool last = position + 1 == actions.size();
  const bool grouped =
      actions[position].overlaps_next || (position > 0 && actions[position - 1].overlaps_next);
  if (actions[position].overlaps_next && last)
    return "overlaps the action after it, but it is the list's last";
  if (grouped && !has_weight_version(actions[position].kind)) {
    return "is in an overlapped group, which must hold F, B, I, W or R only";
  }
  return std::nullopt;
}

/// The state of one stage while a rank's list is read.
struct StageState {
  /// The rank of this state. The state is reset for the next rank.
  std::int32_t rank = -1;
  std::int32_t steps = 0;
};

/// Returns true for kinds that must come before the only STEP of a stage in a minibatch. UNSHARDs, RESHARDs
/// and messages may come after it.
bool ends_with_step(ActionKind kind) { return is_compute(kind) || kind == ActionKind::reduce_grad; }

/// Returns a fault if the earlier STEPs on the rank do not allow the action or its weight version.
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

/// Checks that all members of a stage's group have equally many collectives of this kind.
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
      // One table serves all ranks, because a table of ranks x stages can be far larger than the lists.
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
