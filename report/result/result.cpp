
#include "report/result/result.hpp"

#include <algorithm>

#include "schedules/ir/action.hpp"

namespace penstock {

Bytes highest_peak_bytes(const Result& result) {
  Bytes peak = 0;
  for (const RankReport& rank : result.ranks) peak = std::max(peak, rank.memory.peak_bytes);
  return peak;
}

bool any_out_of_memory(const Result& result) {
  return std::ranges::any_of(result.ranks,
                             [](const RankReport& rank) { return rank.memory.out_of_memory(); });
}

}  // namespace penstock
