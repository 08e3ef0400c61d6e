// penstock show: draws a schedule's timeline, or prints its lists of actions, as text. The timeline comes
// from a simulation, so it agrees with `simulate`. Lines have the requested width, or the width of the
// terminal.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/result_output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline_text.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "sim/runs/memory_need.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

struct ShowFlags {
  PredictionFlags prediction;
  ResultFlags result;
  std::int32_t width = 0;  // 0 means the width of the terminal
  std::string color = "auto";
  bool actions = false;
};

/// Returns the first line: "1f1b: 4 ranks, 4 stages, 8 microbatches, 33 ms".
std::string heading(const Result& result) {
  return fmt::format("{}: {}, {}, {}, {}\n\n", result.program.schedule,
                     format_count(result.program.ranks, "rank"), format_count(result.program.stages, "stage"),
                     result.program.microbatches == 1
                         ? "1 microbatch"
                         : fmt::format("{} microbatches", result.program.microbatches),
                     format_duration_short(result.makespan_ns));
}

/// Returns a hint about the width at which every action is visible. The hint is empty if the lines already
/// show every action.
std::string hint(const Result& result, std::int32_t width) {
  constexpr std::int64_t kMostReadable = 1000;  // the widest line that the hint suggests, in columns
  const auto needed = columns_for_every_action(result.timeline, width);
  if (!needed) return "";
  return "\nsome columns hold several actions: " + (*needed <= kMostReadable
                                                        ? fmt::format("--width {} shows each\n", *needed)
                                                        : "-o FILE.html draws a picture that zooms\n");
}

/// Returns the timeline. Its width is the requested width. If none is requested, it is the width of the
/// terminal, or a fixed width for a file.
std::string picture(const Result& result, const ShowFlags& flags) {
  constexpr std::int32_t kWidth = 100;  // the width for a file
  const std::int32_t width = flags.width > 0 ? flags.width : terminal_columns().value_or(kWidth);
  return heading(result) +
         timeline_to_text(result.timeline, {.columns = width, .colours = wanted_colours(flags.color)}) +
         hint(result, width);
}

/// Prints the lowered lists side by side. Lists need no simulation, so a program that hangs can also be
/// shown.
Outcome show_actions(const Experiment& experiment, const ShowFlags& flags) {
  if (!flags.result.output.files.empty() || flags.result.output.json) {
    return bad_input("--actions prints text only: for a file use `penstock convert --lower`");
  }
  if (auto written = write_stdout(action_grid(experiment.program)); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

SimulateOptions simulate_options(const ShowFlags& flags) {
  return {.engine = engine_of(flags.prediction.engine),
          .memory = {.samples = wants_memory_samples(flags.result.output.files)},
          .steady = SteadyState::skip};
}

Outcome show_timeline(const Experiment& experiment, const ShowFlags& flags) {
  const auto result = simulate(experiment, simulate_options(flags));
  if (!result) {
    return user_error(ErrorKind::check_failed,
                      result.error().message + "\n`penstock show --actions` shows the lists");
  }
  // Files never contain colours, even if the terminal shows them.
  ShowFlags plain = flags;
  plain.color = "never";
  const ResultTexts texts = {.printed = picture(*result, flags), .file = picture(*result, plain)};
  if (auto written = write_result(*result, flags.result, texts); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

Outcome run_show(const ShowFlags& flags) {
  if (auto known = check_result_files(flags.result, inputs_of(flags.prediction.input)); !known)
    return tl::unexpected(known.error());
  const auto scenario = scenario_of(flags.prediction.input, flags.prediction.channels);
  if (!scenario) return tl::unexpected(scenario.error());
  write_reading_notes(*scenario, flags.result.output);
  // Lists alone need less memory than a simulation. For --actions, only prepared() checks that the lists are
  // not too long.
  if (auto refusal = memory_refusal(*scenario, simulate_options(flags)); refusal && !flags.actions)
    return bad_input(*std::move(refusal));
  const auto experiment = prepared(*scenario);
  if (!experiment) return tl::unexpected(experiment.error());
  return flags.actions ? show_actions(*experiment, flags) : show_timeline(*experiment, flags);
}

}  // namespace

Command show_command(CLI::App& root) {
  Subcommand app(root, "show", "Draw a schedule's timeline, a row a rank.");
  const auto flags = std::make_shared<ShowFlags>();
  add_prediction_flags(app, flags->prediction);
  add_search_flags(app, flags->prediction.input);
  app.add_option("--width", flags->width, "columns of a line (default: the terminal's, or 100)")
      .range(40, 10'000)
      .group("Picture")
      .type_name("COLUMNS");
  add_choice(app, "--color", flags->color,
             {.words = {"auto", "always", "never"},
              .help = "auto, always or never (default auto: on a terminal, unless NO_COLOR is set)",
              .group = "Picture",
              .type_name = "WHEN"});
  app.add_flag("--actions", flags->actions,
               "print the lowered lists of actions side by side, not the timeline")
      .group("Picture");
  add_drawing_flags(app, flags->result);
  app.footer(
      "Examples:\n"
      "  penstock show --schedule 1f1b --pp-size 4 --num-microbatches 8\n"
      "  penstock show scenarios/library/pipedream-fig8-1f1b-rr.yaml --width 160 -o fig8.svg");
  return {app, [flags] { return run_show(*flags); }};
}

}  // namespace penstock
