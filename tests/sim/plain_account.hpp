#pragma once
// A slow and simple computation of idle time and its causes. Tests compare sim/why with it.

#include <array>
#include <cstdint>
#include <vector>

#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"

namespace penstock {

/// The time that each cause adds to the makespan, in nanoseconds.
using PlainShares = std::array<double, kIdleCauses>;

/// Returns the mean of the derivatives of the makespan by l, split by cause. The mean is over the middles of
/// `samples` equal steps. The function follows the rules of docs/design/semantics.md backwards from the end
/// of the run, and does not use the graph of causes. `times` are those of the run. It is suitable for a few
/// hundred actions.
PlainShares plain_shares(const Experiment& experiment, const FlatProgram& flat, const ProgramTimes& times,
                         std::int32_t samples);

}  // namespace penstock
