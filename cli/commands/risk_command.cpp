// penstock risk: shows how jitter, stragglers and failures change a prediction. With noise, the result is a
// distribution of makespans. Failures and checkpoints reduce the useful part of the time. risk.hpp computes
// both.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/print/units.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/quantities.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/engines/engines.hpp"
#include "sim/risk/risk.hpp"
#include "sim/runs/simulate.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

struct RiskFlags {
  InputFlags input;
  ChannelFlags channels;
  OutputFlags output;
  std::string engine;
  Noise noise;
  std::int32_t trials = 1000;
  std::string mtbf;
  std::string save;
  std::string restart;
  std::string interval;
  bool reroute = false;
};

// The quantiles of the makespan that are printed.
constexpr std::array<double, 5> kParts = {0.05, 0.5, 0.9, 0.95, 0.99};

/// The failure rates of the devices, and the time between two checkpoints that is best for them or that the
/// user gave.
struct FailureOutcome {
  Failures failures;
  double interval = 0;   ///< The work between two checkpoints, in seconds.
  bool is_best = false;  ///< True if the interval was computed, and false if the user gave it.

  double goodput() const { return penstock::goodput(failures, interval); }
};

/// The answer of `penstock risk` for one program. If there is no noise, it has a single trial: the run
/// without disturbances.
struct RiskReport {
  std::string name;
  std::int32_t ranks = 0;
  double samples = 0;
  NoisyMakespans makespans;
  std::optional<FailureOutcome> failures;
  std::optional<RerouteReport> reroute{};
  std::vector<std::string> notes;

  /// Returns the samples per second at the mean makespan, reduced by the time that failures and checkpoints
  /// cost.
  double samples_per_second() const {
    return samples / (makespans.mean_ns() * 1e-9) * (failures ? failures->goodput() : 1);
  }
};

/// A flag that replaces one failure rate of the scenario, and the smallest value that the flag accepts.
struct FailureFlag {
  std::string_view name;
  const std::string& text;
  Ns& target;
  Ns least;
};

/// Returns the failure rates of the scenario, with the flags applied. Returns nothing if neither the scenario
/// nor a flag gives a rate of device failures.
tl::expected<std::optional<FailureRates>, UserError> rates_of(const RiskFlags& flags,
                                                              std::optional<FailureRates> rates) {
  if (!rates && flags.mtbf.empty()) {
    for (const auto& [flag, text] :
         {std::pair{"--checkpoint-cost", &flags.save}, std::pair{"--restart", &flags.restart},
          std::pair{"--checkpoint-every", &flags.interval}}) {
      if (text->empty()) continue;
      return bad_input(
          fmt::format("{}: expected --mtbf as well, or training.failures.mtbf in the scenario: the mean "
                      "time between failures of a device",
                      flag));
    }
    return std::nullopt;
  }
  FailureRates result = rates.value_or(FailureRates{});
  Ns interval = result.interval_ns.value_or(0);
  for (const auto& [flag, text, target, least] :
       {FailureFlag{"--mtbf", flags.mtbf, result.device_mtbf_ns, 1},
        FailureFlag{"--checkpoint-cost", flags.save, result.save_ns, 0},
        FailureFlag{"--restart", flags.restart, result.restart_ns, 0},
        FailureFlag{"--checkpoint-every", flags.interval, interval, 1}}) {
    if (text.empty()) continue;
    const auto duration = parse_duration(text);
    if (!duration) return bad_input(fmt::format("{}: {}", flag, duration.error()));
    if (*duration < least) return bad_input(fmt::format("{}: expected more than 0", flag));
    target = *duration;
  }
  if (interval > 0) result.interval_ns = interval;
  return result;
}

/// Computes the effect of failures at these rates on this number of devices. If the user gives no
/// checkpoint interval, it computes the interval with the smallest loss.
FailureOutcome outcome_of(const FailureRates& rates, std::int32_t devices) {
  const auto seconds = [](Ns duration) { return static_cast<double>(duration) * 1e-9; };
  FailureOutcome outcome{.failures = {.device_mtbf = seconds(rates.device_mtbf_ns),
                                      .devices = static_cast<double>(devices),
                                      .save = seconds(rates.save_ns),
                                      .restart = seconds(rates.restart_ns)}};
  outcome.is_best = !rates.interval_ns;
  outcome.interval = rates.interval_ns ? seconds(*rates.interval_ns) : best_interval(outcome.failures);
  return outcome;
}

/// Returns true if the noise makes trials differ. If not, one trial is enough.
bool disturbs(const Noise& noise) { return noise.jitter > 0 || noise.straggler_chance > 0; }

/// Returns the number of devices whose failure stops the run. These are the devices of all pipeline copies
/// and of each rank's group.
std::int32_t devices_of(const Experiment& experiment, const Scenario& scenario) {
  if (experiment.trained) return static_cast<std::int32_t>(experiment.trained->devices);
  return experiment.program.rank_count() * scenario.cluster.devices_per_rank;
}

