// Compares prediction and measurement for one configuration:
//
//     stated scenario --calibrate()--> cost file --schedule, M--> walk ------------------> predicted
//                    \--threads that hold each action for its stated time, repeated --> median: measured
//
// calibrate() measures the costs with its own programs. Schedules and numbers M with the same stages and
// links share one calibration (interleaved has another, with half stages). The random factors of jittered
// actions are drawn once, and the prediction uses the same factors. Threads that only sleep detect whether
// the machine is busy. If they wake up late, or if repeats differ much, the configuration is measured again,
// even if its error is small.

#include "bench/timing/timing_matrix.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "backend/calibration/calibration.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "backend/threads/thread_run.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/cost_table.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {
namespace {

// The shortest F of a stage. With shorter actions, the comparison would depend on the wake-up times of
// threads.
constexpr Ns kShortest = 2'500'000;
constexpr double kDisturbed = 0.04;  // if Spread::relative() is larger, the repeats are measured again
constexpr Ns kLate = 300'000;        // the limit of a late wake-up; usually it is a fifth of this
constexpr double kRanked = 0.03;  // a wrong order counts only if a schedule is slower by at least this share
constexpr double kJitter = 0.2;   // the largest change of an action's time in both directions, as a share

template <typename Value>
using OrError = tl::expected<Value, std::string>;

Jitter jitter_of(const TimingConfiguration& configuration) {
  return {.fraction = configuration.times == StageTimes::jittered ? kJitter : 0, .seed = 7};
}

std::string schedule_text(const TimingConfiguration& configuration) {
  return fmt::format("schedule: {{name: {}, stages: {}, microbatches: {}, virtual_stages: {}}}\n",
                     configuration.schedule, configuration.ranks, configuration.microbatches,
                     configuration.virtual_stages());
}

/// Returns one duration for each stage. Example with imbalanced stages and a forward of 4 us: "[4000 ns, 6000
/// ns, 8000 ns, 4000 ns]".
std::string durations_text(const TimingConfiguration& configuration) {
  std::vector<std::string> durations;
  const std::int32_t stages = configuration.ranks * configuration.virtual_stages();
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    const Ns halves = configuration.times == StageTimes::imbalanced ? 2 + stage % 3 : 2;
    durations.push_back(fmt::format("{} ns", configuration.stage_forward_ns() * halves / 2));
  }
  return fmt::format("[{}]", fmt::join(durations, ", "));
}

/// Returns the text of the stated scenario. On slow links, a message occupies the link for F / 5 and arrives
/// F / 2 later. On free links, a message has no bytes and takes no time.
std::string stated_text(const TimingConfiguration& configuration) {
  const std::string durations = durations_text(configuration);
  const Ns forward = configuration.stage_forward_ns();
  const bool slow = configuration.links == Links::slow;
  constexpr std::int64_t kActivation = 500'000;
  return fmt::format(
      "model:\n  stages: {{forward: {0}, backward_input: {0}, backward_weight: {0}, activation: {1} B}}\n"
      "cluster: {{preset: uniform, bandwidth: {2}, latency: {3} ns}}\n{4}",
      durations, slow ? kActivation : 0,
      slow ? fmt::format("{} B/s", kActivation * 1e9 / (static_cast<double>(forward) / 5)) : "unlimited",
      slow ? forward / 2 : 0, schedule_text(configuration));
}

OrError<Scenario> read(const std::string& text) { return parse_scenario(text, "timing.yaml", "."); }

OrError<Experiment> prepared(const OrError<Scenario>& scenario) {
  if (!scenario) return tl::unexpected(scenario.error());
  auto experiment = prepare(*scenario);
  if (!experiment) return tl::unexpected(experiment.error().message);
  return *std::move(experiment);
}

tl::expected<Result, UserError> run_in_threads(const Experiment& experiment, const RunOptions& options,
                                               const Jitter& jitter) {
  const auto pace = [&](const FlatProgram& flat) {
    WalkDurations durations = walk_durations(experiment, flat);
    return LinkPace{.hold = std::move(durations.hold), .latency = std::move(durations.latency)};
  };
  return run_on_threads(experiment, pace, options, OccupyFamily(experiment, jitter));
}

