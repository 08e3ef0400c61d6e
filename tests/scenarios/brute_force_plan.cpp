#include "tests/scenarios/brute_force_plan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

using Set = std::uint32_t;  // bit l: layer l

constexpr double kNone = std::numeric_limits<double>::infinity();

bool has(Set set, std::size_t layer) { return (set >> layer & 1) != 0; }

class EveryPlan {
 public:
  EveryPlan(const LayerGraph& graph, const std::vector<BandwidthLevel>& levels, const PlanOptions& options)
      : graph_(graph), levels_(levels), options_(options) {}

  /// Splits the layers of `rest` over `components` of the level. `done` ran before; `ahead` is the number of
  /// devices that come after the whole pipeline, for each of its copies.
  double best(std::size_t level, Set done, Set rest, std::int32_t components, double ahead,
              bool first) const {
    double least = kNone;
    for (Set stage = rest; stage != 0; stage = (stage - 1) & rest) {
      if (!can_follow(done, stage, rest)) continue;
      const bool last = stage == rest;
      for (std::int32_t m = 1; m <= components; ++m) {
        if (last != (m == components) || (m > 1 && options_.form == PlanForm::straight)) continue;
        const std::int32_t later = components - m;
        double period = stage_time(level, done, stage, m, (later * devices_below(level) + ahead) / m, first);
        if (!first) period = std::max(period, cut_time(level, done, m));
        if (!first && options_.objective == PlanObjective::sum)
          period = std::max(period, cut_time(level, done | stage, m));
        if (!last) period = std::max(period, best(level, done | stage, rest & ~stage, later, ahead, false));
        least = std::min(least, period);
      }
    }
    return least;
  }

 private:
  /// True when the stage can run right after `done`, before what is left of `rest`.
  bool can_follow(Set done, Set stage, Set rest) const {
    for (std::size_t layer = 0; layer < graph_.layers.size(); ++layer) {
      for (const std::int32_t input : graph_.layers[layer].inputs) {
        const bool input_comes_later = has(rest & ~stage, static_cast<std::size_t>(input));
        if (has(stage, layer) && input_comes_later) return false;
      }
    }
    static_cast<void>(done);
    return true;
  }

  double stage_time(std::size_t level, Set done, Set stage, std::int32_t m, double ahead, bool first) const {
    double weights = 0;
    for (std::size_t layer = 0; layer < graph_.layers.size(); ++layer)
      if (has(stage, layer)) weights += static_cast<double>(graph_.layers[layer].weights);
    const double compute = level == 0
                               ? device_time(stage, ahead)
                               : best(level - 1, done, stage, levels_[level - 1].components, ahead, true);
    const double seconds_per_byte = 1 / levels_[level].bytes_per_second;
    if (options_.objective == PlanObjective::sum) {
      const double devices = first && level > 0 ? levels_[level - 1].components : 1;
      return (compute + 1e9 * 4 * (m - 1) * weights * seconds_per_byte / (m * devices)) / m;
    }
    return std::max(compute, 1e9 * 2 * (m - 1) * weights * seconds_per_byte) / m;
  }

  double device_time(Set stage, double ahead) const {
    double time = 0;
    double in_flight = 1;
    while (in_flight < 1 + ahead - 1e-9) ++in_flight;
    double held = 0;
    for (std::size_t i = 0; i < graph_.layers.size(); ++i) {
      if (!has(stage, i)) continue;
      const Layer& layer = graph_.layers[i];
      time += static_cast<double>(layer.forward_ns + layer.backward_ns);
      held +=
          in_flight * static_cast<double>(layer.output + layer.weights) + static_cast<double>(layer.weights);
    }
    return options_.memory_limit && held > static_cast<double>(*options_.memory_limit) ? kNone : time;
  }

  double cut_time(std::size_t level, Set done, std::int32_t m) const {
    double alive = 0;
    for (std::size_t i = 0; i < graph_.layers.size(); ++i) {
      bool is_read_later = false;
      for (std::size_t reader = 0; reader < graph_.layers.size(); ++reader) {
        const auto& inputs = graph_.layers[reader].inputs;
        if (!has(done, reader) && std::ranges::find(inputs, static_cast<std::int32_t>(i)) != inputs.end())
          is_read_later = true;
      }
      if (has(done, i) && is_read_later) alive += static_cast<double>(graph_.layers[i].output);
    }
    const double whole = 1e9 * 2 * alive / levels_[level].bytes_per_second;
    return options_.objective == PlanObjective::sum ? whole / m : whole;
  }

  std::int32_t devices_below(std::size_t level) const {
    std::int32_t devices = 1;
    for (std::size_t below = 0; below < level; ++below) devices *= levels_[below].components;
    return devices;
  }

  const LayerGraph& graph_;
  const std::vector<BandwidthLevel>& levels_;
  const PlanOptions& options_;
};

}  // namespace

double brute_force_period_ns(const LayerGraph& graph, const std::vector<BandwidthLevel>& levels,
                             const PlanOptions& options) {
  const Set all = (Set{1} << graph.layers.size()) - 1;
  return EveryPlan(graph, levels, options).best(levels.size() - 1, 0, all, levels.back().components, 0, true);
}

LayerGraph random_layers(std::mt19937& random, std::int32_t count) {
  const auto between = [&](std::int32_t least, std::int32_t most) {
    return std::uniform_int_distribution<std::int32_t>(least, most)(random);
  };
  LayerGraph graph;
  for (std::int32_t index = 0; index < count; ++index) {
    std::vector<std::int32_t> inputs;
    if (index > 0) inputs.push_back(between(0, 1) == 0 ? index - 1 : between(0, index - 1));
    if (index > 1 && between(0, 2) == 0) {
      const std::int32_t other = between(0, index - 1);
      if (other != inputs.front()) inputs.push_back(other);
      std::ranges::sort(inputs);
    }
    graph.layers.push_back({.name = "l" + std::to_string(index),
                            .forward_ns = between(1, 100),
                            .backward_ns = between(1, 200),
                            .output = between(0, 100),
                            .weights = between(0, 3) == 0 ? 0 : between(1, 200),
                            .inputs = inputs});
  }
  return graph;
}

double random_bandwidth(std::mt19937& random) {
  return std::uniform_real_distribution<double>(0.2e9, 4e9)(random);
}

}  // namespace penstock
