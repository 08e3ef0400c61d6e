#pragma once
// Flags that say which model is trained on which devices, so that no scenario file is needed.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/subcommand.hpp"
#include "scenarios/read/override.hpp"

namespace penstock {

/// Of a model on named devices; empty or absent: as the scenario says it.
struct ModelFlags {
  std::string model;  ///< a config.json
  std::vector<std::string> ignore;
  std::optional<std::int64_t> sequence;
  std::optional<std::int64_t> layers;
  std::string device;
  std::optional<std::int64_t> nodes;
  std::optional<std::int64_t> tensor_parallel;
  std::optional<std::int64_t> context_parallel;
  std::optional<std::int64_t> expert_parallel;
  std::string precision;
  std::string memory_reserve;
  std::string recompute;
  std::string layer_split;

  friend bool operator==(const ModelFlags&, const ModelFlags&) = default;
};

/// Adds --memory-reserve, which add_trained_model_flags() has as well.
void add_memory_reserve_flag(Subcommand app, ModelFlags& flags);
/// --model, --sequence, --device, --nodes, --memory-reserve, --precision: what is trained on what.
void add_trained_model_flags(Subcommand app, ModelFlags& flags);
/// These, and how it is shared out: --tensor-parallel, ..., --recompute, --layer-split.
void add_model_flags(Subcommand app, ModelFlags& flags);

/// What the flags that were given put into a scenario, each under its own name in messages.
std::vector<Override> overrides_of(const ModelFlags& flags);

}  // namespace penstock
