#pragma once
// What the schedules cost beside each other, and their pictures, as text and as Markdown: computed, never
// typed.

#include <cstddef>
#include <string>

#include "schedules/ir/shape.hpp"

namespace penstock {

/// A row a schedule that takes `shape`: its closed form, and what the simulator says of the shape. `width` is
/// that of the table's lines; 0: any.
std::string schedule_table_text(const Shape& shape, std::size_t width = 0);
std::string schedule_table_markdown(const Shape& shape);

/// The timelines of all schedules that take `shape`, drawn with characters.
std::string schedule_gallery_markdown(const Shape& shape);

}  // namespace penstock
