// Counts work in equal units. An action of d ns is round(d / unit) units:
//
//     occupy              a unit holds its worker for 1 us: time as stated
//     gemm, imbalanced    a product of matrices, 1024 x 1024: time that the partition's SMs take
//     bandwidth           a copy of 32 MiB: time that all partitions' memory takes, which they share
//
// From the first row to the last less is stated and more depends on the GPU. The time of a unit is measured
// (gpu_calibration.cpp), so that the modules of `occupy` also run real work.

#include "bench/gpu/workloads.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "backend/cuda/cuda_error.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/occupy_module.hpp"
#include "schedules/ir/program.hpp"

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

/// Returns a random matrix. Products of zeros take less power, so clocks would be higher.
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

/// The matrix library on one worker's stream. It chooses its kernels by the number of SMs, so on a partition
/// it must be told that number.
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

// Every action of a stage holds the clock of its rank, whatever clock the run has.
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

}  // namespace penstock
