
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

}  // namespace penstock