/// Returns the makespan of `calibrated` with the jitter of `stated`. Each action takes its calibrated time,
/// plus the change of its stated time by the random factor of the run (held_ns).
Ns makespan_ns(const Experiment& calibrated, const Experiment& stated, const Jitter& jitter) {
  const FlatProgram flat =
      flatten(calibrated.program, calibrated.costs,
              {.channels = calibrated.channels, .iterations = calibrated.program.iterations});
  WalkDurations durations = walk_durations(calibrated, flat);
  for (std::size_t p = 0; p < flat.ops.size(); ++p) {
    if (flat.ops[p] != FlatOp::compute) continue;
    const auto end = static_cast<std::size_t>(flat.group_end(static_cast<std::int32_t>(p)));
    const std::span<const Action> group(&flat.actions[p], end - p);
    durations.compute[p] += held_ns(stated.costs, group, jitter) - group_duration_ns(stated.costs, group);
  }
  return last_end(walk(flat, durations, calibrated.channels).value());
}

/// Returns true if threads that only sleep wake up in time, with at most one exception in ten.
bool machine_is_quiet() {
  constexpr int kThreads = 4;
  constexpr int kNaps = 10;
  static constexpr std::chrono::nanoseconds kNap = std::chrono::milliseconds(2);
  std::array<std::vector<Ns>, kThreads> late;
  {
    std::vector<std::jthread> threads;
    for (std::vector<Ns>& of_thread : late) {
      threads.emplace_back([&of_thread] {
        for (int nap = 0; nap < kNaps; ++nap) {
          const auto begin = std::chrono::steady_clock::now();
          std::this_thread::sleep_for(kNap);
          of_thread.push_back((std::chrono::steady_clock::now() - begin - kNap).count());
        }
      });
    }
  }
  std::ptrdiff_t count = 0;
  for (const std::vector<Ns>& of_thread : late)
    count += std::ranges::count_if(of_thread, [](Ns ns) { return ns > kLate; });
  return count <= kThreads * kNaps / 10;
}

/// Waits some seconds, or until the machine is quiet.
void wait_for_quiet() {
  for (int i = 0; i < 20 && !machine_is_quiet(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
}

/// Returns true if b was measured to be clearly slower but was not predicted to be slower.
bool is_ranked_wrong(const TimingOutcome& a, const TimingOutcome& b) {
  if (!a.configuration.same_model() || !b.configuration.same_model()) return false;
  return static_cast<double>(a.measured) * (1 + kRanked) < static_cast<double>(b.measured) &&
         a.predicted >= b.predicted;
}

}  // namespace

std::string_view to_text(StageTimes times) {
  switch (times) {
    case StageTimes::balanced:
      return "balanced";
    case StageTimes::imbalanced:
      return "imbalanced";
    case StageTimes::jittered:
      return "jittered";
  }
  return "";
}

std::string_view to_text(Links links) { return links == Links::free ? "free" : "slow"; }

Ns TimingConfiguration::stage_forward_ns() const {
  const Ns share = forward_ns / virtual_stages();
  return share >= kShortest ? share : forward_ns;
}

OrError<Scenario> stated_scenario(const TimingConfiguration& configuration) {
  return read(stated_text(configuration));
}

OrError<Scenario> TimingPredictions::calibrated_scenario(const TimingConfiguration& configuration) {
  // All fields on which the calibration does not depend are set to one value, so that configurations share a
  // calibration. Jitter is added to the prediction later (makespan_ns).
  TimingConfiguration key = configuration;
  key.schedule = configuration.virtual_stages() > 1 ? "interleaved" : "1f1b";
  key.microbatches = configuration.ranks;
  if (key.times == StageTimes::jittered) key.times = StageTimes::balanced;
  if (!cost_files_.contains(key)) {
    const auto scenario = stated_scenario(key);
    if (!scenario) return scenario;
    const CalibrationOptions options{.warmup = 1, .samples = 6, .kinds = CalibrationKinds::all};
    const auto calibration = calibrate(*scenario, options, [](const Experiment& experiment) {
      wait_for_quiet();
      return run_in_threads(experiment, {.warmup = 0, .repeats = 1}, {});
    });
    if (!calibration) return tl::unexpected(calibration.error().message);
    cost_files_[key] = cost_file(*calibration);
  }
  return read(cost_files_.at(key) + schedule_text(configuration));
}

OrError<Ns> TimingPredictions::predicted_ns(const TimingConfiguration& configuration) {
  const auto calibrated = prepared(calibrated_scenario(configuration));
  if (!calibrated) return tl::unexpected(calibrated.error());
  const auto stated = prepared(stated_scenario(configuration));
  if (!stated) return tl::unexpected(stated.error());
  return makespan_ns(*calibrated, *stated, jitter_of(configuration));
}

OrError<Ns> measured_ns(const TimingConfiguration& configuration, std::int32_t repeats) {
  const auto experiment = prepared(stated_scenario(configuration));
  if (!experiment) return tl::unexpected(experiment.error());
  Spread spread;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    wait_for_quiet();
    std::vector<Ns> times;
    for (std::int32_t i = 0; i < repeats; ++i) {
      const auto result =
          run_in_threads(*experiment, {.warmup = i == 0 ? 1 : 0, .repeats = 1}, jitter_of(configuration));
      if (!result) return tl::unexpected(result.error().message);
      times.push_back(result->makespan_ns);
    }
    spread = spread_of(std::move(times));
    if (spread.relative() <= kDisturbed && machine_is_quiet()) break;
  }
  return spread.median_ns;
}

