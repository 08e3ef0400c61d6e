// `model:` is one of `stages: {...}`, `layers: [...]`, `profile: FILE`, `fitted: FILE` of load_fitted.hpp and
// the transformers of load_transformer.hpp, with or without the `network:` that it is the model of.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/model/model.hpp"
#include "scenarios/read/architecture_sizes.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/load_fitted.hpp"
#include "scenarios/read/load_transformer.hpp"
#include "scenarios/read/parts.hpp"
#include "scenarios/read/pipedream_profile.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/schema.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 6> kForms = {"stages",      "layers",      "profile",
                                                    "transformer", "huggingface", "fitted"};

// --- stages ---------------------------------------------------------------------------------------------

/// Edges go forward: stages are numbered in an order in which they can run.
StageEdge read_edge(const Node& node, const std::string& path, Problem& problem) {
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
    if (std::ranges::find(edges, edge) != edges.end()) {
      problem.note(list->items[i], path, fmt::format("the edge [{}, {}] is given twice", edge.from, edge.to));
    }
    edges.push_back(edge);
  }
  return edges;
}

/// Which times must be there, and which only together.
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

StageFigures read_stages(const Node& node, Problem& problem) {
  static constexpr std::array<std::string_view, 20> kKeys = {
      "forward",    "backward",           "backward_input", "backward_weight",
      "recompute",  "overlapped_pair",    "step",           "overhead",
      "activation", "gradient",           "kept",           "released_by_input",
      "recomputed", "recomputed_at_once", "input",          "weights",
      "gradients",  "optimizer_state",    "transient",      "edges"};
  const MappingReader stages(node, "model.stages", kKeys, problem);
  if (!problem.found()) check_times(stages);
  return {.forward = stages.durations_per_microbatch("forward"),
          .backward = stages.durations_per_microbatch("backward"),
          .backward_input = stages.durations_per_microbatch("backward_input"),
          .backward_weight = stages.durations_per_microbatch("backward_weight"),
          .recompute = stages.durations_per_microbatch("recompute"),
          .overlapped_pair = stages.durations_per_microbatch("overlapped_pair"),
          .step = stages.durations_per_stage("step"),
          .overhead = stages.durations_per_stage("overhead"),
          .activation = stages.bytes_per_microbatch("activation"),
          .gradient = stages.bytes_per_microbatch("gradient"),
          .kept = stages.bytes_per_microbatch("kept"),
          .released_by_input = stages.bytes_per_microbatch("released_by_input"),
          .recomputed = stages.bytes_per_microbatch("recomputed"),
          .recomputed_at_once = stages.bytes_per_microbatch("recomputed_at_once"),
          .input = stages.bytes_per_microbatch("input"),
          .weights = stages.bytes_per_stage("weights"),
          .gradients = stages.bytes_per_stage("gradients"),
          .optimizer_state = stages.bytes_per_stage("optimizer_state"),
          .transient = stages.bytes_per_microbatch("transient"),
          .edges = read_edges(stages, problem)};
}

// --- layers ---------------------------------------------------------------------------------------------

using LayerNames = std::unordered_map<std::string, std::int32_t>;

/// The layers that `inputs` names; the previous one where it is left out.
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

/// Inputs are names of earlier layers, so that the list is an order in which layers can run.
Layer read_layer(const Node& node, const LayerNames& earlier, std::int32_t index, Problem& problem) {
  static constexpr std::array<std::string_view, 9> kKeys = {
      "name", "forward", "backward", "output", "kept", "weights", "transient", "recomputed", "inputs"};
  const std::size_t before = problem.count();
  const MappingReader reader(node, fmt::format("model.layers.{}", index), kKeys, problem);
  const bool is_sound = problem.count() == before;
  for (const std::string_view key : {"forward", "backward"}) {
    if (is_sound && !reader.has(key)) reader.complain(key, "expected a duration, got nothing");
  }
  Layer layer{.name = reader.word("name").value_or(fmt::format("layer{}", index)),
              .forward_ns = reader.duration("forward").value_or(0),
              .backward_ns = reader.duration("backward").value_or(0),
              .output = reader.bytes("output").value_or(0),
              .kept = reader.bytes("kept"),
              .weights = reader.bytes("weights").value_or(0),
              .transient = reader.bytes("transient").value_or(0),
              .recomputed = reader.bytes("recomputed").value_or(0),
              .inputs = read_inputs(reader, earlier, index)};
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
        fmt::format(
            "expected a list of layers, got {}{}",
            node.kind == Node::Kind::list ? "an empty list" : describe(node),
            is_number ? "; a number of layers goes with model.huggingface (--model config.json)" : ""));
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

