// How far a streamed walk may jump: of a period of several repetitions only as much is left as has to be
// walked.

#include "sim/engines/repeat.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "sim/engines/kept_state.hpp"

namespace penstock {
namespace {

constexpr std::int32_t kRepetitions = 100;
constexpr std::int32_t kPeriod = 4;

/// One rank with the list kRepetitions x {F0}, in which every fourth action takes longer.
class OneRank {
 public:
  bool more_is_held_after_each = false;
  bool ahead = false;

  OneRank() {
    list_.repeat({Action{.kind = ActionKind::forward, .microbatch = 0}}, kRepetitions);
    cursor_ = list_.begin();
  }

  OneRank(const OneRank&) = delete;  // its cursor points into its list
  OneRank& operator=(const OneRank&) = delete;

  void compute() {
    clock_ns_ += cursor_.inner() % kPeriod == 0 ? 5 : 1;
    held_ += more_is_held_after_each ? 1 : 0;
    ++cursor_;
  }

  static std::int32_t rank_count() { return 1; }
  Ns clock_ns(std::int32_t /*rank*/) const { return clock_ns_; }
  const LoopCursor& cursor(std::int32_t /*rank*/) const { return cursor_; }
  std::int64_t actions() const { return cursor_.inner(); }
  static bool routes_repeat(std::int32_t /*units*/) { return true; }
  bool reads_ahead() const { return ahead; }
  void settle_all() {}
  template <class State>
  void show(State& state) {
    state.same(cursor_.inner() % kPeriod);
    state.held(held_);
    state.time(clock_ns_);
  }

 private:
  ActionLoops list_;
  LoopCursor cursor_;
  Ns clock_ns_ = 0;
  std::int64_t held_ = 0;
};

/// How many repetitions are left behind the first jump.
std::optional<std::int64_t> left_after_jump(OneRank& walk) {
  RepeatSearch search;
  for (std::int32_t i = 0; i < kRepetitions / 2; ++i) {
    walk.compute();
    if (const auto jump = search.look(walk, {})) {
      EXPECT_EQ(jump->shift.units, kPeriod);
      EXPECT_EQ(jump->shift.time_ns, 5 + kPeriod - 1);
      return kRepetitions - walk.cursor(0).inner() - jump->times * jump->moves[0].inner;
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> left_of_plain() {
  OneRank walk;
  return left_after_jump(walk);
}

TEST(Repeat, LessThanAPeriodIsLeftAndARepetition) {
  const auto left = left_of_plain();
  ASSERT_TRUE(left);
  EXPECT_GT(*left, 1);
  EXPECT_LE(*left, 1 + kPeriod);
}

TEST(Repeat, APeriodMoreIsWalkedWhereMoreIsHeldAfterEach) {
  OneRank walk;
  walk.more_is_held_after_each = true;
  EXPECT_EQ(left_after_jump(walk), *left_of_plain() + kPeriod) << "its peak is the last one's";
}

TEST(Repeat, APeriodMoreIsWalkedWhereListsAreReadAhead) {
  OneRank walk;
  walk.ahead = true;
  EXPECT_EQ(left_after_jump(walk), *left_of_plain() + kPeriod);
}

}  // namespace
}  // namespace penstock
