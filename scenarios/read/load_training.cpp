// `training:`, `partition:` and `host:`, the short parts. Sizes that follow from each other (micro batch,
// global batch, microbatches) are kept as stated here, and reconciled in prepare/ when flags have been
// applied, too.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_recompute.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/schema.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/nearest_name.hpp"

namespace penstock {
namespace {

using Word = std::string_view;

constexpr std::array kOptimizers = {
    std::pair{Word{"sgd"}, Optimizer::sgd}, std::pair{Word{"momentum"}, Optimizer::momentum},
    std::pair{Word{"rmsprop"}, Optimizer::rmsprop}, std::pair{Word{"adam"}, Optimizer::adam}};

/// What a word says of all models' bytes, or of the products of a model on named devices.
struct PrecisionWord {
  std::optional<Precision> bytes{};
  std::optional<GemmPrecision> products{};
};
constexpr std::array kPrecisionWords = {
    std::pair{Word{"full"}, PrecisionWord{.bytes = Precision::full}},
    std::pair{Word{"mixed"}, PrecisionWord{.bytes = Precision::mixed}},
    std::pair{Word{"mixed-full-gradients"}, PrecisionWord{.bytes = Precision::mixed_full_gradients}},
    std::pair{Word{"bf16"}, PrecisionWord{.products = GemmPrecision::bf16}},
    std::pair{Word{"fp8"}, PrecisionWord{.products = GemmPrecision::fp8}},
    std::pair{Word{"fp4"}, PrecisionWord{.products = GemmPrecision::fp4}}};

constexpr std::array kWeightVersions = {std::pair{Word{"needed"}, false}, std::pair{Word{"cloned"}, true}};

constexpr std::array kLayerRecomputes = {
    std::pair{Word{"none"}, LayerRecompute::none}, std::pair{Word{"selective"}, LayerRecompute::selective},
    std::pair{Word{"norm"}, LayerRecompute::norm}, std::pair{Word{"activation"}, LayerRecompute::activation},
    std::pair{Word{"mlp"}, LayerRecompute::mlp},   std::pair{Word{"full"}, LayerRecompute::full}};

constexpr std::array kRules = {std::pair{Word{"balanced"}, Partition::Rule::balanced},
                               std::pair{Word{"block"}, Partition::Rule::block},
                               std::pair{Word{"pipedream"}, Partition::Rule::pipedream}};
constexpr std::array kPlanObjectives = {std::pair{Word{"maximum"}, PlanObjective::maximum},
                                        std::pair{Word{"sum"}, PlanObjective::sum},
                                        std::pair{Word{"maximum-printed"}, PlanObjective::maximum_printed}};
constexpr std::array kTransfers = {std::pair{Word{"counted"}, CutTransfers::counted},
                                   std::pair{Word{"free"}, CutTransfers::free}};

/// `{mtbf: 50000 h, ...}`.
std::optional<FailureRates> read_failures(const MappingReader& training, Problem& problem) {
  static constexpr std::array<Word, 4> kKeys = {"mtbf", "checkpoint_cost", "restart", "checkpoint_every"};
  const Node* node = training.find("failures");
  if (node == nullptr || problem.found()) return std::nullopt;
  const MappingReader reader(*node, "training.failures", kKeys, problem);
  if (problem.found()) return std::nullopt;
  const FailureRates usual;
  FailureRates failures{.device_mtbf_ns = reader.duration("mtbf").value_or(0),
                        .save_ns = reader.duration("checkpoint_cost").value_or(usual.save_ns),
                        .restart_ns = reader.duration("restart").value_or(usual.restart_ns),
                        .interval_ns = reader.duration("checkpoint_every")};
  if (!problem.found() && failures.device_mtbf_ns == 0) {
    reader.complain("mtbf",
                    "expected the mean time between failures of one device, above 0 such as 50000 h, got " +
                        (reader.has("mtbf") ? describe(*reader.find("mtbf")) : std::string("nothing")));
  }
  if (failures.interval_ns == 0)
    reader.complain("checkpoint_every", "expected more than 0; leave it out for the best interval");
  return failures;
}

/// 2 or 4, a parameter.
std::optional<std::int32_t> read_gradient_bytes(const MappingReader& reader) {
  const auto bytes = reader.integer("gradient_bytes", {.least = 2, .most = 4});
  if (!bytes) return std::nullopt;
  if (*bytes == 3) reader.complain("gradient_bytes", "expected 2 or 4 bytes a parameter, got 3");
  return static_cast<std::int32_t>(*bytes);
}

Partition read_rule(const Node& node, Problem& problem) {
  for (const auto& [word, rule] : kRules) {
    if (node.text == word) return {.rule = rule};
  }
  problem.note(node, "partition",
               "expected balanced, block, pipedream or a list of cuts such as [4, 9] (layers before each "
               "cut, or names of the layers behind them), got " +
                   describe(node));
  return {};
}

/// `unlimited` is a limit, too; left out, the devices' memory is.
std::optional<Bytes> read_memory_limit(const MappingReader& reader) {
  if (!reader.has("memory_limit")) return std::nullopt;
  return reader.limit("memory_limit").value_or(std::numeric_limits<Bytes>::max());
}

/// `{rule: pipedream, objective: sum, ...}`.
Partition read_partition_mapping(const Node& node, Problem& problem) {
  static constexpr std::array<Word, 5> kKeys = {"rule", "objective", "straight", "cut_transfers",
                                                "memory_limit"};
  const MappingReader reader(node, "partition", kKeys, problem);
  if (problem.found()) return {};
  const auto rule = reader.choice("rule", kRules);
  if (!reader.has("rule")) reader.complain("rule", "expected balanced, block or pipedream, got nothing");
  for (const Word key : {"objective", "straight", "cut_transfers", "memory_limit"}) {
    if (reader.has(key) && rule && rule != Partition::Rule::pipedream)
      reader.complain(key, "belongs to rule: pipedream; leave it out");
  }
  return {
      .rule = rule.value_or(Partition::Rule::unset),
      .cuts = {},
      .plan = {.objective = reader.choice("objective", kPlanObjectives).value_or(PlanObjective::maximum),
               .form = reader.flag("straight").value_or(false) ? PlanForm::straight : PlanForm::replicated,
               .transfers = reader.choice("cut_transfers", kTransfers).value_or(CutTransfers::counted),
               .memory_limit = read_memory_limit(reader)},
      .states_objective = reader.has("objective")};
}

/// The index of the layer with that name; nothing where there is none.
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

/// A cut is the number of layers before it or the name of the first layer behind it. Layers may be called 1,
/// 2 and so on: 3 is a number, "3" the name of a layer where there is one.
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
  // Something like "-3" was meant to be a number: the nearest name of a layer would be no help.
  return tl::unexpected(looks_like_a_figure(item.text) ? number.error() : no_such_layer(*graph, item.text));
}

/// `graph` is null where the model is no layers: numbers are read all the same, and a note says that they are
/// not used. Whether they fit the stages is known when the program is.
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

}  // namespace

