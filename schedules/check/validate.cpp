// Runs the checks of validate_parts.hpp in order and returns the first fault. Later checks rely on earlier
// ones: for example, every stage number is checked before it is used as an index. This file also has the
// first checks: numbers, placement and stage edges. Tested by validate_test.cpp and must_fail_test.cpp.

#include "schedules/check/validate.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "schedules/check/validate_parts.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/text/schedule_grid.hpp"

namespace penstock {
namespace {

constexpr std::int64_t kMostStatedUnits = std::numeric_limits<std::int32_t>::max();

/// Returns a fault of the whole program, which has no position in a list.
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
  // In the sorted list, the first and last entries show whether a rank is out of range. Equal neighbours are
  // duplicates.
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

/// Checks the edges that the program states. A chain states no edges.
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
  if (const auto twice = std::ranges::adjacent_find(program.edges); twice != program.edges.end()) {
    return broken("edge {}>{} is given twice, delete one of the two", twice->from, twice->to);
  }
  return {};
}

/// Removes stages without entering edges as long as there are any. If stages remain, they contain a cycle.
Checked check_acyclic(const Program& program) {
  const StageNeighbours neighbours = stage_neighbours(program);
  std::vector<std::size_t> entering;
  std::vector<std::int32_t> free_stages;
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    entering.push_back(neighbours.predecessors[static_cast<std::size_t>(stage)].size());
    if (entering.back() == 0) free_stages.push_back(stage);
  }
  for (std::size_t i = 0; i < free_stages.size(); ++i) {
    for (const std::int32_t next : neighbours.successors[static_cast<std::size_t>(free_stages[i])]) {
      if (--entering[static_cast<std::size_t>(next)] == 0) free_stages.push_back(next);
    }
  }
  if (free_stages.size() == entering.size()) return {};
  const auto waiting = std::ranges::find_if(entering, [](std::size_t count) { return count > 0; });
  return broken("the stage edges form a cycle that stage {} waits for, must have none",
                waiting - entering.begin());
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
      .and_then([&] { return check_transfers(program, *table); });
}

}  // namespace penstock
