// penstock schedules: the table of schedules.

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "schedules/generators.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

std::string schedules_text() {
  std::string text;
  for (const ScheduleInfo& row : schedule_table()) {
    text += fmt::format("{}\n    {}\n", row.name, row.summary);
    text += fmt::format("    takes    {}\n", row.constraint);
    if (!row.options.empty()) text += fmt::format("    options  {}\n", fmt::join(row.options, ", "));
    if (!row.aliases.empty()) text += fmt::format("    also     {}\n", fmt::join(row.aliases, ", "));
  }
  return text +
         "\nOptions are keys of a scenario's `schedule:` (--set schedule.KEY=VALUE). Upper and lower case, "
         "`-` and\n"
         "`_` in names mean the same.\n";
}

std::string schedules_json() {
  Json rows = Json::array();
  for (const ScheduleInfo& row : schedule_table()) {
    rows.push_back({{"name", row.name},
                    {"aliases", row.aliases},
                    {"summary", row.summary},
                    {"constraint", row.constraint},
                    {"options", row.options},
                    {"asynchronous", row.asynchronous}});
  }
  return Json{{"schema_version", 1}, {"kind", "schedules"}, {"schedules", rows}}.dump(2) + '\n';
}

Outcome list_schedules(const OutputFlags& output) {
  if (auto known = check_output_files(output.files, {".json", ".txt"}); !known)
    return tl::unexpected(known.error());
  const std::vector<OutputForm> forms = {{".json", [] { return schedules_json(); }},
                                         {".txt", [] { return schedules_text(); }}};
  const std::string text = output.json ? schedules_json() : schedules_text();
  if (auto written = write_answer(output, forms, text); !written) return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace

Command schedules_command(CLI::App& root) {
  CLI::App* app = root.add_subcommand("schedules", "List the schedules: names, shapes and options.");
  const auto output = std::make_shared<OutputFlags>();
  add_output_flags(*app, *output, ".json .txt");
  app->footer("Examples:\n  penstock schedules\n  penstock schedules --json | jq '.schedules[].name'");
  return {app, [output] { return list_schedules(*output); }};
}

}  // namespace penstock
