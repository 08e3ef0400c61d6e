#pragma once
// A program's stage edges by number, so that what belongs to an edge lies in a vector and is found without a
// search. Used by cost_table.hpp, the flat program and the walks.

#include <cstddef>
#include <cstdint>
#include <span>
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
    for (const std::uint32_t number : leaving(edge.from)) {
      if (edges_[number].to == edge.to) return number;
    }
    throw_unknown(edge);
  }
  std::size_t of(const Action& transfer) const { return of(edge_of(transfer)); }

  /// The edges that start at a stage of the program, and those that end at it; both ascending.
  std::span<const std::uint32_t> leaving(std::int32_t stage) const { return leaving_.of(stage); }
  std::span<const std::uint32_t> entering(std::int32_t stage) const { return entering_.of(stage); }

 private:
  /// Edges in the order of one of their ends.
  struct ByStage {
    std::vector<std::uint32_t> numbers;
    std::vector<std::uint32_t> first;  ///< by stage: where its edges begin; and the end

    std::span<const std::uint32_t> of(std::int32_t stage) const {
      const std::uint32_t begin = first[static_cast<std::size_t>(stage)];
      return std::span(numbers).subspan(begin, first[static_cast<std::size_t>(stage) + 1] - begin);
    }
  };
  ByStage sorted_by(std::int32_t StageEdge::* end, std::size_t stages) const;
  [[noreturn]] static void throw_unknown(const StageEdge& edge);

  std::vector<StageEdge> edges_;
  ByStage leaving_;
  ByStage entering_;
};

}  // namespace penstock
