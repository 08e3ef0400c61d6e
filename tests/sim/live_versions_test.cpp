// The versions of a stage's weights that are alive lie in runs of equal neighbours; held against a table with
// an entry for each of them.

#include "sim/engines/rank_ledger.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <utility>

#include "sim/engines/kept_state.hpp"

namespace penstock {
namespace {

TEST(LiveVersions, AreOpenAsOftenAsTheyWentForwardAndNotBack) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    LiveVersions versions;
    std::map<std::int32_t, std::int32_t> open{{0, 0}};  // of those that are not dropped
    for (int step = 0; step < 200; ++step) {
      const auto chosen = std::next(open.begin(), static_cast<std::ptrdiff_t>(random() % open.size()));
      const std::int32_t version = chosen->first;
      const auto what = random() % 4;
      if (what == 0) {
        versions.step();
        open[versions.newest()] = 0;
      } else if (what == 1) {
        versions.forward(version);
        ++chosen->second;
      } else if (what == 2 && chosen->second > 0) {
        versions.backward(version);
        --chosen->second;
      } else if (what == 3 && version != versions.newest()) {
        versions.drop(version);
        open.erase(version);
      }
      ASSERT_EQ(versions.newest(), open.rbegin()->first);
      for (const auto& [known, times] : open)
        ASSERT_EQ(versions.is_open(known), times > 0) << "seed " << seed;
    }
  }
}

TEST(LiveVersions, AreAlikeWhereOnlyTheirNumbersHaveMoved) {
  LiveVersions early;
  early.forward(0);
  early.step();
  LiveVersions late;
  for (int i = 0; i < 5; ++i) {
    late.step();
    late.drop(i);
  }
  late.forward(5);
  late.step();
  KeepState kept;
  early.show(kept);
  const KeptState state = std::move(kept).kept();
  CompareState same(state, {});
  late.show(same);
  EXPECT_TRUE(same.alike());
  late.forward(5);
  late.forward(6);
  late.step();
  CompareState other(state, {});
  late.show(other);
  EXPECT_FALSE(other.alike());
}

TEST(LiveVersions, MoveOnWithTheRepetitionsThatAreJumpedOver) {
  LiveVersions versions;
  versions.forward(0);
  versions.step();
  KeepState before;
  versions.show(before);
  const KeptState state = std::move(before).kept();
  versions.backward(0);
  versions.forward(1);
  versions.drop(0);
  versions.step();
  AdvanceState advance(state, {}, 10);
  versions.show(advance);
  EXPECT_EQ(versions.newest(), 12);
  EXPECT_TRUE(versions.is_open(11));
  EXPECT_FALSE(versions.is_open(12));
}

}  // namespace
}  // namespace penstock
