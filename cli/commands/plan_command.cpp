// penstock plan: chooses the stages of a model. It runs PipeDream's partitioner on a scenario's layers and
// cluster, and simulates the plan. The output shows the simulated time beside the time that the partitioner
// itself computes. -o writes a scenario that uses the plan.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/commands/plan_output.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/quantities.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/choose/plan_search.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

const std::vector<std::string_view> kPlanSuffixes = {".yaml", ".json", ".txt"};

struct PlanFlags {
  InputFlags input;
  ChannelFlags channels;
  OutputFlags output;
  std::string objective;
  std::string cut_transfers;
  std::string update;
  std::string memory_limit;
  std::string noise;
  std::optional<std::int32_t> trials;
  std::optional<std::uint64_t> seed;
  bool straight = false;
  bool no_front = false;
  bool factors = false;
};

/// Returns the scenario's plan options, with the flags applied.
tl::expected<PlanOptions, UserError> options_of(const PlanFlags& flags, const Scenario& scenario) {
  PlanOptions options = scenario.partition.plan;
  // The planner has no objective "simulated". With this word, it uses the objective of the scenario, and the
  // simulations come later.
  options.objective = enum_of_text<PlanObjective>(flags.objective).value_or(options.objective);
  options.transfers = enum_of_text<CutTransfers>(flags.cut_transfers).value_or(options.transfers);
  options.update = enum_of_text<PlanUpdate>(flags.update).value_or(options.update);
  if (options.update == PlanUpdate::flush) {
    const bool asks_recurrence =
        flags.objective.empty() ? scenario.partition.states_objective : flags.objective != "simulated";
    if (asks_recurrence) {
      return bad_input(
          "--update flush: PipeDream's recurrences are about updates without a flush; take --objective "
          "simulated");
    }
    if (flags.factors) {
      return bad_input(
          "--factors: explains the period of a stream, and --update flush has a minibatch; leave one out");
    }
  }
  if (flags.straight) options.form = PlanForm::straight;
  if (flags.memory_limit == "unlimited") {
    options.memory_limit = std::numeric_limits<Bytes>::max();
  } else if (!flags.memory_limit.empty()) {
    const auto bytes = parse_bytes(flags.memory_limit);
    if (!bytes) return bad_input(fmt::format("--memory-limit: {}", bytes.error()));
    options.memory_limit = *bytes;
  }
  return options;
}

/// Returns the names of the scenario's layers in the order of the layer graph. PlannedStage::layers uses
/// this order.
std::vector<std::string> layer_names(const Scenario& scenario) {
  std::vector<std::string> names;
  if (const auto* graph = std::get_if<LayerGraph>(&scenario.model)) {
    for (const Layer& layer : graph->layers) names.push_back(layer.name);
  }
  return names;
}

/// Reads a fraction from 0 to 1, such as "5%" or "0.05". Returns nothing if the text is something else.
std::optional<double> part_of_text(std::string_view text) {
  const bool is_percent = text.ends_with('%');
  if (is_percent) text.remove_suffix(1);
  const auto value = number_of_text<double>(text);
  if (!value) return std::nullopt;
  const double part = is_percent ? *value / 100 : *value;
  return part >= 0 && part <= 1 ? std::optional(part) : std::nullopt;
}

/// Reads the flag --noise. Returns nothing if the flag is not given.
tl::expected<std::optional<ProfileNoise>, UserError> noise_of(const PlanFlags& flags) {
  if (flags.noise.empty()) {
    if (!flags.trials && !flags.seed) return std::nullopt;
    return bad_input(fmt::format("{}: expected --noise as well, for example --noise 5%,10%,20%",
                                 flags.trials ? "--trials" : "--seed"));
  }
  ProfileNoise noise{.levels = {}};
  std::string_view rest = flags.noise;
  // Each pass reads the text up to the next comma. The loop ends after the last part. An empty part ("5%,")
  // is an error.
  while (true) {
    const std::string_view one = rest.substr(0, rest.find(','));
    const auto level = part_of_text(one);
    if (!level) {
      return bad_input(
          fmt::format("--noise: expected parts from 0% to 100% such as 5%,10%,20% or 0.05, got \"{}\"", one));
    }
    noise.levels.push_back(*level);
    if (one.size() == rest.size()) break;
    rest.remove_prefix(one.size() + 1);
  }
  noise.trials = flags.trials.value_or(noise.trials);
  noise.seed = flags.seed.value_or(noise.seed);
  return noise;
}

