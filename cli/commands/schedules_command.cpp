// penstock schedules: prints the schedules with their options, their figures for one shape (--figures), or
// their pictures (--gallery). The shape is the number of ranks, chunks and microbatches. The figures come
// from a simulation of the schedule with this shape. The published formula is printed beside them if one
// applies. Schedules that do not accept the shape are left out. A test compares the tables of
// docs/reference with the output of these functions.

#include "cli/commands/schedules_command.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/closed_forms.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

namespace {

/// Returns the sentences that explain the columns of the table of schedules.
std::string legend(const Shape& shape) {
  return fmt::format(
      "K = {} ranks, M = {} microbatches, v = {} chunks a rank and q = {} slices where a schedule takes "
      "them. A stage takes F = I = W = 1 and B = 2; links are free. Idle: of each rank, by formula, where it "
      "holds. Bubble: idle over total. Inside: of the longest rank, from its first to its last action. "
      "Activations and weights: of the fullest rank; 1 is a microbatch's over a K-th of the model, and the "
      "weights of that, all versions counted. Sends: between ranks, a microbatch.",
      shape.stages, shape.microbatches, shape.virtual_stages, shape.slices);
}

/// Returns the table of all schedules that accept the shape. For example, chimera does not accept an odd K
/// and is then not in the table.
Table schedule_table_of(const Shape& shape) {
  Table table;
  table.columns = {"schedule", "takes",       "idle",    "holds for", "bubble",
                   "inside",   "activations", "weights", "sends"};
  for (const ScheduleInfo& schedule : schedule_table()) {
    const std::optional<ScheduleFigures> figures = figures_of(schedule, shape);
    if (!figures) continue;
    const ClosedForm* form = find_closed_form(schedule.name);
    table.rows.push_back({text_cell(std::string(schedule.name)), text_cell(std::string(schedule.constraint)),
                          text_cell(std::string(form == nullptr ? "" : form->idle)),
                          text_cell(std::string(form == nullptr ? "" : form->holds)),
                          percent_cell(figures->idle_over_total), percent_cell(figures->longest_span_rate),
                          quantity_cell(figures->peak_activations), quantity_cell(figures->weights),
                          quantity_cell(figures->sends_per_microbatch)});
  }
  return table;
}

/// Returns the cells as one line of a Markdown table, such as "| a | b |".
std::string markdown_row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += fmt::format(" {} |", cell);
  return row + '\n';
}

}  // namespace

std::string schedule_table_text(const Shape& shape, std::size_t width) {
  return table_to_text(schedule_table_of(shape), width) + '\n' + legend(shape) + '\n';
}

std::string schedule_table_markdown(const Shape& shape) {
  const Table table = schedule_table_of(shape);
  std::string text = markdown_row(table.columns);
  text += '|';
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    // Columns of numbers are aligned right. The first table row decides this. It always exists, because the
    // schedule `naive` accepts every shape.
    text += table.rows.front()[column].value ? "---:|" : "---|";
  }
  text += '\n';
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string> cells;
    cells.reserve(row.size());
    for (const Cell& cell : row) cells.push_back(cell.text);
    text += markdown_row(cells);
  }
  return text + '\n' + legend(shape) + '\n';
}

namespace {

/// A schedule with an option that changes its picture or its memory.
struct GalleryVariant {
  std::string title;
  std::string summary;
  std::string_view schedule;
  Shape shape;
};

/// Returns the variants that the gallery shows behind the schedules themselves.
std::vector<GalleryVariant> gallery_variants(const Shape& shape) {
  Shape forward = shape;
  forward.passes = Passes::forward;
  Shape prefill = shape;
  prefill.passes = Passes::forward_kv;
  prefill.microbatches = 2;
  prefill.slices = 4;
  Shape unequal = shape;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage)
    unequal.replicas.push_back(stage % 2 == 0 ? 2 : 1);
  const std::int32_t ranks = std::accumulate(unequal.replicas.begin(), unequal.replicas.end(), 0);
  Shape offload = shape;
  offload.offload = {0.5};
  return {
      {.title = "1f1b, forward_only",
       .summary = "the forward half, as in evaluation: nothing is kept, and no gradient is sent",
       .schedule = "1f1b",
       .shape = forward},
      {.title = "chunked-prefill",
       .summary = "seq-1f1b with forward_only kv: two prompts in four chunks each, which keep their keys and "
                  "values",
       .schedule = "seq-1f1b",
       .shape = prefill},
      {.title = fmt::format("1f1b, replicas [{}]", fmt::join(unequal.replicas, ", ")),
       .summary =
           fmt::format("stages on unequal numbers of ranks, which reduce once a minibatch (DAPPLE); with "
                       "{} ranks for {} stages, F takes {:.3g} ms",
                       ranks, shape.stages, static_cast<double>(ranks) / shape.stages),
       .schedule = "1f1b",
       .shape = unequal},
      {.title = "1f1b, offload 0.5",
       .summary =
           "half of each rank's activations wait in the memory of the host; copies are free here, so the "
           "times are those of 1f1b",
       .schedule = "1f1b",
       .shape = offload}};
}

