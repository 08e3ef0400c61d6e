// A program file becomes the scenario {schedule: {program: FILE}}, as text, and takes the way of every other
// scenario. So --set reaches it, and its errors read the same.

#include "scenarios/read/program_scenario.hpp"

#include <filesystem>
#include <span>
#include <string>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"
#include "scenarios/read/file_suffix.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/override.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/scenario_text.hpp"

namespace penstock {
tl::expected<Scenario, std::string> load_scenario_or_program(const std::filesystem::path& path,
                                                             std::span<const Override> overrides) {
  const std::string name = path.string();
  if (!names_program(name)) return load_scenario(path, overrides);
  // Read once only to see whether it can be read: its error must not speak of a scenario that nobody
  // wrote.
  if (const auto text = read_text_file(path, name); !text) return tl::unexpected(text.error());
  auto scenario =
      parse_scenario(fmt::format("schedule: {{program: {}}}", scalar_to_yaml(name)), "", "", overrides);
  if (scenario) scenario->file = name;
  return scenario;
}

}  // namespace penstock
