// Reads `model:`. It has one of the forms `stages: {...}`, `layers: [...]`, `profile: FILE`, `fitted: FILE`
// (load.hpp), or a transformer (load_architecture.hpp). It may also have a `network:`, the network
// that a backend trains.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/model/model.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/schema.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/text/program_text.hpp"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 7> kForms = {"stages",      "layers", "profile", "transformer",
                                                    "huggingface", "fitted", "chunks"};

constexpr std::array kFormKeys = {
    Key{.name = "stages", .kind = KeyKind::mapping, .meaning = "Times and bytes stage by stage."},
    Key{.name = "layers", .kind = KeyKind::mappings, .meaning = "Layers in an order in which they can run."},
    Key{.name = "profile", .kind = KeyKind::file, .meaning = "A graph.txt of PipeDream's profiler."},
    Key{.name = "transformer", .kind = KeyKind::mapping, .meaning = "A transformer from its sizes."},
    Key{.name = "chunks", .kind = KeyKind::mapping, .meaning = "Times of the chunks of a prompt."}};

constexpr Key kNetworkKey{
    .name = "network",
    .kind = KeyKind::other,
    .meaning =
        "The network that `penstock run` trains with LibTorch: mlp, conv-net, branch-net, transformer, or "
        "exported stages.",
    .usual = "no network",
    .form = "a name, `{name: {size: N}}` or `{graphs: FOLDER}`",
    .schema = R"({"anyOf": [{"type": "string"}, {"type": "object", "maxProperties": 1}]})"};
constexpr Key kBatchKey{.name = "batch",
                        .kind = KeyKind::integer,
                        .meaning = "Samples that the figures of stages, layers or a profile hold for.",
                        .usual = "the file's own microbatch"};
constexpr Key kOverheadKey{.name = "overhead",
                           .kind = KeyKind::duration,
                           .meaning =
                               "Time that is added once to each F, B, I, W and R of a stage. "
                               "`stages` has a key of its own.",
                           .usual = "0"};
constexpr Key kHuggingfaceKey{.name = "huggingface",
                              .kind = KeyKind::file,
                              .meaning =
                                  "A config.json of Hugging Face, or the name of a model of the library, "
                                  "such as llama-3.1-70b.",
                              .usual = "required"};
constexpr Key kFittedKey{.name = "fitted",
                         .kind = KeyKind::file,
                         .meaning = "Costs that `penstock fit` made of measured iterations.",
                         .usual = "required"};

// --- stages ---------------------------------------------------------------------------------------------

/// Reads an edge between stages: [0, 1] for both directions, or the text 0>1! or 0<1! for an edge with one
/// direction. It must go from a lower to a higher stage, because stages are numbered in the order of their
/// forward passes.
StageEdge read_edge(const Node& node, const std::string& path, Problem& problem) {
  if (node.kind == Node::Kind::scalar) {
    const auto edge = parse_edge(node.text);
    if (edge && edge->from < edge->to) return *edge;
    problem.note(node, path,
                 edge ? fmt::format("expected an edge from a stage to a later one, got \"{}\"", node.text)
                      : edge.error());
    return {};
  }
  std::vector<std::int32_t> ends;
  for (const Node& item : node.items) {
    const auto end = integer_of(item, {.least = 0});
    if (!end) problem.note(item, path, end.error());
    ends.push_back(static_cast<std::int32_t>(end.value_or(0)));
  }
  if (ends.size() == 2 && ends[0] < ends[1]) return {.from = ends[0], .to = ends[1]};
  problem.note(node, path,
               "expected an edge [a, b] from stage a to a later stage b, got " +
                   (ends.size() == 2 ? fmt::format("[{}, {}]", ends[0], ends[1]) : describe(node)));
  return {};
}

std::vector<StageEdge> read_edges(const MappingReader& stages, Problem& problem) {
  const Node* list = stages.find("edges");
  if (list == nullptr) return {};
  if (list->kind != Node::Kind::list) {
    stages.complain("edges", "expected a list of edges such as [[0, 1], [0, 2]], got " + describe(*list));
  }
  std::vector<StageEdge> edges;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const std::string path = fmt::format("{}.{}", stages.path_of("edges"), i);
    const StageEdge edge = read_edge(list->items[i], path, problem);
    const auto same = [&](const StageEdge& other) { return other.joins_same(edge); };
    if (std::ranges::any_of(edges, same)) {
      problem.note(list->items[i], path, fmt::format("the edge [{}, {}] is given twice", edge.from, edge.to));
    }
    edges.push_back(edge);
  }
  return edges;
}

