#pragma once
// Checks for a single GPU: the facts of the hardware on which the backend relies. `penstock selftest` prints
// them.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace penstock {

/// One fact that was tested, and the result.
struct DeviceCheck {
  enum class Verdict : std::uint8_t {
    right,
    missing,  // this device or driver lacks it; features that need it are refused
    wrong,    // it differs from what the backend relies on
  };
  std::string name;   ///< for example "timer"
  std::string found;  ///< for example "steps of 32 ns"
  Verdict verdict = Verdict::right;
};

/// Tests the timer, holds, partitions of 2, 4 and 8 workers, copies between them, and how many launches a
/// stream accepts before one blocks. A check that throws counts as wrong, and the next one follows. Takes
/// about a second. Requires that the device is otherwise idle.
std::vector<DeviceCheck> check_device(std::int32_t device);

/// Runs `check` and returns its result, or a DeviceCheck with the text of what it throws.
DeviceCheck checked(std::string name, const std::function<DeviceCheck()>& check);

/// Returns true if no check is wrong.
bool all_right(const std::vector<DeviceCheck>& checks);

/// Returns a line for each check: "timer: steps of 32 ns: right".
std::string to_text(const std::vector<DeviceCheck>& checks);

}  // namespace penstock
