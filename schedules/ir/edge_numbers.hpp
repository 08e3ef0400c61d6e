#pragma once
// A program's stage edges by number, so that what belongs to an edge lies in a vector and is found without a
// search. Used by cost_table.hpp, the flat program and the walks.

#include <cstddef>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The edge that a SEND or RECV goes over: activations follow it, gradients come back.
StageEdge edge_of(const Action& transfer);

/// The number of an edge is its index in stage_edges(program).
class EdgeNumbers {
 public:
  explicit EdgeNumbers(const Program& program);

  std::size_t size() const { return edges_.size(); }
  const std::vector<StageEdge>& edges() const { return edges_; }

  /// Throws std::logic_error, naming the edge, where the program has no such edge.
  std::size_t of(const StageEdge& edge) const {
    const auto from = static_cast<std::size_t>(edge.from);
    for (std::size_t number = first_[from]; number < first_[from + 1]; ++number) {
      if (edges_[number].to == edge.to) return number;
    }
    throw_unknown(edge);
  }
  std::size_t of(const Action& transfer) const { return of(edge_of(transfer)); }

 private:
  [[noreturn]] static void throw_unknown(const StageEdge& edge);

  std::vector<StageEdge> edges_;
  std::vector<std::size_t>
      first_;  ///< by stage: number of the first edge from it or a later stage; and the end
};

}  // namespace penstock