/// Returns the method by which plans are ranked. It is the simulator, unless the user asks for a formula of
/// the planner.
PlanRanking ranking_of(const PlanFlags& flags, const Scenario& scenario) {
  const bool asks_recurrence =
      flags.objective.empty() ? scenario.partition.states_objective : flags.objective != "simulated";
  return asks_recurrence ? PlanRanking::recurrence : PlanRanking::simulated;
}

/// Returns the plan with its simulation. If a search was made, the other plans are included. Returns an error
/// if there is no plan.
tl::expected<PlanReport, std::string> planned_report(const Scenario& scenario, const PlanOptions& options,
                                                     PlanRanking ranking) {
  PlanReport report{
      .scenario = scenario.file, .options = options, .ranking = ranking, .layers = layer_names(scenario)};
  if (ranking == PlanRanking::recurrence) {
    auto evaluation = evaluate_plan(scenario, options);
    if (!evaluation) return tl::unexpected(evaluation.error());
    report.evaluation = *std::move(evaluation);
    return report;
  }
  auto found = search_plan(scenario, options);
  if (!found) return tl::unexpected(found.error());
  auto evaluation = evaluate_plan(found->planned);
  if (!evaluation) return tl::unexpected(evaluation.error());
  report.evaluation = *std::move(evaluation);
  report.search = *std::move(found);
  return report;
}

/// Returns a note about settings of the scenario's schedule that plans ignore. Returns nothing if there are
/// none.
std::optional<std::string> left_out_note(const Scenario& scenario, std::string_view schedule) {
  const Shape& shape = scenario.shape;
  std::vector<std::string_view> keys;
  if (shape.data_parallel > 1) keys.emplace_back("schedule.data_parallel");
  if (shape.sharding.value_or(0) > 0) keys.emplace_back("schedule.sharding");
  if (shape.checkpoint != Checkpoint::never) keys.emplace_back("schedule.checkpoint");
  if (shape.iterations > 1) keys.emplace_back("training.iterations");
  if (keys.empty()) return std::nullopt;
  return fmt::format("plans use {} and ignore these keys of the scenario: {}", schedule,
                     fmt::join(keys, ", "));
}

/// Returns a report with the plan and with every further result for which the user gave a flag.
tl::expected<PlanReport, std::string> report_on(const Scenario& scenario, const PlanOptions& options,
                                                const std::optional<ProfileNoise>& noise,
                                                const PlanFlags& flags) {
  const PlanRanking ranking = ranking_of(flags, scenario);
  ProgressBar bar(display_for(flags.output));
  bar.say("searching plans");
  auto planned = planned_report(scenario, options, ranking);
  if (!planned) return planned;
  PlanReport& report = *planned;
  if (auto note = left_out_note(scenario, report.evaluation.planned.scenario.schedule))
    report.evaluation.notes.push_back(*std::move(note));
  if (!flags.no_front) {
    bar.say("searching plans for fewer devices");
    report.front = plan_front(scenario, options, ranking, report.evaluation);
  }
  // The line "they differ by" also needs the factors, which are effects that the partitioner's formula
  // ignores. An error in their computation is reported only if --factors is given.
  if (options.update == PlanUpdate::asynchronous) {
    bar.say("simulating the plan with one factor at a time");
    auto factors = plan_factors(report.evaluation);
    if (!factors && flags.factors) return tl::unexpected(factors.error());
    if (factors) report.factors = *std::move(factors);
  }
  report.explains_factors = flags.factors;
  if (noise) {
    bar.say("planning from noisy profiles");
    auto rows = plan_regret(scenario, options, *noise, ranking);
    if (!rows) return tl::unexpected(rows.error());
    report.regret = {.noise = *noise, .rows = *std::move(rows)};
  }
  return planned;
}

tl::expected<PlanReport, UserError> report_of(const PlanFlags& flags) {
  const auto noise = noise_of(flags);
  if (!noise) return tl::unexpected(noise.error());
  auto stated = scenario_with_flags(flags.input, flags.channels);
  if (!stated) return tl::unexpected(stated.error());
  const Scenario scenario = with_merged_branches(*std::move(stated));
  const auto options = options_of(flags, scenario);
  if (!options) return tl::unexpected(options.error());
  auto report = report_on(scenario, *options, *noise, flags);
  if (report) return *std::move(report);
  // Some of these errors already begin with the name of the file and the place in it.
  const bool has_place = scenario.file.empty() || report.error().starts_with(scenario.file);
  return bad_input(has_place ? report.error() : fmt::format("{}: {}", scenario.file, report.error()));
}

