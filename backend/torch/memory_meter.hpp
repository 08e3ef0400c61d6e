#pragma once
// Records the memory that the stages of one rank use after each action.

#include <cstdint>
#include <map>
#include <string>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"

namespace penstock::nn {

/// A recorder of the memory of one rank. Only the rank's worker thread may use it.
class MemoryMeter {
 public:
  /// Records that the stage uses `bytes` after `action`.
  void set(std::int32_t stage, const MemoryByCategory& bytes, const std::string& action);
  /// Returns the peak so far and its action. The result has no times and no samples.
  const RankMemory& memory() const { return memory_; }

 private:
  std::map<std::int32_t, MemoryByCategory> of_stage_;
  MemoryByCategory sum_{};
  RankMemory memory_;
};

}  // namespace penstock::nn
