// Tests whether measured costs predict the times of other programs, called cases. The program that
// measures the costs is the source. In each round the source measures the costs, and every case is
// measured once:
//
//     error of a round = makespan that simulate() finds with the source's means / measured makespan - 1
//
// The mean error has an interval over the rounds, and the verdict follows from both. A case is also predicted
// from the means of its own run (replay). The error that remains does not come from the measured costs. It
// comes from waits that no cost table has, and from the variation of single actions. Tests:
// tests/backend/validation_rounds_test.cpp.

#include "backend/calibration/validation_rounds.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/math/distributions/students_t.hpp>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "backend/calibration/calibration.hpp"
#include "backend/calibration/calibration_samples.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"

namespace penstock {

namespace {

/// The number of actions of each kind that the source runs before it measures. The source is the program
/// that measures the costs.
constexpr std::int32_t kSourceWarmup = 5;

/// The number of STEPs that the source program measures. They run alone, one after each microbatch.
constexpr std::int32_t kSourceSteps = 3;

Ns mean_of(const std::vector<Ns>& samples) { return spread_of(samples).mean_ns; }

Ns& duration_of(StageCost& cost, ActionKind kind) {
  switch (kind) {
    case ActionKind::backward:
      return cost.backward_ns;
    case ActionKind::backward_input:
      return cost.backward_input_ns;
    case ActionKind::backward_weight:
      return cost.backward_weight_ns;
    case ActionKind::recompute:
      return cost.recompute_ns;
    case ActionKind::step:
      return cost.step_ns;
    default:
      return cost.forward_ns;
  }
}

/// Returns a cluster with one link for each ordered pair of devices. `latency_of(a, b)` is the link's
/// latency. Its bandwidth is that of the route between the two devices in `cluster`.
template <typename LatencyOf>
tl::expected<Cluster, std::string> joined_cluster(const Cluster& cluster, LatencyOf latency_of) {
  ClusterBuilder builder(cluster.name());
  for (const Device& device : cluster.devices()) builder.add_device(device);
  for (std::int32_t from = 0; from < cluster.device_count(); ++from) {
    for (std::int32_t to = 0; to < cluster.device_count(); ++to) {
      if (from == to) continue;
      builder.add_link(from, to, cluster.route(from, to).bytes_per_second, latency_of(from, to));
    }
  }
  return builder.build();
}

/// Returns the kinds of actions that occur in any of the cases.
NeededKinds kinds_of(const std::vector<ValidationCase>& cases) {
  NeededKinds all;
  for (const ValidationCase& one : cases) {
    const NeededKinds needed = needed_kinds(one.experiment.program);
    all.whole_backward |= needed.whole_backward;
    all.split_backward |= needed.split_backward;
    all.recompute |= needed.recompute;
  }
  return all;
}

/// One of the programs that are run to measure the costs, and the range of its microbatches that are
/// measured.
struct SourceRun {
  Experiment experiment;
  CountedMicrobatches counted;
};

/// Returns the programs that measure the costs. In the first ones all ranks are busy, one program for each
/// form of backward passes. In the last one STEPs run alone.
tl::expected<std::vector<SourceRun>, UserError> source_runs(const Scenario& scenario, const Program& like,
                                                            const NeededKinds& kinds, std::int32_t samples) {
  std::vector<std::pair<CalibrationShape, CountedMicrobatches>> shapes;
  const CountedMicrobatches busy{.first = kSourceWarmup, .last = kSourceWarmup + samples};
  for (const BackwardForm form : {BackwardForm::whole, BackwardForm::split}) {
    if (!(form == BackwardForm::whole ? kinds.whole_backward : kinds.split_backward)) continue;
    shapes.push_back({{.load = CalibrationLoad::busy,
                       .microbatches = busy.last + like.stage_count(),
                       .backward = form,
                       .recomputes = kinds.recompute},
                      busy});
  }
  shapes.push_back({{.microbatches = 1 + kSourceSteps}, {.first = 1, .last = 1 + kSourceSteps}});
  std::vector<SourceRun> runs;
  for (const auto& [shape, counted] : shapes) {
    auto experiment = calibration_experiment(scenario, like, shape, scenario.batch.own_micro_batch_size);
    if (!experiment) return tl::unexpected(std::move(experiment.error()));
    runs.push_back({*std::move(experiment), counted});
  }
  return runs;
}

/// Runs each program of `source` once and returns the mean costs. The durations of an action kind come from
/// the first program in which it occurs. The last program gives only the STEPs.
tl::expected<MeanCosts, UserError> costs_of_source(const std::vector<SourceRun>& source,
                                                   const CalibrationRun& run) {
  MeanCosts all;
  for (const SourceRun& one : source) {
    const auto result = run(one.experiment);
    if (!result) return tl::unexpected(result.error());
    MeanCosts costs = mean_costs(samples_of(result->timeline, one.experiment, one.counted), one.experiment);
    all.durations.merge(costs.durations);
    if (&one == &source.back() && source.size() > 1) break;
    all.launches.merge(costs.launches);
    all.latencies.merge(costs.latencies);
  }
  return all;
}

tl::expected<double, UserError> predicted_ns(const Experiment& experiment, const MeanCosts& costs,
                                             const PredictExperiment& predict) {
  auto with_costs = with_mean_costs(experiment, costs);
  if (!with_costs) return bad_input(std::move(with_costs.error()));
  const auto result = predict(*with_costs);
  if (!result) return tl::unexpected(result.error());
  return static_cast<double>(result->makespan_ns);
}

/// The predicted, measured and replayed times of one case, with one time for each round.
struct Rounds {
  std::vector<double> predicted;
  std::vector<double> measured;
  std::vector<double> replayed;
};

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

ValidatedCase summary_of(const std::string& name, const Rounds& rounds, double tolerance) {
  std::vector<double> errors;
  std::vector<double> replays;
  for (std::size_t round = 0; round < rounds.measured.size(); ++round) {
    errors.push_back(rounds.predicted[round] / rounds.measured[round] - 1);
    replays.push_back(rounds.replayed[round] / rounds.measured[round] - 1);
  }
  ValidatedCase summary{.name = name,
                        .predicted_ns = mean_of(rounds.predicted),
                        .measured_ns = mean_of(rounds.measured),
                        .error = interval_of(errors),
                        .replay = interval_of(replays)};
  for (std::size_t round = 1; round < rounds.measured.size(); ++round) {
    summary.noise_floor += std::abs(rounds.measured[round] / rounds.measured[round - 1] - 1) /
                           static_cast<double>(rounds.measured.size() - 1);
  }
  summary.verdict = verdict_of(summary.error, tolerance);
  return summary;
}

}  // namespace

MeanCosts mean_costs(const CalibrationSamples& samples, const Experiment& experiment) {
  MeanCosts costs;
  for (const auto& [key, durations] : samples.durations) costs.durations[key] = mean_of(durations);
  for (const auto& [stage, launches] : samples.launches) costs.launches[stage] = mean_of(launches);
  // The time of a hop includes the launch of the receiving action. The duration of that action will also
  // contain the launch, so it is subtracted here.
  Ns launch = 0;
  for (const auto& [stage, mean] : costs.launches) launch += mean / static_cast<Ns>(costs.launches.size());
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<Ns>> latencies;
  for (const Hop& hop : samples.hops) {
    const double bandwidth = experiment.cluster.route(hop.from_rank, hop.to_rank).bytes_per_second;
    latencies[{hop.from_rank, hop.to_rank}].push_back(
        std::max<Ns>(0, hop.time_ns - launch - serialization_ns(hop.bytes, bandwidth)));
  }
  for (const auto& [pair, times] : latencies) costs.latencies[pair] = mean_of(times);
  return costs;
}

tl::expected<Experiment, std::string> with_mean_costs(Experiment experiment, const MeanCosts& costs) {
  // The mean times apply to all microbatches, so costs of single microbatches are removed.
  experiment.costs.microbatches.clear();
  for (const auto& [key, mean] : costs.durations) {
    const auto launch = costs.launches.find(key.stage);
    const bool launched = key.kind != ActionKind::step && launch != costs.launches.end();
    duration_of(experiment.costs.stages.at(index(key.stage)), key.kind) =
        mean + (launched ? launch->second : 0);
  }
  if (costs.latencies.empty()) return experiment;
  Ns sum = 0;
  for (const auto& [pair, latency] : costs.latencies) sum += latency;
  const Ns mean = sum / static_cast<Ns>(costs.latencies.size());
  auto cluster = joined_cluster(experiment.cluster, [&](std::int32_t from, std::int32_t to) {
    const auto found = costs.latencies.find({from, to});
    return found == costs.latencies.end() ? mean : found->second;
  });
  if (!cluster) return tl::unexpected(std::move(cluster.error()));
  experiment.cluster = *std::move(cluster);
  return experiment;
}

MeanInterval interval_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const boost::math::students_t distribution(count - 1);
  const double quantile = boost::math::quantile(distribution, 0.975);
  return {.mean = mean, .half_width = quantile * std::sqrt(squares / (count - 1) / count)};
}

