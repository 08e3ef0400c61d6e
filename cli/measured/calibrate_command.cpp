// penstock calibrate: measures the costs of a scenario's actions and links. It writes them to a file that
// scenarios can use. With --from-log it measures nothing, and calibrate_logs.cpp does the work.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/calibration/calibration.hpp"
#include "backend/executor/module_family.hpp"
#include "cli/commands/commands.hpp"
#include "cli/executable.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/measured/calibrate_logs.hpp"
#include "cli/measuring.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {
namespace {

struct CalibrateFlags {
  InputFlags input;
  LogFlags logs;
  OutputFlags output;
  MeasuringFlags measuring{.warmup = 5, .counted = 30};
  std::string sizes = "1,2,4";
  std::string kinds = "needed";
  std::string load = "busy";
};

const std::vector<std::string_view> kCalibrateFiles = {".yaml", ".yml", ".json", ".txt"};

/// Returns the bytes that the modules of each stage store. The list is empty if modules cannot be made or
/// do not report bytes.
std::vector<StageBytes> bytes_of_stages(const Experiment& experiment, const Extensions& extensions) {
  const Jitter jitter;
  const auto family = family_of(experiment, jitter, extensions);
  return family ? (*family)->bytes_of_stages() : std::vector<StageBytes>{};
}

/// Reads the options of the calibration. Returns an error if --sizes is not a list, or has too few numbers
/// to estimate the error of a line.
tl::expected<CalibrationOptions, UserError> options_of(const CalibrateFlags& flags) {
  auto multiples = parse_number_list(flags.sizes);
  if (!multiples) return bad_input(fmt::format("--sizes: {}", multiples.error()));
  if (multiples->size() < 3) {
    return bad_input(fmt::format(
        "--sizes: expected three or more multiples of the file's own microbatch, which separate overhead "
        "and rate, got \"{}\"; 1,2,4 is the default",
        flags.sizes));
  }
  return CalibrationOptions{
      .multiples = *std::move(multiples),
      .warmup = flags.measuring.warmup,
      .samples = flags.measuring.counted,
      .kinds = enum_of_text<CalibrationKinds>(flags.kinds).value_or(CalibrationKinds::needed),
      .load = enum_of_text<CalibrationLoad>(flags.load).value_or(CalibrationLoad::busy)};
}

/// Measures the costs of the scenario, and shows the progress on a terminal.
tl::expected<Calibration, UserError> calibration_of(const Scenario& scenario,
                                                    const CalibrationOptions& options,
                                                    const CalibrateFlags& flags,
                                                    const Extensions& extensions) {
  ProgressBar bar(display_for(flags.output));
  // One run is enough, because the programs of the calibration already repeat each action.
  return calibrate(
      scenario, options,
      [&](const Experiment& own) { return measure_once(own, flags.measuring, 0, extensions); },
      [&](const Experiment& own) { return bytes_of_stages(own, extensions); },
      [&](std::size_t done, std::size_t total) { bar.show(done, total); });
}

Outcome run_calibrate(const CalibrateFlags& flags, const Invocation& invocation) {
  if (!flags.logs.logs.empty()) return calibrate_from_logs(flags.logs, flags.input, flags.output);
  const std::vector<FileArgument> inputs = inputs_of(flags.logs, flags.input);
  if (auto known = check_output_files(flags.output.files, kCalibrateFiles, inputs); !known)
    return tl::unexpected(known.error());
  if (!flags.logs.configs.empty()) {
    return bad_input(
        "--config states what a log does not say: add --from-log FILE, or name the scenario without a flag");
  }
  const auto options = options_of(flags);
  if (!options) return tl::unexpected(options.error());
  auto scenario = scenario_of(flags.input, {});
  if (!scenario) return tl::unexpected(scenario.error());
  // The network is removed before the scenario is prepared. Otherwise LibTorch would be needed.
  if (flags.measuring.occupy) scenario->network.reset();
  const auto experiment = prepared(*scenario);
  if (!experiment) return tl::unexpected(experiment.error());
  if (auto failure = hand_over("calibrate", flags.measuring.backend, *experiment, invocation))
    return tl::unexpected(*std::move(failure));
  const auto calibration = calibration_of(*scenario, *options, flags, invocation.extensions);
  if (!calibration) return tl::unexpected(calibration.error());
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

void add_calibration_flags(Subcommand app, CalibrateFlags& flags) {
  const std::string group = "Calibration";
  app.add_option(
         "--sizes", flags.sizes,
         "multiples of the file's own microbatch, three or more (default 1,2,4): a duration is overhead + "
         "samples x rate, by least squares")
      .group(group)
      .type_name("LIST");
  add_choice(
      app, "--kinds", flags.kinds,
      {.words = enum_choices<CalibrationKinds>(),
       .help = "needed (default): F, STEP and what the scenario's schedule has of B, I, W and R; all: B as "
               "well as I and W, for a file that several schedules share",
       .group = group,
       .type_name = "WORD"});
  add_choice(
      app, "--load", flags.load,
      {.words = {"busy", "alone"},
       .help = "the times in the file: measured while all ranks work at once (busy, default), or one at a "
               "time (alone); both are measured and printed",
       .group = group,
       .type_name = "WORD"});
}

}  // namespace

Command calibrate_command(CLI::App& root, const Invocation& invocation) {
  Subcommand app(root, "calibrate", "Measure what actions and links cost; write a cost file.");
  const auto flags = std::make_shared<CalibrateFlags>();
  add_input_file(app, flags->input.file);
  add_log_flags(app, flags->logs);
  add_shape_flags(app, flags->input);
  add_model_flags(app, flags->input.model);
  add_calibration_flags(app, *flags);
  add_measuring_flags(app, flags->measuring,
                      {.processes = "",
                       .warmup = "actions of each kind and size that do not count",
                       .count_flag = "--samples",
                       .counted = "actions of each kind and size that count"});
  add_output_flags(app, flags->output, ".yaml .json .txt .csv");
  app.footer(
      "It runs its own programs over the scenario's stages, never the program to be predicted.\n"
      "A .yaml file has the parts model and cluster, which a scenario or --set takes by its name.\n"
      "With --from-log nothing is run. The first ten steps of a log do not count. A .csv file has a row of\n"
      "`penstock runs` for each log, and a .yaml file has the cluster with the fitted constants.\n\n"
      "Examples:\n"
      "  penstock calibrate scenarios/library/gnmt-cluster-a.yaml --kinds all -o costs.yaml\n"
      "  penstock simulate scenarios/library/gnmt-cluster-a.yaml --set model=costs.yaml --set "
      "cluster=costs.yaml --timeline -o predicted.json\n"
      "  penstock calibrate --from-log tests/sim/logs/llama-8b-tensor-2.log --device h100-sxm -o "
      "own_runs.csv");
  return {app, [flags, &invocation] { return run_calibrate(*flags, invocation); }};
}

}  // namespace penstock
