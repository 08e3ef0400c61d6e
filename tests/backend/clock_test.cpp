// The clock of a run, at scales that stretch its times beyond what nanoseconds count.

#include <chrono>
#include <stop_token>
#include <thread>

#include <gtest/gtest.h>

#include "backend/executor/clock.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

using std::chrono::steady_clock;

constexpr Ns kOneMillisecond = 1'000'000;
constexpr Ns kBeyondCounting = 10'000'000'000'000'000;  // 115 days

TEST(SteadyClock, MomentsAreAsFarAwayAsTheScaleSays) {
  const steady_clock::time_point start = steady_clock::now();
  EXPECT_EQ(SteadyClock(1, start).moment_of(kOneMillisecond) - start, std::chrono::milliseconds(1));
  EXPECT_EQ(SteadyClock(10, start).moment_of(kOneMillisecond) - start, std::chrono::milliseconds(10));
  EXPECT_GT(SteadyClock(1000, start).moment_of(kBeyondCounting) - start, std::chrono::hours(24 * 365));
}

TEST(SteadyClock, AHoldThatIsTooLongToCountEndsByAStopAlone) {
  std::stop_source stop;
  const std::jthread stopping([&stop] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop.request_stop();
  });
  SteadyClock(1000).hold_for(kBeyondCounting, stop.get_token());
  EXPECT_TRUE(stop.stop_requested());
}

}  // namespace
}  // namespace penstock
