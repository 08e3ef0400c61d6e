#pragma once
// Reads `model.transformer: {...}` as an Architecture: the sizes of a GPT, and optional keys for the parts of
// newer models. Used by load_transformer.cpp and for models that are priced on a device.

#include <optional>
#include <span>

#include "scenarios/read/document.hpp"
#include "scenarios/read/keys.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/reader.hpp"

namespace penstock {

/// Returns the model, or nothing if a problem was noted. Problems are sizes that are missing or do not
/// divide, keys that must be given together, and keys that belong to a transformer without a device
/// (efficiency, tensor_parallel, ..).
std::optional<ArchitecturePart> read_architecture_sizes(const Node& transformer, Problem& problem);

/// Returns the keys of `model.transformer` that make the model different from a GPT.
std::span<const Key> keys_of_architecture_sizes();

}  // namespace penstock
