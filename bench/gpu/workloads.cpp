// Counts work in equal units. An action of d ns is round(d / unit) units:
//
//     occupy              a unit holds its worker for 1 us: time as stated
//     gemm, imbalanced    a product of matrices, 1024 x 1024: time that the partition's SMs take
//     bandwidth           a copy of 32 MiB: time that all partitions' memory takes, which they share
//
// From the first line to the last, less time is stated and more time depends on the GPU. The time of a unit
// is measured (measured_stages()), so the code for `occupy` also works for real work.

#include "bench/gpu/workloads.hpp"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "backend/calibration/calibration.hpp"
#include "backend/calibration/calibration_samples.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/launch_count.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/module_family.hpp"
#include "bench/gpu/validation_rows.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

constexpr int kWidth = 1024;  // size of the matrices: 2.1 GFLOP a product
constexpr std::size_t kMatrixBytes = sizeof(float) * kWidth * kWidth;
constexpr std::size_t kCopyBytes = std::size_t{32} << 20;  // bytes of one copy
constexpr std::int32_t kBlocksPerSm = 8;                   // blocks of a copy
constexpr std::chrono::seconds kWorkDeadline(60);

void check_blas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error(std::string(call) + ": " + cublasGetStatusString(status));
  }
}

/// Returns a random matrix. With zeros, products would need less power, so clock rates would be higher.
DeviceBuffer random_matrix(std::int32_t device, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> even(-1, 1);
  std::vector<float> numbers(static_cast<std::size_t>(kWidth) * kWidth);
  for (float& number : numbers) number = even(random);
  DeviceBuffer matrix(device, kMatrixBytes);
  check_cuda(cudaMemcpy(matrix.data(), numbers.data(), kMatrixBytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  return matrix;
}

bool multiplies(GpuWorkload workload) {
  return workload == GpuWorkload::gemm || workload == GpuWorkload::imbalanced;
}

}  // namespace

/// cuBLAS on one worker's stream. It chooses its kernels by the number of SMs, so the number of SMs of the
/// partition must be set.
struct WorkClock::Blas {
  cublasHandle_t handle = nullptr;
  explicit Blas(const CudaPlace& place) {
    check_blas(cublasCreate(&handle), "cublasCreate");
    check_blas(cublasSetStream(handle, place.stream.stream), "cublasSetStream");
    if (!place.whole) check_blas(cublasSetSmCountTarget(handle, place.sms), "cublasSetSmCountTarget");
  }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  ~Blas() { cublasDestroy(handle); }
};

WorkClock::WorkClock(GpuWorkload workload, const CudaPlace& place, Ns unit_ns)
    : workload_(workload), place_(place), unit_ns_(unit_ns) {
  use_device(place.stream.device);
  if (multiplies(workload)) {
    blas_ = std::make_unique<Blas>(place);
    a_ = random_matrix(place.stream.device, 1);
    b_ = random_matrix(place.stream.device, 2);
    c_ = DeviceBuffer(place.stream.device, kMatrixBytes);
  } else if (workload == GpuWorkload::bandwidth) {
    a_ = DeviceBuffer(place.stream.device, kCopyBytes);
    b_ = DeviceBuffer(place.stream.device, kCopyBytes);
  }
}

WorkClock::~WorkClock() = default;

void WorkClock::launch_unit() const {
  const float one = 1;
  const float zero = 0;
  if (multiplies(workload_)) {
    ++launches_of_this_thread;
    check_blas(cublasSgemm(blas_->handle, CUBLAS_OP_N, CUBLAS_OP_N, kWidth, kWidth, kWidth, &one,
                           static_cast<const float*>(a_.data()), kWidth, static_cast<const float*>(b_.data()),
                           kWidth, &zero, static_cast<float*>(c_.data()), kWidth),
               "cublasSgemm");
  } else {
    launch_copy(a_.data(), b_.data(), kCopyBytes / 16, place_.sms * kBlocksPerSm, place_.stream.stream);
  }
}

void WorkClock::launch_units(std::int64_t units) const {
  use_device(place_.stream.device);
  if (workload_ == GpuWorkload::occupy) {
    launch_hold(static_cast<std::uint64_t>(units) * 1000, place_.stream.stream);
  } else {
    for (std::int64_t i = 0; i < units; ++i) launch_unit();
  }
}

void WorkClock::do_units(std::int64_t units) const {
  launch_units(units);
  wait_for(place_.stream, {.stopped = {}, .deadline = kWorkDeadline});
}

std::int64_t WorkClock::units_of(Ns duration_ns) const {
  const double units = static_cast<double>(duration_ns) / static_cast<double>(unit_ns_);
  return std::max<std::int64_t>(1, std::llround(units));
}

void WorkClock::hold_for(Ns duration_ns, const std::stop_token&) const {
  launch_units(units_of(duration_ns));
}

// Every action of a stage uses the clock of its rank and not the clock of the run.
StageModules WorkFamily::modules(std::optional<std::int32_t>, const Clock&) const {
  const Program& program = nominal_.program;
  StageModules modules(static_cast<std::size_t>(program.rank_count()));
  for (auto& of_rank : modules) of_rank.resize(static_cast<std::size_t>(program.stage_count()));
  for (std::size_t stage = 0; stage < program.placement.stages.size(); ++stage) {
    for (const std::int32_t rank : program.placement.stages[stage].ranks) {
      modules[static_cast<std::size_t>(rank)][stage] =
          std::make_unique<OccupyModule>(nominal_.costs, *clocks_[static_cast<std::size_t>(rank)], Jitter{});
    }
  }
  return modules;
}

// Measures the costs for a prediction. Like `penstock calibrate`, it uses time stamps of the device around
// queued actions. It never uses the predicted run:
//
//     busy    1F1B over the same stages: all workers compute and send. An action costs the mean of its stage
//             and kind, and the mean gap to the next action, in which the stream passes events and stamps.
//     alone   naive: one action or message at a time. It gives a message's latency, which busy ranks would
//             hide.
//
// bench/gpu/validation.cpp predicts with these costs. tests/backend/standin/self_tests_test.cpp runs both
// on a model of CUDA.

namespace {

// First microbatches, in which kernels are loaded and the GPU leaves its idle state.
constexpr std::int32_t kUnmeasured = 3;
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

/// Runs the calibration program of this load once, with the stages of `like`. Even microbatches have B, and
/// odd ones have I and W.
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
