#pragma once
// Searches for the plan with the best simulated period. Recurrences and simple shapes give the starts, moves
// improve them, and the simulator decides. `penstock plan` prints the result.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/partition/plan_options.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A start of the search that was simulated.
struct PlanCandidate {
  std::string name;         ///< for example "two stages 15-1 at 33"
  double predicted_ns = 0;  ///< period that a recurrence predicts
  double simulated_ns = 0;  ///< steady period; infinite if the plan hangs under the scenario's channels
  bool is_exact = true;     ///< true: the stream repeats exactly; false: simulated_ns is a mean over rounds
  Bytes peak_bytes = 0;     ///< simulated peak of the fullest device
  bool fits = true;         ///< the peak is within the memory limit
};

struct SearchedPlan {
  PlannedScenario planned;
  std::vector<PlanCandidate> candidates;  ///< in the order of the trials
  std::int64_t simulations = 0;
  std::int64_t pruned = 0;    ///< starts that were not simulated because a bound ruled them out
  std::int64_t actions = 0;   ///< simulated actions of all plans
  std::int64_t left_out = 0;  ///< starts that were not tried because the budget of actions was used up
  bool ran_out = false;       ///< the budget of actions ended before all starts and moves were tried
  bool tried_all = false;     ///< every plan with its devices in order was tried or excluded by a bound
};

/// The limits at which a search ends.
struct PlanBudget {
  std::int64_t simulations = 2000;
  /// Limit of simulated actions. Plans for many devices need streams of millions of actions; the limit means
  /// about half a minute.
  std::int64_t actions = std::int64_t{1} << 27;
};

/// Finds the plan with the shortest simulated steady period within the memory limit. Of equal plans it takes
/// one on the fewest devices, then the one with the lowest peak memory. `options` set the form and the limit;
/// their objective is not used. When the budget is used up, no further move is tried. After half of its
/// actions only one start of each family is tried. Equal input gives an equal plan. Errors: the errors of
/// planning_task(), and that no plan that was tried fits.
tl::expected<SearchedPlan, std::string> search_plan(const Scenario& scenario, const PlanOptions& options,
                                                    const PlanBudget& budget = {});

/// The judge of plans: the simulator, or only a recurrence.
enum class PlanRanking : std::uint8_t { simulated, recurrence };

/// Returns only the plan. A search by simulation has a smaller budget here, for callers that need many plans.
/// Errors: the errors of search_plan() or plan_scenario().
tl::expected<PlannedScenario, std::string> plan_by(PlanRanking ranking, const Scenario& scenario,
                                                   const PlanOptions& options);

}  // namespace penstock
