#pragma once
// How a network's layers are measured (torch/network_profile.hpp measures them).

#include <cstdint>

namespace penstock {

struct ProfileOptions {
  std::int64_t samples = 1;   ///< >= 1: of the microbatch that the layers are measured with
  std::int32_t warmup = 5;    ///< >= 0: passes that do not count
  std::int32_t repeats = 30;  ///< >= 1: passes that count; the median of each layer's times is taken
};

}  // namespace penstock
