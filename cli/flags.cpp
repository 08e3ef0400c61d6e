// Declares groups of flags. Each group is one function, so that a flag has the same name, check and help in
// all subcommands. Ranges of numbers are checked here, so that input.cpp can convert the numbers to 32 bits.
// input.cpp applies the flags to a scenario.

#include "cli/flags.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/quantities.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "text/enum_words.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

/// Declares a flag for a number of at least 1 that fits into 32 bits.
void add_number(Subcommand app, const std::string& name, std::optional<std::int64_t>& value,
                const std::string& group, const std::string& help) {
  app.add_option(name, value, help)
      .range(std::int64_t{1}, std::int64_t{std::numeric_limits<std::int32_t>::max()})
      .group(group)
      .type_name("N");
}

/// Returns the names of all devices, for completion.
std::vector<std::string_view> device_names() {
  std::vector<std::string_view> names;
  for (const DeviceType& device : device_types()) names.push_back(device.name);
  return names;
}

/// Returns a check for CLI11 that accepts only a text which is one of the words.
std::function<std::string(const std::string&)> one_of(std::vector<std::string_view> words) {
  return [words = std::move(words)](const std::string& text) -> std::string {
    if (std::ranges::find(words, text) != words.end()) return {};
    if (text.empty()) return fmt::format("expected {}, got nothing", fmt::join(words, ", "));
    return fmt::format("expected {}, got \"{}\"{}", fmt::join(words, ", "), text, did_you_mean(text, words));
  };
}

}  // namespace

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const ScheduleInfo& schedule : schedule_table()) names.push_back(schedule.name);
  return names;
}

Flag add_choice(Subcommand app, const std::string& name, std::string& value, const Choice& choice) {
  return app.add_option(name, value, choice.help)
      .check(one_of(choice.words))
      .words(choice.words)
      .group(choice.group)
      .type_name(choice.type_name);
}

void add_input_file(Subcommand app, std::string& file) {
  app.add_option(
         "INPUT", file,
         "a scenario (.yaml, .yml, .json) or a program (.psched, PyTorch's .csv), or - for standard input; "
         "without it the flags of "
         "\"Schedule\" say everything: a rank's share of the model takes F = I = W = 1 ms a sample and B = 2 "
         "ms, "
         "links are free")
      .type_name("FILE");
}

void add_unit_flag(Subcommand app, InputFlags& flags) {
  add_choice(app, "--unit", flags.unit,
             {.words = enum_choices<CostUnit>(),
              .help = "what takes F = 1 ms if no model is given: rank, a rank's share of the model, of which "
                      "each of v chunks takes 1/v (default), or stage, each stage",
              .group = "Schedule (overrides the scenario)",
              .type_name = "WORD"});
}

void add_schedule_option_flags(Subcommand app, InputFlags& flags) {
  const std::string group = "Schedule (overrides the scenario)";
  add_number(app, "--data-parallel", flags.data_parallel, group,
             "copies of the whole pipeline, which share the M microbatches (default 1)");
  add_number(app, "--buckets", flags.buckets, group,
             "parts of each stage whose gradients are reduced while the backward pass goes on (default 1)");
  app.add_option("--sharding", flags.sharding,
                 "ZeRO stage 1, 2 or 3 over the ranks that hold a stage together (default 0: none; 1 for a "
                 "model on devices)")
      .range(std::int64_t{0}, std::int64_t{3})
      .group(group)
      .type_name("N");
  add_choice(app, "--gather", flags.gather,
             {.words = enum_choices<Gather>(),
              .help = "how often sharding 2 and 3 exchange what they share out: once a step, with whole "
                      "gradients until its last microbatch, or in each microbatch (default)",
              .group = group,
              .type_name = "WHEN"});
  add_number(app, "--group-size", flags.group_size, group,
             "microbatches that pass a chunk before the next one, for interleaved (default: PyTorch's "
             "rounds), or run forward before as many run backward, for kfkb (default 2)");
  add_number(app, "--slices", flags.slices, group, "q, slices of a sequence, for seq-1f1b (default 1)");
  add_unit_flag(app, flags);
  app.add_flag("--forward-only", flags.forward_only, "stages run only forwards, as in evaluation and prefill")
      .group(group);
  app.add_option(
         "--offload", flags.offload,
         "share of each rank's activations that wait in its host's memory for their backward pass, or "
         "none (default): a number from 0 to 1, or one a rank such as 0.5,0.5,0,0; for 1f1b and "
         "interleaved")
      .group(group)
      .type_name("SHARE");
}

