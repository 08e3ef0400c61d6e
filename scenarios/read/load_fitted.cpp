// Reads a file of fitted costs, which has this form:
//
//   {"iteration_costs": {
//     "source": "iterations.csv: 345 iterations of one stage", "vocabulary": 51200,
//     "link": "225 GB/s",
//     "step": {"constant": "612 us", "layer": "20 us", "million_parameters": "7.2 us"},
//     "reduction": [{"hidden": 1024, "million_parameters": "10 us"}, ..],
//     "layers": [{"hidden": 1024, "heads": 16, "sequence": 1024, "tensor": 2, "micro_batch_size": 4,
//                 "layer": "3.175 ms", "ends": "6.807 ms"}, ..]}}
//
// Times are whole nanoseconds, so that fitted costs give the same prediction before and after they are
// written to a file.

#include "scenarios/read/load.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/quantities.hpp"
#include "scenarios/read/reader.hpp"
#include "schedules/ir/action.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

using Word = std::string_view;

// These limits keep the times of a stage and of a step within 64 bits. The largest cases are 10^4 layers of
// an hour, and 30 ms for each million of 1.3 x 10^17 parameters, which is 4 x 10^18 ns. A message's bytes may
// exceed 64 bits (prepare/priced_scenario.cpp).
constexpr std::int64_t kSchemaVersion = 1;
constexpr Range kVersions{.least = 1, .most = 1 << 20};
constexpr Range kHidden{.least = 1, .most = 1 << 20};
constexpr Range kHeads{.least = 1, .most = 1 << 20};
constexpr Range kSequence{.least = 1, .most = 1 << 28};
constexpr Range kSamples{.least = 1, .most = 1 << 28};
constexpr Range kLayersOfRun{.least = 1, .most = 10'000};
constexpr Range kVocabulary{.least = 1, .most = 1 << 28};
constexpr Ns kLongest = 3'600'000'000'000;
constexpr Ns kLongestOfMillion = 10'000'000;

/// Returns a required duration of at most `most`. If it is wrong, records a problem.
Ns needed_duration(const MappingReader& reader, Word key, Ns most) {
  if (!reader.has(key)) reader.complain(key, "expected a duration such as 3.2 ms, got nothing");
  const Ns value = reader.duration(key).value_or(0);
  if (value <= most) return value;
  reader.complain(key, fmt::format("expected a duration of at most {} ms", most / 1'000'000));
  return 0;
}

StepCosts read_step(const Node& node, Problem& problem) {
  static constexpr std::array kKeys = {Key{.name = "constant", .kind = KeyKind::duration},
                                       Key{.name = "layer", .kind = KeyKind::duration},
                                       Key{.name = "million_parameters", .kind = KeyKind::duration}};
  const MappingReader step(node, "iteration_costs.step", kKeys, problem);
  if (problem.found()) return {};
  StepCosts costs;
  costs.constant_ns = needed_duration(step, "constant", kLongest);
  costs.layer_ns = needed_duration(step, "layer", kLongest);
  costs.million_parameters_ns = needed_duration(step, "million_parameters", kLongestOfMillion);
  return costs;
}

void read_reduction(const Node& node, std::size_t index, StepCosts& step, Problem& problem) {
  static constexpr std::array kKeys = {Key{.name = "hidden", .kind = KeyKind::integer, .range = kHidden},
                                       Key{.name = "million_parameters", .kind = KeyKind::duration}};
  const MappingReader reduction(node, fmt::format("iteration_costs.reduction.{}", index), kKeys, problem);
  if (problem.found()) return;
  const std::int64_t hidden = reduction.required_integer("hidden");
  const Ns million_ns = needed_duration(reduction, "million_parameters", kLongestOfMillion);
  if (!step.million_reduced_ns.emplace(hidden, million_ns).second)
    reduction.complain("hidden", fmt::format("the reduction of hidden {} is given twice", hidden));
}

void read_layer_costs(const Node& node, std::size_t index, IterationCosts& costs, Problem& problem) {
  static constexpr std::array kKeys = {
      Key{.name = "hidden", .kind = KeyKind::integer, .range = kHidden},
      Key{.name = "heads", .kind = KeyKind::integer, .range = kHeads},
      Key{.name = "sequence", .kind = KeyKind::integer, .range = kSequence},
      Key{.name = "tensor", .kind = KeyKind::integer, .range = kParallelDegree},
      Key{.name = "micro_batch_size", .kind = KeyKind::integer, .range = kSamples},
      Key{.name = "layer", .kind = KeyKind::duration},
      Key{.name = "ends", .kind = KeyKind::duration}};
  const MappingReader layer(node, fmt::format("iteration_costs.layers.{}", index), kKeys, problem);
  if (problem.found()) return;
  const FittedLayer kind{.hidden = layer.required_integer("hidden"),
                         .heads = layer.required_integer("heads"),
                         .sequence = layer.required_integer("sequence"),
                         .tensor = static_cast<std::int32_t>(layer.required_integer("tensor")),
                         .micro_batch_size = layer.required_integer("micro_batch_size")};
  const LayerCosts times{.layer_ns = needed_duration(layer, "layer", kLongest),
                         .ends_ns = needed_duration(layer, "ends", kLongest)};
  if (!problem.found() && !costs.layers.emplace(kind, times).second)
    layer.complain("hidden", fmt::format("the costs of layers of {} are given twice", to_text(kind)));
}

/// Returns the entries of a required list. If it is missing or empty, records a problem and returns an empty
/// list.
const std::vector<Node>& needed_list(const MappingReader& reader, Word key) {
  static const std::vector<Node> none;
  const Node* list = reader.find(key);
  if (list != nullptr && list->kind == Node::Kind::list && !list->items.empty()) return list->items;
  reader.complain(key, "expected a list with an entry or more");
  return none;
}

/// Checks that the file has a reduction time for every hidden size of its layers, because step_ns() needs
/// it.
void check_reductions(const MappingReader& reader, const IterationCosts& costs) {
  for (const auto& [kind, times] : costs.layers) {
    if (!costs.step.million_reduced_ns.contains(kind.hidden))
      reader.complain("reduction", fmt::format("expected an entry of hidden {} too", kind.hidden));
  }
}

IterationCosts read_parts_of_costs(const Node& part, Problem& problem) {
  static constexpr std::array kKeys = {
      Key{.name = "source", .kind = KeyKind::name},
      Key{.name = "vocabulary", .kind = KeyKind::integer, .range = kVocabulary},
      Key{.name = "link", .kind = KeyKind::bandwidth},
      Key{.name = "step", .kind = KeyKind::mapping},
      Key{.name = "reduction", .kind = KeyKind::mappings},
      Key{.name = "layers", .kind = KeyKind::mappings}};
  const MappingReader reader(part, "iteration_costs", kKeys, problem);
  if (problem.found()) return {};
  IterationCosts costs;
  costs.source = reader.word("source").value_or("a file without a source");
  costs.vocabulary = reader.required_integer("vocabulary");
  costs.link_bytes_per_second = reader.bandwidth("link").value_or(0);
  const Node* step = reader.find("step");
  if (step == nullptr) {
    reader.complain("step", "expected what a step costs, got nothing");
    return costs;
  }
  costs.step = read_step(*step, problem);
  std::size_t index = 0;
  for (const Node& entry : needed_list(reader, "reduction"))
    read_reduction(entry, index++, costs.step, problem);
  index = 0;
  for (const Node& entry : needed_list(reader, "layers")) read_layer_costs(entry, index++, costs, problem);
  if (!problem.found()) check_reductions(reader, costs);
  return costs;
}

IterationCosts read_costs(const Node& document, Problem& problem) {
  // Other keys that `penstock fit` writes are for human readers and have no effect.
  static constexpr std::array kKeys = {
      Key{.name = "schema_version", .kind = KeyKind::integer, .range = kVersions},
      Key{.name = "kind", .kind = KeyKind::name}, Key{.name = "iteration_costs", .kind = KeyKind::mapping},
      Key{.name = "fit", .kind = KeyKind::mapping}};
  const MappingReader top(document, "", kKeys, problem);
  if (problem.found()) return {};
  if (top.integer("schema_version").value_or(kSchemaVersion) != kSchemaVersion)
    top.complain("schema_version", fmt::format("expected {}, which this penstock reads", kSchemaVersion));
  if (const Node* part = top.find("iteration_costs")) return read_parts_of_costs(*part, problem);
  top.complain("iteration_costs", "expected the costs of `penstock fit`, got nothing");
  return {};
}

}  // namespace

