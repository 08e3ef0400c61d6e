#pragma once
// Tests NCCL on the GPUs of this machine for `penstock selftest`. On several GPUs the test runs a small
// program, and on one GPU it makes the calls that work with a single rank.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/cuda/self_test.hpp"
#include "backend/executor/measured_run.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/user_error.hpp"

namespace penstock {

/// Returns the experiment that the test runs. Its links take no time. Fails if `ranks` is less than 1.
tl::expected<Experiment, std::string> nccl_self_test_experiment(std::int32_t ranks);

/// Runs a 1F1B schedule with kernels of 2 ms and messages of 1 MiB. Returns a line such as "NCCL: 1f1b on 4
/// ranks took 41.2 ms, 40.0 ms of it without links". Fails if there are fewer than two GPUs
/// (ErrorKind::not_available), or if the ranks did not send the expected number of bytes. The calling
/// process must have no other threads and must not have started CUDA.
tl::expected<std::string, UserError> nccl_self_test();

/// Tests an NCCL communicator with a single rank: a message to itself, a sum, and the abort of an operation
/// that waits. All other tests need two ranks, and NCCL before 2.30 does not allow two ranks on one GPU.
/// Starts CUDA in this process.
std::vector<DeviceCheck> check_nccl_alone(std::int32_t device);

}  // namespace penstock
