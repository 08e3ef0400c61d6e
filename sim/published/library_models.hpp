#pragma once
// The models of scenarios/library/models. They are compiled in, so that published figures need no files.

#include <cstdint>
#include <string_view>

#include "scenarios/model/model.hpp"

namespace penstock {

struct LibraryModel {
  LayerGraph graph;
  std::int64_t batch = 1;  ///< number of samples for which the profile states times and bytes
};

/// Returns a model: "vgg16", "resnet50", "alexnet" or "gnmt". Requires one of these names.
LibraryModel library_model(std::string_view name);

}  // namespace penstock