ValidationVerdict verdict_of(const MeanInterval& error, double tolerance) {
  const double low = error.mean - error.half_width;
  const double high = error.mean + error.half_width;
  if (low >= -tolerance && high <= tolerance) return ValidationVerdict::holds;
  if (low > tolerance || high < -tolerance) return ValidationVerdict::misses;
  return ValidationVerdict::unclear;
}

ValidationVerdict Validation::verdict() const {
  const auto any = [&](ValidationVerdict verdict) {
    return std::ranges::find(cases, verdict, &ValidatedCase::verdict) != cases.end();
  };
  if (any(ValidationVerdict::misses)) return ValidationVerdict::misses;
  return any(ValidationVerdict::unclear) ? ValidationVerdict::unclear : ValidationVerdict::holds;
}

tl::expected<Validation, UserError> validate_predictions(const Scenario& scenario,
                                                         const std::vector<ValidationCase>& cases,
                                                         const ValidationOptions& options,
                                                         const CalibrationRun& run,
                                                         const PredictExperiment& predict) {
  const auto source =
      source_runs(scenario, cases.front().experiment.program, kinds_of(cases), options.samples);
  if (!source) return tl::unexpected(source.error());
  Validation validation{.options = options};
  std::mt19937_64 random(options.seed);
  std::vector<Rounds> rounds(cases.size());
  std::vector<std::size_t> order(cases.size() + 1);
  std::iota(order.begin(), order.end(), std::size_t{0});
  auto one_done = [&, done = std::size_t{0}]() mutable {
    if (options.progress) options.progress(++done, order.size() * static_cast<std::size_t>(options.rounds));
  };
  for (std::int32_t round = 0; round < options.rounds; ++round) {
    std::ranges::shuffle(order, random);
    MeanCosts costs;
    for (const std::size_t next : order) {
      if (next == cases.size()) {
        auto measured = costs_of_source(*source, run);
        if (!measured) return tl::unexpected(std::move(measured.error()));
        costs = *std::move(measured);
        one_done();
        continue;
      }
      const Experiment& experiment = cases[next].experiment;
      const auto result = run(experiment);
      if (!result) return tl::unexpected(result.error());
      validation.engine = result->engine;
      rounds[next].measured.push_back(static_cast<double>(std::max<Ns>(1, result->makespan_ns)));
      const CountedMicrobatches all{.first = 0, .last = experiment.program.microbatches};
      const auto replayed = predicted_ns(
          experiment, mean_costs(samples_of(result->timeline, experiment, all), experiment), predict);
      if (!replayed) return tl::unexpected(replayed.error());
      rounds[next].replayed.push_back(*replayed);
      one_done();
    }
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto predicted = predicted_ns(cases[i].experiment, costs, predict);
      if (!predicted) return tl::unexpected(predicted.error());
      rounds[i].predicted.push_back(*predicted);
    }
  }
  for (std::size_t i = 0; i < cases.size(); ++i)
    validation.cases.push_back(summary_of(cases[i].name, rounds[i], options.tolerance));
  return validation;
}

