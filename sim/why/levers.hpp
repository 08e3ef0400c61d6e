#pragma once
// Finds the changes with which a run gains most. They are changes of costs, of the shape and of the order.
// Each change (lever) comes with the run that it leads to. Every lever is predicted by a new run, and
// nothing is extrapolated.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/user_error.hpp"
#include "sim/engines/engines.hpp"
#include "sim/why/explain.hpp"

namespace penstock {

/// The smallest relative gain with which a lever is listed.
inline constexpr double kLeastGain = 0.001;

/// A list of levers, and the number of those that were left out because they gain less than kLeastGain.
struct LeverList {
  std::vector<Lever> levers;
  std::int32_t smaller = 0;
};

/// Returns the levers that change costs: faster stages, links, launches and collectives. `experiment` is the
/// experiment of the run, or null if only the run's spans are known.
LeverList cost_levers(const CausedRun& run, const Experiment* experiment);

/// A changed scenario that the user wants to compare.
struct WhatIf {
  std::string name;  ///< for example "model.stages.forward.2=1.2ms"
  Scenario scenario;
};

/// Sets the levers of an explanation, and the peak of memory. Levers change costs, the number of
/// microbatches or chunks, or the schedule. At most `most` of them are listed, and in addition all of the
/// user's `own` ones. `scenario` and `experiment` must be those of the run. Returns an error if the
/// scenario of a `WhatIf` cannot be simulated.
tl::expected<void, UserError> add_levers(Explanation& explanation, const CausedRun& run,
                                         const Scenario& scenario, const Experiment& experiment,
                                         const std::vector<WhatIf>& own, std::size_t most);

/// Sets `explanation.memory_limit`, the time that limited memory costs. It searches twice for the best order
/// of the same stages on the same ranks. The first search allows the activations that each rank holds now,
/// and the second allows all memory of its device. Both searches together take `seconds`. If they cannot be
/// made, a note says so. `scenario` and `experiment` must be those of the run. Returns an error if the
/// scenario cannot be simulated.
tl::expected<void, UserError> add_memory_limit_cost(Explanation& explanation, const Scenario& scenario,
                                                    const Experiment& experiment, double seconds);

/// Lists the levers of `found` in the explanation, the largest gain first, and all levers of `own`. Counts
/// the levers beyond `most` and those below kLeastGain.
void list_levers(Explanation& explanation, LeverList found, std::vector<Lever> own, std::size_t most);

}  // namespace penstock
