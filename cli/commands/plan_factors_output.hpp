#pragma once
// Prints what `penstock plan` adds for the flags --factors and --noise.

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sim/planning/plan_factors.hpp"
#include "sim/planning/plan_regret.hpp"

namespace penstock {

/// Returns the tables as text. `width` is the wanted length of table lines in characters; 0 means no limit.
std::string factors_to_text(const PlanFactors& factors, std::size_t width);
nlohmann::ordered_json factors_to_json(const PlanFactors& factors);

/// The options and the results of `penstock plan --noise`.
struct RegretReport {
  ProfileNoise noise;
  std::vector<RegretRow> rows;
};

std::string regret_to_text(const RegretReport& report, std::size_t width);
nlohmann::ordered_json regret_to_json(const RegretReport& report);

}  // namespace penstock
