#pragma once
// The slow, obvious engine that every other engine is compared with. Linked into tests and benchmarks only.

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// The timeline of a program that does not hang, by raising start times until every rule holds. Knows
/// nothing of FlatProgram. Cubic and worse: for a few hundred actions.
Timeline reference_engine(const Experiment& experiment);

}  // namespace penstock
