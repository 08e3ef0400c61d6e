// No rank holds, and no link carries, more than everything that the whole run ever makes:
//
//   bytes <= units x sum over stages of (kept + recomputed + input + transient)
//            + versions x sum over stages of weights + sum of their clones, gradients, optimizer state
//            + iterations x units x sum over edges of (activation + gradient)
//            + updates x replicas x sum over stages of 2 (weights + gradients)
//
// with no more versions than microbatches or stages, and one. While that stays below 2^62 bytes (4 EiB) no
// sum wraps.

#include "scenarios/prepare/byte_range.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "scenarios/pricing/part_sum.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

constexpr double kMostBytes = 4.6e18;  // 2^62

struct Times {
  double units = 0;     // of one pass
  double passes = 0;    // units of all iterations
  double versions = 0;  // of the weights, at one moment
  double updates = 0;
};

void add_stage(PartSum& sum, const StageCost& cost, std::size_t stage, double replicas, const Times& times) {
  sum.add("kept of stage {}", stage, static_cast<double>(cost.kept), times.units);
  sum.add("recomputed of stage {}", stage, static_cast<double>(cost.recomputed), times.units);
  sum.add("input of stage {}", stage, static_cast<double>(cost.input), times.units);
  sum.add("transient of stage {}", stage, static_cast<double>(cost.transient), 1);
  sum.add("weights of stage {}", stage, static_cast<double>(cost.weights), times.versions);
  sum.add("clones of the weights of stage {}", stage, static_cast<double>(cost.cloned_weights), 1);
  sum.add("gradients of stage {}", stage, static_cast<double>(cost.gradients), 1);
  sum.add("optimizer state of stage {}", stage, static_cast<double>(cost.optimizer_state), 1);
  // A ring sends at most twice what it reduces.
  if (replicas <= 1) return;
  sum.add("reduced weights of stage {}", stage, static_cast<double>(cost.weights), 2 * times.updates);
  sum.add("reduced gradients of stage {}", stage, static_cast<double>(cost.gradients), 2 * times.updates);
}

/// Of microbatches that differ each may be the largest.
CostTable largest_of(const CostTable& costs) {
  CostTable largest;
  largest.stages = costs.stages;
  largest.edges = costs.edges;
  for (const MicrobatchCost& one : costs.microbatches) {
    for (std::size_t stage = 0; stage < one.stages.size(); ++stage) {
      StageCost& most = largest.stages[stage];
      most.kept = std::max(most.kept, one.stages[stage].kept);
      most.recomputed = std::max(most.recomputed, one.stages[stage].recomputed);
      most.input = std::max(most.input, one.stages[stage].input);
      most.transient = std::max(most.transient, one.stages[stage].transient);
    }
    for (std::size_t edge = 0; edge < one.edges.size(); ++edge) {
      EdgeCost& most = largest.edges[edge];
      most.activation = std::max(most.activation, one.edges[edge].activation);
      most.gradient = std::max(most.gradient, one.edges[edge].gradient);
    }
  }
  return largest;
}

}  // namespace

std::optional<std::string> byte_fault(const Program& program, const CostTable& costs) {
  const double units = static_cast<double>(program.unit_count());
  const double passes = units * program.iterations;
  const Times times = {.units = units,
                       .passes = passes,
                       .versions = std::min(passes, static_cast<double>(program.placement.stages.size())) + 1,
                       .updates = program.update == UpdateRule::microbatch ? passes : program.iterations};
  const CostTable largest = largest_of(costs);
  PartSum sum;
  for (std::size_t stage = 0; stage < largest.stages.size(); ++stage) {
    const auto replicas = static_cast<double>(program.placement.stages[stage].ranks.size());
    add_stage(sum, largest.stages[stage], stage, replicas, times);
  }
  for (std::size_t edge = 0; edge < largest.edges.size(); ++edge) {
    sum.add("activation of edge {}", edge, static_cast<double>(largest.edges[edge].activation), times.passes);
    sum.add("gradient of edge {}", edge, static_cast<double>(largest.edges[edge].gradient), times.passes);
  }
  if (sum.sum() < kMostBytes) return std::nullopt;
  return fmt::format(
      "all in all the run would make {:.3g} bytes, and 64 bits count no more than 4.6e18 safely: {}; take "
      "smaller sizes, or fewer microbatches or iterations",
      sum.sum(), sum.largest());
}

}  // namespace penstock
