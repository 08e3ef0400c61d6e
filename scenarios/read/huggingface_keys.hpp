#pragma once
// Classifies keys of a configuration that no code reads, by their names. Used by huggingface_config.hpp.

#include <string_view>

namespace penstock {

/// Returns true for keys that change neither sizes nor work: token ids, dropout, rotary angles, initial
/// values, settings of tokenizers and generators, and the storage of weights. Keys of multi-token prediction
/// also count, because a scenario must request it.
bool is_without_price(std::string_view key);

/// Returns true for keys that contain the name of a model part or of its size, such as "mamba_d_state" or
/// "vision_config".
bool hints_at_structure(std::string_view key);

}  // namespace penstock
