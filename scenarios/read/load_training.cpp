// Reads the short parts `training:`, `partition:` and `host:`. The microbatch size, the global batch size
// and the number of microbatches depend on each other. They are stored as the user states them. prepare/
// computes the missing ones after all flags are applied.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/schema.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "text/enum_words.hpp"

namespace penstock {
namespace {

using Word = std::string_view;

constexpr std::array<Word, 6> kPrecisionWords = {"full", "mixed", "mixed-full-gradients",
                                                 "bf16", "fp8",   "fp4"};
constexpr std::array<Word, 2> kWeightVersionWords = {"needed", "cloned"};
constexpr std::array<Word, 2> kGradientBytesWords = {"2", "4"};

constexpr auto kFailureFields = std::to_array<Field<FailureRates>>({
    field<&FailureRates::device_mtbf_ns>({.name = "mtbf",
                                          .kind = KeyKind::duration,
                                          .meaning = "Mean time between two failures of one device.",
                                          .usual = "required"}),
    field<&FailureRates::save_ns>({.name = "checkpoint_cost",
                                   .kind = KeyKind::duration,
                                   .meaning = "Time to save one checkpoint, during which no work is done.",
                                   .usual = "1 min"}),
    field<&FailureRates::restart_ns>(
        {.name = "restart",
         .kind = KeyKind::duration,
         .meaning = "Time from a failure until work goes on behind the last checkpoint.",
         .usual = "5 min"}),
    field<&FailureRates::interval_ns>({.name = "checkpoint_every",
                                       .kind = KeyKind::duration,
                                       .meaning = "Work between two checkpoints, above 0.",
                                       .usual = "the best interval"}),
});

constexpr auto kTrainingFields = std::to_array<Field<TrainingPart>>({
    field<&TrainingPart::micro_batch_size>({.name = "micro_batch_size",
                                            .kind = KeyKind::integer,
                                            .meaning = "Samples of one microbatch.",
                                            .usual = "global_batch_size / microbatches, or 1"}),
    field<&TrainingPart::global_batch_size>(
        {.name = "global_batch_size",
         .kind = KeyKind::integer,
         .meaning = "Samples of one minibatch, over all copies of the pipeline.",
         .usual = "micro_batch_size * microbatches"}),
    field<&TrainingPart::optimizer>(
        {.name = "optimizer",
         .kind = KeyKind::word,
         .meaning = "The optimizer, whose state takes 0, 1, 1 or 2 bytes for each byte of weights in fp32.",
         .usual = "sgd; adam for a model on named devices"}),
    unbound<TrainingPart>({.name = "precision",
                           .kind = KeyKind::word,
                           .meaning =
                               "What the model's bytes hold (full, mixed, mixed-full-gradients), or the "
                               "values of its products on named devices.",
                           .usual = "full; mixed for a transformer of 2-byte values; bf16 on named devices",
                           .words = kPrecisionWords}),
    unbound<TrainingPart>({.name = "failures",
                           .kind = KeyKind::mapping,
                           .meaning = "How often devices fail and what that costs, for `penstock risk`."}),
    field<&TrainingPart::iterations>({.name = "iterations",
                                      .kind = KeyKind::integer,
                                      .meaning = "How often the minibatch is repeated.",
                                      .usual = "1"}),
    unbound<TrainingPart>(
        {.name = "recompute",
         .kind = KeyKind::other,
         .meaning =
             "Parts of a layer that its backward pass computes again, by Megatron-LM's names, or the layers "
             "that do so in full. On named devices only.",
         .usual = "none",
         .form = "`none`, `full`, `{full: 3}`, or any of `selective` (`core_attn`), `norm` (`layernorm`), "
                 "`activation`, `mlp`, `mla_up_proj`, `moe_act`, `shared_experts`, `moe`",
         .schema = R"({"type": ["string", "array", "object"], "items": {"type": "string"}})"}),
    unbound<TrainingPart>(
        {.name = "sequence",
         .kind = KeyKind::other,
         .meaning = "Tokens of a sample of each microbatch, in the place of the model's `sequence`. The list "
                    "repeats up to M. On named devices only.",
         .usual = "the model's",
         .form = "`{microbatches: [8192, 4096]}`",
         .schema = R"({"type": "object"})"}),
    unbound<TrainingPart>({.name = "gradient_bytes",
                           .kind = KeyKind::word,
                           .meaning = "Bytes of the gradient of one parameter. On named devices only.",
                           .usual = "4",
                           .words = kGradientBytesWords}),
    field<&TrainingPart::host_layer_ns>(
        {.name = "host_layer",
         .kind = KeyKind::duration,
         .meaning =
             "Least time that the host needs for a layer, forward and backward. On named devices only.",
         .usual = "0"}),
    field<&TrainingPart::expert_factor>(
        {.name = "expert_factor",
         .kind = KeyKind::factor,
         .meaning = "Time of the computation in a layer of experts over the time of its kernels alone, which "
                    "depends on the release of the software. On named devices only.",
         .usual = "1",
         .range = {.least = 0, .most = 100}}),
    field<&TrainingPart::expert_layer_ns>(
        {.name = "expert_layer",
         .kind = KeyKind::duration,
         .meaning = "Time of a layer of experts that no known term explains. On named devices only.",
         .usual = "0"}),
    field<&TrainingPart::framework>(
        {.name = "framework",
         .kind = KeyKind::word,
         .meaning = "The software, which decides what is fused and what is stored. On named devices only.",
         .usual = "megatron-te"}),
    field<&TrainingPart::action_overhead_ns>(
        {.name = "action_overhead",
         .kind = KeyKind::duration,
         .meaning = "Time of each F, B, I and W beside its kernels, such as the calls of messages. On named "
                    "devices only.",
         .usual = "0.1 ms; 1.2 ms with megatron-2021"}),
    field<&TrainingPart::step_overhead_ns>(
        {.name = "step_overhead",
         .kind = KeyKind::duration,
         .meaning =
             "Time of each step that no known part explains: data, logging, launches. On named devices "
             "only.",
         .usual = "0"}),
    field<&TrainingPart::deferred_head>(
        {.name = "deferred_head",
         .kind = KeyKind::flag,
         .meaning = "The head's weight gradient of all microbatches is computed at the end of the step. On "
                    "named devices only.",
         .usual = "false"}),
    unbound<TrainingPart>(
        {.name = "weight_versions",
         .kind = KeyKind::word,
         .meaning = "needed: an old version lasts until its last use. cloned: as many as a stage ever needs "
                    "stand there all the time.",
         .usual = "needed",
         .words = kWeightVersionWords}),
});

constexpr auto kHostFields = std::to_array<Field<LaunchCost>>({
    field<&LaunchCost::overhead_ns>(
        {.name = "launch_overhead",
         .kind = KeyKind::duration,
         .meaning = "Time to launch one compute action, SEND, RECV or collective; nothing starts before it.",
         .usual = "0"}),
    field<&LaunchCost::most_ahead>({.name = "launch_ahead",
                                    .kind = KeyKind::integer,
                                    .meaning = "Compute actions that may be launched and not yet ended.",
                                    .usual = "no bound"}),
});

constexpr auto kPartitionFields = std::to_array<Field<Partition>>({
    field<&Partition::rule>({.name = "rule",
                             .kind = KeyKind::word,
                             .meaning = "The rule that cuts the layers; the other keys go with pipedream.",
                             .usual = "required"}),
    field<&Partition::plan, &PlanOptions::objective>(
        {.name = "objective",
         .kind = KeyKind::word,
         .meaning = "A stage's time: the maximum of compute and reduction, their sum as PipeDream's code has "
                    "it, or the printed maximum.",
         .usual = "maximum"}),
    unbound<Partition>(
        {.name = "straight", .kind = KeyKind::flag, .meaning = "No stage is replicated.", .usual = "false"}),
    field<&Partition::plan, &PlanOptions::transfers>(
        {.name = "cut_transfers",
         .kind = KeyKind::word,
         .meaning = "Whether activations and their gradients take time to cross a cut.",
         .usual = "counted"}),
    unbound<Partition>({.name = "memory_limit",
                        .kind = KeyKind::limit,
                        .meaning = "Most bytes of a device, by the minibatches in flight of 1F1B.",
                        .usual = "the smallest device's; unlimited for straight cuts"}),
});

constexpr auto kFailureKeys = keys_of(kFailureFields);
constexpr auto kTrainingKeys = keys_of(kTrainingFields);
constexpr auto kHostKeys = keys_of(kHostFields);
constexpr auto kPartitionKeys = keys_of(kPartitionFields);

/// Reads the failure rates, such as `{mtbf: 50000 h, ...}`.
std::optional<FailureRates> read_failures(const MappingReader& training, Problem& problem) {
  const Node* node = training.find("failures");
  if (node == nullptr || problem.found()) return std::nullopt;
  const MappingReader reader(*node, "training.failures", kFailureKeys, problem);
  if (problem.found()) return std::nullopt;
  FailureRates failures;
  read_fields(reader, kFailureFields, failures);
  if (!problem.found() && failures.device_mtbf_ns == 0) {
    reader.complain("mtbf",
                    "expected the mean time between failures of one device, above 0 such as 50000 h, got " +
                        (reader.has("mtbf") ? describe(*reader.find("mtbf")) : std::string("nothing")));
  }
  if (failures.interval_ns == 0)
    reader.complain("checkpoint_every", "expected more than 0; leave it out for the best interval");
  return failures;
}

Partition read_rule(const Node& node, Problem& problem) {
  if (const auto rule = enum_of_text<Partition::Rule>(node.text)) return {.rule = *rule};
  problem.note(node, "partition",
               "expected balanced, block, pipedream or a list of cuts such as [4, 9] (layers before each "
               "cut, or names of the layers behind them), got " +
                   describe(node));
  return {};
}

/// Returns the stated memory limit, or the largest `Bytes` for `unlimited`. Returns nothing if the key is
/// absent. The memory of the devices is then the limit.
std::optional<Bytes> read_memory_limit(const MappingReader& reader) {
  if (!reader.has("memory_limit")) return std::nullopt;
  return reader.limit("memory_limit").value_or(std::numeric_limits<Bytes>::max());
}

/// Reads `partition:` in the form of a mapping, such as `{rule: pipedream, objective: sum, ...}`.
Partition read_partition_mapping(const Node& node, Problem& problem) {
  const MappingReader reader(node, "partition", kPartitionKeys, problem);
  if (problem.found()) return {};
  Partition partition;
  read_fields(reader, kPartitionFields, partition);
  if (!reader.has("rule")) reader.complain("rule", "expected balanced, block or pipedream, got nothing");
  const bool is_other_rule =
      partition.rule == Partition::Rule::balanced || partition.rule == Partition::Rule::block;
  for (const Key& key : kPartitionKeys) {
    if (key.name != "rule" && reader.has(key.name) && is_other_rule)
      reader.complain(key.name, "belongs to rule: pipedream; leave it out");
  }
  if (reader.flag("straight").value_or(false)) partition.plan.form = PlanForm::straight;
  partition.plan.memory_limit = read_memory_limit(reader);
  partition.states_objective = reader.has("objective");
  return partition;
}

/// Returns the index of the layer with this name, or nothing if there is no such layer.
std::optional<std::int32_t> layer_called(const LayerGraph& graph, Word name) {
  const auto found = std::ranges::find(graph.layers, name, &Layer::name);
  if (found == graph.layers.end()) return std::nullopt;
  return static_cast<std::int32_t>(found - graph.layers.begin());
}

std::string no_such_layer(const LayerGraph& graph, Word name) {
  std::vector<Word> names;
  names.reserve(graph.layers.size());
  for (const Layer& layer : graph.layers) names.push_back(layer.name);
  return fmt::format(
      "expected the number of layers before the cut or the name of the layer behind it, got \"{}\"{}", name,
      did_you_mean(name, names));
}

/// Returns the number of layers before a cut. The file states this number, or the name of the first layer
/// after the cut. An unquoted 3 is a number. A quoted "3" is a name if a layer with this name exists.
tl::expected<std::int32_t, std::string> cut_of(const Node& item, const LayerGraph* graph) {
  const bool may_be_name = item.kind == Node::Kind::scalar && graph != nullptr && !graph->layers.empty();
  const bool is_name = may_be_name && item.is_quoted && layer_called(*graph, item.text).has_value();
  const auto number = integer_of(item, {.least = 1});
  if (number && !is_name) return static_cast<std::int32_t>(*number);
  if (!may_be_name) return tl::unexpected(number.error());
  const auto layer = layer_called(*graph, item.text);
  if (layer == 0) {
    return tl::unexpected(
        fmt::format("{} is the first layer, which the first stage begins with anyway: expected the first "
                    "layer of a later stage",
                    item.text));
  }
  if (layer) return *layer;
  // A text such as "-3" was meant to be a number, so a similar layer name would not help the user.
  return tl::unexpected(looks_like_a_figure(item.text) ? number.error() : no_such_layer(*graph, item.text));
}

/// Reads a list of cuts. `graph` is null if the model has no layers. The numbers of the list are then read,
/// but they are not used.
Partition read_cuts(const Node& node, const LayerGraph* graph, Problem& problem) {
  Partition partition{.rule = Partition::Rule::cuts};
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const auto cut = cut_of(node.items[i], graph);
    if (!cut) problem.note(node.items[i], fmt::format("partition.{}", i), cut.error());
    partition.cuts.push_back(cut.value_or(0));
    const bool ascends = i == 0 || partition.cuts[i - 1] < partition.cuts[i];
    if (cut && !ascends) {
      problem.note(node.items[i], fmt::format("partition.{}", i),
                   fmt::format("expected ascending cuts, got {} after {}", node.items[i].text,
                               node.items[i - 1].text));
    }
  }
  return partition;
}

constexpr std::array<Word, 2> kMethodWords = {"block", "uniform"};
constexpr auto kRecomputeKeys =
    std::to_array<Key>({{.name = "full", .kind = KeyKind::other, .range = kModelCount},
                        {.name = "block", .kind = KeyKind::integer, .range = kModelCount},
                        {.name = "uniform", .kind = KeyKind::integer, .range = kModelCount},
                        {.name = "method", .kind = KeyKind::word, .words = kMethodWords},
                        {.name = "num_layers", .kind = KeyKind::integer, .range = kModelCount}});

/// Reads which layers are recomputed: `{full: N}`, `{full: [..]}`, `{block: N}`, `{uniform: N}`, or
/// Megatron-LM's `{method: block, num_layers: N}`.
RecomputedLayers read_recomputed_layers(const Node& node, Problem& problem) {
  using Method = RecomputedLayers::Method;
  const MappingReader reader(node, "training.recompute", kRecomputeKeys, problem);
  if (problem.found()) return {};
  const Node* full = reader.find("full");
  if (node.entries.size() == 1 && full != nullptr && full->kind == Node::Kind::list) {
    RecomputedLayers answer{.method = Method::listed};
    for (const std::int32_t layer : reader.integers("full", {.least = 0, .most = kModelCount.most}))
      answer.layers.push_back(layer);
    std::ranges::sort(answer.layers);
    return answer;
  }
  const bool is_uniform = reader.has("uniform") || reader.choice_word("method") == "uniform";
  std::vector<std::string_view> counts;
  for (const std::string_view key : {"full", "block", "uniform", "num_layers"}) {
    if (reader.has(key)) counts.push_back(key);
  }
  const std::size_t methods = reader.has("method") ? 1 : 0;
  const bool names_itself = reader.has("block") || reader.has("uniform");
  if (counts.size() != 1 || node.entries.size() != counts.size() + methods || (names_itself && methods > 0) ||
      (reader.has("num_layers") && methods == 0)) {
    problem.note(node, "training.recompute",
                 "expected one of full, block and uniform, such as {full: 3} for the first 3 layers of each "
                 "stage, or {method: block, num_layers: 3}");
    return {};
  }
  return {.method = is_uniform ? Method::uniform : Method::block,
          .count = reader.required_integer(counts.front(), kModelCount)};
}

/// Reads which parts of a layer `recompute:` names. The value is one word, words joined by +, or a list of
/// words.
std::optional<LayerRecompute> read_recomputed_parts(const MappingReader& reader) {
  const Node* node = reader.find("recompute");
  if (node == nullptr) return std::nullopt;
  std::string text;
  if (node->kind == Node::Kind::list) {
    const auto words = reader.words("recompute");
    if (!words) return std::nullopt;
    text = words->empty() ? "none" : fmt::format("{}", fmt::join(*words, "+"));
  } else {
    const auto word = reader.word("recompute");
    if (!word) return std::nullopt;
    text = *word;
  }
  const auto recompute = parse_recompute(text);
  if (recompute) return *recompute;
  reader.complain("recompute", recompute.error());
  return std::nullopt;
}

/// Reads `recompute:`. Its value names the parts that all layers recompute, or is a mapping that selects
/// layers.
void read_recompute(const MappingReader& reader, TrainingPart& training, Problem& problem) {
  const Node* node = reader.find("recompute");
  if (node != nullptr && node->kind == Node::Kind::mapping) {
    training.recompute = LayerRecompute::full;
    training.recomputed_layers = read_recomputed_layers(*node, problem);
    return;
  }
  training.recompute = read_recomputed_parts(reader);
}

}  // namespace

