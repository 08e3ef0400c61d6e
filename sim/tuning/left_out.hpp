#pragma once
// Configurations that cannot run under the scenario's settings on any machine.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// The configurations of one schedule that are left out for one kind of reason.
struct LeftOut {
  std::string schedule;
  std::size_t configurations = 0;
  std::string reason;  ///< reason of the first one: "zb-v with 4 stages and 32 microbatches hangs .."
  /// true: they hang under the scenario's channels; false: the schedule refuses an option
  bool hangs = false;
};

/// Adds one to the count of the entry for this schedule and kind of reason. Adds the entry if it is missing.
inline void add_left_out(std::vector<LeftOut>& all, std::string_view schedule, const std::string& reason,
                         bool hangs) {
  for (LeftOut& known : all) {
    if (known.schedule != schedule || known.hangs != hangs) continue;
    ++known.configurations;
    return;
  }
  all.push_back({.schedule = std::string(schedule), .configurations = 1, .reason = reason, .hangs = hangs});
}

}  // namespace penstock
