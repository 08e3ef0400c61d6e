// penstock simulate: predicts one experiment. It makes a Scenario from the flags, runs the simulator, and
// prints the Result as a table, as JSON or as files. It stores memory samples only if an output draws them.

#include <memory>
#include <string>
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
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/why/explain.hpp"

namespace penstock {
namespace {

struct SimulateFlags {
  PredictionFlags prediction;
  ResultFlags result;
  bool fail_on_oom = false;
  bool explain_engine = false;
};

SimulateOptions simulate_options(const SimulateFlags& flags) {
  return {.engine = engine_of(flags.prediction.engine),
          .memory = {.samples = wants_memory_samples(flags.result.output.files)},
          .band = SharingBand::find,
          .timeline = wants_timeline(flags.result) ? TimelineKept::all : TimelineKept::none};
}

/// Prints the engine that would run, and the reasons why the other engines would not.
Outcome explain_engine(const SimulateFlags& flags) {
  const auto scenario = scenario_of(flags.prediction.input, flags.prediction.channels);
  if (!scenario) return tl::unexpected(scenario.error());
  const SimulateOptions options = simulate_options(flags);
  const auto plan = planned(*scenario, options);
  if (!plan) return tl::unexpected(plan.error());
  if (auto written = write_stdout(plan_text(*plan, wanted_by(options))); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

/// Simulates the experiment. If the program is invalid or hangs, the error has exit code 1. If the scenario
/// cannot be simulated, it has exit code 2.
tl::expected<Result, UserError> predicted(const Scenario& scenario, const SimulateFlags& flags) {
  ProgressBar bar(display_for(flags.result.output));
  bar.say("predicting", kShownFrom);
  return simulate_scenario(scenario, simulate_options(flags));
}

/// Returns the table of results to print. With --fail-on-oom, the error message reports a lack of memory, and
/// the table does not.
std::string printed(const Result& result, const SimulateFlags& flags) {
  return result_to_table(
      result, {.out_of_memory = flags.fail_on_oom ? OutOfMemoryLines::left_out : OutOfMemoryLines::shown,
               .width = table_width()});
}

Outcome run_simulate(const SimulateFlags& flags) {
  if (flags.explain_engine) return explain_engine(flags);
  if (auto known = check_result_files(flags.result, inputs_of(flags.prediction.input)); !known)
    return tl::unexpected(known.error());
  const auto scenario = scenario_of(flags.prediction.input, flags.prediction.channels);
  if (!scenario) return tl::unexpected(scenario.error());
  const auto result = predicted(*scenario, flags);
  if (!result) return tl::unexpected(result.error());
  const ResultTexts texts = {
      .printed = printed(*result, flags), .file = result_to_table(*result), .explanation = [&] {
        return explanation_for_page(*result, *scenario, engine_of(flags.prediction.engine));
      }};
  if (auto written = write_result(*result, flags.result, texts); !written)
    return tl::unexpected(written.error());
  // The answer is written first. --fail-on-oom only changes the exit code.
  const std::vector<std::string> too_small = out_of_memory_lines(*result);
  if (too_small.empty() || !flags.fail_on_oom) return ExitCode::ok;
  return user_error(ErrorKind::check_failed, fmt::format("out of memory: {}", fmt::join(too_small, "; ")));
}

}  // namespace

Command simulate_command(CLI::App& root) {
  Subcommand app(root, "simulate", "Predict time, bubbles, memory and traffic of one schedule.");
  const auto flags = std::make_shared<SimulateFlags>();
  add_prediction_flags(app, flags->prediction);
  add_search_flags(app, flags->prediction.input);
  add_result_flags(app, flags->result);
  app.add_flag("--fail-on-oom", flags->fail_on_oom,
               "exit 1 when a rank needs more memory than its device has")
      .group("Output");
  app.add_flag("--explain-engine", flags->explain_engine,
               "print which engine would run, and why the others would not; nothing is run")
      .group("Output");
  app.footer(
      "Examples:\n"
      "  penstock simulate --schedule 1f1b --pp-size 8 --num-microbatches 32\n"
      "  penstock simulate scenarios/library/gnmt-cluster-a.yaml --set cluster.inter_latency=4us --json -o "
      "gnmt.html");
  return {app, [flags] { return run_simulate(*flags); }};
}

}  // namespace penstock