/// Returns the section of one picture: its title, a sentence with figures, and the picture.
std::string gallery_section(std::string_view title, std::string_view summary,
                            const ScheduleFigures& figures) {
  constexpr std::int32_t kColumns = 118;
  return fmt::format("\n## {}\n\n{}: bubble {}, {}.\n\n```\n{}```\n", title, summary,
                     format_percent(figures.idle_over_total),
                     format_duration_short(figures.result.makespan_ns),
                     timeline_to_text(figures.result.timeline, {.columns = kColumns}));
}

}  // namespace

std::string schedule_gallery_markdown(const Shape& shape) {
  std::string text = fmt::format(
      "# Every schedule at K = {}, M = {}\n\nA K-th of the model takes F = I = W = 1 ms and B = 2 ms; links "
      "are "
      "free. Made by `penstock schedules --gallery`.\n",
      shape.stages, shape.microbatches);
  for (const ScheduleInfo& schedule : schedule_table()) {
    const std::optional<ScheduleFigures> figures = figures_of(schedule, shape);
    if (figures) text += gallery_section(schedule.name, schedule.summary, *figures);
  }
  for (const GalleryVariant& variant : gallery_variants(shape)) {
    const ScheduleInfo& schedule = *find_schedule(variant.schedule);
    const std::optional<ScheduleFigures> figures = figures_of(schedule, variant.shape);
    if (figures) text += gallery_section(variant.title, variant.summary, *figures);
  }
  return text;
}

namespace {

using Json = nlohmann::ordered_json;

/// Returns a few lines for each schedule: its name, and the options and shapes that it accepts.
std::string schedules_text(const std::vector<const ScheduleInfo*>& rows) {
  std::string text;
  for (const ScheduleInfo* each : rows) {
    const ScheduleInfo& row = *each;
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

std::string schedules_json(const std::vector<const ScheduleInfo*>& listed) {
  Json rows = Json::array();
  for (const ScheduleInfo* each : listed) {
    const ScheduleInfo& row = *each;
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
  std::vector<std::string> names;
  OutputFlags output;
  bool figures = false;
  bool gallery = false;
  Shape shape{.stages = 4, .microbatches = 8, .virtual_stages = 2, .slices = 2};
};

/// Returns the schedules with the given names, or all schedules if there are none.
tl::expected<std::vector<const ScheduleInfo*>, UserError> listed_schedules(
    const std::vector<std::string>& names) {
  std::vector<const ScheduleInfo*> rows;
  for (const std::string& name : names) {
    rows.push_back(find_schedule(name));
    if (rows.back() == nullptr) return bad_input(unknown_schedule(name));
  }
  if (!names.empty()) return rows;
  for (const ScheduleInfo& row : schedule_table()) rows.push_back(&row);
  return rows;
}

/// Returns the file formats in which the chosen listing can be written. Each has a function that writes it.
std::vector<OutputForm> forms_of(const SchedulesFlags& flags, const std::vector<const ScheduleInfo*>& rows) {
  const Shape shape = flags.shape;
  if (flags.gallery) return {{".md", [shape] { return schedule_gallery_markdown(shape); }}};
  if (flags.figures) {
    return {{".txt", [shape] { return schedule_table_text(shape); }},
            {".md", [shape] { return schedule_table_markdown(shape); }}};
  }
  return {{".txt", [rows] { return schedules_text(rows); }},
          {".json", [rows] { return schedules_json(rows); }}};
}

/// Returns the chosen listing as it is printed on the terminal.
std::string listing_printed(const SchedulesFlags& flags, const std::vector<const ScheduleInfo*>& rows) {
  if (flags.output.json) return schedules_json(rows);
  if (flags.gallery) return schedule_gallery_markdown(flags.shape);
  return flags.figures ? schedule_table_text(flags.shape, table_width()) : schedules_text(rows);
}

Outcome list_schedules(const SchedulesFlags& flags) {
  const OutputFlags& output = flags.output;
  const auto rows = listed_schedules(flags.names);
  if (!rows) return tl::unexpected(rows.error());
  if (!flags.names.empty() && (flags.figures || flags.gallery)) {
    return bad_input("schedules: --figures and --gallery show all schedules; leave the names out");
  }
  const std::vector<OutputForm> forms = forms_of(flags, *rows);
  std::vector<std::string_view> suffixes;
  suffixes.reserve(forms.size());
  for (const OutputForm& form : forms) suffixes.push_back(form.suffix);
  if (auto known = check_output_files(output.files, suffixes, {}); !known)
    return tl::unexpected(known.error());
  if (output.json && (flags.figures || flags.gallery)) {
    return bad_input(
        "schedules: --json lists names and options; --figures and --gallery print text and Markdown");
  }
  if (auto written = write_answer(output, forms, listing_printed(flags, *rows)); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace

Command schedules_command(CLI::App& root) {
  Subcommand app(root, "schedules", "List the schedules: names, shapes and options.");
  const auto flags = std::make_shared<SchedulesFlags>();
  app.add_option("SCHEDULE", flags->names, "schedules to list (default: all)").type_name("NAME");
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
      "  penstock schedules zb-h1\n"
      "  penstock schedules --figures --pp-size 8 --num-microbatches 32\n"
      "  penstock schedules --json | jq '.schedules[].name'");
  return {app, [flags] { return list_schedules(*flags); }};
}

}  // namespace penstock
