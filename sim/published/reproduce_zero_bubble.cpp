// Reproduces the bubble rates in table 5 of Qi et al., ICLR'24. The inputs are profiled times in
// microseconds (table 9 of the arXiv version) and the models of table 4.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
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

/// A row of table 5, and the times of table 9 that belong to it.
struct TableFiveRow {
  std::int32_t stages, microbatches;
  Ns f, b, w, comm;                       ///< times of F, I, W and a message in microseconds
  Bytes micro_batch_size, hidden, heads;  ///< a sequence has 1024 tokens
  std::int32_t chunks;                    ///< number of chunks of a rank with 1F1B-I
  double one_f_one_b, interleaved, h1, h2, zb_1p, zb_2p;
};

constexpr double kNotCopied = -1;  // marks a cell that is missing in our copy of the table
constexpr TableFiveRow kTableFive[] = {
    {8, 24, 18522, 18086, 9337, 601, 6, 2304, 24, 3, .2431, kNotCopied, .1585, .1083, .1585, .0433},
    {8, 32, 18513, 18086, 9331, 626, 6, 2304, 24, 3, .1985, .0818, .1242, .0837, .1242, .0039},
    {8, 64, 18546, 18097, 9321, 762, 6, 2304, 24, 3, .1240, .0443, .0674, .0444, .0674, .0026},
    {8, 24, 29718, 29444, 19927, 527, 3, 4096, 32, 4, .2347, .0808, .1323, .0698, .1323, .0029},
    {8, 64, 29935, 29621, 19388, 535, 3, 4096, 32, 4, .1091, .0320, .0554, .0294, .0554, .0010},
    {16, 48, 11347, 11248, 8132, 377, 1, 5120, 40, 3, .2552, .1104, .1397, .0672, .1397, .0066},
    {16, 128, 11325, 11308, 8109, 378, 1, 5120, 40, 3, .1251, .0445, .0576, .0266, .0576, .0028},
    {32, 96, 10419, 10207, 7715, 408, 1, 6144, 48, 2, .2646, .1493, .1421, .0641, .1421, .0038},
    {32, 128, 10408, 10204, 7703, 408, 1, 6144, 48, 2, .2168, .1164, .1106, .0490, .1106, .0029},
};
constexpr int kDecimals = 4;  // number of decimals of a printed rate

/// Returns the shape of a row. A stage holds all activations from F to I, and a part of them until W (section
/// 2.3).
Shape shape_of(const TableFiveRow& row) {
  constexpr Bytes kSequence = 1024;
  const Bytes tokens = kSequence * row.micro_batch_size;
  const Bytes all = tokens * (34 * row.hidden + 5 * row.heads * kSequence);
  const Bytes for_weights = 32 * tokens * row.hidden;
  const StageCost cost{.forward_ns = row.f,
                       .backward_ns = row.b + row.w,
                       .backward_input_ns = row.b,
                       .backward_weight_ns = row.w,
                       .kept = all,
                       .released_by_input = all - for_weights};
  Shape shape{.stages = row.stages, .microbatches = row.microbatches};
  const auto stages = static_cast<std::size_t>(row.stages);
  shape.costs = CostTable{.stages = {stages, cost}, .edges = {stages - 1, EdgeCost{}}};
  shape.transfer_ns = {row.comm};
  return shape;
}

/// Returns the bubble rate 1 - M (f+b+w) / S. S is the longest time from the first start to the last end on
/// any rank. Throws std::logic_error if the activations of a rank exceed `most` bytes.
double bubble_rate(const std::string& schedule, const Shape& shape, Bytes most) {
  const auto program = generate(schedule, shape);
  if (!program) throw std::logic_error(program.error());
  const auto result = simulate_uniform(*program, *shape.costs, shape.transfer_ns.front(), SteadyState::skip);
  if (!result) throw std::logic_error(result.error());
  for (const RankReport& rank : result->ranks) {
    if (rank.memory.peaks[static_cast<std::size_t>(MemoryCategory::activations)] > most) {
      throw std::logic_error(fmt::format("{} holds more on rank {} than it may", schedule, rank.rank));
    }
  }
  return result->bubble.longest_span_rate;
}

