#pragma once
// The published profiles, read where the reference material is beside the checkout.

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "scenarios/model/model.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/pipedream_profile.hpp"
#include "tests/source_path.hpp"

namespace penstock {

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
