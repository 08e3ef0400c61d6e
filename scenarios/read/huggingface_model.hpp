#pragma once
// From the keys of a configuration to an Architecture. Used by load_architecture.hpp.

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/read/huggingface_config.hpp"
#include "scenarios/read/huggingface_families.hpp"

namespace penstock {

/// What the configuration says, with all problems noted in it: sizes that are missing, out of range or do not
/// divide, and parts without a price among its unpriced keys.
Architecture architecture_of(HuggingFaceConfig& config, const HuggingFaceFamily& family);

}  // namespace penstock
