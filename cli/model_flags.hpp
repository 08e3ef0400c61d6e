#pragma once
// Flags that describe a model and its devices. With them the user needs no scenario file.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/subcommand.hpp"
#include "scenarios/read/override.hpp"

namespace penstock {

/// The values of these flags. If a value is empty or absent, the scenario's value applies.
struct ModelFlags {
  std::string model;  ///< the name of a config.json file
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

/// Adds --memory-reserve. add_trained_model_flags() adds this flag, too.
void add_memory_reserve_flag(Subcommand app, ModelFlags& flags);
/// Adds the flags for the model and its devices, such as --model, --sequence, --device, --nodes and
/// --precision.
void add_trained_model_flags(Subcommand app, ModelFlags& flags);
/// Adds the flags of add_trained_model_flags() and the flags of parallelism: --tensor-parallel, ...,
/// --recompute, --layer-split.
void add_model_flags(Subcommand app, ModelFlags& flags);

/// Returns one scenario override for each flag that was given. Error messages name the flag.
std::vector<Override> overrides_of(const ModelFlags& flags);

}  // namespace penstock
