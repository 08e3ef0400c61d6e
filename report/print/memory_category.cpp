
#include "report/print/memory_category.hpp"

#include <numeric>

#include "schedules/ir/action.hpp"

namespace penstock {
Bytes total_bytes(const MemoryByCategory& memory) {
  return std::accumulate(memory.begin(), memory.end(), Bytes{0});
}

}  // namespace penstock
