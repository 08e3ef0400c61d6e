#pragma once
// What `penstock plan` prints beside the plan: --factors and --noise.

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sim/planning/plan_factors.hpp"
#include "sim/planning/plan_regret.hpp"

namespace penstock {

/// Tables whose lines keep to `width` columns where that can be; 0: any width.
std::string factors_to_text(const PlanFactors& factors, std::size_t width);
nlohmann::ordered_json factors_to_json(const PlanFactors& factors);

/// What `penstock plan --noise` asked for and got.
struct RegretReport {
  ProfileNoise noise;
  std::vector<RegretRow> rows;
};

std::string regret_to_text(const RegretReport& report, std::size_t width);
nlohmann::ordered_json regret_to_json(const RegretReport& report);

}  // namespace penstock