TrainingPart read_training(const Node& node, Problem& problem) {
  static constexpr std::array<Word, 12> kKeys = {"micro_batch_size", "global_batch_size", "optimizer",
                                                 "precision",        "failures",          "iterations",
                                                 "recompute",        "gradient_bytes",    "host_layer",
                                                 "expert_layer",     "deferred_head",     "weight_versions"};
  const MappingReader reader(node, "training", kKeys, problem);
  constexpr Range kBatch{.least = 1, .most = std::numeric_limits<std::int32_t>::max()};
  const auto iterations = reader.integer("iterations", kBatch);
  const auto precision = reader.choice("precision", kPrecisionWords);
  return {.micro_batch_size = reader.integer("micro_batch_size", kBatch),
          .global_batch_size = reader.integer("global_batch_size", kBatch),
          .iterations = iterations ? std::optional(static_cast<std::int32_t>(*iterations)) : std::nullopt,
          .optimizer = reader.choice("optimizer", kOptimizers),
          .precision = precision ? precision->bytes : std::nullopt,
          .clones_versions = reader.choice("weight_versions", kWeightVersions),
          .device_precision = precision ? precision->products : std::nullopt,
          .recompute = reader.choice("recompute", kLayerRecomputes),
          .gradient_bytes = read_gradient_bytes(reader),
          .deferred_head = reader.flag("deferred_head"),
          .expert_layer_ns = reader.duration("expert_layer"),
          .host_layer_ns = reader.duration("host_layer"),
          .failures = read_failures(reader, problem)};
}

LaunchCost read_host(const Node& node, Problem& problem) {
  static constexpr std::array<Word, 2> kKeys = {"launch_overhead", "launch_ahead"};
  const MappingReader reader(node, "host", kKeys, problem);
  if (problem.found()) return {};
  constexpr Range kAhead{.least = 1, .most = std::numeric_limits<std::int32_t>::max()};
  return {.overhead_ns = reader.duration("launch_overhead").value_or(0),
          .most_ahead = static_cast<std::int32_t>(reader.integer("launch_ahead", kAhead).value_or(0))};
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

}  // namespace penstock
