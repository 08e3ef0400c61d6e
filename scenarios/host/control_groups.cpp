
#include "scenarios/host/control_groups.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {
namespace {

namespace fs = std::filesystem;

void append_upwards(std::vector<ControlGroup>& groups, const fs::path& mount, std::string_view group,
                    ControlGroupVersion version) {
  for (fs::path path = fs::path(group).relative_path();; path = path.parent_path()) {
    groups.push_back({.folder = mount / path, .version = version});
    if (path.empty()) return;
  }
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const ControlGroupFiles& files) {
  std::vector<ControlGroup> groups;
  std::ifstream lines(files.list);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id;
    std::string controllers;
    std::string group;
    if (!std::getline(fields, id, ':') || !std::getline(fields, controllers, ':') ||
        !std::getline(fields, group)) {
      continue;
    }
    if (controllers.empty()) append_upwards(groups, files.mount, group, ControlGroupVersion::second);
    if (controllers == controller)
      append_upwards(groups, files.mount / controller, group, ControlGroupVersion::first);
  }
  return groups;
}

std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::int64_t number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

}  // namespace penstock
