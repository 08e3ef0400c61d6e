#pragma once
// The models of scenarios/library/models.

#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "scenarios/model/model.hpp"
#include "scenarios/read/load.hpp"
#include "tests/source_path.hpp"

namespace penstock {

/// A model of the library, for the batch that it was profiled with.
inline LayerGraph library_model(const std::string& name) {
  const auto scenario =
      parse_scenario("model: " + name + ".yaml", name, source_path("scenarios/library/models"));
  EXPECT_TRUE(scenario) << scenario.error();
  return scenario ? std::get<LayerGraph>(scenario->model) : LayerGraph{};
}

}  // namespace penstock
