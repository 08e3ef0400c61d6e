#pragma once
// Stage modules on GPUs whose messages say where they come from: each is numbers that count up from one that
// depends on all that the message depends on, made by a kernel. What arrives is copied aside by a kernel on
// the compute stream, and compared when the run has ended.

#include <string>

#include "backend/cuda/local_run.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

inline constexpr Bytes kTracedMessage = 64;  // eight numbers

/// What they take: messages and gradients of their size; a backward twice as long as a forward.
Experiment traced_experiment(const std::string& schedule, const Shape& shape, Ns forward_ns);

/// The family's account() throws at the first message or sum that is not what it has to be.
MakeCudaModules traced(const Experiment& experiment);

}  // namespace penstock
