#pragma once
// Groups of flags that several subcommands share, among them those of a model and its devices. Each add_...()
// binds a group to an app; the group must outlive the app. input.hpp makes a scenario of the parsed values.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"
#include "scenarios/read/document_edits.hpp"
#include "schedules/ir/channel.hpp"
#include "sim/engines/engines.hpp"
#include "text/enum_words.hpp"

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

/// A scenario or program file, and the shape that overrides or replaces it.
struct InputFlags {
  std::string file;                   ///< empty: the flags describe everything
  std::vector<std::string> settings;  ///< each KEY=VALUE
  std::string schedule;
  std::optional<std::int64_t> pp_size;
  std::optional<std::int64_t> num_microbatches;
  std::optional<std::int64_t> virtual_stages;
  std::optional<std::int64_t> group_size;
  std::optional<std::int64_t> slices;
  std::optional<std::int64_t> data_parallel;
  std::optional<std::int64_t> buckets;
  std::optional<std::int64_t> sharding;
  std::string gather;                  ///< "step" or "microbatch"; empty: not given
  std::optional<std::int64_t> passes;  ///< limit of passes for a schedule that searches its order
  std::optional<std::int64_t> seed;
  std::optional<double> budget_seconds;
  std::string dialect;  ///< dialect of a .csv program; empty: not given
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> global_batch_size;
  std::optional<std::int64_t> iterations;
  std::string unit;  ///< what takes F = 1 ms without a model, "rank" or "stage"; empty: not given
  ModelFlags model;

  friend bool operator==(const InputFlags&, const InputFlags&) = default;
};

/// Largest seed of random numbers. A larger one would be rounded to another number.
constexpr std::int64_t kLargestSeed = 999'999'999'999'999'999;

/// How messages move. What is not given stays as in the scenario.
struct ChannelFlags {
  /// Sets everything that this transport declares, before the flags below; empty: none.
  std::string transport;
  std::string channel;
  bool blocking = false;
  std::optional<std::int64_t> capacity;
  std::string eager;

  friend bool operator==(const ChannelFlags&, const ChannelFlags&) = default;
};

/// One experiment, and the engine that predicts it.
struct PredictionFlags {
  InputFlags input;
  ChannelFlags channels;
  std::string engine;
};

/// The places to which the answer is written.
struct OutputFlags {
  bool json = false;
  bool quiet = false;
  std::vector<std::string> files;

  friend bool operator==(const OutputFlags&, const OutputFlags&) = default;
};

/// A file that a command reads or writes, and the argument that names it.
struct FileArgument {
  std::string_view name;  ///< "--baseline", or "the input" for one without a flag
  std::string file;       ///< empty: not given
};

/// The words that a flag can take.
struct Choice {
  std::vector<std::string_view> words;
  std::string help;
  std::string group;
  std::string type_name;
};
/// Returns the words of an enum as the words of a choice.
template <EnumWithWords Enum>
std::vector<std::string_view> enum_choices() {
  return {words_of<Enum>().begin(), words_of<Enum>().end()};
}
void add_choice(Subcommand app, const std::string& name, std::string& value, const Choice& choice);

/// Adds the positional argument SCENARIO | PROGRAM.
void add_input_file(Subcommand app, std::string& file);
/// Adds --data-parallel, --buckets, --sharding, --gather, --group-size and --slices, which also hold for each
/// point of a sweep.
void add_schedule_option_flags(Subcommand app, InputFlags& flags);
/// Adds --unit, for schedules without a model.
void add_unit_flag(Subcommand app, InputFlags& flags);
void add_shape_flags(Subcommand app, InputFlags& flags);
/// Adds the limits of the time that a schedule may search its order.
void add_search_flags(Subcommand app, InputFlags& flags);
/// Adds --micro-batch-size, --global-batch-size, --iterations and --set, which sweeps also have.
void add_batch_flags(Subcommand app, InputFlags& flags);
/// Adds only --set.
void add_settings_flag(Subcommand app, std::vector<std::string>& settings, const std::string& group);
void add_channel_flags(Subcommand app, ChannelFlags& flags);
/// Adds --transport, for commands that predict.
void add_transport_flag(Subcommand app, ChannelFlags& flags);
void add_engine_flag(Subcommand app, std::string& engine);
/// Adds all of the above for one point.
void add_prediction_flags(Subcommand app, PredictionFlags& flags);
/// Adds --json, -o and --quiet. `suffixes` are listed in the help: ".json .csv".
void add_output_flags(Subcommand app, OutputFlags& flags, const std::string& suffixes);

/// Returns the options with the flags applied. Error: a number of bytes that cannot be read.
tl::expected<ChannelOptions, UserError> with_flags(ChannelOptions channels, const ChannelFlags& flags);
/// Returns the engine that --engine names. Requires one of its values.
Engine engine_of(const std::string& name);

}  // namespace penstock
