// Computes the facts that follow from a program: its edges and their numbers, and whether its lists have
// transfers. It also counts the STEPs that later iterations need.

#include "schedules/ir/program.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"

namespace penstock {

std::vector<std::int32_t> Placement::ranks_of_stages() const {
  std::vector<std::int32_t> ranks;
  ranks.reserve(stages.size());
  for (std::int32_t stage = 0; stage < std::ssize(stages); ++stage) ranks.push_back(rank_of(stage, 0));
  return ranks;
}

std::int32_t Placement::replica_on(std::int32_t stage, std::int32_t rank) const {
  const std::vector<std::int32_t>& ranks = stages[static_cast<std::size_t>(stage)].ranks;
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : static_cast<std::int32_t>(found - ranks.begin());
}

std::vector<StageEdge> stage_edges(const Program& program) {
  if (!program.edges.empty()) return program.edges;
  std::vector<StageEdge> chain;
  chain.reserve(program.placement.stages.size());
  for (std::int32_t stage = 0; stage + 1 < program.stage_count(); ++stage) {
    chain.push_back({.from = stage, .to = stage + 1});
  }
  return chain;
}

StageNeighbours stage_neighbours(const Program& program) {
  StageNeighbours neighbours;
  for (auto* lists : {&neighbours.predecessors, &neighbours.successors, &neighbours.gradient_givers,
                      &neighbours.gradient_takers})
    lists->resize(program.placement.stages.size());
  for (const StageEdge& edge : stage_edges(program)) {  // edges are sorted, so all lists are ascending
    if (carries(program.placement, edge, Flow::activation)) {
      neighbours.predecessors[index(edge.to)].push_back(edge.from);
      neighbours.successors[index(edge.from)].push_back(edge.to);
    }
    if (carries(program.placement, edge, Flow::gradient)) {
      neighbours.gradient_givers[index(edge.from)].push_back(edge.to);
      neighbours.gradient_takers[index(edge.to)].push_back(edge.from);
    }
  }
  return neighbours;
}

bool has_forward_only_stage(const Program& program) {
  return std::ranges::any_of(program.placement.stages, &StagePlacement::is_forward_only);
}

bool is_forward_only(const Program& program) {
  return std::ranges::all_of(program.placement.stages, &StagePlacement::is_forward_only);
}

void set_passes(Program& program, Passes passes) {
  for (StagePlacement& stage : program.placement.stages) stage.passes = passes;
}

std::optional<std::int32_t> first_trained_stage(const Program& program) {
  const auto& stages = program.placement.stages;
  const auto found = std::ranges::find(stages, Passes::both, &StagePlacement::passes);
  if (found == stages.end()) return std::nullopt;
  return static_cast<std::int32_t>(found - stages.begin());
}

namespace {

/// Returns true if at least one microbatch needs a message between two ranks for this edge.
bool crosses_ranks(const Program& program, const StageEdge& edge) {
  for (std::int32_t unit = 0; unit < program.unit_count(); ++unit) {
    // If a stage has replicas, the rank depends on the microbatch. One microbatch that crosses ranks is
    // enough.
    if (program.placement.rank_of(edge.from, unit) != program.placement.rank_of(edge.to, unit)) return true;
  }
  return false;
}

}  // namespace

bool has_transfers(const Program& program) {
  return std::ranges::any_of(program.ranks, [](const std::vector<Action>& actions) {
    return std::ranges::any_of(actions, [](const Action& action) { return is_transfer(action.kind); });
  });
}

bool is_lowered(const Program& program) {
  // One message is enough, because validate() rejects a program that lists only a part of its messages.
  if (has_transfers(program)) return true;
  return std::ranges::none_of(stage_edges(program),
                              [&](const StageEdge& edge) { return crosses_ranks(program, edge); });
}

StageEdge edge_of(const Action& transfer) { return edge_of(message_of(transfer)); }

EdgeNumbers::EdgeNumbers(const Program& program)
    : edges_(stage_edges(program)),
      leaving_(sorted_by(&StageEdge::from, program.placement.stages.size())),
      entering_(sorted_by(&StageEdge::to, program.placement.stages.size())) {}

EdgeNumbers::ByStage EdgeNumbers::sorted_by(std::int32_t StageEdge::* end, std::size_t stages) const {
  ByStage sorted{.numbers = std::vector<std::uint32_t>(edges_.size()),
                 .first = std::vector<std::uint32_t>(stages + 1, 0)};
  for (const StageEdge& edge : edges_) ++sorted.first[static_cast<std::size_t>(edge.*end) + 1];
  std::partial_sum(sorted.first.begin(), sorted.first.end(), sorted.first.begin());
  // The index of a stage's first edge is the number of edges of all earlier stages. Edges are visited in
  // ascending order, so each group is in ascending order.
  std::vector<std::uint32_t> next = sorted.first;
  for (std::uint32_t number = 0; number < edges_.size(); ++number)
    sorted.numbers[next[static_cast<std::size_t>(edges_[number].*end)]++] = number;
  return sorted;
}

void EdgeNumbers::throw_unknown(const StageEdge& edge) {
  throw std::logic_error(fmt::format("the program has no stage edge {}>{}", edge.from, edge.to));
}

std::vector<std::int32_t> steps_per_pass(const Program& program, std::int32_t rank) {
  std::vector<std::int32_t> steps(program.placement.stages.size(), 0);
  for (const Action& action : program.ranks[static_cast<std::size_t>(rank)]) {
    if (action.kind == ActionKind::step) ++steps[static_cast<std::size_t>(action.stage)];
  }
  return steps;
}

std::int32_t microbatches_of_minibatch(const Program& program) {
  // With one update for each microbatch, each replica has STEPs only for its own microbatches. The number of
  // STEPs of one rank therefore does not give the result.
  if (program.update == UpdateRule::microbatch) return 1;
  // All stages with backwards have equally many STEPs, so the STEPs of the first one are enough. Without any
  // STEP, an iteration is one minibatch.
  const std::size_t stage = index(first_trained_stage(program).value_or(0));
  const std::int32_t steps = steps_per_pass(program, program.placement.stages[stage].ranks.front())[stage];
  return program.microbatches / std::max(1, steps);
}

}  // namespace penstock
