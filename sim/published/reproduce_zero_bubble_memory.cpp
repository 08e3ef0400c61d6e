// Bubbles under a limit on memory: what the authors of Zero Bubble published beside their code
// (mem2bubble.npy of sail-sg/zero-bubble-pipeline-parallelism; Qi et al., ICLR'24, section 5) for
// transformers of 9.6, 21 and 38.5 G parameters on 16, 24 and 32 ranks, with one chunk a rank and with two on
// a V. Limits are in what 1F1B holds on its first rank.

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/published/reproduce.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

constexpr std::array kLimits = {1.0, 1.125, 1.25, 1.375, 1.5, 2.0, 2.5};
using Curve = std::array<double, kLimits.size()>;

/// Times are those of one of two chunks.
struct MemorySetting {
  std::int32_t ranks, microbatches;
  Ns f, i, w, latency;
  Bytes hidden, heads;  ///< sequences of 1024
  Curve one_chunk, v;
};

constexpr MemorySetting kSettings[] = {
    {16,
     64,
     14412,
     14393,
     9688,
     1621,
     4096,
     32,
     {.11983, .09858, .07681, .05915, .04826, .00518, .00518},
     {.05334, .03787, .02325, .01544, .00491, .00270, .00270}},
    {24,
     96,
     6783,
     6984,
     5259,
     758,
     5120,
     40,
     {.11208, .08975, .06995, .06021, .05027, .00829, .00366},
     {.04829, .03184, .01763, .01013, .00290, .00290, .00290}},
    {32,
     128,
     9469,
     9744,
     7306,
     892,
     6144,
     48,
     {.11114, .08700, .06961, .05985, .04988, .00781, .00274},
     {.04511, .02860, .01446, .00939, .00242, .00242, .00242}},
};
constexpr int kBubbleDecimals = 5;  // of a printed bubble
constexpr std::int64_t kPasses = 200;

/// With as many chunks, 1 or 2, and the limit.
Shape shape_of(const MemorySetting& setting, std::int32_t chunks, double limit) {
  constexpr Bytes kSequence = 1024;
  const Bytes kept = 34 * setting.hidden + 5 * setting.heads * kSequence;
  // The published times are those of one of two chunks: a rank of one chunk has both in it.
  const Ns parts = 2 / chunks;  // of a stage
  const StageCost cost{.forward_ns = parts * setting.f,
                       .backward_ns = parts * (setting.i + setting.w),
                       .backward_input_ns = parts * setting.i,
                       .backward_weight_ns = parts * setting.w,
                       .kept = kept,
                       .released_by_input = kept - 32 * setting.hidden};
  const auto stages = index(std::int64_t{setting.ranks} * chunks);
  Shape shape{.stages = setting.ranks, .microbatches = setting.microbatches, .virtual_stages = chunks};
  shape.costs = CostTable{.stages = {stages, cost}, .edges = {stages - 1, EdgeCost{}}};
  shape.transfer_ns = {setting.latency};
  shape.memory_limit = {
      static_cast<Bytes>(limit * static_cast<double>(setting.ranks * chunks) * static_cast<double>(kept))};
  shape.effort.passes = kPasses;
  return shape;
}

/// Of the longest rank, by a search for the order. Throws where a rank holds more than the limit: a bubble
/// that was bought with memory would be no reproduction.
double bubble_rate(const Shape& shape) {
  const auto program = generate("synthesized", shape);
  if (!program) throw std::logic_error(program.error());
  const auto result = simulate_uniform(*program, *shape.costs, shape.transfer_ns.front(), SteadyState::skip);
  if (!result) throw std::logic_error(result.error());
  for (const RankReport& rank : result->ranks) {
    if (rank.memory.peaks[static_cast<std::size_t>(MemoryCategory::activations)] > shape.memory_limit.front())
      throw std::logic_error(fmt::format("rank {} holds more than it may", rank.rank));
  }
  return result->bubble.longest_span_rate;
}

}  // namespace

std::vector<ReproducedFigure> reproduce_zero_bubble_memory() {
  std::vector<ReproducedFigure> figures;
  for (const MemorySetting& setting : kSettings) {
    for (const std::int32_t chunks : {1, 2}) {
      const Curve& curve = chunks == 1 ? setting.one_chunk : setting.v;
      for (std::size_t limit = 0; limit < kLimits.size(); ++limit) {
        figures.push_back(with_decimals(
            kBubbleDecimals,
            at_most(fmt::format("K = {}, M = {}, {}, {} times 1F1B's memory: bubble rate", setting.ranks,
                                setting.microbatches, chunks == 1 ? "one chunk" : "V", kLimits[limit]),
                    curve[limit], bubble_rate(shape_of(setting, chunks, kLimits[limit])))));
      }
    }
  }
  return figures;
}

}  // namespace penstock
