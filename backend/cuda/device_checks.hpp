#pragma once
// Checks that one GPU suffices for: the facts of the hardware that the backend builds on. `penstock selftest`
// prints them.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace penstock {

/// One fact that was looked at, and what was found.
struct DeviceCheck {
  enum class Verdict : std::uint8_t {
    right,
    missing,  // this device or driver does not have it; what needs it is refused
    wrong,    // it is not as the backend relies on
  };
  std::string name;   ///< "timer"
  std::string found;  ///< "steps of 32 ns"
  Verdict verdict = Verdict::right;
};

/// Looks at the timer, at holds, at partitions of 2, 4 and 8 workers, at copies between them, and at how many
/// launches a stream takes before one blocks. A check that fails by an exception is wrong, and the next one
/// follows. Takes about a second. Requires that the device has nothing else to do.
std::vector<DeviceCheck> check_device(std::int32_t device);

/// Runs `check`, which returns what it found, or makes a DeviceCheck of what it throws.
DeviceCheck checked(std::string name, const std::function<DeviceCheck()>& check);

/// Returns true where none of them is wrong.
bool all_right(const std::vector<DeviceCheck>& checks);

/// Returns a line for each check: "timer: steps of 32 ns: right".
std::string to_text(const std::vector<DeviceCheck>& checks);

}  // namespace penstock
