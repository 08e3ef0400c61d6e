#pragma once
// Prints figures and pictures of the schedules as text and as Markdown. All are computed.

#include <cstddef>
#include <string>

#include "schedules/ir/shape.hpp"

namespace penstock {

/// Returns a table with a row for each schedule that takes `shape`: its closed form, and its simulated
/// figures. `width` limits the lines; 0: no limit.
std::string schedule_table_text(const Shape& shape, std::size_t width = 0);
std::string schedule_table_markdown(const Shape& shape);

/// Returns the timelines of all schedules that take `shape`, drawn with characters.
std::string schedule_gallery_markdown(const Shape& shape);

}  // namespace penstock
