#pragma once
// Turns the keys of a configuration into an Architecture. Used by load_architecture.hpp.

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/read/huggingface_config.hpp"
#include "scenarios/read/huggingface_families.hpp"

namespace penstock {

/// Returns the model that the configuration describes. Notes problems in `config`: sizes that are missing,
/// out of range or do not divide. Parts that cannot be priced become its unpriced keys.
Architecture architecture_of(HuggingFaceConfig& config, const HuggingFaceFamily& family);

}  // namespace penstock