/// Checks that all required times are stated. `backward` may be replaced by its two parts, but a single part
/// is not enough.
void check_times(const MappingReader& stages) {
  if (!stages.has("forward"))
    stages.complain("forward", "expected a duration or a list of them, got nothing");
  if (stages.has("backward")) return;
  const bool has_input = stages.has("backward_input");
  const bool has_weight = stages.has("backward_weight");
  if (!has_input && !has_weight) {
    stages.complain("backward", "expected it, or backward_input and backward_weight, got nothing");
  } else if (!has_input) {
    stages.complain("backward_input",
                    "expected it beside backward_weight where there is no backward, got nothing");
  } else if (!has_weight) {
    stages.complain("backward_weight",
                    "expected it beside backward_input where there is no backward, got nothing");
  }
}

/// Returns the table entry for a key of `model.stages` that states a time. `usual` describes its default.
template <auto member>
consteval Field<StageFigures> time(std::string_view name, std::string_view usual, std::string_view meaning) {
  return field<member>({.name = name,
                        .kind = KeyKind::duration,
                        .meaning = meaning,
                        .usual = usual,
                        .values = KeyValues::microbatches});
}
template <auto member>
consteval Field<StageFigures> size(std::string_view name, std::string_view usual, std::string_view meaning) {
  return field<member>({.name = name,
                        .kind = KeyKind::bytes,
                        .meaning = meaning,
                        .usual = usual,
                        .values = KeyValues::microbatches});
}
/// Returns the table entry `row`, changed so that the key accepts no values for single microbatches.
consteval Field<StageFigures> fixed(Field<StageFigures> row) {
  row.key.values = KeyValues::stages;
  return row;
}

using Stages = StageFigures;
constexpr auto kStageFields = std::to_array<Field<StageFigures>>({
    time<&Stages::forward>("forward", "required", "Time of F."),
    time<&Stages::backward>("backward", "the sum of the next two",
                            "Time of B; I and W take half of it each."),
    time<&Stages::backward_input>("backward_input", "half of backward", "Time of I."),
    time<&Stages::backward_weight>("backward_weight", "half of backward", "Time of W."),
    time<&Stages::recompute>("recompute", "forward", "Time of R."),
    time<&Stages::overlapped_pair>("overlapped_pair", "the sum of its parts",
                                   "Time of an overlapped pair of F and B."),
    time<&Stages::pair_hidden>("pair_hidden", "0",
                               "Time by which an overlapped pair is shorter than the sum of its parts."),
    fixed(time<&Stages::step>("step", "0", "Time of STEP, which does not scale with the microbatch.")),
    fixed(
        time<&Stages::overhead>("overhead", "0", "Added once to each F, B, I, W and R; it does not scale.")),
    size<&Stages::activation>("activation", "0", "Bytes that F sends over each edge out of the stage."),
    size<&Stages::gradient>("gradient", "activation", "Bytes that B or I sends back over each edge."),
    size<&Stages::expected_activation>(
        "expected_activation", "what is sent",
        "Bytes that the stage's RECVs expect of an activation; `check` refuses another size."),
    size<&Stages::expected_gradient>(
        "expected_gradient", "what is sent",
        "Bytes that the stage's RECVs expect of a gradient; `check` refuses another size."),
    size<&Stages::kept>("kept", "0", "Bytes that are held from F to B."),
    size<&Stages::released_by_input>("released_by_input", "0",
                                     "The part of kept that I releases; W releases the rest."),
    size<&Stages::recomputed>("recomputed", "0",
                              "Bytes that the backward pass computes again without an R, held from I to W."),
    size<&Stages::recomputed_at_once>("recomputed_at_once", "0",
                                      "The part of transient that I and W do not hold."),
    size<&Stages::input>("input", "0", "Bytes of the input of stage 0, which a checkpoint keeps."),
    fixed(size<&Stages::weights>("weights", "0", "Bytes of the weights.")),
    fixed(size<&Stages::gradients>("gradients", "weights", "Bytes of the gradients of the weights.")),
    fixed(size<&Stages::optimizer_state>("optimizer_state", "by the optimizer",
                                         "Bytes of the optimizer's state.")),
    size<&Stages::transient>("transient", "0", "Bytes that are held while an F or a B runs."),
    unbound<StageFigures>(
        {.name = "edges",
         .kind = KeyKind::other,
         .meaning =
             "Edges from a stage to a later one. `0>1!` carries only activations, `0<1!` only gradients.",
         .usual = "a chain",
         .form = "`[[0, 1], [0, 2], \"1>2!\"]`",
         .schema =
             R"({"type": "array", "items": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]}})"}),
});
constexpr auto kStageKeys = keys_of(kStageFields);

