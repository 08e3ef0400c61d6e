#pragma once
// A small program over NCCL on all GPUs of this machine: part of `penstock selftest`.

#include <string>
#include <tl/expected.hpp>

#include "backend/measured_run.hpp"

namespace penstock {

/// 1F1B of 2 ms kernels and messages of 1 MiB: "NCCL: 1f1b on 4 ranks took 41.2 ms, 40.0 ms of it without
/// links". RunFault::unavailable where there are fewer than two GPUs. This process must have no other threads
/// and must not have started CUDA.
tl::expected<std::string, RunError> nccl_self_test();

}  // namespace penstock
