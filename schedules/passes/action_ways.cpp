// Walks ask at every action, so the few answers that there are, one a stage and kind, are made once.

#include "schedules/passes/action_ways.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

#include "schedules/ir/action.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

ActionWays::ActionWays(const Program& program) : edges_(program) {
  needs_.reserve(program.placement.stages.size() * kKindCount);
  ways_.reserve(4 * count());  // F gives, the next F takes, and so do two kinds of backward
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    for (std::size_t kind = 0; kind < kKindCount; ++kind)
      add_needs(stage, static_cast<ActionKind>(kind), program.recompute);
  }
}

void ActionWays::add_needs(std::int32_t stage, ActionKind kind, RecomputeTiming recompute) {
  const auto end = [this] { return static_cast<std::uint32_t>(ways_.size()); };
  Needs needs{.taken = end()};
  if (const auto flow = input_of(kind, recompute))
    add_ways(*flow == Flow::activation ? edges_.entering(stage) : edges_.leaving(stage), stage, *flow);
  needs.given = end();
  if (const auto flow = output_of(kind))
    add_ways(*flow == Flow::activation ? edges_.leaving(stage) : edges_.entering(stage), stage, *flow);
  needs.end = end();
  needs_.push_back(needs);
}

void ActionWays::add_ways(std::span<const std::uint32_t> numbers, std::int32_t stage, Flow flow) {
  for (const std::uint32_t edge : numbers) {
    const StageEdge& ends = edges_.edges()[edge];
    ways_.push_back({.number = 2 * std::size_t{edge} + static_cast<std::size_t>(flow),
                     .stage = ends.from == stage ? ends.to : ends.from,
                     .flow = flow});
  }
}

}  // namespace penstock