StageFigures read_stages(const Node& node, Problem& problem) {
  const MappingReader stages(node, "model.stages", kStageKeys, problem);
  if (!problem.found()) check_times(stages);
  StageFigures figures;
  read_fields(stages, kStageFields, figures);
  figures.edges = read_edges(stages, problem);
  return figures;
}

// --- layers ---------------------------------------------------------------------------------------------

using LayerNames = std::unordered_map<std::string, std::int32_t>;

/// Returns the indices of the layers that the key `inputs` names. If the key is absent, returns the index of
/// the previous layer, if any.
std::vector<std::int32_t> read_inputs(const MappingReader& reader, const LayerNames& earlier,
                                      std::int32_t index) {
  const auto names = reader.words("inputs");
  if (!names) return index == 0 ? std::vector<std::int32_t>{} : std::vector<std::int32_t>{index - 1};
  std::vector<std::int32_t> inputs;
  for (const std::string& name : *names) {
    const auto found = earlier.find(name);
    if (found == earlier.end()) {
      reader.complain("inputs", fmt::format("expected the names of earlier layers, got \"{}\"", name));
    } else {
      inputs.push_back(found->second);
    }
  }
  std::ranges::sort(inputs);
  if (std::ranges::adjacent_find(inputs) != inputs.end()) reader.complain("inputs", "a layer is named twice");
  return inputs;
}

constexpr auto kLayerFields = std::to_array<Field<Layer>>({
    field<&Layer::name>({.name = "name",
                         .kind = KeyKind::name,
                         .meaning = "The name of the layer.",
                         .usual = "layer0, layer1, .."}),
    field<&Layer::forward_ns>({.name = "forward",
                               .kind = KeyKind::duration,
                               .meaning = "Time of its forward pass.",
                               .usual = "required"}),
    field<&Layer::backward_ns>({.name = "backward",
                                .kind = KeyKind::duration,
                                .meaning = "Time of its backward pass.",
                                .usual = "required"}),
    field<&Layer::output>(
        {.name = "output", .kind = KeyKind::bytes, .meaning = "Bytes that it hands on.", .usual = "0"}),
    field<&Layer::kept>({.name = "kept",
                         .kind = KeyKind::bytes,
                         .meaning = "Bytes that are held from F to B.",
                         .usual = "output"}),
    field<&Layer::weights>(
        {.name = "weights", .kind = KeyKind::bytes, .meaning = "Bytes of its weights.", .usual = "0"}),
    field<&Layer::transient>(
        {.name = "transient",
         .kind = KeyKind::bytes,
         .meaning = "Bytes that are held while it runs; a stage has the largest of its layers.",
         .usual = "0"}),
    field<&Layer::recomputed>(
        {.name = "recomputed",
         .kind = KeyKind::bytes,
         .meaning =
             "The part of transient that B computes again; a split backward pass holds it from I to W.",
         .usual = "0"}),
    unbound<Layer>({.name = "inputs",
                    .kind = KeyKind::names,
                    .meaning = "The earlier layers that it reads.",
                    .usual = "the layer before it"}),
});
constexpr auto kLayerKeys = keys_of(kLayerFields);

/// Reads a layer. Its inputs must be names of earlier layers, so that the layers can run in the order of the
/// list.
Layer read_layer(const Node& node, const LayerNames& earlier, std::int32_t index, Problem& problem) {
  const std::size_t before = problem.count();
  const MappingReader reader(node, fmt::format("model.layers.{}", index), kLayerKeys, problem);
  const bool is_sound = problem.count() == before;
  for (const std::string_view key : {"forward", "backward"}) {
    if (is_sound && !reader.has(key)) reader.complain(key, "expected a duration, got nothing");
  }
  Layer layer;
  layer.name = fmt::format("layer{}", index);
  read_fields(reader, kLayerFields, layer);
  layer.inputs = read_inputs(reader, earlier, index);
  if (layer.recomputed > layer.transient) {
    reader.complain("recomputed", fmt::format("expected at most the layer's transient {} B, got {} B",
                                              layer.transient, layer.recomputed));
  }
  if (earlier.contains(layer.name)) {
    reader.complain("name", fmt::format("the layers {} and {} are both called \"{}\"", earlier.at(layer.name),
                                        index, layer.name));
  }
  return layer;
}

