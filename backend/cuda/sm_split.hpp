#pragma once
// Computes how many streaming multiprocessors (SMs) of one GPU each worker gets. Needs no GPU.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace penstock {

/// The device's rules for the sizes of SM partitions (CUdevSmResource).
struct SmRules {
  std::int32_t total = 0;
  std::int32_t least = 1;      ///< smallest number of SMs in a partition
  std::int32_t alignment = 1;  ///< number of which each partition's size must be a multiple
};

struct SmSplit {
  std::int32_t workers = 0;
  std::int32_t sms_each = 0;
  std::int32_t spare = 0;  ///< number of SMs that belong to no worker's partition

  friend bool operator==(const SmSplit&, const SmSplit&) = default;
};

/// Splits the SMs into equal partitions, one for each worker, as large as the rules allow. Error: there are
/// too many workers; the text says how many are possible.
tl::expected<SmSplit, std::string> split_sms(const SmRules& rules, std::int32_t workers);

}  // namespace penstock
