#pragma once
// How many streaming multiprocessors (SMs) of one GPU each worker gets: a decision, without a GPU.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace penstock {

/// What the device says of its SMs (CUdevSmResource).
struct SmRules {
  std::int32_t total = 0;
  std::int32_t least = 1;      ///< in a partition
  std::int32_t alignment = 1;  ///< a partition has a multiple of it
};

struct SmSplit {
  std::int32_t workers = 0;
  std::int32_t sms_each = 0;
  std::int32_t spare = 0;  ///< in no worker's partition

  friend bool operator==(const SmSplit&, const SmSplit&) = default;
};

/// Equal parts, as large as the rules allow. Error: that many workers do not fit, and how many do.
tl::expected<SmSplit, std::string> split_sms(const SmRules& rules, std::int32_t workers);

}  // namespace penstock
