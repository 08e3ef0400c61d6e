#pragma once
// Tests for users with GPUs, which take about a minute. They test the properties of the first GPU
// (device_checks.hpp). With several GPUs, they test copies between each pair and around a ring of all GPUs.
// `penstock selftest` prints the results.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/calibration/line_fit.hpp"
#include "backend/cuda/device_checks.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The results of test copies from one GPU to another.
struct PairCheck {
  std::int32_t from = 0;
  std::int32_t to = 0;
  bool direct = false;  ///< true if copies do not go through the host's memory
  Spread ping{};        ///< time to copy a few bytes
  Ns latency_ns = 0;    ///< constant of the line through the times of copies up to 64 MiB
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

/// Runs all checks. Error: the reason why no GPU can be used. Throws CudaError if a device fails.
tl::expected<SelfTest, std::string> self_test();

/// Returns the results as text for the terminal.
std::string to_text(const SelfTest& test);

}  // namespace penstock
