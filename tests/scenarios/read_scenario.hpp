#pragma once
// Reads scenarios from text for the tests of this folder, and reports failures.

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "tests/test_files.hpp"

namespace penstock {

/// Returns the scenario in `text`. Messages call it "s.yaml". File names in it are relative to the folder
/// `must_fail`.
inline Scenario read_scenario(std::string_view text, const std::vector<Override>& overrides = {}) {
  auto scenario = parse_scenario(text, "s.yaml", source_path("tests/scenarios/must_fail"), overrides);
  EXPECT_TRUE(scenario) << scenario.error();
  return scenario.value_or(Scenario{});
}

/// Returns the error message for `text`, or "no error".
inline std::string refusal(std::string_view text, const std::vector<Override>& overrides = {}) {
  const auto scenario = parse_scenario(text, "s.yaml", source_path("tests/scenarios/must_fail"), overrides);
  return scenario ? "no error" : scenario.error();
}

/// Returns the experiment of a scenario. The test fails if preparation fails.
inline Experiment prepared(const Scenario& scenario) {
  auto experiment = prepare(scenario);
  EXPECT_TRUE(experiment) << experiment.error().message;
  return experiment.value_or(Experiment{});
}

inline Experiment prepared(std::string_view text, const std::vector<Override>& overrides = {}) {
  return prepared(read_scenario(text, overrides));
}

}  // namespace penstock