// --- texts ----------------------------------------------------------------------------------------

namespace {

std::string interval_text(const MeanInterval& interval) {
  return fmt::format("{:+.2f} +- {:.2f} %", 100 * interval.mean, 100 * interval.half_width);
}

}  // namespace

std::string validation_to_table(const Validation& validation) {
  Table table{.columns = {"program", "predicted", "measured", "error", "noise floor", "replay", "verdict"},
              .rows = {}};
  for (const ValidatedCase& one : validation.cases) {
    table.rows.push_back({text_cell(one.name),
                          period_cell(one.predicted_ns),
                          period_cell(one.measured_ns),
                          {interval_text(one.error), one.error.mean},
                          percent_cell(one.noise_floor),
                          {interval_text(one.replay), one.replay.mean},
                          text_cell(std::string(to_text(one.verdict)))});
  }
  return fmt::format(
      "{}\n{}: {} rounds on {}; the error is predicted / measured - 1 with its 95 % interval, and {} is "
      "allowed\n",
      table_to_text(table), to_text(validation.verdict()), validation.options.rounds, validation.engine,
      format_percent(validation.options.tolerance));
}

std::string validation_to_json(const Validation& validation) {
  using Json = nlohmann::ordered_json;
  const auto interval = [](const MeanInterval& of) {
    return Json{{"mean", of.mean}, {"half_width_95", of.half_width}};
  };
  Json document = {{"schema_version", 1},
                   {"kind", "validation"},
                   {"engine", validation.engine},
                   {"rounds", validation.options.rounds},
                   {"seed", validation.options.seed},
                   {"tolerance", validation.options.tolerance},
                   {"verdict", to_text(validation.verdict())}};
  document["cases"] = Json::array();
  for (const ValidatedCase& one : validation.cases) {
    document["cases"].push_back({{"name", one.name},
                                 {"predicted_ns", std::llround(one.predicted_ns)},
                                 {"measured_ns", std::llround(one.measured_ns)},
                                 {"error", interval(one.error)},
                                 {"noise_floor", one.noise_floor},
                                 {"replay_error", interval(one.replay)},
                                 {"verdict", to_text(one.verdict)}});
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace penstock
