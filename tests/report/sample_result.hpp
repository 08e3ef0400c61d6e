#pragma once
// Small results that are made by hand for the tests of report/. They have 1F1B and GPipe timelines, computed
// by a few lines of code, and the memory and traffic for these timelines.

#include <cstdint>
#include <vector>

#include "report/result/result.hpp"
#include "report/result/sweep_table.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"

namespace penstock::sample {

struct Shape {
  std::int32_t ranks = 4;
  std::int32_t microbatches = 8;
  Ns forward_ns = 1'000'000;
  Ns backward_ns = 2'000'000;
  Ns transfer_ns = 0;  ///< if above 0, SEND and RECV spans are part of the timeline
};

/// Return the lists of forwards and backwards, one for each rank.
std::vector<std::vector<Action>> one_f_one_b(const Shape& shape);
std::vector<std::vector<Action>> gpipe(const Shape& shape);

/// Returns a timeline in which each action runs as early as its rank and its neighbours allow.
Timeline timeline_of(const std::vector<std::vector<Action>>& lists, const Shape& shape);

/// Returns the timeline of 1F1B for the shape.
inline Timeline pipeline(const Shape& shape) { return timeline_of(one_f_one_b(shape), shape); }

/// Returns a whole result with the timeline. Every field differs from its default.
Result result_of(const Timeline& timeline, const Shape& shape);

/// Returns one span, for timelines that are written as a list in a test.
Span span_of(std::int32_t rank, Action action, Ns start_ns, Ns end_ns);

// Makes a small sweep by hand, for the tests of report/.

/// Returns a sweep with five points for M = 1, and the same five for M = 4:
///
///   0, 5   gpipe, K = 1   fits
///   1, 6   gpipe, K = 2   fits
///   2, 7   gpipe, K = 3   skipped
///   3, 8   1f1b, K = 1    out of memory
///   4, 9   1f1b, K = 2    fits, and has a steady rate
Sweep small_sweep();

}  // namespace penstock::sample
