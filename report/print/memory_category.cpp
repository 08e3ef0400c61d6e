// The names of the categories, in the order of the enum, and the sum over them. The names are keys of JSON
// and columns of CSV, not only words for people.

#include "report/print/memory_category.hpp"

#include <array>
#include <cstddef>
#include <numeric>
#include <string_view>

#include "schedules/ir/action.hpp"

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

}  // namespace penstock