std::span<const Key> keys_beside_fitted() {
  static constexpr std::array kKeys = {Key{.name = "hidden",
                                           .kind = KeyKind::integer,
                                           .meaning = "Width of the hidden states.",
                                           .usual = "required",
                                           .range = kHidden},
                                       Key{.name = "heads",
                                           .kind = KeyKind::integer,
                                           .meaning = "Attention heads.",
                                           .usual = "required",
                                           .range = kHeads},
                                       Key{.name = "sequence",
                                           .kind = KeyKind::integer,
                                           .meaning = "Tokens of one sample.",
                                           .usual = "required",
                                           .range = kSequence},
                                       Key{.name = "layers",
                                           .kind = KeyKind::integer,
                                           .meaning = "The number of layers.",
                                           .usual = "required",
                                           .range = kLayersOfRun}};
  return kKeys;
}

FittedModel read_fitted(const MappingReader& model, Problem& problem) {
  const Node& file = *model.find("fitted");
  FittedModel fitted;
  fitted.kind.hidden = model.required_integer("hidden");
  fitted.kind.heads = model.required_integer("heads");
  fitted.kind.sequence = model.required_integer("sequence");
  fitted.layers = model.required_integer("layers");
  if (file.kind != Node::Kind::scalar) {
    problem.note(file, "model.fitted", "expected the name of a file, got " + describe(file));
    return fitted;
  }
  const NamedFile named = named_file(file);
  auto costs = load_iteration_costs(named.path, named.name);
  if (costs) {
    fitted.costs = std::make_shared<const IterationCosts>(*std::move(costs));
  } else {
    problem.note(file, "model.fitted", costs.error());
  }
  return fitted;
}

