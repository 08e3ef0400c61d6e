// penstock validate: tests on this machine whether measured costs predict the times of other programs.
// Each round measures the costs with a program of its own and runs every configuration once
// (backend/calibration/validation_rounds.hpp). penstock calibrate measures costs for later use instead.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/calibration/calibration.hpp"
#include "backend/calibration/validation_rounds.hpp"
#include "cli/commands/commands.hpp"
#include "cli/executable.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/measuring.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/ir/program.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

struct ValidateFlags {
  InputFlags input;
  std::vector<std::string> schedules;
  std::string microbatches;  ///< A list of numbers; empty for the scenario's own.
  OutputFlags output;
  // The first runs of a new process are slower, because it must get memory pages from the system. The program
  // that measures the costs runs far longer and has no such runs. So the warm-up runs are not counted.
  MeasuringFlags measuring{.warmup = 5, .counted = 20};
  std::int32_t rounds = 5;
  double tolerance = 0.05;
};

const std::vector<std::string_view> kValidateFiles = {".json", ".txt"};

/// The configurations that are run: the scenario of the first one, and the program of each.
struct Configurations {
  Scenario scenario;  ///< the first configuration, with its layers cut into stages
  std::vector<ValidationCase> cases;
};

/// Returns true if the two programs have the same stages, and each stage is on the same ranks.
bool same_placement(const Program& one, const Program& other) {
  return std::ranges::equal(
      one.placement.stages, other.placement.stages, {}, [](const auto& stage) { return stage.ranks; },
      [](const auto& stage) { return stage.ranks; });
}

/// Returns the scenario that the flags describe. Its network is removed if the flags replace it by actions
/// that take a stated time. If the runs have a launch order, the scenario gets it as well, so that
/// predictions use it.
tl::expected<Scenario, UserError> configured(const InputFlags& input, const MeasuringFlags& measuring) {
  auto scenario = scenario_of(input, {});
  if (!scenario) return scenario;
  if (measuring.occupy) scenario->network.reset();
  scenario->channels.launch_order |= asks_for_launch_order(measuring);
  return scenario;
}

/// Prepares a configuration to be predicted and measured. Returns an error if its program hangs.
tl::expected<ValidationCase, UserError> case_of(const Scenario& scenario) {
  auto experiment = prepared(scenario);
  if (!experiment) return tl::unexpected(std::move(experiment.error()));
  const Program& program = experiment->program;
  if (const auto hang = find_hang(program, experiment->channels, experiment->costs))
    return user_error(ErrorKind::check_failed, hang->message);
  std::string name = fmt::format("{}, M {}", program.schedule, program.microbatches);
  return ValidationCase{.name = std::move(name), .experiment = *std::move(experiment)};
}

/// Returns the input flags of all combinations of a schedule and a number of microbatches.
tl::expected<std::vector<InputFlags>, UserError> inputs_of_grid(const ValidateFlags& flags) {
  auto numbers = numbers_of_flag("--num-microbatches", flags.microbatches);
  if (!numbers) return tl::unexpected(std::move(numbers.error()));
  std::vector<std::optional<std::int64_t>> counts(numbers->begin(), numbers->end());
  if (counts.empty()) counts.emplace_back();
  std::vector<std::string> schedules = flags.schedules;
  if (schedules.empty()) schedules.emplace_back();
  std::vector<InputFlags> inputs;
  for (const std::string& schedule : schedules) {
    for (const auto& count : counts) {
      inputs.push_back(flags.input);
      inputs.back().schedule = schedule;
      inputs.back().num_microbatches = count;
    }
  }
  return inputs;
}

/// Prepares every configuration. Returns an error if a configuration has other stages than the first one,
/// because each stage needs measured costs.
tl::expected<Configurations, UserError> configurations_of(const ValidateFlags& flags) {
  const auto inputs = inputs_of_grid(flags);
  if (!inputs) return tl::unexpected(inputs.error());
  auto first = configured(inputs->front(), flags.measuring);
  if (!first) return tl::unexpected(std::move(first.error()));
  auto planned = with_planned_partition(*first);
  if (!planned) return bad_input(std::move(planned.error()));
  Configurations all{.scenario = *std::move(planned), .cases = {}};
  for (const InputFlags& input : *inputs) {
    const auto scenario = configured(input, flags.measuring);
    if (!scenario) return tl::unexpected(scenario.error());
    auto one = case_of(*scenario);
    if (!one) return tl::unexpected(std::move(one.error()));
    if (!all.cases.empty() &&
        !same_placement(one->experiment.program, all.cases.front().experiment.program)) {
      return bad_input(fmt::format(
          "validate: expected programs with the same stages on the same ranks, but {} and {} differ; "
          "validate schedules with other stages in a command of their own",
          all.cases.front().name, one->name));
    }
    all.cases.push_back(*std::move(one));
  }
  return all;
}