tl::expected<RiskReport, UserError> report_of(const RiskFlags& flags) {
  const auto scenario = scenario_of(flags.input, flags.channels);
  if (!scenario) return tl::unexpected(scenario.error());
  // Trials store no timelines, so a larger program fits into memory.
  SimulateOptions without_timeline;
  without_timeline.timeline = TimelineKept::none;
  if (auto refusal = memory_refusal(*scenario, without_timeline)) return bad_input(*std::move(refusal));
  const auto experiment = prepared(*scenario);
  if (!experiment) return tl::unexpected(experiment.error());
  const std::int32_t ranks = experiment->program.rank_count();
  const auto rates = rates_of(flags, scenario->failures);
  if (!rates) return tl::unexpected(rates.error());
  if (!disturbs(flags.noise) && !*rates && !flags.reroute) {
    return bad_input(
        "risk: nothing that disturbs: expected --jitter, --stragglers, --mtbf or --reroute, for example "
        "--jitter 0.1, or training.failures in the scenario");
  }
  if (auto fault = noise_fault(*experiment, flags.noise)) return bad_input(*std::move(fault));
  const Engine engine = engine_of(flags.engine);
  ProgressBar bar(display_for(flags.output));
  auto makespans = monte_carlo(*experiment, flags.noise,
                               {.count = disturbs(flags.noise) ? flags.trials : 1,
                                .engine = engine,
                                .progress = [&](std::size_t done, std::size_t all) { bar.show(done, all); }});
  if (!makespans) return user_error(ErrorKind::check_failed, std::move(makespans.error()));
  RiskReport report{.name = experiment->name,
                    .ranks = ranks,
                    .samples = experiment->samples_per_microbatch * experiment->program.microbatches *
                               experiment->program.iterations,
                    .makespans = *std::move(makespans),
                    .failures = {},
                    .notes = experiment->notes};
  const std::int32_t devices = devices_of(*experiment, *scenario);
  if (disturbs(flags.noise) && devices > ranks) {
    report.notes.push_back(
        fmt::format("noise is drawn once for each of {} ranks: a step on {} devices waits for the slowest of "
                    "all their groups and copies, which these times leave out",
                    ranks, devices));
  }
  if (*rates) report.failures = outcome_of(**rates, devices);
  if (flags.reroute) {
    auto reroute = reroute_report(*scenario);
    if (!reroute) return tl::unexpected(std::move(reroute.error()));
    report.reroute = *std::move(reroute);
  }
  if (engine == Engine::critical_path && links_are_shared(*experiment))
    report.notes.emplace_back("messages have their routes to themselves here: sharing of links is left out");
  return report;
}

/// Converts seconds to nanoseconds without a fraction. Requires that `seconds` is less than 292 years.
Ns whole_ns(double seconds) { return static_cast<Ns>(seconds * 1e9); }

/// Returns the lines about the trials with noise: the distribution of makespans, and the makespan without
/// disturbances.
std::string noise_text(const RiskReport& report, const RiskFlags& flags) {
  const NoisyMakespans& makespans = report.makespans;
  std::string text = fmt::format(
      "noise        jitter {} either way, stragglers {} "
      "a rank with {} times the time; {} trials, seed {}\nmean         {}, {} over "
      "the undisturbed\n",
      format_percent(flags.noise.jitter), format_percent(flags.noise.straggler_chance), flags.noise.slowdown,
      flags.trials, flags.noise.seed, format_duration(static_cast<Ns>(makespans.mean_ns())),
      format_percent(makespans.mean_ns() / static_cast<double>(makespans.undisturbed_ns) - 1));
  for (const double part : kParts)
    text += fmt::format("p{:<12g}{}\n", 100 * part, format_duration(makespans.percentile(part)));
  return text;
}

/// Returns the lines about the steps before and after a rank has failed.
std::string reroute_text(const RerouteReport& reroute) {
  const ReroutedStep& longest = reroute.longest();
  const auto over = [&](double step_ns) {
    return format_percent(step_ns / static_cast<double>(reroute.before_ns) - 1);
  };
  return fmt::format(
      "step         {} with all ranks\nrerouted     {} without rank {} (stage {}), {} longer; "
      "{} longer in the mean of {}\n",
      format_duration(reroute.before_ns), format_duration(longest.step_ns), longest.rank, longest.stage,
      over(static_cast<double>(longest.step_ns)), over(reroute.mean_ns()),
      format_count(static_cast<std::int64_t>(reroute.after.size()), "failed rank"));
}

