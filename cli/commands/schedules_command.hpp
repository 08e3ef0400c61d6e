#pragma once
// Prints the figures and pictures of the schedules as text and as Markdown. All of them are computed by
// simulation.

#include <cstddef>
#include <string>

#include "schedules/ir/shape.hpp"

namespace penstock {

/// Returns a table with one row for each schedule that accepts `shape`. A row has the schedule's published
/// formula and its simulated figures. `width` is the longest line in characters; 0 means no limit.
std::string schedule_table_text(const Shape& shape, std::size_t width = 0);
std::string schedule_table_markdown(const Shape& shape);

/// Returns a Markdown text with the timelines of all schedules that accept `shape`. The timelines are drawn
/// with characters.
std::string schedule_gallery_markdown(const Shape& shape);

}  // namespace penstock
