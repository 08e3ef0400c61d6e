#pragma once
// NCCL on the GPUs of this machine, as `penstock selftest` tries it: a small program on several, calls of one
// rank on one.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/cuda/device_checks.hpp"
#include "backend/executor/measured_run.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// What it runs, on links that take no time. Error: fewer than one rank.
tl::expected<Experiment, std::string> nccl_self_test_experiment(std::int32_t ranks);

/// 1F1B of 2 ms kernels and messages of 1 MiB: "NCCL: 1f1b on 4 ranks took 41.2 ms, 40.0 ms of it without
/// links". RunFault::unavailable where there are fewer than two GPUs; an
/// error, too, when the ranks did not send what they were asked to. This process must have no other threads
/// and must not have started CUDA.
tl::expected<std::string, RunError> nccl_self_test();

/// Tries what a communicator of one rank can show: a message to itself, a sum, and the abort of an operation
/// that waits. NCCL before 2.30 refuses two ranks on one GPU, so that nothing else can be tried there. Starts
/// CUDA in this process.
std::vector<DeviceCheck> check_nccl_alone(std::int32_t device);

}  // namespace penstock
