// What goes over the wire comes back as it was; what could not have been sent is refused.

#include "backend/process/control_message.hpp"

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "schedules/check/flat_program.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/execution.hpp"

namespace penstock {
namespace {

/// 1f1b of two ranks and two microbatches.
ProgramSizes small_sizes() {
  const Program program = lowered(*generate("1f1b", {.stages = 2, .microbatches = 2}));
  return ProgramSizes(flatten(program, free_costs(program), {.channels = {}, .iterations = 1}));
}

RankAccount account() {
  RankAccount account;
  account.memory.emplace();
  account.memory->peak_bytes = 99;
  account.memory->peak_action = "0F1";
  account.memory->at_peak.fill(3);
  account.memory->peaks.fill(4);
  account.losses = {{0, 0.5}, {1, std::numeric_limits<double>::infinity()}};
  return account;
}

std::vector<ControlMessage> one_of_each() {
  return {Hello{.rank = 1, .process_id = 77, .digest = "abc", .boot_id = "b", .data = {"10.0.0.1", 9}},
          Report{.position = 3, .waits_for = 1, .since_ns = 5, .at_ns = 6},
          Ready{.run = 2},
          Done{.run = 1,
               .start = {1, 2},
               .end = {3, 4},
               .message_start = {5},
               .message_end = {6},
               .account = account()},
          Failed{.standing = {.position = 2}, .what = "the weights are gone"},
          Greeting{.rank = 1},
          Welcome{.peers = {{"127.0.0.1", 1}, {"::1", 2}}},
          Prepare{.run = 3, .origin_ns = 8},
          Go{.run = 3, .start_ns = 9},
          Alive{},
          Verdict{.error = {.rank = -1, .action = "1F2", .peer = 1, .message = "it ended"}},
          End{},
          ClockQuestion{.sent_ns = 10},
          ClockAnswer{.sent_ns = 10, .shown_ns = 11}};
}

TEST(ControlMessage, EachComesBackByteForByte) {
  const ProgramSizes sizes = small_sizes();
  ASSERT_EQ(one_of_each().size(), std::variant_size_v<ControlMessage>);
  for (const ControlMessage& message : one_of_each()) {
    const Frame frame = encoded(message);
    const auto read = decoded(frame, sizes);
    ASSERT_TRUE(read) << message.index();
    EXPECT_EQ(read->index(), message.index());
    EXPECT_EQ(encoded(*read), frame) << message.index();
    EXPECT_LE(frame.size(), most_bytes_of(frame, sizes));
  }
}

TEST(ControlMessage, OneByteMoreOrLessIsNoMessage) {
  const ProgramSizes sizes = small_sizes();
  for (const ControlMessage& message : one_of_each()) {
    Frame frame = encoded(message);
    frame.push_back(0);
    EXPECT_FALSE(decoded(frame, sizes)) << message.index();
    frame.resize(frame.size() - 2);
    EXPECT_FALSE(decoded(frame, sizes)) << message.index();
  }
}

TEST(ControlMessage, IndicesThatTheProgramDoesNotHaveAreRefused) {
  const ProgramSizes sizes = small_sizes();
  const auto is_read = [&](const ControlMessage& message) {
    return decoded(encoded(message), sizes).has_value();
  };
  EXPECT_TRUE(is_read(Report{.position = sizes.positions, .waits_for = sizes.messages - 1}));
  EXPECT_FALSE(is_read(Report{.position = sizes.positions + 1}));
  EXPECT_FALSE(is_read(Report{.position = 2'000'000'000}));
  EXPECT_FALSE(is_read(Report{.position = -2}));
  EXPECT_FALSE(is_read(Report{.waits_for = sizes.messages}));
  EXPECT_FALSE(is_read(Report{.waits_for = -2}));
  EXPECT_FALSE(is_read(Greeting{.rank = 2}));
  EXPECT_FALSE(is_read(Greeting{.rank = -1}));
  EXPECT_FALSE(is_read(Welcome{.peers = {{}}}));
  EXPECT_FALSE(
      is_read(Done{.start = {-1}, .end = {0}, .message_start = {}, .message_end = {}, .account = {}}));
  EXPECT_FALSE(is_read(Done{
      .start = std::vector<Ns>(1000), .end = {}, .message_start = {}, .message_end = {}, .account = {}}));
}

TEST(ControlMessage, ALengthThatIsNotThereReservesNothing) {
  Frame frame = encoded(Done{});
  frame.resize(5);
  for (int i = 0; i < 4; ++i) frame.push_back(0xff);  // 2^32 - 1 times follow
  EXPECT_FALSE(decoded(frame, small_sizes()));
}

TEST(ControlMessage, SentencesThatAreTooLongAreCut) {
  const Frame frame = encoded(Failed{.standing = {}, .what = std::string(100'000, 'x')});
  EXPECT_LT(frame.size(), kMostControlBytes);
  EXPECT_TRUE(decoded(frame, small_sizes()));
}

TEST(ControlMessage, WhatIsReadFromRandomBytesCanBeWrittenAgain) {
  const ProgramSizes sizes = small_sizes();
  const std::vector<ControlMessage> messages = one_of_each();
  std::mt19937 random(3);
  int read_ones = 0;
  for (int i = 0; i < 20'000; ++i) {
    Frame frame = encoded(messages[random() % messages.size()]);
    for (std::uint32_t changes = random() % 4; changes > 0; --changes)
      frame[random() % frame.size()] = static_cast<std::uint8_t>(random());
    const auto read = decoded(frame, sizes);
    if (!read) continue;
    ++read_ones;
    EXPECT_EQ(encoded(*read), frame);
  }
  EXPECT_GT(read_ones, 5'000);
}

}  // namespace
}  // namespace penstock
