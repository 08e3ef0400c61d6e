#pragma once
// A small sweep made by hand for the tests of report/.

#include "report/result/sweep_table.hpp"

namespace penstock::sample {

/// gpipe on K = 1, 2 (fits), 3 (skipped) and 1f1b on K = 1 (out of memory), 2 with M = 1 and 4.
Sweep small_sweep();

}  // namespace penstock::sample
