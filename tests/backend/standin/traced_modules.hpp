#pragma once
// Stage modules on GPUs with messages that can be checked. A kernel makes the numbers of each message from a
// mark, which depends on all values that determine the message. At the receiver, a kernel on the compute
// stream copies the numbers. They are compared after the run.

#include <cstdint>
#include <string>

#include "backend/cuda/local_run.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

inline constexpr Bytes kTracedMessage = 64;  // eight numbers

/// Returns an experiment for these modules, with their sizes of messages and gradients. A backward takes
/// twice as long as a forward.
Experiment traced_experiment(const std::string& schedule, const Shape& shape, Ns forward_ns);

/// Returns a function that makes these modules. The family's account() throws at the first message or sum
/// with wrong numbers. An action launches `kernels` kernels: one that holds its worker, and short ones before
/// it.
MakeCudaModules traced(const Experiment& experiment, std::int32_t kernels = 1);

}  // namespace penstock
