#pragma once
// The measured training steps of scenarios/library/runs. They are compiled in, so that no caller needs their
// files.

#include "sim/measured/measured_runs.hpp"

namespace penstock {

/// Returns the runs of training_steps.csv.
MeasuredRuns library_runs();

}  // namespace penstock
