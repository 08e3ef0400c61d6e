// Reads a transformer. Its sizes come from the scenario or from a Hugging Face config.json. The scenario
// states how the transformer is divided among devices. The cluster states the peak rate of the devices.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/model/transformer.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/schema.hpp"
#include "text/numbers.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr std::string_view kTakesDevice =
    "takes `cluster.device` to be priced, such as cluster: {device: h100-sxm, nodes: 1}";

/// The keys that a transformer may have if the scenario states only the devices' peak rate and no device
/// name.
constexpr std::array kKeysWithoutDevice = {
    Key{.name = "efficiency",
        .kind = KeyKind::factor,
        .meaning = "The part of the devices' peak rate that is reached, such as 0.45.",
        .usual = "required without cluster.device",
        .range = {.least = 0, .most = 1}},
    Key{.name = "bytes_per_value",
        .kind = KeyKind::integer,
        .meaning = "Bytes of a value; 2 brings mixed precision.",
        .usual = "2",
        .range = {.least = 1, .most = 8}},
    Key{.name = "tensor_parallel",
        .kind = KeyKind::integer,
        .meaning = "Devices of a rank, which share weights and operations; figures are those of one device.",
        .usual = "1",
        .range = kModelCount},
    Key{.name = "sequence_parallel",
        .kind = KeyKind::flag,
        .meaning = "What tensor parallelism leaves whole is shared along the sequence.",
        .usual = "false"},
    Key{.name = "tensor_bandwidth",
        .kind = KeyKind::bandwidth,
        .meaning = "Bandwidth of the two all-reduces of a block in each pass.",
        .usual = "required with tensor_parallel"},
    Key{.name = "recompute",
        .kind = KeyKind::word,
        .meaning = "What each block computes again in its B: nothing, the attention core, or the block.",
        .usual = "none",
        .words = words_of<BlockRecompute>()}};

constexpr std::string_view kSequenceMeaning =
    "Tokens of one sample; on named devices also a list of them, one for each microbatch, which repeats.";
constexpr std::string_view kSequenceForm = "1 to 16777216, or `{microbatches: [8192, 4096]}`";
constexpr std::string_view kSequenceSchema =
    R"({"anyOf": [{"type": "integer", "minimum": 1, "maximum": 16777216}, {"type": "object"}]})";

constexpr std::array kSizeKeys = {Key{.name = "layers",
                                      .kind = KeyKind::integer,
                                      .meaning = "The number of blocks.",
                                      .usual = "required",
                                      .range = kModelCount},
                                  Key{.name = "hidden",
                                      .kind = KeyKind::integer,
                                      .meaning = "Width of the hidden states.",
                                      .usual = "required",
                                      .range = kModelSize},
                                  Key{.name = "heads",
                                      .kind = KeyKind::integer,
                                      .meaning = "Attention heads, a divisor of hidden.",
                                      .usual = "required",
                                      .range = kModelSize},
                                  Key{.name = "sequence",
                                      .kind = KeyKind::other,
                                      .meaning = kSequenceMeaning,
                                      .usual = "required",
                                      .range = kModelSize,
                                      .form = kSequenceForm,
                                      .schema = kSequenceSchema},
                                  Key{.name = "vocabulary",
                                      .kind = KeyKind::integer,
                                      .meaning = "Entries of the vocabulary.",
                                      .usual = "required",
                                      .range = kModelSize},
                                  Key{.name = "feed_forward",
                                      .kind = KeyKind::integer,
                                      .meaning = "Inner width of the feed-forward part.",
                                      .usual = "4 * hidden",
                                      .range = kModelSize}};

constexpr std::array kConfigurationKeys = {
    Key{.name = "sequence",
        .kind = KeyKind::other,
        .meaning = kSequenceMeaning,
        .usual = "the learned positions; required on a cluster.device",
        .range = kModelSize,
        .form = kSequenceForm,
        .schema = kSequenceSchema},
    Key{.name = "layers",
        .kind = KeyKind::integer,
        .meaning = "The first layers of the model are taken.",
        .usual = "all"},
    Key{.name = "multi_token",
        .kind = KeyKind::integer,
        .meaning = "Layers of multi-token prediction, which are in no count.",
        .usual = "0",
        .range = {.least = 0, .most = 64}},
    Key{.name = "ignore",
        .kind = KeyKind::other,
        .meaning = "Keys of the configuration that are taken to be absent.",
        .usual = "none",
        .form = "a key, or a list of keys",
        .schema = R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})"}};

