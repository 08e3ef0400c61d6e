#pragma once
// A small sweep made by hand for the tests of report/.

#include "report/result/sweep_table.hpp"

namespace penstock::sample {

/// Five rows with M = 1, and the same five with M = 4:
///
///   0, 5   gpipe, K = 1   fits
///   1, 6   gpipe, K = 2   fits
///   2, 7   gpipe, K = 3   skipped
///   3, 8   1f1b, K = 1    out of memory
///   4, 9   1f1b, K = 2    fits, and has a steady rate
Sweep small_sweep();

}  // namespace penstock::sample
