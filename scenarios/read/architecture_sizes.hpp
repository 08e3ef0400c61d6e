#pragma once
// `model.transformer: {...}` as an Architecture: a GPT from its sizes, with what newer models have where it
// is asked for. Used by load_transformer.cpp and where a model is priced on a device.

#include <optional>
#include <span>

#include "scenarios/read/document.hpp"
#include "scenarios/read/keys.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/reader.hpp"

namespace penstock {

/// Nothing where a problem was noted: sizes that are missing or do not divide, keys that belong together, and
/// those of a transformer without a device (efficiency, tensor_parallel, ..).
std::optional<ArchitecturePart> read_architecture_sizes(const Node& transformer, Problem& problem);

/// Keys of `model.transformer` that make it another model than a GPT.
std::span<const Key> keys_of_architecture_sizes();

}  // namespace penstock
