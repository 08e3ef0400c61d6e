#pragma once
// Something about each unit of each stage that one rank's list names, found without a search. Used by
// arrivals.cpp, metrics.cpp and memory.cpp.

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schedules/ir/index.hpp"

namespace penstock {

/// A row of units for each stage that has been asked for: a rank has few stages of many units each. Units
/// that come one after the other lie in a vector; those far from all before them, as of one replica among
/// many, are looked up. Memory O(largest stage + units asked for).
template <class Value>
class StageUnitTable {
 public:
  /// What `at` finds where nothing has been put.
  explicit StageUnitTable(Value unknown = {}) : unknown_(std::move(unknown)) {}

  /// Requires stage >= 0 and unit >= 0. The reference holds until another stage or unit is asked for.
  Value& at(std::int32_t stage, std::int32_t unit) {
    if (index(stage) < row_of_stage_.size() && row_of_stage_[index(stage)] != kNoRow) {
      std::vector<Value>& near = rows_[index(row_of_stage_[index(stage)])].near;
      if (index(unit) < near.size()) [[likely]]
        return near[index(unit)];
    }
    return made_at(stage, unit);
  }

 private:
  static constexpr std::int32_t kNoRow = -1;
  static constexpr std::size_t kAlwaysNear = 64;

  struct Row {
    std::vector<Value> near;  ///< by unit
    std::unordered_map<std::int32_t, Value> far;
  };

  Value& made_at(std::int32_t stage, std::int32_t unit) {
    if (index(stage) >= row_of_stage_.size()) row_of_stage_.resize(index(stage) + 1, kNoRow);
    std::int32_t& number = row_of_stage_[index(stage)];
    if (number == kNoRow) {
      number = static_cast<std::int32_t>(rows_.size());
      rows_.emplace_back();
    }
    Row& row = rows_[index(number)];
    if (index(unit) < 2 * row.near.size() + kAlwaysNear) {
      lengthen(row, index(unit) + 1);
      return row.near[index(unit)];
    }
    return row.far.try_emplace(unit, unknown_).first->second;
  }

  void lengthen(Row& row, std::size_t length) {
    row.near.resize(length, unknown_);
    std::erase_if(row.far, [&](auto& entry) {
      const bool is_near = index(entry.first) < length;
      if (is_near) row.near[index(entry.first)] = std::move(entry.second);
      return is_near;
    });
  }

  Value unknown_;
  std::vector<std::int32_t> row_of_stage_;
  std::vector<Row> rows_;
};

}  // namespace penstock