void add_shape_flags(Subcommand app, InputFlags& flags) {
  app.add_option("--schedule", flags.schedule,
                 "name of the schedule, see `penstock schedules`; PyTorch's names too")
      .words(schedule_names())
      .group("Schedule (overrides the scenario)")
      .type_name("NAME");
  add_size_flags(app, flags);
}

void add_size_flags(Subcommand app, InputFlags& flags) {
  const std::string group = "Schedule (overrides the scenario)";
  add_number(app, "--pp-size", flags.pp_size, group, "K, ranks of the pipeline");
  add_number(app, "--num-microbatches", flags.num_microbatches, group, "M, microbatches of one minibatch");
  add_number(app, "--virtual-stages", flags.virtual_stages, group,
             "v, model chunks a rank (default 1, of interleaved schedules 2)");
  add_schedule_option_flags(app, flags);
  add_choice(
      app, "--dialect", flags.dialect,
      {.words = enum_choices<CsvDialect>(),
       .help = "how a .csv of PyTorch that is read spells its actions: torch-2.4 (F0_s1), torch-2.5 (B, W "
               "and BW) or torch-2.6 and later (default)",
       .group = group,
       .type_name = "RELEASE"});
  add_batch_flags(app, flags);
}

void add_search_flags(Subcommand app, InputFlags& flags) {
  const std::string group = "Search (zb-1p, zb-2p, zb-v, v-half, v-min, synthesized)";
  add_number(app, "--passes", flags.passes, group,
             "how often the order is built (default 500); the same order on any machine");
  add_number(app, "--seed", flags.seed, group, "of the search's draws (default 1)");
  app.add_option("--budget", flags.budget_seconds,
                 "end the search after so many seconds; without --passes no earlier than that")
      .range(0.0, 1e9)
      .group(group)
      .type_name("SECONDS");
}

void add_batch_flags(Subcommand app, InputFlags& flags) {
  const std::string group = "Schedule (overrides the scenario)";
  add_number(app, "--micro-batch-size", flags.micro_batch_size, group, "samples of a microbatch (default 1)");
  add_number(app, "--global-batch-size", flags.global_batch_size, group,
             "samples of a minibatch (default: microbatches x their size)");
  add_number(app, "--iterations", flags.iterations, group, "how often the minibatch is repeated (default 1)");
  add_settings_flag(app, flags.settings, group);
}

void add_settings_flag(Subcommand app, std::vector<std::string>& settings, const std::string& group) {
  app.add_option("--set", settings,
                 "changes one value of the scenario, with its unit: cluster.latency=4us; may be repeated")
      .one_value_each()
      .group(group)
      .type_name("KEY=VALUE");
}

void add_channel_flags(Subcommand app, ChannelFlags& flags) {
  const std::string group = "Channels (overrides the scenario)";
  add_choice(
      app, "--channel", flags.channel,
      {.words = enum_choices<ChannelModel>(),
       .help =
           "which transfers wait for each other in one queue: rank, pair, direction, directed or boundary "
           "(default: the scenario's, directed)",
       .group = group,
       .type_name = "MODEL"});
  app.add_flag("--blocking", flags.blocking,
               "program order waits for each transfer (default: it never does); =batched: for all transfers "
               "between two compute actions together")
      .check(one_of(enum_choices<Blocking>()))
      .group(group);
  add_number(app, "--capacity", flags.capacity, group,
             "a receive waits until the message N before it has been consumed (default: unlimited)");
  app.add_option("--eager", flags.eager,
                 "messages below this size need only their sender (default 0 B: none)")
      .group(group)
      .type_name("BYTES");
}

void add_transport_flag(Subcommand app, ChannelFlags& flags) {
  Choice choice{.words = {},
                .help = "take what a transport declares:",
                .group = "Channels (overrides the scenario)",
                .type_name = "NAME"};
  for (const TransportInfo& transport : transport_table()) {
    choice.help +=
        fmt::format("{} {} ({})", choice.words.empty() ? "" : ",", transport.name, transport.summary);
    choice.words.push_back(transport.name);
  }
  add_choice(app, "--transport", flags.transport, choice);
}

