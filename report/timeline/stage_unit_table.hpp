#pragma once
// Something about each unit of each stage that one rank's list names, found without a search. Used by
// arrivals.cpp, metrics.cpp and memory.cpp.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/ir/index.hpp"

namespace penstock {

/// A row of units for each stage that has been asked for: a rank has few stages of many units each. Memory
/// O(largest stage + stages asked for * largest unit).
template <class Value>
class StageUnitTable {
 public:
  /// What `at` finds where nothing has been put.
  explicit StageUnitTable(Value unknown = {}) : unknown_(std::move(unknown)) {}

  /// Requires stage >= 0 and unit >= 0. The reference holds until another stage or unit is asked for.
  Value& at(std::int32_t stage, std::int32_t unit) {
    if (index(stage) < row_of_stage_.size() && row_of_stage_[index(stage)] != kNoRow) {
      std::vector<Value>& row = rows_[index(row_of_stage_[index(stage)])];
      if (index(unit) < row.size()) [[likely]]
        return row[index(unit)];
    }
    return made_at(stage, unit);
  }

 private:
  static constexpr std::int32_t kNoRow = -1;

  Value& made_at(std::int32_t stage, std::int32_t unit) {
    if (index(stage) >= row_of_stage_.size()) row_of_stage_.resize(index(stage) + 1, kNoRow);
    std::int32_t& number = row_of_stage_[index(stage)];
    if (number == kNoRow) {
      number = static_cast<std::int32_t>(rows_.size());
      rows_.emplace_back();
    }
    std::vector<Value>& row = rows_[index(number)];
    if (index(unit) >= row.size()) row.resize(index(unit) + 1, unknown_);
    return row[index(unit)];
  }

  Value unknown_;
  std::vector<std::int32_t> row_of_stage_;
  std::vector<std::vector<Value>> rows_;
};

}  // namespace penstock
