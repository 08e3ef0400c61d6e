#pragma once
// Computes how many streaming multiprocessors (SMs) of one GPU each worker gets. Needs no GPU.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace penstock {

/// The device's rules for partitions of its SMs (CUdevSmResource).
struct SmRules {
  std::int32_t total = 0;
  std::int32_t least = 1;      ///< least size of a partition
  std::int32_t alignment = 1;  ///< the size of a partition is a multiple of this
};

struct SmSplit {
  std::int32_t workers = 0;
  std::int32_t sms_each = 0;
  std::int32_t spare = 0;  ///< SMs in no worker's partition

  friend bool operator==(const SmSplit&, const SmSplit&) = default;
};

/// Splits the SMs into equal parts, as large as the rules allow. Error: so many workers do not fit, and how
/// many do.
tl::expected<SmSplit, std::string> split_sms(const SmRules& rules, std::int32_t workers);

}  // namespace penstock
