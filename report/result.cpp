#include "report/result.hpp"

#include <array>
#include <cstddef>
#include <numeric>
#include <string_view>

#include "schedules/action.hpp"

// The names of categories and kinds; the tables have the order of their enums.

namespace penstock {
namespace {

constexpr std::array<std::string_view, kMemoryCategoryCount> kCategoryNames = {
    "weights",     "weight_versions", "gradients",       "optimizer_state",
    "activations", "send_buffers",    "receive_buffers", "transient"};
static_assert(kCategoryNames[static_cast<std::size_t>(MemoryCategory::transient)] == "transient");

}  // namespace

std::string_view to_text(MemoryCategory category) {
  return kCategoryNames[static_cast<std::size_t>(category)];
}

Bytes total_bytes(const MemoryByCategory& memory) {
  return std::accumulate(memory.begin(), memory.end(), Bytes{0});
}

std::string_view to_text(ResultKind kind) {
  switch (kind) {
    case ResultKind::predicted:
      return "predicted";
    case ResultKind::measured:
      return "measured";
  }
  return "";
}

}  // namespace penstock
