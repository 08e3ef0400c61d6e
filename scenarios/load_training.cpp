// `training:` and `partition:`, the two short parts.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "scenarios/document.hpp"
#include "scenarios/partition.hpp"
#include "scenarios/reader.hpp"
#include "scenarios/scenario.hpp"
#include "scenarios/schema.hpp"

namespace penstock {
namespace {

using Word = std::string_view;

constexpr std::array kOptimizers = {
    std::pair{Word{"sgd"}, Optimizer::sgd}, std::pair{Word{"momentum"}, Optimizer::momentum},
    std::pair{Word{"rmsprop"}, Optimizer::rmsprop}, std::pair{Word{"adam"}, Optimizer::adam}};

}  // namespace

TrainingPart read_training(const Node& node, Problem& problem) {
  static constexpr std::array<Word, 4> kKeys = {"micro_batch_size", "global_batch_size", "optimizer",
                                                "iterations"};
  const MappingReader reader(node, "training", kKeys, problem);
  constexpr Range kSize{.least = 1, .most = std::numeric_limits<std::int32_t>::max()};
  const auto iterations = reader.integer("iterations", kSize);
  return {.micro_batch_size = reader.integer("micro_batch_size", kSize),
          .global_batch_size = reader.integer("global_batch_size", kSize),
          .iterations = iterations ? std::optional(static_cast<std::int32_t>(*iterations)) : std::nullopt,
          .optimizer = reader.choice("optimizer", kOptimizers).value_or(Optimizer::sgd)};
}

Partition read_partition(const Node& node, Problem& problem) {
  if (node.kind == Node::Kind::scalar && node.text == "balanced") {
    return {.rule = Partition::Rule::balanced, .cuts = {}};
  }
  if (node.kind == Node::Kind::scalar && node.text == "pipedream") {
    problem.note(node, "partition", "pipedream is not supported yet; expected balanced or a list of cuts");
    return {};
  }
  if (node.kind != Node::Kind::list) {
    problem.note(
        node, "partition",
        "expected balanced or a list of cuts such as [4, 9] (layers before each cut), got " + describe(node));
    return {};
  }
  Partition partition{.rule = Partition::Rule::cuts, .cuts = {}};
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const auto cut = integer_of(node.items[i], {.least = 1});
    if (!cut) problem.note(node.items[i], fmt::format("partition.{}", i), cut.error());
    partition.cuts.push_back(static_cast<std::int32_t>(cut.value_or(0)));
    const bool ascends = i == 0 || partition.cuts[i - 1] < partition.cuts[i];
    if (cut && !ascends) {
      problem.note(
          node.items[i], fmt::format("partition.{}", i),
          fmt::format("expected ascending cuts, got {} after {}", partition.cuts[i], partition.cuts[i - 1]));
    }
  }
  return partition;
}

}  // namespace penstock