/// The description of a transformer in a scenario: its keys, and the node and path at which errors about the
/// whole transformer are reported.
struct Form {
  const MappingReader& keys;
  const Node& node;
  std::string_view path;
  Problem& problem;

  void complain(std::string_view text) const { problem.note(node, path, text); }
};

// --- the devices ----------------------------------------------------------------------------------------

/// A visitor that returns the peak rate of each device. If all devices are alike, the list has one element.
struct PeakRates {
  std::vector<double> operator()(const UniformCluster& shape) const { return {shape.flops_per_second}; }
  std::vector<double> operator()(const TwoLevelCluster& shape) const { return {shape.flops_per_second}; }
  std::vector<double> operator()(const Cluster& cluster) const {
    std::vector<double> rates;
    for (const Device& device : cluster.devices()) rates.push_back(device.flops_per_second);
    if (std::ranges::adjacent_find(rates, std::ranges::not_equal_to{}) == rates.end()) rates.resize(1);
    return rates;
  }
};

/// Returns the peak rate of each device, or a list of one element if all devices are alike. If the cluster
/// does not state a rate, records a problem.
std::vector<double> peaks_of(const ClusterSpec& cluster, const Form& form) {
  std::vector<double> rates = std::visit(PeakRates{}, cluster.shape);
  const auto unknown = std::ranges::find(rates, 0.0);
  if (unknown == rates.end()) return rates;
  form.complain(
      rates.size() == 1
          ? std::string("expected the peak rate of a device in `cluster.flops`, such as 312 TFLOP/s, "
                        "got nothing")
          : fmt::format("expected `flops` of each device of the cluster, got none of device {}",
                        unknown - rates.begin()));
  return {0.0};
}

/// Reads the efficiency. It is required, because users could mistake a default value for a measurement.
double efficiency_of(const MappingReader& reader) {
  constexpr std::string_view kExpected =
      "expected the part of the peak rate that is reached, above 0 and at most 1, such as 0.45, got ";
  const Node* node = reader.find("efficiency");
  const auto value = node == nullptr ? std::nullopt : number_of_text<double>(node->text);
  if (value && *value > 0 && *value <= 1) return *value;
  reader.complain("efficiency",
                  fmt::format("{}{}", kExpected, node == nullptr ? "nothing" : describe(*node)));
  return 1;
}

/// Returns the speed of the fastest device. LayerGraph::device_slowness has the factors of the others.
TransformerSpeed speed_of(const TransformerShape& shape, double peak, const Form& form) {
  const MappingReader& reader = form.keys;
  if (shape.tensor_parallel > 1 && !reader.has("tensor_bandwidth")) {
    reader.complain("tensor_bandwidth",
                    fmt::format("expected the bandwidth between the {} devices of a rank, such as 300 GB/s "
                                "or unlimited, got nothing",
                                shape.tensor_parallel));
  }
  return {.flops_per_second = peak,
          .efficiency = efficiency_of(reader),
          .tensor_bytes_per_second = reader.bandwidth("tensor_bandwidth").value_or(kUnlimitedBandwidth)};
}

// --- the sizes ------------------------------------------------------------------------------------------

/// Returns `shape` with the values that the scenario states for bytes per value, tensor and sequence
/// parallelism, and recomputation.
TransformerShape with_layout(TransformerShape shape, const MappingReader& reader) {
  shape.bytes_per_value = reader.integer("bytes_per_value").value_or(2);
  shape.tensor_parallel = reader.integer("tensor_parallel").value_or(1);
  shape.sequence_parallel = reader.flag("sequence_parallel").value_or(false);
  shape.recompute = reader.choice<BlockRecompute>("recompute").value_or(BlockRecompute::none);
  return shape;
}

/// Records a problem for each size that is not divisible as the keys require.
void check_divisions(const TransformerShape& shape, const Form& form) {
  const auto check = [&](std::string_view key, std::int64_t divisor, std::string_view what,
                         std::int64_t size) {
    if (size % divisor == 0) return;
    const std::string text =
        fmt::format("expected a number that divides {}, {}, got {}", what, size, divisor);
    if (form.keys.has(key)) {
      form.keys.complain(key, text);
    } else {  // the size comes from another file
      form.complain(text);
    }
  };
  check("heads", shape.heads, "hidden", shape.hidden);
  check("tensor_parallel", shape.tensor_parallel, "heads", shape.heads);
  check("tensor_parallel", shape.tensor_parallel, "feed_forward", shape.feed_forward);
  if (shape.sequence_parallel) check("tensor_parallel", shape.tensor_parallel, "sequence", shape.sequence);
}