LayerGraph read_layers(const Node& node, Problem& problem) {
  if (node.kind != Node::Kind::list || node.items.empty()) {
    const bool is_number = node.kind == Node::Kind::scalar && looks_like_a_figure(node.text);
    problem.note(
        node, "model.layers",
        fmt::format("expected a list of layers, got {}{}",
                    node.kind == Node::Kind::list ? "an empty list" : describe(node),
                    is_number ? "; a number of layers goes with model.huggingface (--model config.json), and "
                                "flags of another program go behind `penstock import --`"
                              : ""));
    return {};
  }
  LayerGraph graph;
  LayerNames names;
  for (const Node& item : node.items) {
    const auto index = static_cast<std::int32_t>(graph.layers.size());
    graph.layers.push_back(read_layer(item, names, index, problem));
    names.emplace(graph.layers.back().name, index);
  }
  return graph;
}

/// Reads a profile. If the file cannot be read, records a problem and returns no layers.
LayerGraph read_profile(const Node& node, Problem& problem) {
  if (node.kind != Node::Kind::scalar) {
    problem.note(node, "model.profile", "expected the name of a file, got " + describe(node));
    return {};
  }
  const NamedFile file = named_file(node);
  const auto text = read_text_file(file.path, file.name);
  if (!text) {
    problem.note(node, "model.profile", text.error());
    return {};
  }
  auto graph = parse_pipedream_profile(*text, file.name);
  if (!graph) problem.note(graph.error());
  return graph ? *std::move(graph) : LayerGraph{};
}

// --- network --------------------------------------------------------------------------------------------

/// Reads `network:`, which is `transformer`, `transformer: {width: 64, ...}`, or `graphs: FOLDER`. The
/// backend that runs the network checks its name and sizes.
NetworkSpec read_network(const Node& node, const MappingReader& model, Problem& problem) {
  NetworkSpec network{
      .name = "", .sizes = {}, .place = fmt::format("{}: {}", place_of(node), model.path_of("network"))};
  if (const auto name = node.kind == Node::Kind::scalar ? model.word("network") : std::nullopt) {
    network.name = *name;
    return network;
  }
  if (node.kind != Node::Kind::mapping || node.entries.size() != 1) {
    problem.note(
        node, model.path_of("network"),
        "expected a network with its sizes such as {transformer: {width: 64}}, got " + describe(node));
    return network;
  }
  network.name = node.entries.front().key.text;
  const Node& sizes = node.entries.front().value;
  const std::string path = fmt::format("{}.{}", model.path_of("network"), network.name);
  if (network.name == "graphs") {
    if (sizes.kind == Node::Kind::scalar && !sizes.text.empty()) {
      network.graphs = (sizes.source->directory / sizes.text).string();
    } else {
      problem.note(sizes, path, "expected the folder that export_stages.py wrote, got " + describe(sizes));
    }
    return network;
  }
  if (sizes.kind != Node::Kind::mapping) {
    problem.note(sizes, path, "expected sizes such as {width: 64}, got " + describe(sizes));
    return network;
  }
  for (const auto& entry : sizes.entries) {
    const auto size = integer_of(entry.value, {.least = 1});
    if (!size) problem.note(entry.value, fmt::format("{}.{}", path, entry.key.text), size.error());
    network.sizes[entry.key.text] = size.value_or(1);
  }
  return network;
}

// --- the part -------------------------------------------------------------------------------------------

bool is_transformer(std::string_view form) { return form == "transformer" || form == "huggingface"; }

/// Records a problem for each key that does not belong to the model's form (the key that states the model,
/// such as `layers`). If `form` is absent, the model consists only of a network.
void refuse_keys_of_other_forms(const MappingReader& model, std::optional<std::string_view> form) {
  if (!form && model.has("batch")) {
    model.complain("batch",
                   "belongs to stages, layers or profile; unit costs hold for training.micro_batch_size");
  }
  if (form && (is_transformer(*form) || *form == "fitted") && model.has("batch")) {
    model.complain(
        "batch", "belongs to stages, layers or profile; a transformer has its own times for any microbatch");
  }
  if (form == "chunks") {
    for (const std::string_view key : {"batch", "overhead"})
      if (model.has(key)) model.complain(key, "does not go with chunks, whose figures hold for one prompt");
    return;
  }
  if ((!form || *form == "stages" || *form == "fitted") && model.has("overhead"))
    model.complain("overhead", "belongs to layers, profile or a transformer; write model.stages.overhead");
}

