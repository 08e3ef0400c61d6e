#pragma once
// Groups of flags that several subcommands share. Each add_...() function binds the fields of a group to an
// app, so the group must outlive the app. input.hpp makes a scenario from the values.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"
#include "scenarios/read/document.hpp"
#include "schedules/ir/channel.hpp"
#include "sim/engines/engines.hpp"
#include "text/enum_words.hpp"

namespace penstock {

/// The flags of a model and its devices. If a value is empty or absent, the scenario's value applies.
struct ModelFlags {
  std::string model;  ///< The name of a config.json file or of a model of the library.
  std::vector<std::string> ignore;
  std::optional<std::int64_t> sequence;
  std::optional<std::int64_t> layers;
  std::string device;
  std::optional<std::int64_t> nodes;
  std::optional<std::int64_t> devices;  ///< Only for the configuration of another program.
  std::optional<std::int64_t> tensor_parallel;
  std::optional<std::int64_t> context_parallel;
  std::optional<std::int64_t> expert_parallel;
  std::string precision;
  std::string memory_reserve;
  std::string recompute;
  std::string layer_split;

  friend bool operator==(const ModelFlags&, const ModelFlags&) = default;
};

/// Declares --memory-reserve. add_trained_model_flags() declares it, too.
void add_memory_reserve_flag(Subcommand app, ModelFlags& flags);
/// Declares the flags of the model and its devices, such as --model, --sequence, --device, --nodes and
/// --precision.
void add_trained_model_flags(Subcommand app, ModelFlags& flags);
/// Declares all flags of add_trained_model_flags(), the flags of parallelism from --tensor-parallel to
/// --layer-split, and --recompute.
void add_model_flags(Subcommand app, ModelFlags& flags);

/// Declares --device, --devices, --model, --layers and --ignore. They state values that the configuration of
/// another program does not contain.
void add_import_flags(Subcommand app, ModelFlags& flags);

/// Returns one scenario override for each flag that was given. Error messages name the flag.
std::vector<Override> overrides_of(const ModelFlags& flags);

/// The file of the scenario or program, and the flags that override or replace its shape and settings.
struct InputFlags {
  std::string file;                   ///< Empty if the flags describe the whole scenario.
  std::vector<std::string> settings;  ///< One KEY=VALUE for each --set.
  std::vector<Override> varied;       ///< The values of `sweep --vary` that one point has.
  std::string schedule;
  std::optional<std::int64_t> pp_size;
  std::optional<std::int64_t> num_microbatches;
  std::optional<std::int64_t> virtual_stages;
  std::optional<std::int64_t> group_size;
  std::optional<std::int64_t> slices;
  std::optional<std::int64_t> data_parallel;
  std::optional<std::int64_t> buckets;
  std::optional<std::int64_t> sharding;
  std::string gather;                  ///< "step" or "microbatch"; empty if not given.
  std::optional<std::int64_t> passes;  ///< The limit of passes of a schedule that searches its order.
  std::optional<std::int64_t> seed;
  std::optional<double> budget_seconds;
  bool forward_only = false;  ///< True if stages run no backwards.
  std::string offload;        ///< The share of activations that ranks offload; empty if not given.
  std::string dialect;        ///< The dialect of a .csv program; empty if not given.
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> global_batch_size;
  std::optional<std::int64_t> iterations;
  std::string unit;  ///< Without a model, this unit takes F = 1 ms: "rank" or "stage"; empty if not given.
  ModelFlags model;

  friend bool operator==(const InputFlags&, const InputFlags&) = default;
};

/// The largest seed of random numbers. A larger seed would be rounded to another number.
constexpr std::int64_t kLargestSeed = 999'999'999'999'999'999;

/// The flags about message channels. If a flag is not given, the scenario's value applies.
struct ChannelFlags {
  /// The transport whose settings are applied before the other flags of this struct. It is empty if none is
  /// given.
  std::string transport;
  std::string channel;
  std::string blocking;  ///< A word of Blocking; empty if not given.
  std::optional<std::int64_t> capacity;
  std::string eager;

  friend bool operator==(const ChannelFlags&, const ChannelFlags&) = default;
};

/// The flags of one experiment and of the engine that predicts it.
struct PredictionFlags {
  InputFlags input;
  ChannelFlags channels;
  std::string engine;
};

/// The flags that say where and in which form the answer is written.
struct OutputFlags {
  bool json = false;
  bool quiet = false;
  std::vector<std::string> files;

