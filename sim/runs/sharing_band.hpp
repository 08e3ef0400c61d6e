#pragma once
// Measures how certain a makespan is if messages share links.

#include <optional>
#include <string>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// Returns the largest relative change of the makespan if all compute actions take slightly more or less
/// time. `makespan_ns` is the makespan of event_simulation(). Two more runs change durations by up to a
/// millionth and a hundred-thousandth (1 ns and 10 ns of a millisecond). Equal inputs give equal results.
/// Requires a program that does not hang.
double sharing_band(const Experiment& experiment, Ns makespan_ns);

/// Returns a note that states the band. Returns nothing if the band is at most 0.01 %.
std::optional<std::string> sharing_band_note(const Experiment& experiment, Ns makespan_ns);

}  // namespace penstock