std::string to_text(const TimingOutcome& outcome) {
  const TimingConfiguration& c = outcome.configuration;
  return fmt::format(
      "{:11} K={} M={:<2} {:10} {} links: predicted {:8.3f} ms, measured {:8.3f} ms, error {:+.2f} %",
      c.schedule, c.ranks, c.microbatches, to_text(c.times), to_text(c.links),
      static_cast<double>(outcome.predicted) / 1e6, static_cast<double>(outcome.measured) / 1e6,
      100 * outcome.error());
}

OrError<std::vector<TimingOutcome>> outcomes_of(const std::vector<std::string>& schedules,
                                                const TimingConfiguration& shape,
                                                TimingPredictions& predictions, std::int32_t repeats) {
  std::vector<TimingOutcome> outcomes;
  for (const std::string& schedule : schedules) {
    TimingConfiguration configuration = shape;
    configuration.schedule = schedule;
    const auto predicted = predictions.predicted_ns(configuration);
    if (!predicted) return tl::unexpected(predicted.error());
    const auto measured = measured_ns(configuration, repeats);
    if (!measured) return tl::unexpected(measured.error());
    outcomes.push_back({configuration, *predicted, *measured});
  }
  // A wrong order may be the result of one disturbed measurement, so both are measured again. Predictions do
  // not change.
  for (TimingOutcome& a : outcomes) {
    for (TimingOutcome& b : outcomes) {
      for (int attempt = 0; attempt < 2 && is_ranked_wrong(a, b); ++attempt) {
        for (TimingOutcome* again : {&a, &b}) {
          const auto measured = measured_ns(again->configuration, repeats);
          if (!measured) return tl::unexpected(measured.error());
          again->measured = *measured;
        }
      }
    }
  }
  return outcomes;
}

std::vector<std::string> ranked_wrong(const std::vector<TimingOutcome>& outcomes) {
  std::vector<std::string> wrong;
  for (const TimingOutcome& a : outcomes) {
    for (const TimingOutcome& b : outcomes) {
      if (is_ranked_wrong(a, b))
        wrong.push_back(fmt::format("{} and {}", a.configuration.schedule, b.configuration.schedule));
    }
  }
  return wrong;
}

double mean_absolute_error(const std::vector<TimingOutcome>& outcomes) {
  double sum = 0;
  for (const TimingOutcome& outcome : outcomes) sum += std::abs(outcome.error());
  return outcomes.empty() ? 0 : sum / static_cast<double>(outcomes.size());
}

}  // namespace penstock
