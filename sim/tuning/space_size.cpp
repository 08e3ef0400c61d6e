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
#include <string_view>

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

constexpr std::string_view kRemedy =
    "take a smaller global batch, or allow only fewer stages (--pp-size), larger microbatches "
    "(--micro-batch-size) or more copies (--data-parallel)";

/// "tune: the 3.36e+07 compute actions of 1f1b on 8 ranks x 1 virtual stages with 64 microbatches"
std::string actions_text(const Configuration& of) {
  return fmt::format(
      "tune: the {:.3g} compute actions of {} on {} ranks x {} virtual stages with {} microbatches",
      tuned_actions(of), of.schedule, of.stages, of.virtual_stages, of.microbatches);
}

}  // namespace

std::optional<std::string> space_refusal(std::span<const Configuration> space, Bytes within_reach) {
  const auto largest = std::ranges::max_element(space, {}, tuned_actions);
  if (largest == space.end()) return std::nullopt;
  const double actions = tuned_actions(*largest);
  if (actions > kMostNumberedActions)
    return fmt::format("{} are more than an engine numbers, 2^29: {}", actions_text(*largest), kRemedy);
  const double needed = actions * kTunedBytes;
  if (needed < kAlwaysThere) return std::nullopt;
  return lack_of_memory(actions_text(*largest), needed, within_reach, kRemedy);
}

std::optional<std::string> space_refusal(std::span<const Configuration> space) {
  return space_refusal(space, memory_within_reach().value_or(std::numeric_limits<Bytes>::max()));
}

}  // namespace penstock
