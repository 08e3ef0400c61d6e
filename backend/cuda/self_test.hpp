#pragma once
// What anybody with GPUs can check in a minute: that each pair of them exchanges the right bytes, how fast,
// and that a sum over all of them is right. `penstock selftest` prints it.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/calibration/line_fit.hpp"
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
  std::vector<PairCheck> pairs;      ///< all ordered pairs
  Ns ring_ns = 0;                    ///< 16 MiB once around all GPUs, in their order
  std::string ring_wrong;            ///< as PairCheck::wrong
  bool all_right() const;
};

/// Error: why it cannot be made: fewer than two GPUs. Throws CudaError when a device fails.
tl::expected<SelfTest, std::string> self_test();

/// For people.
std::string to_text(const SelfTest& test);

}  // namespace penstock
