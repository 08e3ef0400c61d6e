#pragma once
// Reads and evaluates scenarios for the tests of plans. A failure makes the test fail with its message.

#include <gtest/gtest.h>

#include <string>

#include "scenarios/partition/partition.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/choose/plan_search.hpp"
#include "tests/test_files.hpp"

namespace penstock {

/// Returns the scenario in `text`. File names in it refer to the library's models.
inline Scenario read(const std::string& text) {
  auto scenario = parse_scenario(text, "s.yaml", source_path("scenarios/library/models"));
  EXPECT_TRUE(scenario) << scenario.error();
  return scenario.value_or(Scenario{});
}

inline PlanEvaluation evaluated(const std::string& text, const PlanOptions& options = {}) {
  auto evaluation = evaluate_plan(read(text), options);
  EXPECT_TRUE(evaluation) << evaluation.error();
  return evaluation.value_or(PlanEvaluation{});
}

}  // namespace penstock
