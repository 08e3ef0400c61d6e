#pragma once
// What `penstock plan` prints beside the plan: --factors and --noise.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sim/planning/plan_factors.hpp"
#include "sim/planning/plan_regret.hpp"

namespace penstock {

std::string factors_to_text(const PlanFactors& factors);
nlohmann::ordered_json factors_to_json(const PlanFactors& factors);

/// What `penstock plan --noise` asked for and got.
struct RegretReport {
  ProfileNoise noise;
  std::vector<RegretRow> rows;
};

std::string regret_to_text(const RegretReport& report);
nlohmann::ordered_json regret_to_json(const RegretReport& report);

}  // namespace penstock