/// Returns the bubble rate of 1F1B-I by the formula that the reproduction's setting states.
double interleaved_rate(const TableFiveRow& row) {
  const auto work = static_cast<double>(row.f + row.b + row.w);
  const double idle = (row.stages - 1) * work / row.chunks +
                      static_cast<double>((2 * row.stages * row.chunks - row.stages - 2) * row.comm);
  return idle / (idle + row.microbatches * work);
}

void add_row(std::vector<ReproducedFigure>& figures, const TableFiveRow& row) {
  const Shape shape = shape_of(row);
  const Bytes one = row.stages * shape.costs->stages.front().kept;  // bytes that 1F1B holds on rank 0
  const auto name = [&](const char* schedule) {
    return fmt::format("K = {}, M = {}, hidden {}, {}: bubble rate", row.stages, row.microbatches, row.hidden,
                       schedule);
  };
  const auto add = [&](const char* schedule, double published, Bytes most) {
    figures.push_back(rounded(kDecimals, name(schedule), published, bubble_rate(schedule, shape, most)));
  };
  const auto add_bound = [&](const char* schedule, double published, Bytes most) {
    figures.push_back(
        with_decimals(kDecimals, at_most(name(schedule), published, bubble_rate(schedule, shape, most))));
  };
  add("1f1b", row.one_f_one_b, one);
  if (row.interleaved != kNotCopied) {
    figures.push_back(
        with_decimals(kDecimals, formula(name("1F1B-I"), row.interleaved, interleaved_rate(row))));
  }
  add("zb-h1", row.h1, one);
  add("zb-h2", row.h2, 2 * one);
  add_bound("zb-1p", row.zb_1p, one);
  add_bound("zb-2p", row.zb_2p, 2 * one);
}

}  // namespace

std::vector<ReproducedFigure> reproduce_zero_bubble_table_5() {
  std::vector<ReproducedFigure> figures;
  for (const TableFiveRow& row : kTableFive) add_row(figures, row);
  return figures;
}

// Predicts bubble rates with a memory limit. The authors of Zero Bubble have published such rates with their
// code (mem2bubble.npy of sail-sg/zero-bubble-pipeline-parallelism; Qi et al., ICLR'24, section 5). The
// transformers have 9.6, 21 and 38.5 billion parameters on 16, 24 and 32 ranks. Each rank has one chunk, or
// two chunks that are placed in a V. The limits are multiples of the activations that the first rank holds
// with 1F1B.

namespace {

constexpr std::array kLimits = {1.0, 1.125, 1.25, 1.375, 1.5, 2.0, 2.5};
using Curve = std::array<double, kLimits.size()>;

/// A published setting. The times are those of one chunk, if each rank has two chunks.
struct MemorySetting {
  std::int32_t ranks, microbatches;
  Ns f, i, w, latency;
  Bytes hidden, heads;  ///< a sequence has 1024 tokens
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
constexpr int kBubbleDecimals = 5;  // number of decimals of a printed bubble rate
constexpr std::int64_t kPasses = 200;

/// Returns the shape with one or two chunks for each rank. `limit` is the memory limit as a multiple of
/// 1F1B's activations.
Shape shape_of(const MemorySetting& setting, std::int32_t chunks, double limit) {
  constexpr Bytes kSequence = 1024;
  const Bytes kept = 34 * setting.hidden + 5 * setting.heads * kSequence;
  // The published times are those of one chunk if each rank has two. A single chunk has the work of both.
  const Ns parts = 2 / chunks;  // number of the published chunks that one chunk contains
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

/// Searches an order of actions with the schedule "synthesized". Returns the bubble rate of the rank that
/// takes longest. Throws std::logic_error if a rank holds more memory than the limit.
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
