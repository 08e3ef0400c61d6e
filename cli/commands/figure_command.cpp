// penstock figure: draws the timelines of several schedules below each other for a paper, as SVG, PDF or
// TikZ. It also prints a table of their figures, which can be written as LaTeX. There is one panel for
// each combination of a file and a schedule. Tests: tests/cli/transcripts/figure.txt.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/figure/figure.hpp"
#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/closed_forms.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/runs/simulate.hpp"
#include "text/enum_words.hpp"

namespace penstock {
namespace {

struct FigureFlags {
  std::vector<std::string> files;
  std::vector<std::string> schedules;
  PredictionFlags prediction;
  std::vector<std::string> labels;
  std::string title;
  double width_mm = 170;
  std::optional<double> row_mm;
  double points = 7;
  std::string font = "sans";
  std::string axis = "ideal";
  std::vector<std::string> without;
  bool grey = false;
  bool hatches = false;
  std::int32_t number_from = 1;
  OutputFlags output;
};

const std::vector<std::string_view> kFigureFiles = {".svg", ".pdf", ".tikz", ".tex", ".json", ".txt"};

/// Returns the parts of the picture that the flag --without removes.
tl::expected<std::set<FigurePart>, UserError> parts_of(const std::vector<std::string>& words) {
  std::set<FigurePart> parts;
  for (const std::string& word : words) {
    const auto part = enum_of_text<FigurePart>(word);
    if (!part) {
      return bad_input(fmt::format("--without: expected {}, got \"{}\"{}",
                                   fmt::join(words_of<FigurePart>(), ", "), word,
                                   did_you_mean(word, enum_choices<FigurePart>())));
    }
    parts.insert(*part);
  }
  return parts;
}

/// Returns true if no model is given. Then each rank's share of the model takes F = I = W = 1 and B = 2.
bool has_unit_times(const InputFlags& input) {
  return input.file.empty() && input.model == ModelFlags{} && input.settings.empty();
}

/// Adds the value of the published formula for the schedule to the panel, if there is a formula that holds
/// for the run.
void add_formula(FigurePanel& panel, const Scenario& scenario, bool unit_times) {
  // The program of a file may have the name of a schedule but another order of actions.
  const ScheduleInfo* schedule = scenario.program ? nullptr : find_schedule(scenario.schedule);
  const ClosedForm* form = schedule == nullptr ? nullptr : find_closed_form(schedule->name);
  if (form == nullptr || !(form->for_any_times || unit_times)) return;
  Shape shape = scenario.shape;
  shape.microbatches = panel.result.program.microbatches;
  panel.formula_bubble = closed_form_bubble(*schedule, shape);
  if (panel.formula_bubble) panel.formula = form->idle;
}

/// Simulates one schedule and returns its panel of the figure.
tl::expected<FigurePanel, UserError> panel_of(const InputFlags& input, const FigureFlags& flags) {
  const auto scenario = scenario_of(input, flags.prediction.channels);
  if (!scenario) return tl::unexpected(scenario.error());
  write_reading_notes(*scenario, flags.output);
  const SimulateOptions options = {.engine = engine_of(flags.prediction.engine),
                                   .memory = {.samples = true},
                                   .steady = SteadyState::skip,
                                   .digest = ProgramDigest::skip};
  if (auto refusal = memory_refusal(*scenario, options)) return bad_input(*std::move(refusal));
  auto result = simulate_scenario(*scenario, options);
  if (!result) return tl::unexpected(result.error());
  FigurePanel panel{.label = result->program.schedule, .result = *std::move(result)};
  add_formula(panel, *scenario, has_unit_times(input));
  // Several files are told apart by their names.
  if (flags.files.size() > 1) {
    const std::string file = std::filesystem::path(input.file).stem().string();
    panel.label = flags.schedules.empty() ? file : fmt::format("{}, {}", file, panel.label);
  }
  return panel;
}

/// Returns the panels: one for each combination of a file and a schedule. If one of the two lists is
/// missing, it counts as one empty name.
tl::expected<std::vector<FigurePanel>, UserError> panels_of(const FigureFlags& flags) {
  const auto or_none = [](std::vector<std::string> names) {
    if (names.empty()) names.emplace_back();
    return names;
  };
  const std::vector<std::string> files = or_none(flags.files);
  const std::vector<std::string> schedules = or_none(flags.schedules);
  if (!flags.labels.empty() && flags.labels.size() != files.size() * schedules.size()) {
    return bad_input(fmt::format("--labels: expected {} names, one for each panel, got {}",
                                 files.size() * schedules.size(), flags.labels.size()));
  }
  std::vector<FigurePanel> panels;
  for (const std::string& file : files) {
    for (const std::string& schedule : schedules) {
      InputFlags input = flags.prediction.input;
      input.file = file;
      input.schedule = schedule;
      auto panel = panel_of(input, flags);
      if (!panel) return tl::unexpected(panel.error());
      if (!flags.labels.empty()) panel->label = flags.labels[panels.size()];
      panels.push_back(*std::move(panel));
    }
  }
  return panels;
}

Outcome run_figure(const FigureFlags& flags) {
  std::vector<FileArgument> inputs = inputs_of(flags.prediction.input);
  for (const std::string& file : flags.files) inputs.push_back({.name = "the input", .file = file});
  if (auto known = check_output_files(flags.output.files, kFigureFiles, inputs); !known)
    return tl::unexpected(known.error());
  auto without = parts_of(flags.without);
  if (!without) return tl::unexpected(without.error());
  const auto panels = panels_of(flags);
  if (!panels) return tl::unexpected(panels.error());
  const FigureOptions options = {.title = flags.title,
                                 .width_mm = flags.width_mm,
                                 .row_mm = flags.row_mm,
                                 .points = flags.points,
                                 .font = *enum_of_text<FigureFont>(flags.font),
                                 .axis = *enum_of_text<FigureAxis>(flags.axis),
                                 .grey = flags.grey,
                                 .hatches = flags.hatches,
                                 .first_microbatch = flags.number_from,
                                 .without = *std::move(without)};
  const auto drawing = [&] { return figure_of(*panels, options); };
  const auto tikz = [&] {
    FigureOptions wide = options;
    wide.text_space = kTikzTextSpace;
    return drawing_to_tikz(figure_of(*panels, wide));
  };
  const auto text = [&] { return table_to_text(figure_table(*panels)); };
  const auto json = [&] { return figure_json(*panels); };
  const std::vector<OutputForm> forms = {{".svg", [&] { return drawing_to_svg(drawing()); }},
                                         {".pdf", [&] { return drawing_to_pdf(drawing()); }},
                                         {".tikz", tikz},
                                         {".tex", [&] { return figure_latex(*panels); }},
                                         {".json", json},
                                         {".txt", text}};
  const std::string printed =
      flags.output.json ? json() : table_to_text(figure_table(*panels), table_width());
  if (auto written = write_answer(flags.output, forms, printed); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

void add_picture_flags(Subcommand app, FigureFlags& flags) {
  const std::string group = "Picture";
  app.add_words("--labels", flags.labels, "captions of the panels (default: the schedules, or the files)")
      .group(group)
      .type_name("NAMES");
  app.add_option("--title", flags.title, "title above the picture (default: none)")
      .group(group)
      .type_name("TEXT");
  app.add_option("--width", flags.width_mm, "width of the picture (default 170)")
      .range(20.0, 2000.0)
      .group(group)
      .type_name("MM");
  app.add_option("--row-height", flags.row_mm, "height of a rank's boxes (default: a number fits in)")
      .range(0.1, 100.0)
      .group(group)
      .type_name("MM");
  app.add_option("--font-size", flags.points, "size of the font (default 7)")
      .range(1.0, 100.0)
      .group(group)
      .type_name("POINTS");
  add_choice(app, "--font", flags.font,
             {.words = enum_choices<FigureFont>(),
              .help = "sans (Helvetica, default) or serif (Times); TikZ takes the document's font",
              .group = group,
              .type_name = "WORD"});
  add_choice(app, "--axis", flags.axis,
             {.words = enum_choices<FigureAxis>(),
              .help = "unit of the axis: ideal, the time that a rank of the first panel computes (default), "
                      "forward, its shortest forward pass, or time",
              .group = group,
              .type_name = "WORD"});
  app.add_words("--without", flags.without,
                fmt::format("parts to leave out: {}", fmt::join(words_of<FigurePart>(), ", ")))
      .words(enum_choices<FigurePart>())
      .group(group)
      .type_name("WORDS");
  app.add_flag("--grey", flags.grey, "draw in shades of grey").group(group);
  app.add_flag("--hatches", flags.hatches, "hatch backwards and recomputations").group(group);
  app.add_option("--number-from", flags.number_from, "number of the first microbatch (default 1)")
      .range(0, 1)
      .group(group)
      .type_name("N");
}

}  // namespace

Command figure_command(CLI::App& root) {
  Subcommand app(root, "figure", "Draw several schedules on one axis for a paper, with a table of them.");
  const auto flags = std::make_shared<FigureFlags>();
  app.add_option("INPUT", flags->files, "scenarios or programs, any number; each with every schedule")
      .type_name("FILE");
  app.add_words("--schedule", flags->schedules, "names of schedules, with commas between them")
      .words(schedule_names())
      .group("Schedule (overrides the scenario)")
      .type_name("NAMES");
  add_size_flags(app, flags->prediction.input);
  add_search_flags(app, flags->prediction.input);
  add_model_flags(app, flags->prediction.input.model);
  add_channel_flags(app, flags->prediction.channels);
  add_transport_flag(app, flags->prediction.channels);
  add_engine_flag(app, flags->prediction.engine);
  add_picture_flags(app, *flags);
  add_output_flags(app, flags->output, ".svg .pdf .tikz .tex (the table) .json .txt");
  app.footer(
      "Examples:\n"
      "  penstock figure --schedule gpipe,1f1b,zb-h1 --pp-size 4 --num-microbatches 8 -o figure.pdf -o "
      "table.tex\n"
      "  penstock figure --schedule 1f1b,zb-h1 --pp-size 4 --num-microbatches 8 --width 85 --grey --hatches "
      "--without legend,memory -o figure.tikz");
  return {app, [flags] { return run_figure(*flags); }};
}

}  // namespace penstock
