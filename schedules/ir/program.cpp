
#include "schedules/ir/program.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"

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
  neighbours.predecessors.resize(program.placement.stages.size());
  neighbours.successors.resize(program.placement.stages.size());
  for (const StageEdge& edge : stage_edges(program)) {  // edges are sorted, so both lists are ascending
    neighbours.predecessors[static_cast<std::size_t>(edge.to)].push_back(edge.from);
    neighbours.successors[static_cast<std::size_t>(edge.from)].push_back(edge.to);
  }
  return neighbours;
}

namespace {

/// Returns true if at least one microbatch needs a message over the edge.
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
  // One message is enough, because validate() rejects a program that lists only some of its messages.
  if (has_transfers(program)) return true;
  return std::ranges::none_of(stage_edges(program),
                              [&](const StageEdge& edge) { return crosses_ranks(program, edge); });
}

}  // namespace penstock
