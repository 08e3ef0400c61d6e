// The least bound that K stages can keep is found by bisection: a bound is kept when filling the stages one
// after the other as full as the bound allows needs no more than K of them. Fewer can always be split up
// to K without raising the bound, because no layer takes less than no time.

#include "scenarios/partition/partition.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/block_partition.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

__extension__ typedef __int128 Wide;

Wide time_of(const Layer& layer) { return static_cast<Wide>(layer.forward_ns) + layer.backward_ns; }

/// How many stages are needed when none may take longer than `bound`, which no single layer exceeds.
std::int32_t stages_needed(const LayerGraph& graph, Wide bound) {
  std::int32_t stages = 1;
  Wide filled = 0;
  for (const Layer& layer : graph.layers) {
    if (filled + time_of(layer) > bound) {
      ++stages;
      filled = 0;
    }
    filled += time_of(layer);
  }
  return stages;
}

Wide least_bound(const LayerGraph& graph, std::int32_t stages) {
  Wide low = 0;
  Wide high = 0;
  for (const Layer& layer : graph.layers) {
    low = std::max(low, time_of(layer));
    high += time_of(layer);
  }
  while (low < high) {
    const Wide middle = low + (high - low) / 2;
    if (stages_needed(graph, middle) <= stages) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

tl::expected<void, std::string> check_cuts(const std::vector<std::int32_t>& cuts, std::int32_t layers,
                                           std::int32_t stages) {
  if (static_cast<std::int32_t>(cuts.size()) != stages - 1) {
    return tl::unexpected(fmt::format("partition: expected {} cuts (one fewer than stages), got {}: [{}]",
                                      stages - 1, cuts.size(), fmt::join(cuts, ", ")));
  }
  std::int32_t previous = 0;
  for (const std::int32_t cut : cuts) {
    if (cut <= previous || cut >= layers) {
      return tl::unexpected(
          fmt::format("partition: expected ascending cuts from 1 to {} for {} layers, got [{}]", layers - 1,
                      layers, fmt::join(cuts, ", ")));
    }
    previous = cut;
  }
  return {};
}

}  // namespace

std::vector<std::int32_t> balanced_cuts(const LayerGraph& graph, std::int32_t stages) {
  const Wide bound = least_bound(graph, stages);
  std::vector<std::int32_t> cuts(static_cast<std::size_t>(stages - 1));
  auto end = static_cast<std::int32_t>(graph.layers.size());
  for (std::int32_t stage = stages - 1; stage > 0; --stage) {
    std::int32_t begin = end;
    Wide filled = 0;
    while (begin > stage) {
      const Wide with_next = filled + time_of(graph.layers[static_cast<std::size_t>(begin - 1)]);
      if (with_next > bound) break;
      filled = with_next;
      --begin;
    }
    cuts[static_cast<std::size_t>(stage - 1)] = begin;
    end = begin;
  }
  return cuts;
}

tl::expected<std::vector<std::int32_t>, std::string> cut_layers(const LayerGraph& graph,
                                                                const Partition& partition,
                                                                std::int32_t stages) {
  const auto layers = static_cast<std::int32_t>(graph.layers.size());
  if (stages < 1)
    return tl::unexpected(fmt::format("expected at least one stage to cut into, got {}", stages));
  if (stages > layers) {
    return tl::unexpected(fmt::format(
        "the model has {} layers, too few for {} stages; take at most {} stages", layers, stages, layers));
  }
  switch (partition.rule) {
    case Partition::Rule::balanced:
      return balanced_cuts(graph, stages);
    case Partition::Rule::block:
      return block_cuts(graph, stages);
    case Partition::Rule::pipedream:
      return tl::unexpected(std::string("partition: pipedream has to be planned before layers are cut"));
    case Partition::Rule::cuts:
      if (auto checked = check_cuts(partition.cuts, layers, stages); !checked)
        return tl::unexpected(checked.error());
      return partition.cuts;
    case Partition::Rule::unset:
      if (stages == 1) return std::vector<std::int32_t>{};
      return tl::unexpected(
          fmt::format("partition: the model is layers and the program has {} stages: expected `partition: "
                      "balanced`, block or pipedream, or the list of cuts between them, got nothing",
                      stages));
  }
  return std::vector<std::int32_t>{};
}

tl::expected<std::vector<std::int32_t>, std::string> cut_buckets(const LayerGraph& graph,
                                                                 const std::vector<std::int32_t>& cuts,
                                                                 const std::vector<std::int32_t>& buckets) {
  std::vector<std::int32_t> all;
  std::int32_t begin = 0;
  for (std::size_t stage = 0; stage < buckets.size(); ++stage) {
    const std::int32_t end =
        stage < cuts.size() ? cuts[stage] : static_cast<std::int32_t>(graph.layers.size());
    if (buckets[stage] > end - begin) {
      return tl::unexpected(fmt::format("schedule.buckets: stage {} has {} layers, too few for {} buckets",
                                        stage, end - begin, buckets[stage]));
    }
    LayerGraph layers;
    layers.layers.assign(graph.layers.begin() + begin, graph.layers.begin() + end);
    for (const std::int32_t cut : balanced_cuts(layers, buckets[stage])) all.push_back(begin + cut);
    all.push_back(end);
    begin = end;
  }
  all.pop_back();
  return all;
}

tl::expected<Bytes, std::string> cut_bytes(const LayerGraph& graph, std::int32_t cut) {
  std::vector<char> crosses(static_cast<std::size_t>(cut), 0);
  for (std::size_t layer = static_cast<std::size_t>(cut); layer < graph.layers.size(); ++layer) {
    for (const std::int32_t input : graph.layers[layer].inputs) {
      if (input < cut) crosses[static_cast<std::size_t>(input)] = 1;
    }
  }
  Bytes total = 0;
  for (std::size_t layer = 0; layer < crosses.size(); ++layer) {
    if (crosses[layer] != 0 && __builtin_add_overflow(total, graph.layers[layer].output, &total)) {
      return tl::unexpected(
          fmt::format("the outputs that cross the cut before layer {} add up to more than 2^63 bytes", cut));
    }
  }
  return total;
}

}  // namespace penstock
