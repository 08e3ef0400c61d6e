
#include "scenarios/partition/plan_checks.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/layer_graph_downsets.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

constexpr std::size_t kMostTableEntries = std::size_t{1} << 25;  // a period and a ring each: 512 MiB

/// Returns a set with only this layer.
Downset alone(const Layer& layer) {
  Downset set;
  set.kept = layer.kept_bytes();
  set.weights = layer.weights;
  return set;
}

}  // namespace

tl::expected<void, std::string> check_tables(std::size_t downsets, std::span<const BandwidthLevel> levels) {
  for (std::size_t level = 0; level < levels.size(); ++level) {
    const std::size_t targets = level + 1 == levels.size() ? 1 : downsets;
    const std::size_t entries = downsets * targets * static_cast<std::size_t>(levels[level].components);
    if (entries <= kMostTableEntries) continue;
    return tl::unexpected(fmt::format(
        "planning {} downsets of layers over {} components of {} bandwidth level{} takes a table of {} "
        "entries, more than {}: merge layers, or take fewer devices",
        downsets, levels[level].components, levels.size(), levels.size() == 1 ? "" : "s", entries,
        kMostTableEntries));
  }
  return {};
}

tl::expected<void, std::string> check_layers(const LayerGraph& graph, Bytes limit, std::int64_t state_bytes) {
  const Layer* largest = nullptr;
  Bytes most = limit;
  Bytes state = 0;
  for (const Layer& layer : graph.layers) {
    const Downset own = alone(layer);
    const Bytes held = held_bytes({}, own, 1, state_bytes);
    // The message names the largest of the layers that do not fit.
    if (held <= most) continue;
    largest = &layer;
    most = held;
    // With no minibatch in flight, only gradients and optimizer state remain.
    state = held_bytes({}, own, 0, state_bytes) - layer.weights;
  }
  if (largest == nullptr) return {};
  return tl::unexpected(fmt::format(
      "the layer {} is larger than a device: alone and with one minibatch in flight it needs {} bytes "
      "(activations {}, weights {}, gradients {}, optimizer state {}), a device has {}; take a smaller "
      "minibatch, split the layer, or take devices with more memory",
      largest->name, most, largest->kept_bytes(), largest->weights, largest->weights, state, limit));
}

}  // namespace penstock
