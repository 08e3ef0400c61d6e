#pragma once
// Stage modules on GPUs whose messages say where they come from: each is numbers that count up from one that
// depends on all that the message depends on, made by a kernel. What arrives is copied aside by a kernel on
// the compute stream, and compared when the run has ended.

#include "backend/cuda/local_run.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// The family's account() throws at the first message or sum that is not what it has to be.
MakeCudaModules traced(const Experiment& experiment);

}  // namespace penstock
