#pragma once
// A table with a value for each unit of each stage that one rank's list names. It needs no search.
// arrivals.cpp, metrics.cpp and memory.cpp use it.

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schedules/ir/index.hpp"

namespace penstock {

/// A row of units for each stage that has been asked for, because a rank has few stages with many units each.
/// A row is a vector as far as units come one after the other. Units far beyond all before them, such as
/// those of one replica among many, are in a hash table. Memory: O(largest stage + units asked for).
template <class Value>
class StageUnitTable {
 public:
  /// `unknown` is the value of a unit that has not been set.
  explicit StageUnitTable(Value unknown = {}) : unknown_(std::move(unknown)) {}

  /// Returns the value of a unit. The reference is valid until another stage or unit is asked for. Requires
  /// stage >= 0 and unit >= 0.
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

  /// The units of one stage.
  struct Row {
    std::vector<Value> near;  ///< values by unit
    std::unordered_map<std::int32_t, Value> far;
  };

  /// Returns the value of a unit that has no place in a vector yet, and makes one.
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

  /// Makes the vector of a row longer and moves the units that it now covers into it.
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
