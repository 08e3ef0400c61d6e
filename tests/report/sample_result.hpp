#pragma once
// Small results made by hand for the tests of report/: 1F1B and GPipe timelines from a few lines of
// longest path, and the memory and traffic that go with them.

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
  Ns transfer_ns = 0;  ///< above 0: SEND and RECV spans are part of the timeline
};

/// Lists of forwards and backwards, one a rank.
std::vector<std::vector<Action>> one_f_one_b(const Shape& shape);
std::vector<std::vector<Action>> gpipe(const Shape& shape);

/// Each action as early as its rank and its neighbours allow.
Timeline timeline_of(const std::vector<std::vector<Action>>& lists, const Shape& shape);

/// 1F1B of the shape.
inline Timeline pipeline(const Shape& shape) { return timeline_of(one_f_one_b(shape), shape); }

/// A whole result around the timeline; every field differs from its default.
Result result_of(const Timeline& timeline, const Shape& shape);

/// One span on rank 0 ..., for timelines written out in a test.
Span span_of(std::int32_t rank, Action action, Ns start_ns, Ns end_ns);

// A small sweep made by hand for the tests of report/.

/// Five rows with M = 1, and the same five with M = 4:
///
///   0, 5   gpipe, K = 1   fits
///   1, 6   gpipe, K = 2   fits
///   2, 7   gpipe, K = 3   skipped
///   3, 8   1f1b, K = 1    out of memory
///   4, 9   1f1b, K = 2    fits, and has a steady rate
Sweep small_sweep();

}  // namespace penstock::sample
