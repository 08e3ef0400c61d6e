#pragma once
// Tests NCCL on the GPUs of this machine for `penstock selftest`: a small program on several GPUs, or calls
// of a single rank on one.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/cuda/self_test.hpp"
#include "backend/executor/measured_run.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/user_error.hpp"

namespace penstock {

/// Returns the experiment that the test runs, on links that take no time. Error: fewer than one rank.
tl::expected<Experiment, std::string> nccl_self_test_experiment(std::int32_t ranks);

/// Runs 1F1B with kernels of 2 ms and messages of 1 MiB. Returns, for example, "NCCL: 1f1b on 4 ranks took
/// 41.2 ms, 40.0 ms of it without links". Fails with ErrorKind::not_available on fewer than two GPUs. It is
/// also an error if the ranks did not send the expected bytes. This process must have no other threads and
/// must not have started CUDA.
tl::expected<std::string, UserError> nccl_self_test();

/// Tests what a communicator of one rank can show: a message to itself, a sum, and the abort of an operation
/// that waits. NCCL before 2.30 refuses two ranks on one GPU, so nothing else can be tested there. Starts
/// CUDA in this process.
std::vector<DeviceCheck> check_nccl_alone(std::int32_t device);

}  // namespace penstock
