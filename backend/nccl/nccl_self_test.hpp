#pragma once
// A small program over NCCL on all GPUs of this machine: part of `penstock selftest`.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

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

}  // namespace penstock
