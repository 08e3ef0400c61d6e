#pragma once
// How the tests of this folder read scenarios from text, with failures shown.

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/document_edits.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "tests/test_files.hpp"

namespace penstock {

/// The scenario in `text`, called "s.yaml"; file names in it are relative to this folder's `must_fail`.
inline Scenario read_scenario(std::string_view text, const std::vector<Override>& overrides = {}) {
  auto scenario = parse_scenario(text, "s.yaml", source_path("tests/scenarios/must_fail"), overrides);
  EXPECT_TRUE(scenario) << scenario.error();
  return scenario.value_or(Scenario{});
}

/// Why `text` is no scenario.
inline std::string refusal(std::string_view text, const std::vector<Override>& overrides = {}) {
  const auto scenario = parse_scenario(text, "s.yaml", source_path("tests/scenarios/must_fail"), overrides);
  return scenario ? "no error" : scenario.error();
}

/// The experiment of a scenario that must have one.
inline Experiment prepared(const Scenario& scenario) {
  auto experiment = prepare(scenario);
  EXPECT_TRUE(experiment) << experiment.error().message;
  return experiment.value_or(Experiment{});
}

inline Experiment prepared(std::string_view text, const std::vector<Override>& overrides = {}) {
  return prepared(read_scenario(text, overrides));
}

}  // namespace penstock
