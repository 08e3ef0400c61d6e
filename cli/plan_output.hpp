#pragma once
// What `penstock plan` prints.

#include <optional>
#include <string>
#include <vector>

#include "cli/plan_factors_output.hpp"
#include "scenarios/plan_options.hpp"
#include "sim/plan_evaluation.hpp"
#include "sim/plan_factors.hpp"

namespace penstock {

/// Everything that is printed about one plan.
struct PlanReport {
  std::string scenario;  ///< the file
  PlanOptions options;
  std::vector<std::string> layers;  ///< names of the scenario's layers
  PlanEvaluation evaluation;
  std::vector<PlanEvaluation> front;
  std::optional<PlanFactors> factors{};
  std::optional<RegretReport> regret{};
};

std::string plan_to_text(const PlanReport& report);
std::string plan_to_json(const PlanReport& report);

}  // namespace penstock
