#include "backend/nccl/blocking_calls.hpp"

#include <chrono>
#include <functional>
#include <future>
#include <stdexcept>

#include <gtest/gtest.h>

#include "backend/executor/transport.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(BlockingCalls, ACallIsMadeBeforeItReturns) {
  BlockingCalls calls;
  int made = 0;
  for (int i = 0; i < 100; ++i) {
    calls.make([&] { ++made; }, {});
    EXPECT_EQ(made, i + 1);
  }
}

TEST(BlockingCalls, WhatACallThrowsIsThrownAndTheNextIsMade) {
  BlockingCalls calls;
  EXPECT_THROW(calls.make([] { throw std::out_of_range("no such key"); }, {}), std::out_of_range);
  bool made = false;
  calls.make([&] { made = true; }, {});
  EXPECT_TRUE(made);
}

/// A call that ends when the test does.
struct Endless {
  std::promise<void> end{};
  std::shared_future<void> ended = end.get_future();
  std::function<void()> call() const {
    return [ended = ended] { ended.wait(); };
  }
  ~Endless() { end.set_value(); }
};

TEST(BlockingCalls, OneThatDoesNotReturnCanBeStopped) {
  const Endless endless;
  BlockingCalls calls;
  const auto begin = steady_clock::now();
  EXPECT_THROW(
      calls.make(endless.call(), {.stopped = [&] { return steady_clock::now() - begin > milliseconds(20); }}),
      Stopped);
}

TEST(BlockingCalls, OneThatDoesNotReturnIsLeftBehindAtTheDeadlineAndNoOtherIsMade) {
  const Endless endless;
  BlockingCalls calls;
  EXPECT_THROW(calls.make(endless.call(), {.stopped = {}, .deadline = milliseconds(20)}), std::runtime_error);
  bool made = false;
  EXPECT_THROW(calls.make([&] { made = true; }, {}), std::runtime_error);
  EXPECT_FALSE(made);
}

}  // namespace
}  // namespace penstock
