// On compute capability 9.0, the size of a partition must be a multiple of 8 SMs (CUDA 13.0, cuda.h,
// cuDevSmResourceSplitByCount). A GPU with 132 SMs can be split into 2 x 64, 4 x 32, 8 x 16 or 16 x 8. 4 SMs
// remain.

#include "backend/cuda/sm_split.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <tl/expected.hpp>

namespace penstock {

tl::expected<SmSplit, std::string> split_sms(const SmRules& rules, std::int32_t workers) {
  const std::int32_t step = std::max(rules.alignment, 1);
  const std::int32_t least = std::max((rules.least + step - 1) / step * step, step);
  const std::int32_t each = workers > 0 ? rules.total / workers / step * step : 0;
  if (each < least) {
    return tl::unexpected(fmt::format(
        "{} workers do not fit on a GPU of {} SMs, whose partitions have {} or more and a multiple of {}: "
        "take at most {}, or as many GPUs as workers",
        workers, rules.total, least, step, rules.total / least));
  }
  return SmSplit{.workers = workers, .sms_each = each, .spare = rules.total - workers * each};
}

}  // namespace penstock
