#pragma once
// Reads the models in scenarios/library/models.

#include <filesystem>
#include <optional>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "scenarios/model/model.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "tests/test_files.hpp"

namespace penstock {

/// Returns a model of the library. Its figures hold for the batch size of its profile.
inline LayerGraph library_model(const std::string& name) {
  const auto scenario =
      parse_scenario("model: " + name + ".yaml", name, source_path("scenarios/library/models"));
  EXPECT_TRUE(scenario) << scenario.error();
  return scenario ? std::get<LayerGraph>(scenario->model) : LayerGraph{};
}

// Reads published profiles, if the reference material is next to the checkout.

inline constexpr const char* kNoReference = "the reference material is not beside the checkout";

/// Returns the profile `model`.graph.txt, or nothing if there is no reference material.
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