  friend bool operator==(const OutputFlags&, const OutputFlags&) = default;
};

/// A file that a command reads or writes, with the flag that names it.
struct FileArgument {
  std::string_view name;  ///< "--baseline", or "the input" for a file without a flag.
  std::string file;       ///< Empty if not given.
};

/// The words that a flag accepts, and the texts for its help.
struct Choice {
  std::vector<std::string_view> words;
  std::string help;
  std::string group;
  std::string type_name;
};
/// Returns the words of an enum, for Choice::words.
template <EnumWithWords Enum>
std::vector<std::string_view> enum_choices() {
  return {words_of<Enum>().begin(), words_of<Enum>().end()};
}
/// Returns the names of all schedules, which shells complete.
std::vector<std::string_view> schedule_names();
/// Declares a flag or a positional argument that takes one of the words.
Flag add_choice(Subcommand app, const std::string& name, std::string& value, const Choice& choice);

/// Declares the positional argument SCENARIO | PROGRAM.
void add_input_file(Subcommand app, std::string& file);
/// Declares --data-parallel, --buckets, --sharding, --gather, --group-size, --slices and --forward-only. In a
/// sweep they apply to every point.
void add_schedule_option_flags(Subcommand app, InputFlags& flags);
/// Declares --unit, which is for schedules without a model.
void add_unit_flag(Subcommand app, InputFlags& flags);
void add_shape_flags(Subcommand app, InputFlags& flags);
/// Declares all flags of add_shape_flags() except --schedule. It is for a command that takes several
/// schedules.
void add_size_flags(Subcommand app, InputFlags& flags);
/// Declares the flags that limit the effort of a schedule that searches for its order.
void add_search_flags(Subcommand app, InputFlags& flags);
/// Declares --micro-batch-size, --global-batch-size, --iterations and --set. Sweeps have these flags, too.
void add_batch_flags(Subcommand app, InputFlags& flags);
/// Declares --set alone, for commands whose other flags differ from those of a prediction.
void add_settings_flag(Subcommand app, std::vector<std::string>& settings, const std::string& group);
void add_channel_flags(Subcommand app, ChannelFlags& flags);
/// Declares --transport. Only commands that predict have this flag.
void add_transport_flag(Subcommand app, ChannelFlags& flags);
void add_engine_flag(Subcommand app, std::string& engine);
/// Declares all flags of a prediction of one experiment.
void add_prediction_flags(Subcommand app, PredictionFlags& flags);
/// Declares --json, -o and --quiet. The help lists `suffixes`, the suffixes of files that -o accepts, such
/// as ".json .csv".
void add_output_flags(Subcommand app, OutputFlags& flags, const std::string& suffixes);

/// Returns `channels` with the values of the flags. Fails if a number of bytes cannot be read.
tl::expected<ChannelOptions, UserError> with_flags(ChannelOptions channels, const ChannelFlags& flags);
/// Returns the engine with the name that --engine states. `name` must be a valid value of the flag.
Engine engine_of(const std::string& name);

// Reads lists of numbers for the flags of a sweep: "1..16", "1,2,4..128", "3,5,7".

/// Returns the numbers of `text` in ascending order, without duplicates. Commas separate numbers. Each number
/// must be at least `least` and below 2^31. `..` inserts the numbers up to the number after it:
///
/// - "1..4" is 1 2 3 4, because a single number continues by 1;
/// - "1,2,4..16" is 1 2 4 8 16, because the last three numbers have a common ratio;
/// - "1,3..9" is 1 3 5 7 9, because otherwise the last difference is repeated.
///
/// The last number is left out if no step reaches it exactly. An error says what was expected and what was
/// found. More than 100,000 numbers are also an error.
tl::expected<std::vector<std::int32_t>, std::string> parse_number_list(std::string_view text,
                                                                       std::int32_t least = 1);

/// Reads the list of numbers that a flag states (see parse_number_list()). An empty text gives an empty
/// list. Error messages begin with the name of the flag.
tl::expected<std::vector<std::int32_t>, UserError> numbers_of_flag(std::string_view flag,
                                                                   const std::string& text,
                                                                   std::int32_t least = 1);

// Handles names that a user typed. Flag names of Megatron, torchtitan, DeepSpeed, NeMo and other
// frameworks are replaced by Penstock's names. In messages, control characters of names are escaped.

/// Returns `arguments` in which Penstock's flags replace the flags of other programs. For example, "--ours=4"
/// replaces "--theirs=4", and a flag with a value replaces a switch. In flags, a dash and an underscore are
/// equivalent.
/// Arguments after "--" do not change. `takes` returns true for a flag of Penstock that the command accepts.
/// If it returns false, the argument does not change, so that error messages show what the user typed.
std::vector<std::string> with_our_names(std::span<const char* const> arguments,
                                        const std::function<bool(std::string_view)>& takes);

/// Returns advice about a flag of another program that no single flag of Penstock replaces. An example is
/// "the layers of each stage are --layer-split ...". The advice is meant for the end of an error message.
/// It is empty for unknown flags.
std::string_view advice_on_flag(std::string_view flag);

// Escapes the names that a user typed, so that messages can show them.

/// Returns `message` in which the arguments that it repeats are escaped as by shown_name(). A line end, a
/// tab or a colour code in a file name or a mistyped flag then cannot end a line or hide text.
std::string with_names_shown(std::string message, std::span<const char* const> arguments);

}  // namespace penstock
