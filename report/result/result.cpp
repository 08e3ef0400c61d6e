// The names of the kinds of result, as JSON and tables spell them. A prediction and a measurement have one
// type and one schema, so that whatever shows or compares the one takes the other.

#include "report/result/result.hpp"

#include <algorithm>
#include <string_view>

#include "schedules/ir/action.hpp"

namespace penstock {

std::string_view to_text(ResultKind kind) {
  switch (kind) {
    case ResultKind::predicted:
      return "predicted";
    case ResultKind::measured:
      return "measured";
  }
  return "";
}

std::string_view to_text(LinkSharing sharing) {
  switch (sharing) {
    case LinkSharing::none:
      return "none";
    case LinkSharing::counted:
      return "counted";
    case LinkSharing::left_out:
      return "left out";
  }
  return "";
}

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
