#pragma once
// Prints the results of `penstock plan`, including the tables for --factors and --noise.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "scenarios/partition/partition.hpp"
#include "sim/choose/plan_search.hpp"

namespace penstock {

/// Returns tables with the causes of the difference between the predicted and the simulated period. `width`
/// is the wanted length of table lines in characters; 0 means no limit.
std::string factors_to_text(const PlanFactors& factors, std::size_t width);
nlohmann::ordered_json factors_to_json(const PlanFactors& factors);

/// The options and the results of `penstock plan --noise`.
struct RegretReport {
  ProfileNoise noise;
  std::vector<RegretRow> rows;
};

std::string regret_to_text(const RegretReport& report, std::size_t width);
nlohmann::ordered_json regret_to_json(const RegretReport& report);

/// The data about a plan that `penstock plan` prints.
struct PlanReport {
  std::string scenario;  ///< the name of the scenario file
  PlanOptions options;
  PlanRanking ranking = PlanRanking::simulated;
  std::vector<std::string> layers;  ///< the names of the scenario's layers
  PlanEvaluation evaluation{};
  std::vector<PlanEvaluation> front{};
  std::optional<SearchedPlan> search{};  ///< the search; present if plans were ranked by simulation
  std::optional<PlanFactors> factors{};  ///< the factors; absent if the plan takes no time
  bool explains_factors = false;         ///< True to print the rows of all factors.
  std::optional<RegretReport> regret{};
};

/// Returns the name of the objective by which plans were ranked, such as "simulated" or "sum".
std::string_view objective_text(const PlanReport& report);

/// Returns the plan as text. `width` is the longest table line in characters; 0 means no limit.
std::string plan_to_text(const PlanReport& report, std::size_t width = 0);
std::string plan_to_json(const PlanReport& report);

}  // namespace penstock