TrainingPart read_training(const Node& node, Problem& problem) {
  const MappingReader reader(node, "training", kTrainingKeys, problem);
  TrainingPart training;
  read_fields(reader, kTrainingFields, training);
  if (const auto precision = reader.choice_word("precision")) {
    training.precision = enum_of_text<Precision>(*precision);
    training.device_precision = enum_of_text<GemmPrecision>(*precision);
  }
  if (const auto versions = reader.choice_word("weight_versions"))
    training.clones_versions = versions == "cloned";
  if (const auto bytes = reader.choice_word("gradient_bytes")) training.gradient_bytes = bytes == "2" ? 2 : 4;
  read_recompute(reader, training, problem);
  if (const Node* sequence = reader.find("sequence"))
    training.sequences = read_sequences(*sequence, "training.sequence", problem);
  training.failures = read_failures(reader, problem);
  return training;
}

LaunchCost read_host(const Node& node, Problem& problem) {
  const MappingReader reader(node, "host", kHostKeys, problem);
  LaunchCost launch;
  if (!problem.found()) read_fields(reader, kHostFields, launch);
  return launch;
}

Partition read_partition(const Node& node, const Model& model, Problem& problem) {
  switch (node.kind) {
    case Node::Kind::mapping:
      return read_partition_mapping(node, problem);
    case Node::Kind::list:
      return read_cuts(node, std::get_if<LayerGraph>(&model), problem);
    case Node::Kind::scalar:
    case Node::Kind::nothing:
      return read_rule(node, problem);
  }
  return {};
}

