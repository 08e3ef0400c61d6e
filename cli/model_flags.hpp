#pragma once
// Flags that describe a model and its devices, so that no scenario file is needed.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/subcommand.hpp"
#include "scenarios/read/override.hpp"

namespace penstock {

/// The values of these flags. An empty or absent value leaves the scenario's.
struct ModelFlags {
  std::string model;  ///< name of a config.json
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

/// Adds --memory-reserve, which is also part of add_trained_model_flags().
void add_memory_reserve_flag(Subcommand app, ModelFlags& flags);
/// Adds the flags for the model and its devices: --model, --sequence, --device, --nodes, --memory-reserve,
/// --precision.
void add_trained_model_flags(Subcommand app, ModelFlags& flags);
/// Adds these and the flags of parallelism: --tensor-parallel, ..., --recompute, --layer-split.
void add_model_flags(Subcommand app, ModelFlags& flags);

/// Returns the overrides for the flags that were given. Messages name the flag.
std::vector<Override> overrides_of(const ModelFlags& flags);

}  // namespace penstock