/// No layers, with a problem noted, where the file cannot be read.
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

/// `transformer`, or `transformer: {width: 64, ...}`. Which names and sizes there are is known where it is
/// run.
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

/// Keys that the form (none: a network alone) has no use for.
void refuse_keys_of_other_forms(const MappingReader& model, std::optional<std::string_view> form) {
  if (!form && model.has("batch")) {
    model.complain("batch",
                   "belongs to stages, layers or profile; unit costs hold for training.micro_batch_size");
  }
  if (form && (is_transformer(*form) || *form == "fitted") && model.has("batch")) {
    model.complain(
        "batch", "belongs to stages, layers or profile; a transformer has its own times for any microbatch");
  }
  if ((!form || *form == "stages" || *form == "fitted") && model.has("overhead"))
    model.complain("overhead", "belongs to layers, profile or a transformer; write model.stages.overhead");
}

std::vector<std::string_view> keys_of(const Node& model) {
  std::vector<std::string_view> keys(kForms.begin(), kForms.end());
  keys.insert(keys.end(), {"network", "batch", "overhead"});
  if (model.find("huggingface") != nullptr)
    keys.insert(keys.end(), keys_beside_huggingface().begin(), keys_beside_huggingface().end());
  if (model.find("fitted") != nullptr)
    keys.insert(keys.end(), keys_beside_fitted().begin(), keys_beside_fitted().end());
  return keys;
}

/// The one form that the model is given in; nothing when it is none (a problem, unless there is a network)
/// or, with a problem noted, two.
std::optional<std::string_view> form_of(const MappingReader& model, Problem& problem) {
  std::optional<std::string_view> form;
  for (const std::string_view key : kForms) {
    // Beside a configuration or fitted costs `layers` is a number, and no form.
    const bool is_count = key == "layers" && (model.has("huggingface") || model.has("fitted"));
    if (!model.has(key) || is_count) continue;
    if (form) model.complain(key, fmt::format("expected one form of the model, got {} and {}", *form, key));
    form = key;
  }
  if (!form && !model.has("network")) {
    problem.note(
        model.node(), "model",
        "expected one of stages, layers, profile, transformer, huggingface, fitted and network, got none of "
        "them");
  }
  return form;
}

/// A model for named devices, in one of the two forms of a transformer.
std::optional<ArchitecturePart> architecture_of(const MappingReader& model, std::string_view form,
                                                Problem& problem) {
  if (form == "transformer") return read_architecture_sizes(*model.find(form), problem);
  refuse_keys_without_device(model);
  return read_architecture(model, problem);
}

}  // namespace

ModelPart read_model(const Node& node, const ClusterSpec& cluster, Problem& problem) {
  const MappingReader model(node, "model", keys_of(node), problem);
  if (problem.found()) return {};
  std::optional<NetworkSpec> network;
  if (const Node* named = model.find("network")) network = read_network(*named, model, problem);
  if (problem.found()) return {};
  const auto form = form_of(model, problem);
  if (problem.found()) return {};
  refuse_keys_of_other_forms(model, form);
  // A network alone costs what no model costs.
  if (!form) return {.model = UnitCosts{}, .network = std::move(network)};
  const Node& value = *model.find(*form);
  const auto batch = model.integer("batch", {.least = 1, .most = std::numeric_limits<std::int32_t>::max()});
  if (*form == "stages")
    return {.model = read_stages(value, problem), .network = std::move(network), .batch = batch};
  ModelPart part{.model = {}, .network = std::move(network), .batch = batch};
  if (*form == "fitted") {
    // Nothing is scaled: costs are those of the microbatch in force (fitted_prices.cpp).
    part.model = read_fitted(model, problem);
    part.batch = 1;
    return part;
  }
  // On named devices a transformer stays what it is until its stages are priced; elsewhere it becomes layers
  // here.
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

}  // namespace penstock
