#pragma once
// Sorts a timeline into the parts of its pictures: compute boxes, and rows for transfers and collectives.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// One compute action of a rank, or both actions of an overlapped pair.
struct ComputeBox {
  Action action;
  /// The second action of an overlapped pair. It is absent for a single action.
  std::optional<Action> partner;
  Ns start_ns = 0;
  Ns end_ns = 0;

  Ns duration_ns() const { return end_ns - start_ns; }

  friend bool operator==(const ComputeBox&, const ComputeBox&) = default;
};

/// Returns the compute boxes of each rank, ordered by start time. Boxes with equal starts stay in program
/// order.
std::vector<std::vector<ComputeBox>> compute_boxes(const Timeline& timeline);

/// Returns the box as text: "0F3" or "(0F5;3B2)OVERLAP_F_B".
std::string to_text(const ComputeBox& box);

/// Returns the stages of one rank's boxes, in ascending order.
std::vector<std::int32_t> stages_of(const std::vector<ComputeBox>& boxes);

/// The rows of a picture into which a rank's spans are sorted.
enum class TimelineRow : std::uint8_t { compute, send, receive, collective };
/// Returns the row in which an action of this kind is drawn.
TimelineRow row_of(ActionKind kind);

/// Returns a lane (0, 1, ...) for each span, in the order of the spans. No two spans of one lane overlap in
/// time, and the number of lanes is minimal. A row needs several lanes if transfers of different channels run
/// at the same time.
std::vector<std::int32_t> lanes_of(std::span<const Span> spans);

}  // namespace penstock
