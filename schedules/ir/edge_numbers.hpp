#pragma once
// Numbers the stage edges of a program, so that data of an edge is stored in a vector and found without a
// search. cost_table.hpp, the flat program and the walks use these numbers.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the stage edge of a SEND or RECV. Activations go along the edge, and gradients go in the opposite
/// direction.
StageEdge edge_of(const Action& transfer);

/// The numbers of a program's edges. An edge's number is its index in stage_edges(program). Each edge can be
/// found by the stage where it starts and by the stage where it ends.
class EdgeNumbers {
 public:
  explicit EdgeNumbers(const Program& program);

  std::size_t size() const { return edges_.size(); }
  const std::vector<StageEdge>& edges() const { return edges_; }

  /// Returns the number of an edge. Throws std::logic_error, which names the edge, if the program does not
  /// have it.
  std::size_t of(const StageEdge& edge) const {
    for (const std::uint32_t number : leaving(edge.from)) {
      if (edges_[number].to == edge.to) return number;
    }
    throw_unknown(edge);
  }
  std::size_t of(const Action& transfer) const { return of(edge_of(transfer)); }

  /// Returns the numbers of the edges that start (`leaving`) or end (`entering`) at a stage, in ascending
  /// order.
  std::span<const std::uint32_t> leaving(std::int32_t stage) const { return leaving_.of(stage); }
  std::span<const std::uint32_t> entering(std::int32_t stage) const { return entering_.of(stage); }

 private:
  /// The edge numbers, grouped by the stage at one end.
  struct ByStage {
    std::vector<std::uint32_t> numbers;
    /// The index in `numbers` of each stage's first edge. The last entry is the total number of edges.
    std::vector<std::uint32_t> first;

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
