#pragma once
// Suggests schedules for mistyped names. It compares them with all names and aliases in the table.

#include <optional>
#include <string>
#include <string_view>

namespace penstock {

/// Returns the schedule that is most similar to a mistyped name, or nothing (likely_name()).
std::optional<std::string_view> likely_schedule(std::string_view name);

/// Returns the error message for an unknown name. It suggests a name and says how to list all schedules.
std::string unknown_schedule(std::string_view name);

}  // namespace penstock
