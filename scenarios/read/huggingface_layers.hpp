#pragma once
// Finds which layers of a configuration have experts, and which have an attention window. Used by
// huggingface_model.hpp.

#include <cstddef>
#include <vector>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/read/huggingface_config.hpp"
#include "scenarios/read/huggingface_families.hpp"

namespace penstock {

/// Returns the kinds of `layers` layers. No layer has experts if the model has none. Types of layers without
/// attention become unpriced keys of `config`. A list of another length is a problem.
std::vector<LayerKind> layer_kinds_of(HuggingFaceConfig& config, const HuggingFaceFamily& family,
                                      std::size_t layers, bool has_experts);

}  // namespace penstock