/// Returns the planned scenario as a file. A comment at its start names its source and its predicted time.
tl::expected<std::string, std::string> plan_scenario_file(const PlanReport& report) {
  const std::string comment = fmt::format(
      "{} planned for {} devices (penstock plan --objective {}{}): period {:.3f} ms predicted, {:.3f} ms "
      "simulated.",
      report.scenario.empty() ? "A model" : report.scenario, report.evaluation.devices(),
      objective_text(report), report.options.update == PlanUpdate::flush ? " --update flush" : "",
      report.evaluation.planned.plan.period_ns / 1e6, report.evaluation.simulated_period_ns / 1e6);
  return scenario_to_yaml(report.evaluation.planned.scenario, comment);
}

Outcome run_plan(const PlanFlags& flags) {
  if (auto known = check_output_files(flags.output.files, kPlanSuffixes, inputs_of(flags.input)); !known)
    return tl::unexpected(known.error());
  const auto report = report_of(flags);
  if (!report) return tl::unexpected(report.error());
  const std::vector<OutputForm> forms = {{".yaml", [&] { return plan_scenario_file(*report); }},
                                         {".json", [&] { return plan_to_json(*report); }},
                                         {".txt", [&] { return plan_to_text(*report); }}};
  const std::string text = flags.output.json ? plan_to_json(*report) : plan_to_text(*report, table_width());
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

void add_planning_flags(Subcommand app, PlanFlags& flags) {
  const std::string group = "Planning (overrides the scenario's partition)";
  add_choice(
      app, "--objective", flags.objective,
      {.words = {"simulated", "maximum", "sum", "maximum-printed"},
       .help = "the plan that is fastest when simulated (default), or the optimum of PipeDream's "
               "recurrence: a stage takes the maximum of compute and gradient reduction "
               "(maximum-printed: with the paper's reduction at every minibatch) or, as in its released "
               "code, their sum",
       .group = group,
       .type_name = "NAME"});
  add_choice(app, "--update", flags.update,
             {.words = enum_choices<PlanUpdate>(),
              .help = "when weights are updated: asynchronous (default, 1f1b-rr), or once a minibatch with a "
                      "flush (1f1b with replicas, DAPPLE's problem), whose microbatches the scenario states",
              .group = group,
              .type_name = "NAME"});
  app.add_flag("--straight", flags.straight, "no stage is replicated").group(group);
  add_choice(app, "--cut-transfers", flags.cut_transfers,
             {.words = enum_choices<CutTransfers>(),
              .help = "whether activations take time to cross a cut: counted (default) or free",
              .group = group,
              .type_name = "NAME"});
  app.add_option(
         "--memory-limit", flags.memory_limit,
         "most bytes of a device, or unlimited (default: what the smallest device has, less its reserve)")
      .group(group)
      .type_name("BYTES");
  app.add_flag("--no-front", flags.no_front, "leave out the plans for fewer devices").group(group);
}

void add_question_flags(Subcommand app, PlanFlags& flags) {
  const std::string group = "Questions";
  app.add_flag("--factors", flags.factors,
               "what the predicted period leaves out: the simulated one with one factor at a time")
      .group(group);
  app.add_option("--noise", flags.noise,
                 "the loss by planning from a profile whose times are wrong by up to this much: 5%,10%,20%")
      .group(group)
      .type_name("LIST");
  app.add_option("--trials", flags.trials, "noisy profiles at each noise (default 20)")
      .range(1, 100'000)
      .group(group)
      .type_name("N");
  app.add_option("--seed", flags.seed, "of the noise (default 1)")
      .range(std::int64_t{0}, kLargestSeed)
      .group(group)
      .type_name("N");
}

}  // namespace

Command plan_command(CLI::App& root) {
  Subcommand app(root, "plan", "Cut layers into stages and replicate them for a cluster.");
  const auto flags = std::make_shared<PlanFlags>();
  app.add_option("SCENARIO", flags->input.file, "a scenario whose model is layers or a profile")
      .required()
      .type_name("FILE");
  add_planning_flags(app, *flags);
  add_question_flags(app, *flags);
  add_settings_flag(app, flags->input.settings, "Scenario");
  add_memory_reserve_flag(app, flags->input.model);
  add_channel_flags(app, flags->channels);
  add_output_flags(app, flags->output, ".yaml .json .txt");
  app.footer(
      "FILE.yaml is a scenario that simulate and run take.\n"
      "Examples:\n"
      "  penstock plan scenarios/library/vgg16-cluster-a-15-1.yaml --objective sum\n"
      "  penstock plan scenarios/library/gnmt-cluster-a.yaml --straight -o plan.yaml\n"
      "  penstock plan scenarios/library/gnmt-cluster-a.yaml --no-front --factors --noise 5%,10%,20%");
  return {app, [flags] { return run_plan(*flags); }};
}

}  // namespace penstock