TransformerShape sizes_of(const MappingReader& reader) {
  TransformerShape shape{.layers = reader.required_integer("layers"),
                         .hidden = reader.required_integer("hidden"),
                         .heads = reader.required_integer("heads"),
                         .sequence = reader.required_integer("sequence"),
                         .vocabulary = reader.required_integer("vocabulary")};
  shape.feed_forward = reader.integer("feed_forward").value_or(4 * shape.hidden);
  return shape;
}

// --- Hugging Face ---------------------------------------------------------------------------------------

/// Returns the sizes of a model that is a plain GPT. Records a problem and returns nothing for any other
/// model, because the formulas do not cover it.
std::optional<TransformerShape> plain_shape(const ArchitecturePart& part, const MappingReader& model) {
  const Architecture& gpt = part.architecture;
  if (!is_plain_gpt(gpt) || gpt.multi_token > 0) {
    model.complain("huggingface",
                   fmt::format("{}; without one only a GPT-2 of any size is priced", kTakesDevice));
    return std::nullopt;
  }
  return TransformerShape{.layers = static_cast<std::int64_t>(gpt.layers.size()),
                          .hidden = gpt.hidden,
                          .heads = gpt.heads,
                          .sequence = part.sequence.value_or(gpt.positions),
                          .vocabulary = gpt.vocabulary,
                          .feed_forward = gpt.feed_forward};
}

// --- both -----------------------------------------------------------------------------------------------

/// Returns notes on the assumptions that a user must know to understand a result, such as the assumed rate.
std::vector<std::string> notes_of(const TransformerShape& shape, const TransformerSpeed& speed) {
  std::vector<std::string> notes = {fmt::format(
      "the model is a transformer of {} blocks and {:.4g} billion parameters; its times are its "
      "floating-point operations at {:.4g} % of a device's {:.4g} TFLOP/s",
      shape.layers, parameter_count(shape) / 1e9, 100 * speed.efficiency, speed.flops_per_second / 1e12)};
  if (shape.tensor_parallel > 1) {
    notes.push_back(
        fmt::format("a rank is a group of {} devices (tensor_parallel): times hold the group's all-reduces, "
                    "and memory, messages and the cluster's figures are those of one device of the group",
                    shape.tensor_parallel));
  }
  if (shape.recompute != BlockRecompute::none) {
    notes.push_back(fmt::format(
        "recompute: {} is part of each B; what one block holds while it is computed again is held "
        "for the whole of it (transient)",
        to_text(shape.recompute)));
  }
  return notes;
}

/// Returns the layers with their costs. If the shape, its keys or the cluster have an error, records a
/// problem and returns no layers.
TransformerPart priced(TransformerShape shape, const ClusterSpec& cluster, const Form& form) {
  shape = with_layout(shape, form.keys);
  // Sizes that could not be read are 1, so the check would give wrong messages.
  if (!form.problem.found()) check_divisions(shape, form);
  const std::vector<double> peaks = peaks_of(cluster, form);
  const TransformerSpeed speed = speed_of(shape, std::ranges::max(peaks), form);
  if (peaks.size() > 1 && shape.tensor_parallel > 1) {
    form.keys.complain("tensor_parallel", fmt::format("expected 1 on devices whose `flops` differ, got {}",
                                                      shape.tensor_parallel));
  }
  if (form.problem.found()) return {};
  auto graph = transformer_layers(shape, speed);
  if (!graph) {
    form.complain(graph.error());
    return {};
  }
  if (peaks.size() > 1) {
    for (const double peak : peaks) graph->device_slowness.push_back(speed.flops_per_second / peak);
  }
  return {.graph = *std::move(graph),
          .devices_per_rank = static_cast<std::int32_t>(shape.tensor_parallel),
          // If values have 2 bytes, the optimizer has copies of 4 bytes, unless training.precision states
          // another precision.
          .precision = shape.bytes_per_value == 2 ? Precision::mixed : Precision::full,
          .notes = notes_of(shape, speed)};
}

}  // namespace

std::span<const Key> keys_beside_huggingface() {
  static const std::vector<Key> keys = joined_keys(
      std::array{std::span<const Key>(kConfigurationKeys), std::span<const Key>(kKeysWithoutDevice)});
  return keys;
}

std::span<const Key> keys_of_transformer() {
  static const std::vector<Key> keys =
      joined_keys(std::array{std::span<const Key>(kSizeKeys), std::span<const Key>(kKeysWithoutDevice),
                             keys_of_architecture_sizes()});
  return keys;
}

