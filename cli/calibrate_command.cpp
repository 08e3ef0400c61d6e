// penstock calibrate: measures what a scenario's actions and links cost, and writes it as a file that
// scenarios name.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <tl/expected.hpp>

#include "backend/calibration.hpp"
#include "backend/calibration_program.hpp"
#include "backend/calibration_text.hpp"
#include "backend/cost_file.hpp"
#include "backend/measured_run.hpp"
#include "backend/occupy_module.hpp"
#include "backend/process/process_run.hpp"
#include "backend/stage_bytes.hpp"
#include "backend/thread_run.hpp"
#include "cli/backend_choice.hpp"
#include "cli/commands.hpp"
#include "cli/extensions.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/number_list.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "report/result.hpp"
#include "scenarios/experiment.hpp"

namespace penstock {
namespace {

struct CalibrateFlags {
  InputFlags input;
  OutputFlags output;
  std::string backend = "cpu-thread";
  std::string sizes = "1,2,4";
  std::string kinds = "needed";
  std::string load = "busy";
  std::int32_t warmup = 5;
  std::int32_t samples = 30;
  double time_scale = 1;
};

const std::vector<std::string_view> kSuffixes = {".yaml", ".yml", ".json", ".txt"};

std::vector<StageBytes> bytes_of_stages(const Experiment& experiment, const Extensions& extensions) {
  const Jitter jitter;
  const auto family = family_of(experiment, jitter, extensions);
  return family ? (*family)->bytes_of_stages() : std::vector<StageBytes>{};
}

tl::expected<std::optional<Result>, RunError> run_by_backend(const BackendCall& call,
                                                             const CalibrateFlags& flags,
                                                             const Extensions& extensions) {
  if (const auto found = extensions.backends.find(flags.backend); found != extensions.backends.end())
    return found->second(call);
  const auto family = family_of(call.experiment, call.jitter, extensions);
  if (!family) return tl::unexpected(RunError{.message = family.error(), .fault = RunFault::invalid});
  if (flags.backend == "cpu-process")
    return run_on_processes(call.experiment, call.pace, call.options, **family, std::nullopt);
  return run_on_threads(call.experiment, call.pace, call.options, **family);
}

/// One run of an experiment by the backend that was asked for.
tl::expected<Result, RunError> run_once(const Experiment& experiment, const CalibrateFlags& flags,
                                        const Extensions& extensions) {
  const RunOptions options{.warmup = 0, .repeats = 1, .time_scale = flags.time_scale};
  const PaceOfLinks pace = pace_of_links(experiment);
  const Jitter jitter;
  auto result = run_by_backend({experiment, pace, options, jitter}, flags, extensions);
  if (!result) return tl::unexpected(std::move(result.error()));
  if (!*result) return tl::unexpected(RunError{.message = "another process has the result"});
  return **std::move(result);
}

ExitCode code_of(RunFault fault) {
  switch (fault) {
    case RunFault::failed:
      return ExitCode::internal_error;
    case RunFault::invalid:
      return ExitCode::bad_input;
    case RunFault::unavailable:
      return ExitCode::not_available;
  }
  return ExitCode::internal_error;
}

tl::expected<CalibrationOptions, Failure> options_of(const CalibrateFlags& flags) {
  auto multiples = parse_number_list(flags.sizes);
  if (!multiples) return bad_input(fmt::format("--sizes: {}", multiples.error()));
  if (multiples->size() < 3) {
    return bad_input(fmt::format(
        "--sizes: expected three or more multiples of the file's own microbatch, so that overhead "
        "and rate come apart, got \"{}\"; 1,2,4 is the default",
        flags.sizes));
  }
  return CalibrationOptions{.multiples = *std::move(multiples),
                            .warmup = flags.warmup,
                            .samples = flags.samples,
                            .kinds = flags.kinds == "all" ? CalibrationKinds::all : CalibrationKinds::needed,
                            .load = flags.load == "alone" ? CalibrationLoad::alone : CalibrationLoad::busy};
}

Outcome run_calibrate(const CalibrateFlags& flags, const Invocation& invocation) {
  if (auto known = check_output_files(flags.output.files, kSuffixes); !known)
    return tl::unexpected(known.error());
  const auto options = options_of(flags);
  if (!options) return tl::unexpected(options.error());
  const auto scenario = scenario_of(flags.input, {});
  if (!scenario) return tl::unexpected(scenario.error());
  const auto experiment = prepared(*scenario);
  if (!experiment) return tl::unexpected(experiment.error());
  if (auto failure = hand_over("calibrate", flags.backend, *experiment, invocation))
    return tl::unexpected(*std::move(failure));
  const auto calibration = calibrate(
      *scenario, *options, [&](const Experiment& own) { return run_once(own, flags, invocation.extensions); },
      [&](const Experiment& own) { return bytes_of_stages(own, invocation.extensions); });
  if (!calibration) {
    return tl::unexpected(Failure{code_of(calibration.error().fault), calibration.error().message});
  }
  const std::string table = calibration_to_table(*calibration);
  const std::string json = calibration_to_json(*calibration);
  const auto costs = [&] { return cost_file(*calibration); };
  const std::vector<OutputForm> forms = {{".yaml", costs},
                                         {".yml", costs},
                                         {".json", [&] { return std::string(json); }},
                                         {".txt", [&] { return std::string(table); }}};
  if (auto written = write_answer(flags.output, forms, flags.output.json ? json : table); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

void add_measuring_flags(CLI::App& app, CalibrateFlags& flags) {
  const std::string group = "Measuring";
  add_choice(app, "--backend", flags.backend,
             {.words = {"cpu-thread", "cpu-process", "cuda-local", "nccl"},
              .help = "where it is measured, as `penstock run` has it (default cpu-thread)",
              .group = group,
              .type_name = "NAME"});
  app.add_option(
         "--sizes", flags.sizes,
         "multiples of the file's own microbatch, three or more (default 1,2,4): a duration is overhead + "
         "samples x rate, by least squares")
      ->group(group)
      ->type_name("LIST");
  add_choice(
      app, "--kinds", flags.kinds,
      {.words = {"needed", "all"},
       .help = "needed (default): F, STEP and what the scenario's schedule has of B, I, W and R; all: B as "
               "well as I and W, for a file that several schedules share",
       .group = group,
       .type_name = "WORD"});
  add_choice(
      app, "--load", flags.load,
      {.words = {"busy", "alone"},
       .help = "whose times the file has: of all ranks at work at once (busy, default), or of one at a "
               "time; both are measured and printed",
       .group = group,
       .type_name = "WORD"});
  app.add_option("--warmup", flags.warmup, "actions of each kind and size that do not count (default 5)")
      ->check(CLI::Range(0, 10'000).description(""))
      ->group(group)
      ->type_name("N");
  app.add_option("--samples", flags.samples, "actions of each kind and size that count (default 30)")
      ->check(CLI::Range(1, 100'000).description(""))
      ->group(group)
      ->type_name("N");
  app.add_option("--time-scale", flags.time_scale,
                 "hold everything X times as long and divide the times by X, as `penstock run` does")
      ->check(CLI::Range(1e-9, 1e9).description(""))
      ->group(group)
      ->type_name("X");
}

}  // namespace

Command calibrate_command(CLI::App& root, const Invocation& invocation) {
  CLI::App* app = root.add_subcommand("calibrate", "Measure what actions and links cost; write a cost file.");
  const auto flags = std::make_shared<CalibrateFlags>();
  add_input_file(*app, flags->input.file);
  add_shape_flags(*app, flags->input);
  add_measuring_flags(*app, *flags);
  add_output_flags(*app, flags->output, ".yaml .json .txt");
  app->footer(
      "It runs programs of its own over the scenario's stages, never the one that is to be predicted.\n"
      "A .yaml file has the parts model and cluster, which a scenario or --set takes by its name.\n\n"
      "Examples:\n"
      "  penstock calibrate scenarios/library/gnmt-cluster-a.yaml --kinds all -o costs.yaml\n"
      "  penstock simulate scenarios/library/gnmt-cluster-a.yaml --set model=costs.yaml --set "
      "cluster=costs.yaml "
      "--timeline -o predicted.json");
  return {app, [flags, &invocation] { return run_calibrate(*flags, invocation); }};
}

}  // namespace penstock
