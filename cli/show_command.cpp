// penstock show: draws a schedule's timeline, or its lists of actions, with characters.

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <tl/expected.hpp>

#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/result_output.hpp"
#include "report/action_grid.hpp"
#include "report/result.hpp"
#include "report/result_json.hpp"
#include "report/timeline_text.hpp"
#include "report/units.hpp"
#include "scenarios/experiment.hpp"
#include "sim/simulate.hpp"

namespace penstock {
namespace {

struct ShowFlags {
  InputFlags input;
  ChannelFlags channels;
  OutputFlags output;
  std::string engine;
  std::int32_t width = 0;  // 0: the terminal's
  std::string color = "auto";
  bool actions = false;
};

/// COLUMNS, the terminal's width, 100.
std::int32_t default_width() {
  if (const char* columns = std::getenv("COLUMNS")) {  // NOLINT(concurrency-mt-unsafe): one thread so far
    const std::string text = columns;
    std::int32_t width = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), width);
    if (error == std::errc() && width > 0) return width;
  }
  winsize size{};
  // NOLINTNEXTLINE(misc-include-cleaner): <sys/ioctl.h> has it
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

bool wants_colour(const std::string& color) {
  const bool no_color = std::getenv("NO_COLOR") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  return color == "always" || (color == "auto" && !no_color && stdout_is_terminal());
}

std::string heading(const Result& result) {
  return fmt::format("{}: {}, {}, {}, {}\n\n", result.program.schedule,
                     format_count(result.program.ranks, "rank"), format_count(result.program.stages, "stage"),
                     result.program.microbatches == 1
                         ? "1 microbatch"
                         : fmt::format("{} microbatches", result.program.microbatches),
                     format_duration_short(result.makespan_ns));
}

/// How to see what a line of `width` columns hides; empty where it hides nothing.
std::string hint(const Result& result, std::int32_t width) {
  constexpr std::int64_t kMostReadable = 1000;
  const auto needed = columns_for_every_action(result.timeline, width);
  if (!needed) return "";
  return "\nsome columns hold several actions: " + (*needed <= kMostReadable
                                                        ? fmt::format("--width {} shows each\n", *needed)
                                                        : "-o FILE.html draws a picture that zooms\n");
}

std::string picture(const Result& result, const ShowFlags& flags) {
  const std::int32_t width = flags.width > 0 ? flags.width : default_width();
  return heading(result) +
         timeline_to_text(result.timeline, {.columns = width, .ansi_colour = wants_colour(flags.color)}) +
         hint(result, width);
}

Outcome show_actions(const Experiment& experiment, const ShowFlags& flags) {
  if (!flags.output.files.empty() || flags.output.json) {
    return bad_input("--actions prints text only: for a file use `penstock convert --lower`");
  }
  if (auto written = write_stdout(action_grid(experiment.program)); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

Outcome show_timeline(const Experiment& experiment, const ShowFlags& flags) {
  const SimulateOptions options = {.engine = engine_of(flags.engine),
                                   .memory = {.samples = wants_memory_samples(flags.output.files)},
                                   .steady = SteadyState::skip};
  const auto result = simulate(experiment, options);
  if (!result) {
    return tl::unexpected(
        Failure{ExitCode::check_failed,
                result.error().message + "\n`penstock show --actions` shows the lists that hang"});
  }
  ShowFlags plain = flags;
  plain.color = "never";
  const ResultJsonOptions json = {.timeline = true};
  const auto forms = result_forms(*result, json, picture(*result, plain));
  const std::string text = flags.output.json ? result_to_json(*result, json) : picture(*result, flags);
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

Outcome run_show(const ShowFlags& flags) {
  if (auto known = check_output_files(flags.output.files, result_suffixes()); !known) {
    return tl::unexpected(known.error());
  }
  const auto scenario = scenario_of(flags.input, flags.channels);
  if (!scenario) return tl::unexpected(scenario.error());
  const auto experiment = prepared(*scenario);
  if (!experiment) return tl::unexpected(experiment.error());
  return flags.actions ? show_actions(*experiment, flags) : show_timeline(*experiment, flags);
}

}  // namespace

Command show_command(CLI::App& root) {
  CLI::App* app = root.add_subcommand("show", "Draw a schedule's timeline, a row a rank.");
  const auto flags = std::make_shared<ShowFlags>();
  add_input_file(*app, flags->input.file);
  add_shape_flags(*app, flags->input);
  add_channel_flags(*app, flags->channels);
  add_transport_flag(*app, flags->channels);
  add_engine_flag(*app, flags->engine);
  app->add_option("--width", flags->width, "columns of a line (default: the terminal's, or 100)")
      ->check(CLI::Range(40, 10'000).description(""))
      ->group("Picture")
      ->type_name("COLUMNS");
  add_choice(*app, "--color", flags->color,
             {.words = {"auto", "always", "never"},
              .help = "auto, always or never (default auto: on a terminal, unless NO_COLOR is set)",
              .group = "Picture",
              .type_name = "WHEN"});
  app->add_flag("--actions", flags->actions,
                "print the lowered lists of actions side by side, not the timeline")
      ->group("Picture");
  add_output_flags(*app, flags->output, std::string(kResultSuffixes));
  app->footer(
      "Examples:\n"
      "  penstock show --schedule 1f1b --pp-size 4 --num-microbatches 8\n"
      "  penstock show scenarios/library/pipedream-fig8-1f1b-rr.yaml --width 160 -o fig8.svg");
  return {app, [flags] { return run_show(*flags); }};
}

}  // namespace penstock
