// Measures memory at the same moments and by the same rules as the simulator. After each action, the stage
// reports its bytes. The meter adds up all stages of the rank, and stores the peak and the action that
// reached it.

#include "backend/torch/memory_meter.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "report/print/memory_category.hpp"
#include "schedules/ir/action.hpp"

namespace penstock::nn {

void MemoryMeter::set(std::int32_t stage, const MemoryByCategory& bytes, const std::string& action) {
  MemoryByCategory& before = of_stage_[stage];
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    sum_[i] += bytes[i] - before[i];
    memory_.peaks[i] = std::max(memory_.peaks[i], sum_[i]);
  }
  before = bytes;
  const Bytes total = total_bytes(sum_);
  // If several actions reach the peak, the first one is named, as in a prediction.
  if (total <= memory_.peak_bytes) return;
  memory_.peak_bytes = total;
  memory_.peak_action = action;
  memory_.at_peak = sum_;
}

}  // namespace penstock::nn
