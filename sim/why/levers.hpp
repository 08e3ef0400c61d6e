#pragma once
// Says what to mend first: changes of costs, of the shape and of the order, each with the run that it leads
// to. Every lever is timed again, and nothing is extrapolated.

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

/// The smallest gain of a lever that is worth a line.
inline constexpr double kLeastGain = 0.001;

/// Levers, and the number of those that gain less than kLeastGain.
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

/// Sets the levers of an explanation: those of costs, of the number of microbatches and chunks, and of the
/// schedule, and the user's own. At most `most` levers are listed, and all of the user's own. Also sets the
/// peak of memory. Requires the scenario and the experiment of the run. Error: the scenario of a `WhatIf`
/// cannot be simulated.
tl::expected<void, UserError> add_levers(Explanation& explanation, const CausedRun& run,
                                         const Scenario& scenario, const Experiment& experiment,
                                         const std::vector<WhatIf>& own, std::size_t most);

/// Searches for the best order of the same stages on the same ranks, once with the activations that each rank
/// holds now and once with all of its device's memory, and sets `explanation.memory_limit`. The two searches
/// take `seconds` together. A note says so if the search cannot be made. Requires the scenario and the
/// experiment of the run. Error: the scenario cannot be simulated.
tl::expected<void, UserError> add_memory_limit_cost(Explanation& explanation, const Scenario& scenario,
                                                    const Experiment& experiment, double seconds);

/// Lists the levers with the largest gains first. Counts those beyond `most` and those below kLeastGain.
void list_levers(Explanation& explanation, LeverList found, std::vector<Lever> own, std::size_t most);

}  // namespace penstock
