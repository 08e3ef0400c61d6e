#pragma once
// What a thread run costs beside the stated times, measured apart from any run that is to be predicted.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "schedules/action.hpp"
#include "schedules/cost_table.hpp"

namespace penstock {

struct ThreadCalibration {
  Ns action_overhead_ns = 0;  ///< what each occupied action takes longer than stated
  Ns link_latency_ns = 0;     ///< from a producer's end to its consumer's start on another thread
};

struct CalibrationOptions {
  Ns action_ns = 2'000'000;   ///< stated length of the calibrating actions
  std::int32_t actions = 40;  ///< of one run
  std::int32_t repeats = 5;   ///< the median counts
};

/// Times one rank that computes without a pause, then two ranks that pass one microbatch after another to
/// each other. Error: a run failed.
tl::expected<ThreadCalibration, std::string> calibrate_threads(const CalibrationOptions& options);

/// `costs` with the overhead on each F, B, I, W and R.
CostTable with_overhead(CostTable costs, Ns overhead_ns);

}  // namespace penstock
