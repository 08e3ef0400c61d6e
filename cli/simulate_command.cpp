// penstock simulate: predicts one experiment.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <tl/expected.hpp>

#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/result_output.hpp"
#include "report/result.hpp"
#include "report/result_figures.hpp"
#include "report/result_json.hpp"
#include "report/result_table.hpp"
#include "sim/simulate.hpp"

namespace penstock {
namespace {

struct SimulateFlags {
  InputFlags input;
  ChannelFlags channels;
  OutputFlags output;
  std::string engine;
  bool timeline = false;
  bool fail_on_oom = false;
};

tl::expected<Result, Failure> predicted(const SimulateFlags& flags) {
  auto scenario = scenario_of(flags.input, flags.channels);
  if (!scenario) return tl::unexpected(scenario.error());
  const SimulateOptions options = {.engine = engine_of(flags.engine),
                                   .memory = {.samples = wants_memory_samples(flags.output.files)}};
  auto result = simulate_scenario(*scenario, options);
  if (result) return *std::move(result);
  return tl::unexpected(
      Failure{result.error().invalid ? ExitCode::check_failed : ExitCode::bad_input, result.error().message});
}

tl::expected<void, Failure> write_result(const Result& result, const SimulateFlags& flags) {
  const ResultJsonOptions json = {.timeline = flags.timeline};
  // With --fail-on-oom the sentences are the failure's message.
  const std::string answer =
      flags.output.json
          ? result_to_json(result, json)
          : result_to_table(result, {.out_of_memory = flags.fail_on_oom ? OutOfMemoryLines::left_out
                                                                        : OutOfMemoryLines::shown});
  return write_answer(flags.output, result_forms(result, json, result_to_table(result)), answer);
}

Outcome run_simulate(const SimulateFlags& flags) {
  if (auto known = check_output_files(flags.output.files, result_suffixes()); !known) {
    return tl::unexpected(known.error());
  }
  const auto result = predicted(flags);
  if (!result) return tl::unexpected(result.error());
  if (auto written = write_result(*result, flags); !written) return tl::unexpected(written.error());
  const std::vector<std::string> too_small = out_of_memory_lines(*result);
  if (too_small.empty() || !flags.fail_on_oom) return ExitCode::ok;
  return tl::unexpected(
      Failure{ExitCode::check_failed, fmt::format("out of memory: {}", fmt::join(too_small, "; "))});
}

}  // namespace

Command simulate_command(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("simulate", "Predict time, bubbles, memory and traffic of one schedule.");
  const auto flags = std::make_shared<SimulateFlags>();
  add_input_file(*app, flags->input.file);
  add_shape_flags(*app, flags->input);
  add_channel_flags(*app, flags->channels);
  add_transport_flag(*app, flags->channels);
  add_engine_flag(*app, flags->engine);
  add_output_flags(*app, flags->output, std::string(kResultSuffixes));
  app->add_flag("--timeline", flags->timeline, "JSON holds every action with its start and end")
      ->group("Output");
  app->add_flag("--fail-on-oom", flags->fail_on_oom,
                "exit 1 when a rank needs more memory than its device has")
      ->group("Output");
  app->footer(
      "Examples:\n"
      "  penstock simulate --schedule 1f1b --pp-size 8 --num-microbatches 32\n"
      "  penstock simulate scenarios/library/gnmt-cluster-a.yaml --set cluster.inter_latency=4us --json -o "
      "gnmt.html");
  return {app, [flags] { return run_simulate(*flags); }};
}

}  // namespace penstock
