// Implements penstock schedules. It prints the schedules with their options, their figures for one shape
// (--figures), or their pictures (--gallery).

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/commands/schedule_listing.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

/// Returns a few lines for each schedule: its name, and the options and shapes that it accepts.
std::string schedules_text() {
  std::string text;
  for (const ScheduleInfo& row : schedule_table()) {
    text += fmt::format("{}\n    {}\n", row.name, row.summary);
    text += fmt::format("    takes    {}\n", row.constraint);
    if (!row.options.empty()) text += fmt::format("    options  {}\n", fmt::join(option_keys(row), ", "));
    if (!row.aliases.empty()) text += fmt::format("    also     {}\n", fmt::join(row.aliases, ", "));
  }
  return text +
         "\nOptions are keys of a scenario's `schedule:` (--set schedule.KEY=VALUE). Schedules without "
         "`replicas` take\n"
         "`data_parallel`, copies of the whole pipeline. Upper and lower case, `-` and `_` in names mean the "
         "same.\n";
}

std::string schedules_json() {
  Json rows = Json::array();
  for (const ScheduleInfo& row : schedule_table()) {
    rows.push_back({{"name", row.name},
                    {"aliases", row.aliases},
                    {"summary", row.summary},
                    {"constraint", row.constraint},
                    {"options", option_keys(row)},
                    {"asynchronous", row.asynchronous}});
  }
  return Json{{"schema_version", 1}, {"kind", "schedules"}, {"schedules", rows}}.dump(2) + '\n';
}

struct SchedulesFlags {
  OutputFlags output;
  bool figures = false;
  bool gallery = false;
  Shape shape{.stages = 4, .microbatches = 8, .virtual_stages = 2, .slices = 2};
};

/// Returns the file formats of the chosen listing. Each has a function that writes it.
std::vector<OutputForm> forms_of(const SchedulesFlags& flags) {
  const Shape shape = flags.shape;
  if (flags.gallery) return {{".md", [shape] { return schedule_gallery_markdown(shape); }}};
  if (flags.figures) {
    return {{".txt", [shape] { return schedule_table_text(shape); }},
            {".md", [shape] { return schedule_table_markdown(shape); }}};
  }
  return {{".txt", [] { return schedules_text(); }}, {".json", [] { return schedules_json(); }}};
}

/// Returns the listing as it is printed on the terminal.
std::string listing_printed(const SchedulesFlags& flags) {
  if (flags.output.json) return schedules_json();
  if (flags.gallery) return schedule_gallery_markdown(flags.shape);
  return flags.figures ? schedule_table_text(flags.shape, table_width()) : schedules_text();
}

Outcome list_schedules(const SchedulesFlags& flags) {
  const OutputFlags& output = flags.output;
  const std::vector<OutputForm> forms = forms_of(flags);
  std::vector<std::string_view> suffixes;
  suffixes.reserve(forms.size());
  for (const OutputForm& form : forms) suffixes.push_back(form.suffix);
  if (auto known = check_output_files(output.files, suffixes, {}); !known)
    return tl::unexpected(known.error());
  if (output.json && (flags.figures || flags.gallery)) {
    return bad_input(
        "schedules: --json lists names and options; --figures and --gallery print text and Markdown");
  }
  if (auto written = write_answer(output, forms, listing_printed(flags)); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace

Command schedules_command(CLI::App& root) {
  Subcommand app(root, "schedules", "List the schedules: names, shapes and options.");
  const auto flags = std::make_shared<SchedulesFlags>();
  const std::string group = "Comparison of all schedules";
  Flag figures = app.add_flag("--figures", flags->figures, "their bubbles, memory and traffic on one shape");
  Flag gallery = app.add_flag("--gallery", flags->gallery, "their timelines on one shape, as Markdown");
  figures.group(group).excludes(gallery);
  gallery.group(group);
  const auto add_count = [&](const std::string& name, std::int32_t& count, const std::string& help) {
    app.add_option(name, count, help).range(1, 1024).group(group).type_name("N");
  };
  add_count("--pp-size", flags->shape.stages, "K (default 4)");
  add_count("--num-microbatches", flags->shape.microbatches, "M (default 8)");
  add_count("--virtual-stages", flags->shape.virtual_stages, "v, where a schedule takes it (default 2)");
  add_count("--slices", flags->shape.slices, "q, where a schedule takes it (default 2)");
  add_output_flags(app, flags->output, ".json .txt .md");
  app.footer(
      "Examples:\n"
      "  penstock schedules\n"
      "  penstock schedules --figures --pp-size 8 --num-microbatches 32\n"
      "  penstock schedules --json | jq '.schedules[].name'");
  return {app, [flags] { return list_schedules(*flags); }};
}

}  // namespace penstock
