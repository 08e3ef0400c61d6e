#pragma once
// Checks that a user with GPUs can run in a minute: the facts of the first one (device_checks.hpp) and, where
// there are several, that each pair exchanges the right bytes, how fast, and that a ring over all does.
// `penstock selftest` prints the answers.

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
  bool direct = false;  ///< without the host's memory between them
  Spread ping{};        ///< of a few bytes
  Ns latency_ns = 0;    ///< of the line through sizes up to 64 MiB
  double bytes_per_second = 0;
  std::string wrong{};  ///< what arrived that was not sent; empty: all is right
};

struct SelfTest {
  std::vector<std::string> devices;  ///< names
  std::vector<DeviceCheck> checks;   ///< of the first device
  std::vector<PairCheck> pairs;      ///< all ordered pairs; none where there is one device
  Ns ring_ns = 0;                    ///< 16 MiB once around all GPUs, in their order; 0 where there is one
  std::string ring_wrong;            ///< as PairCheck::wrong
  bool all_right() const;
};

/// Error: the reason why no GPU can be used. Throws CudaError when a device fails.
tl::expected<SelfTest, std::string> self_test();

/// For people.
std::string to_text(const SelfTest& test);

}  // namespace penstock
