#pragma once
// The loss of a plan that was made from a noisy profile. `penstock plan --noise` prints it.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/partition/plan_options.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/planning/plan_search.hpp"

namespace penstock {

/// The noise of profiles. Each forward and backward time of a layer is multiplied by its own factor, drawn
/// uniformly from [1 - noise, 1 + noise]. A random number is a function of the seed, the trial and the layer.
/// So at every level of noise, a trial changes each time in the same direction.
struct ProfileNoise {
  std::vector<double> levels = {0.05, 0.1, 0.2};  ///< half-widths of the noise, each 0 to 1
  std::int32_t trials = 20;                       ///< trials at each level, >= 1
  std::uint64_t seed = 1;
};

/// The relative increase of a plan's period over the plan made from the true profile, over all trials. Both
/// periods are computed with the true times.
struct Regret {
  double median = 0;
  double worst = 0;

  friend bool operator==(const Regret&, const Regret&) = default;
};

/// All trials at one level of noise.
struct RegretRow {
  double noise = 0;
  std::int32_t other_plans = 0;  ///< trials with another plan than that for the true profile
  Regret recurrence{};           ///< regret of the recurrence's period; never below 0
  /// Regret of the simulated period; below 0 if a noisy profile led to a better plan by chance.
  Regret simulated{};

  friend bool operator==(const RegretRow&, const RegretRow&) = default;
};

/// Makes plans from noisy profiles and computes their periods with the true profile, on all cores. Equal
/// input gives equal output on any number of cores. Errors: the errors of evaluate_plan(), and a plan that
/// takes no time.
tl::expected<std::vector<RegretRow>, std::string> plan_regret(const Scenario& scenario,
                                                              const PlanOptions& options,
                                                              const ProfileNoise& noise,
                                                              PlanRanking ranking = PlanRanking::recurrence);

}  // namespace penstock
