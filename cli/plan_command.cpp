// penstock plan: PipeDream's partitioner on a scenario's layers and cluster, beside its simulation.

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <tl/expected.hpp>

#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/plan_output.hpp"
#include "scenarios/model.hpp"
#include "scenarios/plan_options.hpp"
#include "scenarios/scenario.hpp"
#include "scenarios/scenario_text.hpp"
#include "scenarios/units.hpp"
#include "schedules/action.hpp"
#include "sim/plan_evaluation.hpp"

namespace penstock {
namespace {

const std::vector<std::string_view> kPlanSuffixes = {".yaml", ".json", ".txt"};

struct PlanFlags {
  InputFlags input;
  ChannelFlags channels;
  OutputFlags output;
  std::string objective;
  std::string cut_transfers;
  std::string memory_limit;
  bool straight = false;
  bool no_front = false;
};

/// The scenario's options with the flags' values in place.
tl::expected<PlanOptions, Failure> options_of(const PlanFlags& flags, const Scenario& scenario) {
  PlanOptions options = scenario.partition.plan;
  if (!flags.objective.empty())
    options.objective = flags.objective == "sum" ? PlanObjective::sum : PlanObjective::maximum;
  if (!flags.cut_transfers.empty())
    options.transfers = flags.cut_transfers == "free" ? CutTransfers::free : CutTransfers::counted;
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

std::vector<std::string> layer_names(const Scenario& scenario) {
  std::vector<std::string> names;
  if (const auto* graph = std::get_if<LayerGraph>(&scenario.model)) {
    for (const Layer& layer : graph->layers) names.push_back(layer.name);
  }
  return names;
}

tl::expected<PlanReport, Failure> report_of(const PlanFlags& flags) {
  const auto scenario = scenario_with_flags(flags.input, flags.channels);
  if (!scenario) return tl::unexpected(scenario.error());
  const auto options = options_of(flags, *scenario);
  if (!options) return tl::unexpected(options.error());
  auto evaluation = evaluate_plan(*scenario, *options);
  if (!evaluation) {
    const bool has_place = scenario->file.empty() || evaluation.error().starts_with(scenario->file);
    return bad_input(has_place ? evaluation.error()
                               : fmt::format("{}: {}", scenario->file, evaluation.error()));
  }
  return PlanReport{
      .scenario = scenario->file,
      .options = *options,
      .layers = layer_names(*scenario),
      .evaluation = *std::move(evaluation),
      .front = flags.no_front ? std::vector<PlanEvaluation>{} : plan_front(*scenario, *options)};
}

tl::expected<std::string, std::string> plan_scenario_file(const PlanReport& report) {
  const std::string comment = fmt::format(
      "{} planned for {} devices by PipeDream's partitioner (penstock plan): period {:.3f} ms predicted.",
      report.scenario.empty() ? "A model" : report.scenario, report.evaluation.devices(),
      report.evaluation.planned.plan.period_ns / 1e6);
  return scenario_to_yaml(report.evaluation.planned.scenario, comment);
}

Outcome run_plan(const PlanFlags& flags) {
  if (auto known = check_output_files(flags.output.files, kPlanSuffixes); !known)
    return tl::unexpected(known.error());
  const auto report = report_of(flags);
  if (!report) return tl::unexpected(report.error());
  const std::vector<OutputForm> forms = {{".yaml", [&] { return plan_scenario_file(*report); }},
                                         {".json", [&] { return plan_to_json(*report); }},
                                         {".txt", [&] { return plan_to_text(*report); }}};
  const std::string text = flags.output.json ? plan_to_json(*report) : plan_to_text(*report);
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

void add_planning_flags(CLI::App& app, PlanFlags& flags) {
  const std::string group = "Planning (overrides the scenario's partition)";
  add_choice(app, "--objective", flags.objective,
             {.words = {"maximum", "sum"},
              .help = "a stage's compute and gradient reduction: the maximum of both, as the paper has it "
                      "(default), or their sum, as its released code does",
              .group = group,
              .type_name = "NAME"});
  app.add_flag("--straight", flags.straight, "no stage is replicated")->group(group);
  add_choice(app, "--cut-transfers", flags.cut_transfers,
             {.words = {"counted", "free"},
              .help = "whether activations take time to cross a cut: counted (default) or free",
              .group = group,
              .type_name = "NAME"});
  app.add_option("--memory-limit", flags.memory_limit,
                 "most bytes of a device, or unlimited (default: what the smallest device has)")
      ->group(group)
      ->type_name("BYTES");
  app.add_flag("--no-front", flags.no_front, "leave out the plans for fewer devices")->group(group);
}

}  // namespace

Command plan_command(CLI::App& root) {
  CLI::App* app = root.add_subcommand("plan", "Cut layers into stages and replicate them for a cluster.");
  const auto flags = std::make_shared<PlanFlags>();
  app->add_option("SCENARIO", flags->input.file, "a scenario whose model is layers or a profile")
      ->required()
      ->type_name("FILE");
  add_planning_flags(*app, *flags);
  add_settings_flag(*app, flags->input.settings, "Scenario");
  add_channel_flags(*app, flags->channels);
  add_output_flags(*app, flags->output, ".yaml .json .txt");
  app->footer(
      "FILE.yaml is a scenario that simulate and run take.\n"
      "Examples:\n"
      "  penstock plan scenarios/library/vgg16-cluster-a-15-1.yaml --objective sum\n"
      "  penstock plan scenarios/library/gnmt-cluster-a.yaml --straight -o plan.yaml");
  return {app, [flags] { return run_plan(*flags); }};
}

}  // namespace penstock
