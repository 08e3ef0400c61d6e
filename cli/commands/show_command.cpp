// penstock show: draws a schedule's timeline, or prints its lists of actions, as text. The timeline comes
// from a simulation, so it agrees with `simulate`. Lines have the requested width, or the width of the
// terminal.

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/quantities.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

struct ShowFlags {
  PredictionFlags prediction;
  ResultFlags result;
  std::int32_t width = 0;  // 0 means the width of the terminal
  std::string color = "auto";
  bool actions = false;
  std::string from;
  std::string to;
  std::string ranks;
};

/// Returns the first line of the output, such as "1f1b: 4 ranks, 4 stages, 8 microbatches, 33 ms".
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
std::string hint(const Result& result, std::int32_t width, const TimelineWindow& window) {
  constexpr std::int64_t kMostReadable = 1000;  // the widest line that the hint suggests, in columns
  const auto needed = columns_for_every_action(result.timeline, width, window);
  if (!needed) return "";
  return "\nsome columns hold several actions: " + (*needed <= kMostReadable
                                                        ? fmt::format("--width {} shows each\n", *needed)
                                                        : "-o FILE.html draws a picture that zooms\n");
}

/// Returns the timeline as text. Its width is the requested width. If none is requested, it is the width of
/// the terminal, or a fixed width for a file.
std::string picture(const Result& result, const ShowFlags& flags) {
  constexpr std::int32_t kWidth = 100;  // the width for a file
  const std::int32_t width = flags.width > 0 ? flags.width : terminal_columns().value_or(kWidth);
  return heading(result) +
         timeline_to_text(
             result.timeline,
             {.columns = width, .colours = wanted_colours(flags.color), .window = flags.result.window}) +
         hint(result, width, flags.result.window);
}

/// Prints the lists of the lowered program side by side. Lists need no simulation, so a program that hangs
/// can also be shown.
Outcome show_actions(const Experiment& experiment, const ShowFlags& flags) {
  if (!flags.result.window.shows_all())
    return bad_input("--actions prints whole lists: leave --from, --to and --ranks out");
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

/// Returns the part of the run that --from, --to and --ranks select.
tl::expected<TimelineWindow, UserError> window_of(const ShowFlags& flags) {
  TimelineWindow window;
  for (const auto& [flag, text, time] :
       {std::tuple{"--from", &flags.from, &window.from_ns}, std::tuple{"--to", &flags.to, &window.to_ns}}) {
    if (text->empty()) continue;
    const auto read = parse_duration(*text);
    if (!read) return bad_input(fmt::format("{}: {}", flag, read.error()));
    *time = *read;
  }
  if (window.to_ns <= window.from_ns) {
    return bad_input(fmt::format("--to: expected a time after --from {}, got {}",
                                 flags.from.empty() ? "0" : flags.from, flags.to));
  }
  auto ranks = numbers_of_flag("--ranks", flags.ranks, 0);
  if (!ranks) return tl::unexpected(ranks.error());
  window.ranks = *std::move(ranks);
  return window;
}

/// Returns an error if the run has no time within the window, or if it lacks one of the window's ranks.
tl::expected<void, UserError> check_window(const TimelineWindow& window, const Timeline& timeline) {
  if (window.from_ns > 0 && window.from_ns >= timeline.makespan_ns) {
    return bad_input(fmt::format("--from: expected a time before the end of the run, {}, got {}",
                                 format_duration_short(timeline.makespan_ns),
                                 format_duration_short(window.from_ns)));
  }
  if (!window.ranks.empty() && window.ranks.back() >= timeline.rank_count) {
    return bad_input(fmt::format("--ranks: expected ranks from 0 to {}, got {}", timeline.rank_count - 1,
                                 window.ranks.back()));
  }
  return {};
}

Outcome show_timeline(const Experiment& experiment, const ShowFlags& flags) {
  const auto result = simulate(experiment, simulate_options(flags));
  if (!result) {
    return user_error(ErrorKind::check_failed,
                      result.error().message + "\n`penstock show --actions` shows the lists");
  }
  if (auto inside = check_window(flags.result.window, result->timeline); !inside)
    return tl::unexpected(inside.error());
  // Files never contain colours, even if the terminal shows them.
  ShowFlags plain = flags;
  plain.color = "never";
  const ResultTexts texts = {.printed = picture(*result, flags), .file = picture(*result, plain)};
  if (auto written = write_result(*result, flags.result, texts); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

Outcome run_show(ShowFlags flags) {
  if (auto known = check_result_files(flags.result, inputs_of(flags.prediction.input)); !known)
    return tl::unexpected(known.error());
  auto window = window_of(flags);
  if (!window) return tl::unexpected(window.error());
  flags.result.window = *std::move(window);
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
  app.add_option("--from", flags->from,
                 "draw from this time on, such as 21.3ms (default: from the beginning)")
      .group("Picture")
      .type_name("TIME");
  app.add_option("--to", flags->to, "draw to this time (default: to the end)")
      .group("Picture")
      .type_name("TIME");
  app.add_option("--ranks", flags->ranks, "draw these ranks, such as 0..3,7 (default: all)")
      .group("Picture")
      .type_name("NUMBERS");
  app.add_flag("--actions", flags->actions,
               "print the lowered lists of actions side by side, not the timeline")
      .group("Picture");
  add_drawing_flags(app, flags->result);
  app.footer(
      "Examples:\n"
      "  penstock show --schedule 1f1b --pp-size 4 --num-microbatches 8\n"
      "  penstock show scenarios/library/pipedream-fig8-1f1b-rr.yaml --width 160 -o fig8.svg\n"
      "  penstock show --schedule 1f1b --pp-size 64 --num-microbatches 256 --ranks 0..3 --from 90ms --to "
      "120ms "
      "-o part.svg\n"
      "--from, --to and --ranks narrow the text and the .svg; the other files hold the whole run.");
  return {app, [flags] { return run_show(*flags); }};
}

}  // namespace penstock