std::vector<KeyGroup> training_keys() {
  return {
      {.path = "host",
       .about = "The host that launches the actions of a rank, one after the other in the order of its list.",
       .keys = {kHostKeys.begin(), kHostKeys.end()}},
      {.path = "partition",
       .form = "a mapping",
       .about =
           "How layers become stages, for a model of layers on more than one stage. `balanced` has the "
           "least maximum of forward and backward time, of several such cuts the most equal one, then "
           "the one that needs least memory as 1F1B fills the stages. `block` is torchgpipe's rule. "
           "`pipedream` is PipeDream's plan: it also chooses the stages and replicas of a `1f1b-rr` "
           "without `stages`, and cuts other schedules straight.\n\n"
           "A list states the cuts: `[4, 9]` counts the layers before each cut, and `[conv3, fc1]` names "
           "the layers that begin the later stages.",
       .keys = {kPartitionKeys.begin(), kPartitionKeys.end()}},
      {.path = "training",
       .about =
           "The samples of a minibatch are micro_batch_size * microbatches. Two of these figures give the "
           "third, and all three must agree. In an asynchronous schedule (1f1b-rr) a microbatch is a "
           "minibatch: both sizes mean the same, and the number of microbatches is free.\n\n"
           "Times and bytes of the model hold for the file's own microbatch, before `--set` and flags, and "
           "scale linearly from it; `step`, `overhead`, `weights`, `gradients` and `optimizer_state` do "
           "not. A size from a flag or a sweep wins over the file's; the figure that only the file gives "
           "then follows.\n\n"
           "`recompute: {full: 3}` recomputes the first 3 layers of each stage in full and `{full: [0, 7]}` "
           "these layers of the model. `{uniform: 4}` recomputes all layers and stores one input for 4 of "
           "them. Megatron-LM's `{method: block, num_layers: 3}` is read, too.\n\n"
           "mixed: the model's bytes are values of 2 bytes, and the optimizer has a copy of the weights "
           "and its state in 4 bytes (with Adam 2 + 2 + 12 bytes a parameter, as ZeRO counts). "
           "mixed-full-gradients has gradients of 4 bytes (2 + 4 + 12), as Megatron-LM has it.",
       .keys = {kTrainingKeys.begin(), kTrainingKeys.end()}},
      {.path = "training.failures", .about = "", .keys = {kFailureKeys.begin(), kFailureKeys.end()}},
  };
}

}  // namespace penstock
