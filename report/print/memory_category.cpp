// The sum over the categories of a memory account. A rank's peak is the largest such sum over time, which is
// less than the sum of the categories' own peaks.

#include "report/print/memory_category.hpp"

#include <numeric>

#include "schedules/ir/action.hpp"

namespace penstock {
Bytes total_bytes(const MemoryByCategory& memory) {
  return std::accumulate(memory.begin(), memory.end(), Bytes{0});
}

}  // namespace penstock
