#pragma once
// A scenario of layers made ready to be planned.

#include "scenarios/read/scenario.hpp"

namespace penstock {

/// The scenario with the parallel branches of its layers merged where they have too many downsets to be
/// planned over, and a note that says so; others as they are.
Scenario with_merged_branches(Scenario scenario);

}  // namespace penstock
