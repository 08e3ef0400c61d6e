#pragma once
// What a plan loses that was made from a noisy profile. Printed by `penstock plan --noise`.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/partition/plan_options.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/planning/plan_search.hpp"

namespace penstock {

/// How profiles are disturbed: each layer's forward and backward time is multiplied by a factor of its own,
/// drawn evenly from [1 - noise, 1 + noise]. All draws are functions of the seed, the trial and the layer, so
/// that a trial draws the same directions at every noise.
struct ProfileNoise {
  std::vector<double> levels = {0.05, 0.1, 0.2};  ///< each 0 to 1
  std::int32_t trials = 20;                       ///< >= 1, at each level
  std::uint64_t seed = 1;
};

/// By how much a plan's period is longer than that of the plan made from the true profile, over all trials.
/// Periods are those of the true times.
struct Regret {
  double median = 0;
  double worst = 0;

  friend bool operator==(const Regret&, const Regret&) = default;
};

/// All trials at one noise.
struct RegretRow {
  double noise = 0;
  std::int32_t other_plans = 0;  ///< trials whose plan is not the true one
  Regret recurrence{};           ///< of the recurrence's period; never below 0
  Regret simulated{};            ///< of the simulated period; below 0 where chance found a better plan

  friend bool operator==(const RegretRow&, const RegretRow&) = default;
};

/// Plans from disturbed profiles and prices the plans with the true one, on all cores; equal input gives
/// equal output on any number of them. Errors: those of evaluate_plan(); a plan that takes no time.
tl::expected<std::vector<RegretRow>, std::string> plan_regret(const Scenario& scenario,
                                                              const PlanOptions& options,
                                                              const ProfileNoise& noise,
                                                              PlanRanking ranking = PlanRanking::recurrence);

}  // namespace penstock