void add_engine_flag(Subcommand app, std::string& engine) {
  add_choice(app, "--engine", engine,
             {.words = enum_choices<Engine>(),
              .help = "critical-path (every transfer has its links to itself), event (shared links) or auto "
                      "(default auto)",
              .group = "Engine",
              .type_name = "NAME"});
}

void add_prediction_flags(Subcommand app, PredictionFlags& flags) {
  add_input_file(app, flags.input.file);
  add_shape_flags(app, flags.input);
  add_model_flags(app, flags.input.model);
  add_channel_flags(app, flags.channels);
  add_transport_flag(app, flags.channels);
  add_engine_flag(app, flags.engine);
}

void add_output_flags(Subcommand app, OutputFlags& flags, const std::string& suffixes) {
  const std::string group = "Output";
  app.add_flag("--json", flags.json, "print JSON instead of a table").group(group);
  // The first suffix is the format that `-` prints.
  const std::string first = suffixes.substr(0, suffixes.find_first_of(" ,"));
  app.add_option("-o,--output", flags.files,
                 fmt::format("also write FILE, in the format of its suffix: {}; may be repeated; FILE.gz is "
                             "compressed; - prints {} in place of the answer, and -.SUFFIX that format",
                             suffixes, first))
      .one_value_each()
      .replaces("-", "-" + first)
      .group(group)
      .type_name("FILE");
  app.add_flag("--quiet", flags.quiet, "no notes and no progress on stderr").group(group);
}

tl::expected<ChannelOptions, UserError> with_flags(ChannelOptions channels, const ChannelFlags& flags) {
  // --transport is applied first, so that the other flags can change single settings of the transport.
  if (const TransportInfo* transport = find_transport(flags.transport); transport != nullptr) {
    // A scenario may ask for NCCL's launch order. This setting remains if --transport replaces the other
    // settings.
    const bool launch_order = channels.launch_order;
    channels = transport->channels;
    channels.launch_order |= launch_order;
  }
  channels.model = enum_of_text<ChannelModel>(flags.channel).value_or(channels.model);
  channels.blocking = enum_of_text<Blocking>(flags.blocking).value_or(channels.blocking);
  channels.capacity = flags.capacity.value_or(channels.capacity);
  if (!flags.eager.empty()) {
    const auto bytes = parse_bytes(flags.eager);
    if (!bytes) return bad_input(fmt::format("--eager: {}", bytes.error()));
    channels.eager_bytes = *bytes;
  }
  return channels;
}

Engine engine_of(const std::string& name) { return enum_of_text<Engine>(name).value_or(Engine::automatic); }

// Declares the flags of a model on named devices. Each flag sets one key of the scenario, so the scenario's
// readers parse and check the value.

namespace {

/// A group of flags that the help text shows under one heading. It declares the flags of a model.
class ModelFlagGroup {
 public:
  explicit ModelFlagGroup(Subcommand app, std::string group = "Model and devices (override the scenario)")
      : app_(app), group_(std::move(group)) {}

  Flag text(const std::string& name, std::string& value, const std::string& type, const std::string& help) {
    return app_.add_option(name, value, help).group(group_).type_name(type);
  }
  void number(const std::string& name, std::optional<std::int64_t>& value, const std::string& help) {
    app_.add_option(name, value, help).range(std::int64_t{1}, kMost).group(group_).type_name("N");
  }
  /// Declares a flag that the user may repeat. Each occurrence has one value.
  void texts(const std::string& name, std::vector<std::string>& values, const std::string& type,
             const std::string& help) {
    app_.add_option(name, values, help).one_value_each().group(group_).type_name(type);
  }

 private:
  static constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  Subcommand app_;
  std::string group_;
};

}  // namespace

void add_memory_reserve_flag(Subcommand app, ModelFlags& flags) {
  ModelFlagGroup(app).text(
      "--memory-reserve", flags.memory_reserve, "BYTES",
      "of each device that nothing may use (default: what a named device's driver keeps and 3 GiB)");
}

