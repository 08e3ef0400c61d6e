#pragma once
// Configurations that no machine would run as the scenario has it, whatever they cost.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Those of one schedule that are left out for one kind of reason.
struct LeftOut {
  std::string schedule;
  std::size_t configurations = 0;
  std::string reason;  ///< of the first of them: "zb-v with 4 stages and 32 microbatches hangs .."
  bool hangs = false;  ///< under the scenario's channels; otherwise the schedule refuses what it is asked
};

/// Counts one more, with those of its schedule and kind where there are some.
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
