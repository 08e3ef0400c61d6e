#pragma once
// Checks of the hardware that users with GPUs can run in about a minute. They test properties of the first
// GPU that the backend needs, and copies between several GPUs. `penstock selftest` prints the results.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "backend/calibration/calibration_samples.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A property of the device that was tested, and the result of the test.
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

/// Tests the timer, kernels of a fixed duration, partitions for 2, 4 and 8 workers, and copies between
/// workers. Also finds how many launches a stream accepts before one blocks. If a check throws, its verdict
/// is `wrong`, and the next check runs. Takes about a second. Requires that the device is otherwise idle.
std::vector<DeviceCheck> check_device(std::int32_t device);

/// Runs `check` and returns its result under the name `name`. If `check` throws, the result has the verdict
/// `wrong` and the text of the exception.
DeviceCheck checked(std::string name, const std::function<DeviceCheck()>& check);

/// Returns true if no check has the verdict `wrong`.
bool all_right(const std::vector<DeviceCheck>& checks);

/// Returns one line for each check, such as "timer: steps of 32 ns: right".
std::string to_text(const std::vector<DeviceCheck>& checks);

// The whole self-test. If there are several GPUs, it also tests copies between each pair and around a ring of
// all GPUs.

/// The results of test copies from one GPU to another.
struct PairCheck {
  std::int32_t from = 0;
  std::int32_t to = 0;
  bool direct = false;  ///< true if copies do not go through the host's memory
  Spread ping{};        ///< time to copy a few bytes
  Ns latency_ns = 0;    ///< time of a copy of 0 bytes, by a fit to copies of up to 64 MiB
  double bytes_per_second = 0;
  std::string wrong{};  ///< text about the first wrong number; empty if all numbers are correct
};

struct SelfTest {
  std::vector<std::string> devices;  ///< names of all devices
  std::vector<DeviceCheck> checks;   ///< results for the first device
  std::vector<PairCheck> pairs;      ///< results for all ordered pairs; empty if there is one device
  Ns ring_ns = 0;                    ///< time to copy 16 MiB once around all GPUs; 0 if there is one device
  std::string ring_wrong;  ///< text about the first wrong number in the ring; empty if all are correct
  bool all_right() const;
};

/// Runs all checks on all GPUs. If no GPU can be used, the error says why. Throws CudaError if a device
/// fails.
tl::expected<SelfTest, std::string> self_test();

/// Returns the results as text for the terminal.
std::string to_text(const SelfTest& test);

}  // namespace penstock
