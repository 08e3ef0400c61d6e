#pragma once
// Options for measuring a network's layers, which torch/network_profile.hpp does.

#include <cstdint>

namespace penstock {

struct ProfileOptions {
  std::int64_t samples = 1;   ///< samples of the microbatch with which the layers are measured; >= 1
  std::int32_t warmup = 5;    ///< passes that do not count; >= 0
  std::int32_t repeats = 30;  ///< passes that count; >= 1; the median of each layer's times is used
};

}  // namespace penstock
