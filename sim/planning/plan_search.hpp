#pragma once
// The best plan that the simulator can find: recurrences and simple shapes propose, moves improve, and what
// is fastest when simulated is taken. Printed by `penstock plan`.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/partition/plan_options.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A plan that was tried for its own sake.
struct PlanCandidate {
  std::string name;         ///< "two stages 15-1 at 33"
  double predicted_ns = 0;  ///< the period that a recurrence promises
  double simulated_ns = 0;  ///< the steady period; infinite where it hangs under the scenario's channels
  bool is_exact = true;     ///< otherwise that is a mean over rounds
  Bytes peak_bytes = 0;     ///< simulated, of the fullest device
  bool fits = true;         ///< within the memory limit
};

struct SearchedPlan {
  PlannedScenario planned;
  std::vector<PlanCandidate> candidates;  ///< in the order in which they were tried
  std::int64_t simulations = 0;
  std::int64_t pruned = 0;    ///< starts that a bound kept from being simulated
  std::int64_t actions = 0;   ///< simulated, of all plans together
  std::int64_t left_out = 0;  ///< starts that were not reached within the budget's actions
  bool ran_out = false;       ///< of the budget's actions, with starts or moves left
  bool tried_all = false;     ///< every plan with its devices in order, but for those that a bound rules out
};

/// Where a search ends.
struct PlanBudget {
  std::int64_t simulations = 2000;
  /// Plans for many devices are streams of millions: half a minute or so.
  std::int64_t actions = std::int64_t{1} << 27;
};

/// The plan with the least simulated steady period within the memory limit; of equal ones that on the fewest
/// devices, then with the least peak memory. `options` say its form and limit; their objective does not
/// matter. Beyond the budget's simulations or actions no move is tried any more, beyond half of its actions
/// no start but one of each kind. Equal input gives an equal plan. Errors: those of planning_task(); no plan
/// that was tried fits.
tl::expected<SearchedPlan, std::string> search_plan(const Scenario& scenario, const PlanOptions& options,
                                                    const PlanBudget& budget = {});

/// What decides between plans: the simulator, or a recurrence by itself.
enum class PlanRanking : std::uint8_t { simulated, recurrence };

/// The plan alone; by simulation one of fewer simulations, for questions that ask for many plans. Errors:
/// those of search_plan() or plan_scenario().
tl::expected<PlannedScenario, std::string> plan_by(PlanRanking ranking, const Scenario& scenario,
                                                   const PlanOptions& options);

}  // namespace penstock
