#pragma once
// Suggestions for mistyped names of schedules, compared with all names and aliases of the table.

#include <optional>
#include <string>
#include <string_view>

namespace penstock {

/// Returns the name of the schedule that a mistyped name or alias likely meant; see likely_name().
std::optional<std::string_view> likely_schedule(std::string_view name);

/// Returns the message about a schedule that does not exist, with likely_schedule() and how to list all.
std::string unknown_schedule(std::string_view name);

}  // namespace penstock