std::string to_text(const RiskReport& report, const RiskFlags& flags) {
  std::string text = fmt::format("scenario     {}\nundisturbed  {}\n", shown_name(report.name),
                                 format_duration(report.makespans.undisturbed_ns));
  text += disturbs(flags.noise) ? noise_text(report, flags) : "noise        none: one run\n";
  if (report.failures) {
    const FailureOutcome& outcome = *report.failures;
    text +=
        fmt::format("checkpoint   every {} of work{}, taking {}\ngoodput      {} of the time on {}\n",
                    format_duration(whole_ns(outcome.interval)), outcome.is_best ? ", the best interval" : "",
                    format_duration(whole_ns(outcome.failures.save)), format_percent(outcome.goodput()),
                    format_count(static_cast<std::int64_t>(outcome.failures.devices), "device"));
  }
  if (report.reroute) text += reroute_text(*report.reroute);
  text += fmt::format("throughput   {} samples/s\n", format_rate(report.samples_per_second()));
  for (const std::string& note : report.notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string to_json(const RiskReport& report, const RiskFlags& flags) {
  Json percentiles = Json::object();
  for (const double part : kParts)
    percentiles[fmt::format("p{:g}", 100 * part)] = report.makespans.percentile(part);
  Json json = {{"schema_version", 1},
               {"kind", "risk"},
               {"scenario", report.name},
               {"undisturbed_ns", report.makespans.undisturbed_ns},
               {"mean_ns", report.makespans.mean_ns()},
               {"percentiles_ns", std::move(percentiles)},
               {"trials", report.makespans.sorted.size()},
               {"seed", flags.noise.seed},
               {"samples_per_second", report.samples_per_second()}};
  if (report.failures) {
    json["goodput"] = report.failures->goodput();
    json["checkpoint_interval_s"] = report.failures->interval;
  }
  if (report.reroute) {
    Json steps = Json::array();
    for (const ReroutedStep& step : report.reroute->after)
      steps.push_back({{"rank", step.rank}, {"stage", step.stage}, {"step_ns", step.step_ns}});
    json["reroute"] = {{"before_ns", report.reroute->before_ns},
                       {"longest_ns", report.reroute->longest().step_ns},
                       {"mean_ns", report.reroute->mean_ns()},
                       {"failed", std::move(steps)}};
  }
  json["notes"] = report.notes;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

Outcome run_risk(const RiskFlags& flags) {
  if (auto known = check_output_files(flags.output.files, {".json", ".txt"}, inputs_of(flags.input)); !known)
    return tl::unexpected(known.error());
  const auto report = report_of(flags);
  if (!report) return tl::unexpected(report.error());
  const std::vector<OutputForm> forms = {{".json", [&] { return to_json(*report, flags); }},
                                         {".txt", [&] { return to_text(*report, flags); }}};
  const std::string text = flags.output.json ? to_json(*report, flags) : to_text(*report, flags);
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

void add_noise_flags(Subcommand app, RiskFlags& flags) {
  const std::string group = "Noise";
  app.add_option("--jitter", flags.noise.jitter,
                 "each action takes a factor drawn evenly from 1 - F to 1 + F (default 0)")
      .range(0.0, 1.0)
      .group(group)
      .type_name("F");
  app.add_option("--stragglers", flags.noise.straggler_chance,
                 "chance of a rank to be slow in a run (default 0)")
      .range(0.0, 1.0)
      .group(group)
      .type_name("CHANCE");
  app.add_option("--slowdown", flags.noise.slowdown, "how many times as long a straggler takes (default 1.5)")
      .range(1.0, 1e6)
      .group(group)
      .type_name("X");
  app.add_option("--trials", flags.trials, "runs with other draws (default 1000; without noise one)")
      .range(1, 10'000'000)
      .group(group)
      .type_name("N");
  app.add_option("--seed", flags.noise.seed, "of the draws (default 1)")
      .range(std::int64_t{0}, kLargestSeed)
      .group(group)
      .type_name("N");
}

void add_failure_flags(Subcommand app, RiskFlags& flags) {
  const std::string group = "Failures (override the scenario's training.failures)";
  app.add_option("--mtbf", flags.mtbf, "mean time between failures of one device: 50000h")
      .group(group)
      .type_name("TIME");
  app.add_option("--checkpoint-cost", flags.save, "to save a checkpoint (default 1 min)")
      .group(group)
      .type_name("TIME");
  app.add_option("--restart", flags.restart, "from a failure to work again (default 5 min)")
      .group(group)
      .type_name("TIME");
  app.add_option("--checkpoint-every", flags.interval, "work between two checkpoints (default: the best)")
      .group(group)
      .type_name("TIME");
  app.add_flag(
         "--reroute", flags.reroute,
         "a step after a failure, if copies run the failed rank's microbatches in their bubbles (ReCycle)")
      .group(group);
}

}  // namespace

Command risk_command(CLI::App& root) {
  Subcommand app(root, "risk", "Predict what jitter, stragglers and failures leave of the throughput.");
  const auto flags = std::make_shared<RiskFlags>();
  add_input_file(app, flags->input.file);
  add_shape_flags(app, flags->input);
  add_model_flags(app, flags->input.model);
  add_channel_flags(app, flags->channels);
  add_engine_flag(app, flags->engine);
  add_noise_flags(app, *flags);
  add_failure_flags(app, *flags);
  add_output_flags(app, flags->output, ".json .txt");
  app.footer(
      "Examples:\n"
      "  penstock risk --schedule 1f1b --pp-size 8 --num-microbatches 32 --jitter 0.1\n"
      "  penstock risk scenarios/library/vgg16-cluster-a.yaml --stragglers 0.01 --slowdown 2 --mtbf 50000h");
  return {app, [flags] { return run_risk(*flags); }};
}

}  // namespace penstock
