#pragma once
// Tests properties of one GPU on which the backend relies. `penstock selftest` prints the results.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace penstock {

/// One tested property and the result of the test.
struct DeviceCheck {
  enum class Verdict : std::uint8_t {
    right,
    missing,  // the device or driver lacks the property, so features that need it are refused
    wrong,    // the property differs from what the backend needs
  };
  std::string name;   ///< name of the property, such as "timer"
  std::string found;  ///< result of the test, such as "steps of 32 ns"
  Verdict verdict = Verdict::right;
};

/// Tests the timer, timed kernels, partitions for 2, 4 and 8 workers, and copies between workers. Also finds
/// how many launches a stream accepts before one blocks. A check that throws counts as wrong, and the next
/// one still runs. Takes about a second. Requires that the device is otherwise idle.
std::vector<DeviceCheck> check_device(std::int32_t device);

/// Runs `check` and returns its result under the name `name`. If `check` throws, returns a wrong DeviceCheck
/// with the exception's text.
DeviceCheck checked(std::string name, const std::function<DeviceCheck()>& check);

/// Returns true if no check has the verdict `wrong`.
bool all_right(const std::vector<DeviceCheck>& checks);

/// Returns one line for each check, such as "timer: steps of 32 ns: right".
std::string to_text(const std::vector<DeviceCheck>& checks);

}  // namespace penstock
