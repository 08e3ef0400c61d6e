#pragma once
// What the schedules cost beside each other, and their pictures, as text and as Markdown: computed, never
// typed.

#include <string>

#include "schedules/generators.hpp"

namespace penstock {

/// A row a schedule that takes `shape`: its closed form, and what the simulator says of the shape.
std::string schedule_table_text(const Shape& shape);
std::string schedule_table_markdown(const Shape& shape);

/// The timelines of all schedules that take `shape`, drawn with characters.
std::string schedule_gallery_markdown(const Shape& shape);

}  // namespace penstock
