// Edges are sorted by the stage that they start at, so those of one stage are neighbours: a chain's stage has
// one, a branching one's a few.
//
//   edges   0>1 0>2 1>3 2>3        first   0 2 3 4 4        (stage 1 has the edges from 2 up to 3)

#include "schedules/ir/edge_numbers.hpp"

#include <cstddef>
#include <stdexcept>

#include <fmt/format.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

StageEdge edge_of(const Action& transfer) { return edge_of(message_of(transfer)); }

EdgeNumbers::EdgeNumbers(const Program& program)
    : edges_(stage_edges(program)), first_(program.placement.stages.size() + 1) {
  std::size_t number = 0;
  for (std::size_t stage = 0; stage < first_.size(); ++stage) {
    while (number < edges_.size() && static_cast<std::size_t>(edges_[number].from) < stage) ++number;
    first_[stage] = number;
  }
}

void EdgeNumbers::throw_unknown(const StageEdge& edge) {
  throw std::logic_error(fmt::format("the program has no stage edge {}>{}", edge.from, edge.to));
}

}  // namespace penstock
