#pragma once
// How much the stages of one rank hold, action by action.

#include <cstdint>
#include <map>
#include <string>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"

namespace penstock::nn {

/// Of one rank; used by its one worker thread.
class MemoryMeter {
 public:
  /// The stage holds that much now, by `action`.
  void set(std::int32_t stage, const MemoryByCategory& bytes, const std::string& action);
  /// Peaks so far; times and samples are left out.
  const RankMemory& memory() const { return memory_; }

 private:
  std::map<std::int32_t, MemoryByCategory> of_stage_;
  MemoryByCategory sum_{};
  RankMemory memory_;
};

}  // namespace penstock::nn
