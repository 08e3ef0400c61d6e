#pragma once
// The measured training steps of scenarios/library/runs, built in, so that nobody needs their files.

#include "sim/measured/measured_runs.hpp"

namespace penstock {

/// Those of training_steps.csv.
MeasuredRuns library_runs();

}  // namespace penstock
