#pragma once
// The models of scenarios/library/models, built in, so that published figures need no files.

#include <cstdint>
#include <string_view>

#include "scenarios/model/model.hpp"

namespace penstock {

struct LibraryModel {
  LayerGraph graph;
  std::int64_t batch = 1;  ///< samples that its figures are of
};

/// "vgg16", "resnet50", "alexnet", "gnmt". Requires one of them.
LibraryModel library_model(std::string_view name);

}  // namespace penstock
