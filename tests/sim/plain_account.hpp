#pragma once
// The slow, obvious account of idle time that sim/why is compared with. Linked into tests only.

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

/// Returns the mean of the derivatives of the makespan by l, at the middles of `samples` equal steps, split
/// by cause. It follows the rules of docs/design/semantics.md from the end of the run backwards, and knows
/// nothing of the graph of causes. `times` are those of the run. For a few hundred actions.
PlainShares plain_shares(const Experiment& experiment, const FlatProgram& flat, const ProgramTimes& times,
                         std::int32_t samples);

}  // namespace penstock
