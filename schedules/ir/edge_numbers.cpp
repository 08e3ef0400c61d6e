// Edges are sorted by the stage that they start at; a second order is by the stage that they end at. In
// either the edges of one stage are neighbours: a chain's stage has one, a branching one's a few.
//
//   edges   0>1 0>2 1>3 2>3        leaving    0 1 2 3, first 0 2 3 4 4     (stage 1: from 2 up to 3)
//   number   0   1   2   3         entering   0 1 2 3, first 0 0 1 2 4     (stage 3: from 2 up to 4)

#include "schedules/ir/edge_numbers.hpp"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

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
  // Counts before each stage are where its edges begin; taken in ascending order, they stay in it.
  std::vector<std::uint32_t> next = sorted.first;
  for (std::uint32_t number = 0; number < edges_.size(); ++number)
    sorted.numbers[next[static_cast<std::size_t>(edges_[number].*end)]++] = number;
  return sorted;
}

void EdgeNumbers::throw_unknown(const StageEdge& edge) {
  throw std::logic_error(fmt::format("the program has no stage edge {}>{}", edge.from, edge.to));
}

}  // namespace penstock