tl::expected<Result, UserError> predicted_by_simulate(const Experiment& experiment) {
  auto result = simulate(experiment, {.memory = {}, .steady = SteadyState::skip});
  if (!result) return user_error(ErrorKind::check_failed, result.error().message);
  return *std::move(result);
}

ExitCode exit_code_of_verdict(ValidationVerdict verdict) {
  switch (verdict) {
    case ValidationVerdict::holds:
      return ExitCode::ok;
    case ValidationVerdict::misses:
      return ExitCode::check_failed;
    case ValidationVerdict::unclear:
      break;
  }
  return ExitCode::undecided;
}

Outcome run_validate(const ValidateFlags& flags, const Invocation& invocation) {
  if (auto known = check_output_files(flags.output.files, kValidateFiles, inputs_of(flags.input)); !known)
    return tl::unexpected(known.error());
  const auto all = configurations_of(flags);
  if (!all) return tl::unexpected(all.error());
  const Experiment& first = all->cases.front().experiment;
  if (auto failure = hand_over("validate", flags.measuring.backend, first, invocation))
    return tl::unexpected(*std::move(failure));
  ProgressBar bar(display_for(flags.output));
  const auto validation = validate_predictions(
      all->scenario, all->cases,
      {.rounds = flags.rounds,
       .samples = flags.measuring.counted,
       .tolerance = flags.tolerance,
       .seed = flags.measuring.seed,
       .progress = [&](std::size_t done, std::size_t total) { bar.show(done, total); }},
      [&](const Experiment& experiment) {
        return measure_once(experiment, flags.measuring, flags.measuring.warmup, invocation.extensions);
      },
      predicted_by_simulate);
  if (!validation) return tl::unexpected(validation.error());
  const std::string table = validation_to_table(*validation);
  const std::string json = validation_to_json(*validation);
  const std::vector<OutputForm> forms = {{".json", [&] { return std::string(json); }},
                                         {".txt", [&] { return std::string(table); }}};
  if (auto written = write_answer(flags.output, forms, flags.output.json ? json : table); !written)
    return tl::unexpected(written.error());
  return exit_code_of_verdict(validation->verdict());
}

}  // namespace

Command validate_command(CLI::App& root, const Invocation& invocation) {
  Subcommand app(root, "validate", "Test on this machine whether measured costs predict other programs.");
  const auto flags = std::make_shared<ValidateFlags>();
  add_input_file(app, flags->input.file);
  const std::string group = "Configurations (default: the scenario's own)";
  app.add_words("--schedule", flags->schedules, "names of schedules, see `penstock schedules`")
      .words(schedule_names())
      .group(group)
      .type_name("NAMES");
  app.add_option("--num-microbatches", flags->microbatches, "numbers of microbatches of one minibatch")
      .group(group)
      .type_name("NUMBERS");
  for (const auto& [name, value, help] :
       {std::tuple{"--pp-size", &flags->input.pp_size, "K, ranks of the pipeline"},
        std::tuple{"--virtual-stages", &flags->input.virtual_stages, "v, model chunks a rank"}}) {
    app.add_option(name, *value, help)
        .range(std::int64_t{1}, std::int64_t{std::numeric_limits<std::int32_t>::max()})
        .group(group)
        .type_name("N");
  }
  add_batch_flags(app, flags->input);
  app.add_option("--rounds", flags->rounds,
                 "rounds; in each, the source and all configurations run once (default 5)")
      .group("Validation")
      .type_name("N")
      .range(2, 10'000);
  app.add_option("--tolerance", flags->tolerance,
                 "largest mean error that holds, as a fraction (default 0.05)")
      .group("Validation")
      .type_name("FRACTION")
      .range(1e-6, 1e6);
  add_measuring_flags(app, flags->measuring,
                      {.processes = "",
                       .warmup = "runs before each run that do not count",
                       .count_flag = "--samples",
                       .counted = "actions of each kind that the source measures in a round"});
  add_output_flags(app, flags->output, ".json .txt");
  app.footer(
      "Exit status: 0 all predictions hold; 1 one misses; 5 this machine is too noisy to tell in so many "
      "rounds.\n\n"
      "Example:\n"
      "  penstock validate --schedule gpipe,1f1b --pp-size 2 --num-microbatches 8,16 --rounds 6");
  return {app, [flags, &invocation] { return run_validate(*flags, invocation); }};
}

}  // namespace penstock
