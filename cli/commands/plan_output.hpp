#pragma once
// What `penstock plan` prints.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/plan_factors_output.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "sim/planning/plan_evaluation.hpp"
#include "sim/planning/plan_factors.hpp"
#include "sim/planning/plan_search.hpp"

namespace penstock {

/// Everything that is printed about one plan.
struct PlanReport {
  std::string scenario;  ///< the file
  PlanOptions options;
  PlanRanking ranking = PlanRanking::simulated;
  std::vector<std::string> layers;  ///< names of the scenario's layers
  PlanEvaluation evaluation{};
  std::vector<PlanEvaluation> front{};
  std::optional<SearchedPlan> search{};  ///< where plans were ranked by simulation
  std::optional<PlanFactors> factors{};  ///< absent: the plan takes no time
  bool explains_factors = false;         ///< with all their rows
  std::optional<RegretReport> regret{};
};

/// What decided: "simulated", "sum", ...
std::string_view objective_text(const PlanReport& report);

/// `width` is that of the tables' lines; 0: any.
std::string plan_to_text(const PlanReport& report, std::size_t width = 0);
std::string plan_to_json(const PlanReport& report);

}  // namespace penstock
