#pragma once
// Prints the results of `penstock plan`.

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
  std::string scenario;  ///< name of the file
  PlanOptions options;
  PlanRanking ranking = PlanRanking::simulated;
  std::vector<std::string> layers;  ///< names of the scenario's layers
  PlanEvaluation evaluation{};
  std::vector<PlanEvaluation> front{};
  std::optional<SearchedPlan> search{};  ///< present if plans were ranked by simulation
  std::optional<PlanFactors> factors{};  ///< absent: the plan takes no time
  bool explains_factors = false;         ///< print all rows of the factors
  std::optional<RegretReport> regret{};
};

/// Returns what ranked the plans: "simulated", "sum", ...
std::string_view objective_text(const PlanReport& report);

/// Returns the text. `width` limits the lines of tables; 0: no limit.
std::string plan_to_text(const PlanReport& report, std::size_t width = 0);
std::string plan_to_json(const PlanReport& report);

}  // namespace penstock
