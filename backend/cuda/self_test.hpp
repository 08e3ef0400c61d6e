#pragma once
// Checks that a user with GPUs can run in a minute. It tests the facts of the first GPU (device_checks.hpp).
// With several GPUs it tests that each pair exchanges correct bytes, how fast, and that a ring over all
// works. `penstock selftest` prints the results.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/calibration/line_fit.hpp"
#include "backend/cuda/device_checks.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// Copies from one GPU to another.
struct PairCheck {
  std::int32_t from = 0;
  std::int32_t to = 0;
  bool direct = false;  ///< the copies bypass the host's memory
  Spread ping{};        ///< time of a few bytes
  Ns latency_ns = 0;    ///< latency of the line through sizes up to 64 MiB
  double bytes_per_second = 0;
  std::string wrong{};  ///< the first wrong number; empty if all are correct
};

struct SelfTest {
  std::vector<std::string> devices;  ///< names of the devices
  std::vector<DeviceCheck> checks;   ///< checks of the first device
  std::vector<PairCheck> pairs;      ///< all ordered pairs; empty with one device
  Ns ring_ns = 0;                    ///< time of 16 MiB once around all GPUs; 0 with one device
  std::string ring_wrong;            ///< like PairCheck::wrong
  bool all_right() const;
};

/// Runs all checks. Error: the reason why no GPU can be used. Throws CudaError if a device fails.
tl::expected<SelfTest, std::string> self_test();

/// Returns a text for the terminal.
std::string to_text(const SelfTest& test);

}  // namespace penstock
