#pragma once
// The models of scenarios/library/models.

#include <filesystem>
#include <optional>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "scenarios/model/model.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/pipedream_profile.hpp"
#include "tests/test_files.hpp"

namespace penstock {

/// A model of the library, for the batch that it was profiled with.
inline LayerGraph library_model(const std::string& name) {
  const auto scenario =
      parse_scenario("model: " + name + ".yaml", name, source_path("scenarios/library/models"));
  EXPECT_TRUE(scenario) << scenario.error();
  return scenario ? std::get<LayerGraph>(scenario->model) : LayerGraph{};
}

// The published profiles, read where the reference material is beside the checkout.

inline constexpr const char* kNoReference = "the reference material is not beside the checkout";

/// The profile `model`.graph.txt; nothing when the reference material is not there.
inline std::optional<LayerGraph> reference_profile(const std::string& model) {
  const std::filesystem::path path =
      source_path("../shared/reference/pipedream/profiles/") + model + ".graph.txt";
  if (!std::filesystem::exists(path)) return std::nullopt;
  const auto text = read_text_file(path, model);
  EXPECT_TRUE(text) << text.error();
  auto graph = parse_pipedream_profile(text.value_or(""), model);
  EXPECT_TRUE(graph) << graph.error();
  return graph.value_or(LayerGraph{});
}

}  // namespace penstock