std::vector<Key> keys_with(std::span<const Key> first, std::initializer_list<Key> more) {
  std::vector<Key> keys(first.begin(), first.end());
  keys.insert(keys.end(), more);
  return keys;
}

/// Returns all keys that the `model:` mapping may have. If the model is stated with `huggingface` or
/// `fitted`, `layers` is a number, so the entry for a number comes first.
std::vector<Key> keys_of_model(const Node& model) {
  std::vector<Key> keys;
  if (model.find("huggingface") != nullptr) keys = keys_with(keys_beside_huggingface(), {});
  if (model.find("fitted") != nullptr)
    keys = joined_keys(std::array{std::span<const Key>(keys), keys_beside_fitted()});
  keys = joined_keys(std::array{std::span<const Key>(keys), std::span<const Key>(kFormKeys)});
  return keys_with(keys, {kHuggingfaceKey, kFittedKey, kNetworkKey, kBatchKey, kOverheadKey});
}

/// Returns the key that states the model, such as `stages` or `layers`, or nothing if there is none. Notes a
/// problem if there are two such keys, or if there is neither such a key nor a network.
std::optional<std::string_view> form_of(const MappingReader& model, Problem& problem) {
  std::optional<std::string_view> form;
  for (const std::string_view key : kForms) {
    // With `huggingface` or `fitted`, `layers` is a number and not a form.
    const bool is_count = key == "layers" && (model.has("huggingface") || model.has("fitted"));
    if (!model.has(key) || is_count) continue;
    if (form) model.complain(key, fmt::format("expected one form of the model, got {} and {}", *form, key));
    form = key;
  }
  if (!form && !model.has("network")) {
    problem.note(
        model.node(), "model",
        "expected one of stages, layers, profile, transformer, huggingface, fitted, chunks and network, got "
        "none of them");
  }
  return form;
}

/// Reads a model for named devices. `form` is `transformer` (the scenario states the sizes) or `huggingface`
/// (a file states them).
std::optional<ArchitecturePart> architecture_of(const MappingReader& model, std::string_view form,
                                                Problem& problem) {
  if (form == "transformer") return read_architecture_sizes(*model.find(form), problem);
  refuse_keys_without_device(model);
  return read_architecture(model, problem);
}

}  // namespace

ModelPart read_model(const Node& node, const ClusterSpec& cluster, Problem& problem) {
  const std::vector<Key> keys = keys_of_model(node);
  const MappingReader model(node, "model", keys, problem);
  if (problem.found()) return {};
  std::optional<NetworkSpec> network;
  if (const Node* named = model.find("network")) network = read_network(*named, model, problem);
  if (problem.found()) return {};
  const auto form = form_of(model, problem);
  if (problem.found()) return {};
  refuse_keys_of_other_forms(model, form);
  // A network without a form has unit costs, like an absent model.
  if (!form) return {.model = UnitCosts{}, .network = std::move(network)};
  const Node& value = *model.find(*form);
  const auto batch = model.integer("batch");
  if (*form == "stages")
    return {.model = read_stages(value, problem), .network = std::move(network), .batch = batch};
  ModelPart part{.model = {}, .network = std::move(network), .batch = batch};
  if (*form == "fitted") {
    // The costs are computed for the microbatch size in force (priced_scenario.cpp), so no figure is scaled.
    part.model = read_fitted(model, problem);
    part.batch = 1;
    return part;
  }
  if (*form == "chunks") {
    // When the schedule has also been read, load.cpp converts the chunks to slices of the stages.
    part.chunks = read_chunks(value, problem);
    part.model = StageFigures{};
    part.batch = 1;
    return part;
  }
  // A transformer on named devices becomes stages later (priced_scenario.cpp). Any other transformer becomes
  // layers here.
  if (is_transformer(*form) && cluster.named) {
    part.architecture = architecture_of(model, *form, problem);
    part.batch = 1;
    return part;
  }
  LayerGraph graph;
  if (is_transformer(*form)) {
    TransformerPart transformer = *form == "transformer" ? read_transformer(value, cluster, problem)
                                                         : read_huggingface(model, cluster, problem);
    graph = std::move(transformer.graph);
    part.devices_per_rank = transformer.devices_per_rank;
    part.precision = transformer.precision;
    part.notes = std::move(transformer.notes);
    part.batch = 1;
  } else {
    graph = *form == "layers" ? read_layers(value, problem) : read_profile(value, problem);
  }
  graph.overhead_ns = model.duration("overhead").value_or(0);
  part.model = std::move(graph);
  return part;
}

