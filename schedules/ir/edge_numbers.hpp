#pragma once
// Numbers for a program's stage edges, so that data of edges lies in a vector and is found without a search.
// Used by cost_table.hpp, the flat program and the walks.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the stage edge of a SEND or RECV. Activations follow the edge, gradients go against it.
StageEdge edge_of(const Action& transfer);

/// The numbers of a program's edges. An edge's number is its index in stage_edges(program). The edges of each
/// stage are indexed twice, by the stage where they start and by the stage where they end.
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

  /// Returns the numbers of the edges that start (`leaving`) or end (`entering`) at a stage, ascending.
  std::span<const std::uint32_t> leaving(std::int32_t stage) const { return leaving_.of(stage); }
  std::span<const std::uint32_t> entering(std::int32_t stage) const { return entering_.of(stage); }

 private:
  /// The edges in the order of one of their ends.
  struct ByStage {
    std::vector<std::uint32_t> numbers;
    /// The index in `numbers` of each stage's first edge, and the total as the last entry.
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
