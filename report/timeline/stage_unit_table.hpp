#pragma once
// A table with one value for each unit (microbatch) of each stage on one rank. A lookup takes constant time.
// arrivals.cpp, metrics.cpp and memory.cpp use it.

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schedules/ir/index.hpp"

namespace penstock {

/// A table with a row for each stage that has been used, because a rank has few stages with many units each.
/// Consecutive units are in a vector. Units with far larger numbers, such as the units of one replica among
/// many, are in a hash table. Memory: O(largest stage + used units).
template <class Value>
class StageUnitTable {
 public:
  /// Creates an empty table. `unknown` is the value of a unit that has not been set.
  explicit StageUnitTable(Value unknown = {}) : unknown_(std::move(unknown)) {}

  /// Returns the value of a unit. The reference is valid until the next call with another stage or unit.
  /// Requires stage >= 0 and unit >= 0.
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
    std::vector<Value> near;  ///< the values of small unit numbers, by unit
    std::unordered_map<std::int32_t, Value> far;
  };

  /// Creates the value of a unit that is not in a vector yet, or finds it in the hash table.
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

  /// Makes the row's vector longer, and moves the units that now fit into it out of the hash table.
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