std::vector<KeyGroup> model_keys() {
  const std::span<const Key> transformer = keys_of_transformer();
  return {
      {.path = "model",
       .form = "its own figures",
       .about =
           "One of the forms below. Without `model` F, I and W take 1 ms and B 2 ms for a rank's share of "
           "the "
           "model (a chunk of v takes 1/v of it; `--unit stage`: for each of the K * v stages), and each "
           "microbatch keeps one activation.",
       .keys = keys_with(kFormKeys, {kNetworkKey, kBatchKey, kOverheadKey})},
      {.path = "model",
       .form = "`huggingface: FILE`",
       .about =
           "Dense models, shared key heads, experts, latent attention, windows, linear attention, Mamba-2, "
           "indexers of sparse attention, and sizes by layer, of the families in "
           "scenarios/read/huggingface_families.cpp; other types are read by their keys. Of a model with "
           "parts for images or sound, only the text model counts, and a note says so. A key that names a "
           "structure without a price (cross-attention, learned activations) is an error unless `ignore` has "
           "it. Every output then says so, and how far the count may be off. `penstock model config.json` "
           "counts the parameters.\n\n"
           "On a `cluster.device` the model is priced from measured kernels and takes `sequence`. Elsewhere "
           "only a GPT-2 of any size is priced, as `transformer` is, with `efficiency` and its other keys "
           "that are no sizes.",
       .keys = keys_with(keys_beside_huggingface(), {kHuggingfaceKey, kNetworkKey, kOverheadKey})},
      {.path = "model",
       .form = "`fitted: FILE`",
       .about =
           "Layers are shared out evenly, a third of a microbatch's time is forward, and the last stage has "
           "the head. A kind of layer (hidden, heads, sequence, tensor, micro_batch_size) that was not "
           "measured is an error. Nothing is known of memory.",
       .keys = keys_with(keys_beside_fitted(), {kFittedKey, kNetworkKey})},
      {.path = "model.stages",
       .about =
           "Each figure is one value for all stages or a list of K * v. Give `backward`, or both of its "
           "halves.\n\n"
           "Where microbatches differ, a figure may have a list in a stage's place "
           "(`forward: [[1 ms, 3 ms], 2 ms]`), one list for all stages "
           "(`forward: {microbatches: [1 ms, 3 ms]}`), or a table in a file "
           "(`forward: {file: times.csv, unit: ms, rows: stages}`). A list that is shorter than M repeats; "
           "of a longer one the first M entries count, and a note says so. Schedules that weigh costs, and "
           "`plan`, take the mean.\n\n"
           "Where slices of a microbatch differ (`schedule.slices`), a figure may have a list by slice, of "
           "all "
           "stages (`forward: {slices: [1 ms, 3 ms]}`) or in each stage's place. It has the figures of "
           "slices, "
           "whereas all other figures are those of a microbatch, of which each slice takes an equal part. A "
           "list of more slices goes on with the next microbatch.",
       .keys = {kStageKeys.begin(), kStageKeys.end()}},
      {.path = "model.layers[]", .keys = {kLayerKeys.begin(), kLayerKeys.end()}},
      chunk_keys(),
      {.path = "model.transformer",
       .about =
           "A GPT becomes the layers embedding, block0 .., head. F takes its operations over `cluster.flops` "
           "times `efficiency`, and B twice that; bytes follow Korthikanti et al. (MLSys'23), operations and "
           "parameters Narayanan et al. (SC'21). The head holds a copy of the token embedding. With "
           "`recompute`, what a block holds while it is computed again is its `transient`.\n\n"
           "On a `cluster.device` the transformer is priced from measured kernels: it takes the keys from "
           "`kv_heads` on, and none of those from `efficiency` to `recompute`.",
       .keys = {transformer.begin(), transformer.end()}},
  };
}

}  // namespace penstock
