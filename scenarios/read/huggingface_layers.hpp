#pragma once
// Which layers of a configuration have experts, and which of them a window. Used by huggingface_model.hpp.

#include <cstddef>
#include <vector>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/read/huggingface_config.hpp"
#include "scenarios/read/huggingface_families.hpp"

namespace penstock {

/// The kinds of `layers` layers; none has experts where the model has none. Types of layers that are no
/// attention become unpriced keys of `config`; lists of another length are problems.
std::vector<LayerKind> layer_kinds_of(HuggingFaceConfig& config, const HuggingFaceFamily& family,
                                      std::size_t layers, bool has_experts);

}  // namespace penstock
