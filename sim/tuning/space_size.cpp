// Refuses a space whose largest program does not fit into memory, because the search would end in its midst
// after minutes. A program with its tape takes at least about 70 bytes for each forward or backward. This is
// the resident memory of 1F1B with a million actions while its step was timed and its peak was found. Other
// schedules take more.

#include "sim/tuning/space_size.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include <fmt/format.h>

#include "report/print/units.hpp"
#include "scenarios/host/memory_room.hpp"
#include "schedules/ir/action.hpp"
#include "sim/tuning/configuration.hpp"

namespace penstock {
namespace {

constexpr double kTunedBytes = 70;
constexpr double kAlwaysThere = 1 << 26;  // 64 MiB: a smaller program is never refused, whatever is free
constexpr double kMostNumberedActions = 1LL << 29;  // positions of lowered programs are 32-bit numbers

/// Returns the number of F and B actions. It is a double, because the product of the three may fit no
/// integer.
double tuned_actions(const Configuration& of) {
  return 2.0 * of.stages * of.virtual_stages * of.microbatches;
}

std::string largest_refusal(const Configuration& largest, const std::string& reason) {
  return fmt::format(
      "tune: {} on {} ranks x {} virtual stages with {} microbatches has {:.3g} compute actions, {}: take a "
      "smaller global batch, or allow only fewer stages (--pp-size), larger microbatches "
      "(--micro-batch-size) or more copies (--data-parallel)",
      largest.schedule, largest.stages, largest.virtual_stages, largest.microbatches, tuned_actions(largest),
      reason);
}

}  // namespace

std::optional<std::string> space_refusal(std::span<const Configuration> space, Bytes within_reach) {
  const auto largest = std::ranges::max_element(space, {}, tuned_actions);
  if (largest == space.end()) return std::nullopt;
  const double actions = tuned_actions(*largest);
  if (actions > kMostNumberedActions)
    return largest_refusal(*largest, "and engines number at most 2^29 of them");
  const double needed = actions * kTunedBytes;
  if (needed < kAlwaysThere || needed <= static_cast<double>(within_reach)) return std::nullopt;
  return largest_refusal(*largest,
                         fmt::format("which take at least {} of memory, and {} are within reach",
                                     format_bytes(static_cast<Bytes>(needed)), format_bytes(within_reach)));
}

std::optional<std::string> space_refusal(std::span<const Configuration> space) {
  return space_refusal(space, memory_within_reach().value_or(std::numeric_limits<Bytes>::max()));
}

}  // namespace penstock
