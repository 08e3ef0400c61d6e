#pragma once
// A timeline sorted into what the pictures draw: compute boxes, and rows of transfers and collectives.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// One compute action of a rank, or both leaves of an overlapped pair.
struct ComputeBox {
  Action action;
  std::optional<Action> partner;  ///< the second leaf of a pair
  Ns start_ns = 0;
  Ns end_ns = 0;

  Ns duration_ns() const { return end_ns - start_ns; }

  friend bool operator==(const ComputeBox&, const ComputeBox&) = default;
};

/// For each rank its compute boxes by start time; equal starts stay in program order.
std::vector<std::vector<ComputeBox>> compute_boxes(const Timeline& timeline);

/// "0F3", "(0F5;3B2)OVERLAP_F_B".
std::string to_text(const ComputeBox& box);

/// The stages that the boxes of one rank name, ascending.
std::vector<std::int32_t> stages_of(const std::vector<ComputeBox>& boxes);

/// The rows in which a rank's spans are drawn.
enum class TimelineRow : std::uint8_t { compute, send, receive, collective };
TimelineRow row_of(ActionKind kind);

/// A lane for each span (0, 1, ...) such that no two spans of one lane overlap in time; as few lanes as
/// possible. The k-th answer belongs to the k-th span. Transfers of different channels run side by side.
std::vector<std::int32_t> lanes_of(std::span<const Span> spans);

}  // namespace penstock
