// Measures the costs for a prediction from stamps that the device writes around queued actions, like
// `penstock calibrate`, and never from the predicted run:
//
//     busy    1F1B over the same stages: all workers compute and send. An action costs the mean of its stage
//             and kind, and the mean gap to the next action, in which the stream passes events and stamps.
//     alone   naive: one action or message at a time. It gives a message's latency, which busy ranks would
//             hide.
//
// bench/gpu/validation.cpp predicts with these costs. tests/backend/standin/gpu_validation_test.cpp runs both
// on a model of CUDA.

#include "bench/gpu/gpu_calibration.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "backend/calibration/calibration_program.hpp"
#include "backend/calibration/calibration_samples.hpp"
#include "backend/calibration/line_fit.hpp"
#include "backend/executor/clock.hpp"
#include "bench/gpu/nominal_costs.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr std::int32_t kUnmeasured = 3;  // microbatches that load kernels and wake the GPU
constexpr std::int32_t kSamples = 10;
constexpr std::int32_t kUnits = 10;
constexpr Ns kNoLatency = 0;

/// Returns the mean, or 0 without samples.
Ns mean_of(const std::vector<Ns>& samples) {
  if (samples.empty()) return 0;
  return std::accumulate(samples.begin(), samples.end(), Ns{0}) / static_cast<Ns>(samples.size());
}

Ns mean_launch(const CalibrationSamples& samples) {
  std::vector<Ns> all;
  for (const auto& [stage, launches] : samples.launches)
    all.insert(all.end(), launches.begin(), launches.end());
  return mean_of(all);
}

struct CalibrationRunOfWorkers {
  CalibrationSamples samples;
  Timeline timeline;
};

/// Runs the calibration program of that load over the stages of `like` once. Even microbatches have B, odd
/// ones I and W.
tl::expected<CalibrationRunOfWorkers, std::string> calibrated(GpuWorkload workload, const Program& like,
                                                              CalibrationLoad load, const RunOnWorkers& run) {
  const CountedMicrobatches counted{.first = 2 * kUnmeasured, .last = 2 * (kUnmeasured + kSamples)};
  const std::int32_t drain = load == CalibrationLoad::busy ? like.stage_count() : 0;
  const auto program = calibration_program(
      like, {.load = load, .microbatches = counted.last + drain, .backward = BackwardForm::both});
  if (!program) return tl::unexpected(program.error());
  const Experiment experiment =
      gpu_experiment_of(*program, nominal_costs(*program, workload), kNoLatency, kUnlimitedBandwidth);
  auto timeline = run(experiment);
  if (!timeline) return tl::unexpected(std::move(timeline.error()));
  return CalibrationRunOfWorkers{.samples = samples_of(*timeline, experiment, counted),
                                 .timeline = *std::move(timeline)};
}

Ns mean_copy(const Timeline& timeline) {
  std::vector<Ns> copies;
  for (const Span& span : timeline.spans) {
    if (is_send(span.action.kind)) copies.push_back(span.end_ns - span.start_ns);
  }
  return mean_of(copies);
}

}  // namespace

Experiment gpu_experiment_of(const Program& program, const CostTable& costs, Ns latency_ns,
                             double bytes_per_second) {
  return {.name = program.schedule,
          .program = lower(program).value(),
          .costs = costs,
          .cluster = uniform_cluster({.devices = program.rank_count(),
                                      .bytes_per_second = bytes_per_second,
                                      .latency_ns = latency_ns,
                                      .memory_bytes = {}})
                         .value(),
          .channels = {},
          .notes = {}};
}

Ns unit_of(GpuWorkload workload, const std::vector<std::unique_ptr<WorkClock>>& clocks) {
  if (workload == GpuWorkload::occupy) return 1000;
  std::atomic<bool> done = false;
  std::vector<std::jthread> others;
  for (std::size_t worker = 1; worker < clocks.size(); ++worker) {
    others.emplace_back([&, worker] {
      wake_this_thread_promptly();
      while (!done) clocks[worker]->do_units(kUnits);
    });
  }
  wake_this_thread_promptly();
  std::vector<Ns> samples;
  for (int i = 0; i < kUnmeasured + kSamples; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    clocks.front()->do_units(kUnits);
    const Ns taken = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
    if (i >= kUnmeasured) samples.push_back(taken);
  }
  done = true;
  return std::max<Ns>(1, spread_of(samples).median_ns / kUnits);
}

tl::expected<std::vector<StageCost>, std::string> measured_stages(GpuWorkload workload, const Program& like,
                                                                  const RunOnWorkers& run) {
  const auto busy = calibrated(workload, like, CalibrationLoad::busy, run);
  if (!busy) return tl::unexpected(busy.error());
  const Ns launch = mean_launch(busy->samples);
  const auto time_of = [&](std::int32_t stage, ActionKind kind) {
    const auto found = busy->samples.durations.find({stage, kind});
    return found == busy->samples.durations.end() ? 0 : mean_of(found->second) + launch;
  };
  std::vector<StageCost> stages;
  for (std::int32_t stage = 0; stage < like.stage_count(); ++stage) {
    const Ns forward = time_of(stage, ActionKind::forward);
    stages.push_back({.forward_ns = forward,
                      .backward_ns = time_of(stage, ActionKind::backward),
                      .backward_input_ns = time_of(stage, ActionKind::backward_input),
                      .backward_weight_ns = time_of(stage, ActionKind::backward_weight),
                      .recompute_ns = forward,
                      .kept = 1});
  }
  return stages;
}

tl::expected<MessageTimes, std::string> measured_messages(std::int32_t workers, const RunOnWorkers& run) {
  const auto like = generate("1f1b", {.stages = workers, .microbatches = workers});
  if (!like) return tl::unexpected(like.error());
  const auto alone = calibrated(GpuWorkload::occupy, *like, CalibrationLoad::alone, run);
  if (!alone) return tl::unexpected(alone.error());
  const auto busy = calibrated(GpuWorkload::occupy, *like, CalibrationLoad::busy, run);
  if (!busy) return tl::unexpected(busy.error());
  std::vector<Ns> hops;
  for (const Hop& hop : alone->samples.hops) hops.push_back(hop.time_ns);
  MessageTimes times{.copy_alone_ns = mean_copy(alone->timeline), .copy_busy_ns = mean_copy(busy->timeline)};
  times.latency_ns = std::max<Ns>(0, mean_of(hops) - times.copy_alone_ns - mean_launch(alone->samples));
  return times;
}

}  // namespace penstock
