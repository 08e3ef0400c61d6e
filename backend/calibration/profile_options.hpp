#pragma once
// The options for measuring the layers of a network (torch/network_profile.hpp).

#include <cstdint>

namespace penstock {

struct ProfileOptions {
  std::int64_t samples = 1;  ///< number of samples in the measured microbatch; >= 1
  std::int32_t warmup = 5;   ///< number of passes before the measurement; >= 0
  /// The number of measured passes, at least 1. The result is the median of each layer's times.
  std::int32_t repeats = 30;
};

}  // namespace penstock
