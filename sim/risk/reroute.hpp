#pragma once
// Distributes the microbatches of a failed rank to the other ranks that hold its stages, so that the step can
// continue. `penstock risk --reroute` prints the time of such a step.

#include <cstdint>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the program after a rank has failed. The rank has an empty list and holds no stage. Its
/// microbatches are distributed in turn to the other ranks that hold the same stage. These ranks run the
/// moved microbatches while they wait for their own work. Requires a program of compute actions and
/// reductions. Errors: a stage of the rank that no other rank holds; updates by microbatch; sharded stages; a
/// rank that the program does not have.
tl::expected<Program, std::string> rerouted(const Experiment& experiment, std::int32_t failed);

/// Returns the experiment with all copies of its pipeline in one program. A model on named devices has its
/// copies outside of the program, and this function adds them. Other experiments do not change. Errors:
/// copies on unlike devices, or with microbatches that differ.
tl::expected<Experiment, std::string> with_all_copies(Experiment experiment);

/// The step of a program after one rank has failed.
struct ReroutedStep {
  std::int32_t rank = 0;   ///< the failed rank
  std::int32_t stage = 0;  ///< the first stage of the failed rank
  Ns step_ns = 0;          ///< the makespan of one iteration without it
};

/// The steps before and after a failure.
struct RerouteReport {
  Ns before_ns = 0;
  /// One entry for each group of ranks that hold the same stages. The first rank of the group has failed.
  std::vector<ReroutedStep> after;

  /// Returns the longest step after a failure. If several are equally long, returns the one with the lowest
  /// rank.
  const ReroutedStep& longest() const;
  double mean_ns() const;
};

/// Predicts the step before a failure, and one step after a failure for each group of ranks that hold the
/// same stages. rerouted() describes such a step. Errors: those of rerouted() and with_all_copies(); bad
/// input; a hang.
tl::expected<RerouteReport, UserError> reroute_report(const Scenario& scenario);

}  // namespace penstock