void set_degrees(FittedModel& model, const Node& document, const Parallel& degrees, Problem& problem) {
  if (degrees.context > 1 || degrees.expert > 1) {
    problem.note(*document.find("parallel"), "parallel",
                 "fitted costs know tensor and data alone; leave context and expert out");
  }
  model.kind.tensor = degrees.tensor;
  model.copies = degrees.data;
}

tl::expected<IterationCosts, std::string> load_iteration_costs(const std::filesystem::path& path,
                                                               std::string_view name) {
  const auto text = read_text_file(path, name);
  if (!text) return tl::unexpected(text.error());
  const auto source = std::make_shared<const Source>(
      Source{.name = std::string(name), .directory = path.parent_path(), .override_key = ""});
  const auto document = parse_document(*text, source);
  if (!document) return tl::unexpected(document.error());
  Problem problem;
  IterationCosts costs = read_costs(*document, problem);
  if (problem.found()) return tl::unexpected(problem.message());
  return costs;
}

std::string iteration_costs_to_json(const IterationCosts& costs) {
  using Json = nlohmann::ordered_json;
  Json layers = Json::array();
  for (const auto& [kind, times] : costs.layers) {
    layers.push_back({{"hidden", kind.hidden},
                      {"heads", kind.heads},
                      {"sequence", kind.sequence},
                      {"tensor", kind.tensor},
                      {"micro_batch_size", kind.micro_batch_size},
                      {"layer", duration_text(times.layer_ns)},
                      {"ends", duration_text(times.ends_ns)}});
  }
  const StepCosts& step = costs.step;
  Json reduction = Json::array();
  for (const auto& [hidden, million_ns] : step.million_reduced_ns)
    reduction.push_back({{"hidden", hidden}, {"million_parameters", duration_text(million_ns)}});
  Json part = {{"source", costs.source}, {"vocabulary", costs.vocabulary}};
  if (costs.link_bytes_per_second > 0) part["link"] = fmt::format("{} B/s", costs.link_bytes_per_second);
  part["step"] = {{"constant", duration_text(step.constant_ns)},
                  {"layer", duration_text(step.layer_ns)},
                  {"million_parameters", duration_text(step.million_parameters_ns)}};
  part["reduction"] = std::move(reduction);
  part["layers"] = std::move(layers);
  return Json{{"iteration_costs", part}}.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace penstock