void add_trained_model_flags(Subcommand app, ModelFlags& flags) {
  ModelFlagGroup group(app);
  group
      .text("--model", flags.model, "FILE",
            "config.json of a transformer, as Hugging Face has it, or the name of a library model, such as "
            "llama-3.1-70b")
      .words(library_configs());
  group.texts("--ignore", flags.ignore, "KEY",
              "a key of it that has no price: leave it out, and say so; repeat --ignore for each key");
  group.number("--sequence", flags.sequence, "tokens of a sample");
  group.number("--layers", flags.layers, "only the first N layers");
  group
      .text("--device", flags.device, "NAME",
            "a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300, gb300, a800, h800, h20, l40s, mi300x, "
            "mi325x or tpu-v5p")
      .words(device_names());
  group.number("--nodes", flags.nodes, "nodes of these devices (default 1)");
  group.number("--devices", flags.devices,
               "devices of the run, if the input is the configuration of another program");
  add_memory_reserve_flag(app, flags);
  group.text("--precision", flags.precision, "WORD", "of matrix products: bf16 (default), fp8 or fp4");
}

void add_import_flags(Subcommand app, ModelFlags& flags) {
  ModelFlagGroup group(app, "What the configuration does not state");
  group.text("--device", flags.device, "NAME",
             "a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300, gb300, a800, h800, h20, l40s, mi300x, "
             "mi325x or tpu-v5p; without it a layer takes F = 1 ms");
  group.number("--devices", flags.devices, "how many of them the run has");
  group.text("--model", flags.model, "FILE",
             "config.json of a transformer, as Hugging Face has it, or a name such as llama-3.1-8b");
  group.number("--layers", flags.layers, "only the first N layers");
  group.texts("--ignore", flags.ignore, "KEY",
              "a refused key: leave it out, and say so; repeat --ignore for each key");
}

void add_model_flags(Subcommand app, ModelFlags& flags) {
  add_trained_model_flags(app, flags);
  ModelFlagGroup group(app);
  group.number("--tensor-parallel", flags.tensor_parallel, "devices that share each layer (default 1)");
  group.number("--context-parallel", flags.context_parallel, "devices that share each sequence (default 1)");
  group.number("--expert-parallel", flags.expert_parallel,
               "devices that share the experts of a layer (default 1)");
  group.text("--recompute", flags.recompute, "WORD",
             "by each layer: none (default), selective, norm, activation, mlp or full");
  group.text(
      "--layer-split", flags.layer_split, "RULE",
      "even (default where layers divide), ends-one-less, balanced (by price; default where they do not), a "
      "Megatron layout such as \"Et*3|t*4|t*3L\" or a list [3, 4, 3]");
}

// An empty text means that the flag was not given.
std::vector<Override> overrides_of(const ModelFlags& flags) {
  std::vector<Override> overrides;
  const auto text = [&](const std::string& key, const std::string& value, const std::string& flag) {
    if (!value.empty()) overrides.push_back({.key = key, .value = value, .flag = flag});
  };
  const auto number = [&](const std::string& key, const std::optional<std::int64_t>& value,
                          const std::string& flag) {
    if (value) overrides.push_back({.key = key, .value = std::to_string(*value), .flag = flag});
  };
  // A file name is quoted, so that YAML does not interpret it as another value.
  if (!flags.model.empty()) text("model.huggingface", scalar_to_yaml(flags.model), "--model");
  if (!flags.ignore.empty())
    text("model.ignore", fmt::format("[{}]", fmt::join(flags.ignore, ", ")), "--ignore");
  number("model.sequence", flags.sequence, "--sequence");
  number("model.layers", flags.layers, "--layers");
  text("cluster.device", flags.device, "--device");
  number("cluster.nodes", flags.nodes, "--nodes");
  text("cluster.reserve", flags.memory_reserve, "--memory-reserve");
  number("parallel.tensor", flags.tensor_parallel, "--tensor-parallel");
  number("parallel.context", flags.context_parallel, "--context-parallel");
  number("parallel.expert", flags.expert_parallel, "--expert-parallel");
  text("training.precision", flags.precision, "--precision");
  text("training.recompute", flags.recompute, "--recompute");
  text("schedule.layer_split", flags.layer_split, "--layer-split");
  return overrides;
}

}  // namespace penstock