void refuse_keys_without_device(const MappingReader& model) {
  for (const Key& key : kKeysWithoutDevice) {
    if (!model.has(key.name)) continue;
    model.complain(
        key.name,
        "belongs to a cluster that has no `device`; with one, `parallel` and `training` say how a model "
        "lies on its devices, and its time follows from the device: leave it out");
  }
}

TransformerPart read_transformer(const Node& node, const ClusterSpec& cluster, Problem& problem) {
  const MappingReader reader(node, "model.transformer", keys_of_transformer(), problem);
  if (problem.found()) return {};
  for (const Key& key : keys_of_architecture_sizes()) {
    if (reader.has(key.name)) reader.complain(key.name, kTakesDevice);
  }
  const TransformerShape sizes = sizes_of(reader);
  return priced(sizes, cluster,
                {.keys = reader, .node = node, .path = "model.transformer", .problem = problem});
}

TransformerPart read_huggingface(const MappingReader& model, const ClusterSpec& cluster, Problem& problem) {
  auto read = read_architecture(model, problem);
  if (!read) return {};
  const auto sizes = plain_shape(*read, model);
  if (!sizes) return {};
  TransformerPart part = priced(
      *sizes, cluster,
      {.keys = model, .node = *model.find("huggingface"), .path = "model.huggingface", .problem = problem});
  std::ranges::move(read->notes, std::back_inserter(part.notes));
  return part;
}

// Reads `model.chunks`, the times and bytes of the chunks of a prompt.

namespace {

constexpr auto kChunkFields = std::to_array<Field<ChunkModel>>({
    field<&ChunkModel::prompt>({.name = "prompt",
                                .kind = KeyKind::integer,
                                .meaning = "Tokens of a prompt.",
                                .usual = "required",
                                .range = kModelSize}),
    field<&ChunkModel::fixed_ns>({.name = "fixed",
                                  .kind = KeyKind::duration,
                                  .meaning = "c, the time of each chunk whatever its tokens.",
                                  .usual = "0"}),
    field<&ChunkModel::earlier_ns>({.name = "per_earlier_token",
                                    .kind = KeyKind::duration,
                                    .meaning = "g, the time for each token before the chunk.",
                                    .usual = "0"}),
    field<&ChunkModel::token_ns>({.name = "per_token",
                                  .kind = KeyKind::duration,
                                  .meaning = "b, the time for each token of the chunk.",
                                  .usual = "required"}),
    field<&ChunkModel::pair_ns>({.name = "per_pair",
                                 .kind = KeyKind::duration,
                                 .meaning = "a, the time of attention for each of the 2 L x + x^2 pairs.",
                                 .usual = "0"}),
    field<&ChunkModel::activation>({.name = "activation",
                                    .kind = KeyKind::bytes,
                                    .meaning = "Bytes of a token that a stage sends to the next one.",
                                    .usual = "0"}),
    field<&ChunkModel::kept>({.name = "kept",
                              .kind = KeyKind::bytes,
                              .meaning = "Bytes of a token's keys and values on a stage.",
                              .usual = "0"}),
    field<&ChunkModel::weights>(
        {.name = "weights", .kind = KeyKind::bytes, .meaning = "Bytes of a stage's weights.", .usual = "0"}),
});
constexpr auto kChunkKeys = keys_of(kChunkFields);

}  // namespace

ChunkModel read_chunks(const Node& node, Problem& problem) {
  const std::size_t before = problem.count();
  const MappingReader reader(node, "model.chunks", kChunkKeys, problem);
  if (problem.count() > before) return {};
  if (!reader.has("prompt")) reader.complain("prompt", "expected the tokens of a prompt, got nothing");
  if (!reader.has("per_token"))
    reader.complain("per_token", "expected a duration such as \"200 ns\", got nothing");
  ChunkModel model;
  read_fields(reader, kChunkFields, model);
  return model;
}

KeyGroup chunk_keys() {
  return {
      .path = "model.chunks",
      .about =
          "Prefill in chunks. A chunk of x tokens behind L tokens takes t(L, x) = c + g L + b x + a (2 L x + "
          "x^2) on each stage. `schedule.slices` and `schedule.slice_tokens` cut the prompt into chunks, "
          "and each microbatch is one prompt. It goes with `schedule.name: chunked-prefill`.",
      .keys = {kChunkKeys.begin(), kChunkKeys.end()}};
}

}  // namespace penstock
