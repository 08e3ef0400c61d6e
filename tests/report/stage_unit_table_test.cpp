// What was put into the table is found again, in whatever order units come.

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "report/timeline/stage_unit_table.hpp"

namespace penstock {
namespace {

/// Puts a number at each of the units of two stages, and finds all of them again after each.
void holds_all(const std::vector<std::int32_t>& units) {
  StageUnitTable<std::int32_t> table(-1);
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> put;
  for (const std::int32_t unit : units) {
    for (const std::int32_t stage : {7, 0}) {
      EXPECT_EQ(table.at(stage, unit), -1) << stage << " " << unit;
      table.at(stage, unit) = put[{stage, unit}] = static_cast<std::int32_t>(put.size());
      for (const auto& [place, value] : put) ASSERT_EQ(table.at(place.first, place.second), value);
    }
  }
}

TEST(StageUnitTable, FindsUnitsThatComeInOrder) {
  std::vector<std::int32_t> units(300);
  for (std::size_t i = 0; i < units.size(); ++i) units[i] = static_cast<std::int32_t>(i);
  holds_all(units);
  std::ranges::reverse(units);
  holds_all(units);
}

TEST(StageUnitTable, FindsTheUnitsOfOneReplicaAmongThousands) {
  holds_all({12'345, 112'345, 212'345, 312'345, 1'000'000'000});
}

TEST(StageUnitTable, FindsUnitsFarAwayOnceThoseBeforeThemAreThere) {
  std::vector<std::int32_t> units{100, 300, 150};
  for (std::int32_t unit = 0; unit < 100; ++unit) units.push_back(unit);
  holds_all(units);
}

TEST(StageUnitTable, FindsUnitsInAnyOrder) {
  std::vector<std::int32_t> units(400);
  for (std::size_t i = 0; i < units.size(); ++i) units[i] = static_cast<std::int32_t>(i);
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    std::shuffle(units.begin(), units.end(), std::mt19937(seed));
    holds_all(units);
  }
}

}  // namespace
}  // namespace penstock
