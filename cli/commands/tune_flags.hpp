#pragma once
// Reads the flags of `penstock tune` into a request for tune().

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"
#include "sim/choose/configuration.hpp"

namespace penstock {

/// The texts that state the allowed values of each choice. An empty text allows all values of the choice.
struct TuneChoiceFlags {
  std::vector<std::string> schedules;
  std::vector<std::string> layer_splits;
  std::string tensor;
  std::string context;
  std::string context_exchange;
  std::string expert;
  std::string data;
  std::string order;
  std::string stages;
  std::string virtual_stages;
  std::string micro_batch_size;
  std::string recompute;
  std::string sharding;
  std::optional<std::int64_t> max_nodes;
  std::string memory_limit;
};

struct TuneFlags {
  InputFlags input;
  TuneChoiceFlags choices;
  OutputFlags output;
  std::int64_t top = 10;
  bool details = false;  ///< Print all tables, as in a .txt file.
  bool list = false;
  bool exhaustive = false;
  bool sensitivity = false;
  std::string emit;  ///< "megatron" or "torchtitan"
  std::optional<double> price;
  std::optional<double> tokens;
};

void add_tune_flags(Subcommand app, TuneFlags& flags);

/// Returns the input flags of `penstock tune`. They also contain --set entries for the memory limit and the
/// price.
InputFlags base_input(const TuneFlags& flags);

/// Returns the request for the search that the flags describe. Fails if the model is not on named devices,
/// if the global batch is missing, or if a choice has an unknown value.
tl::expected<TuneRequest, UserError> request_of(const TuneFlags& flags);

}  // namespace penstock
