// Turns a program file into the text of the scenario {schedule: {program: FILE}}, which is read like every
// other scenario. Therefore --set and the error messages work alike.

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
  // This read only checks the file. Its error must not mention a scenario, because the user did not write
  // one.
  if (const auto text = read_text_file(path, name); !text) return tl::unexpected(text.error());
  auto scenario =
      parse_scenario(fmt::format("schedule: {{program: {}}}", scalar_to_yaml(name)), "", "", overrides);
  if (scenario) scenario->file = name;
  return scenario;
}

}  // namespace penstock
