#pragma once
// What the names of a configuration's keys say where nothing reads them. Used by huggingface_config.hpp.

#include <string_view>

namespace penstock {

/// True of keys that change neither sizes nor work: token ids, dropout, rotary angles, initial values, what a
/// tokenizer or a generator wants, how published weights are stored, layers that are trained only if asked
/// for.
bool is_without_price(std::string_view key);

/// True of keys whose words name a part of a model or a size of one ("mamba_d_state", "vision_config").
bool hints_at_structure(std::string_view key);

}  // namespace penstock
