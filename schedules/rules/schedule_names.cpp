
#include "schedules/rules/schedule_names.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "schedules/rules/generators.hpp"
#include "text/nearest_name.hpp"

namespace penstock {

std::optional<std::string_view> likely_schedule(std::string_view name) {
  std::vector<std::string> spellings;
  std::vector<std::string_view> names;
  for (const ScheduleInfo& row : schedule_table()) {
    spellings.push_back(plain_name(row.name));
    names.push_back(row.name);
    for (const std::string_view alias : row.aliases) {
      spellings.push_back(plain_name(alias));
      names.push_back(row.name);
    }
  }
  const std::vector<std::string_view> known(spellings.begin(), spellings.end());
  const auto likely = likely_name(plain_name(name), known);
  if (!likely) return std::nullopt;
  return names[static_cast<std::size_t>(std::ranges::find(known, *likely) - known.begin())];
}

std::string unknown_schedule(std::string_view name) {
  const auto likely = likely_schedule(name);
  return fmt::format("unknown schedule \"{}\"; {}`penstock schedules` lists all", name,
                     likely ? fmt::format("did you mean {}? ", *likely) : "");
}

}  // namespace penstock
