// Tests that a message is decoded as it was encoded, and that messages which no encoder makes are refused.

#include "backend/process/control_message.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "backend/process/clock_alignment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/execution.hpp"

namespace penstock {
namespace {

/// Returns the sizes of 1f1b with two ranks and two microbatches.
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

TEST(ControlMessage, AmountsThatNothingHasAreRefused) {
  const ProgramSizes sizes = small_sizes();
  const auto is_read = [&](const ControlMessage& message) {
    return decoded(encoded(message), sizes).has_value();
  };
  const Done nothing{.start = {}, .end = {}, .message_start = {}, .message_end = {}, .account = {}};
  const auto is_done_read = [&](const auto& change) {
    Done done = nothing;
    change(done);
    return is_read(done);
  };
  EXPECT_TRUE(is_read(nothing));
  const auto messages = static_cast<std::size_t>(sizes.messages);
  EXPECT_TRUE(is_done_read([&](Done& done) { done.message_start.resize(messages); }));
  EXPECT_FALSE(is_done_read([&](Done& done) { done.message_start.resize(messages + 1); }));
  EXPECT_FALSE(is_done_read([&](Done& done) { done.message_end.resize(messages + 1); }));
  EXPECT_FALSE(is_done_read([](Done& done) { done.message_start = {-1}; }));
  EXPECT_FALSE(is_done_read([](Done& done) { done.message_end = {-1}; }));
  EXPECT_FALSE(is_done_read([&](Done& done) { done.end.resize(sizes.positions_of_rank + 1); }));
  EXPECT_FALSE(is_done_read([](Done& done) { done.end = {-1}; }));
  EXPECT_TRUE(is_done_read([](Done& done) { done.account.memory.emplace(); }));
  EXPECT_FALSE(is_done_read([](Done& done) { done.account.memory.emplace().peak_bytes = -1; }));
  EXPECT_FALSE(is_done_read([](Done& done) { done.account.memory.emplace().at_peak.front() = -1; }));
  EXPECT_FALSE(is_done_read([](Done& done) { done.account.memory.emplace().peaks.back() = -1; }));
  Done with_memory = nothing;
  with_memory.account.memory.emplace();
  Frame flagged = encoded(with_memory);
  flagged[encoded(nothing).size() - 1] = 2;  // this byte says whether memory follows
  EXPECT_FALSE(decoded(flagged, sizes));
}

TEST(ControlMessage, LossesAreOfTheProgramsMicrobatches) {
  const ProgramSizes sizes = small_sizes();
  const auto is_read = [&](const std::map<std::int32_t, double>& losses) {
    Done done{.start = {}, .end = {}, .message_start = {}, .message_end = {}, .account = {}};
    done.account.losses = losses;
    return decoded(encoded(done), sizes).has_value();
  };
  EXPECT_EQ(sizes.microbatches, 2);
  EXPECT_TRUE(is_read({{0, 0.5}, {1, 0.5}}));
  EXPECT_FALSE(is_read({{2, 0.5}}));
  EXPECT_FALSE(is_read({{2'000'000'000, 0.5}}));
  EXPECT_FALSE(is_read({{-1, 0.5}}));
  const Program twice = lowered(*generate("1f1b", {.stages = 2, .microbatches = 2, .iterations = 2}));
  const ProgramSizes of_two(flatten(twice, free_costs(twice), {.channels = {}, .iterations = 2}));
  EXPECT_EQ(of_two.microbatches, 4) << "numbers run on over iterations";
}

TEST(ControlMessage, MomentsThatNoClockShowsAreRefused) {
  const ProgramSizes sizes = small_sizes();
  for (const auto& [moment, is_one] :
       {std::pair<Ns, bool>(-1, false), {0, true}, {kLastNs, true}, {kLastNs + 1, false}}) {
    for (const ControlMessage& message : std::vector<ControlMessage>{
             Report{.since_ns = moment}, Report{.at_ns = moment},
             Failed{.standing = {.at_ns = moment}, .what = {}}, Prepare{.origin_ns = moment},
             Go{.start_ns = moment}, ClockQuestion{.sent_ns = moment}, ClockAnswer{.sent_ns = moment},
             ClockAnswer{.shown_ns = moment}})
      EXPECT_EQ(decoded(encoded(message), sizes).has_value(), is_one) << message.index() << " at " << moment;
  }
}

TEST(ControlMessage, NoneMayBeLongerThanTheProgramGivesCauseFor) {
  const ProgramSizes sizes = small_sizes();
  const auto most_of = [&](const ControlMessage& message) { return most_bytes_of(encoded(message), sizes); };
  for (const ControlMessage& message : one_of_each()) {
    if (std::holds_alternative<Done>(message) || std::holds_alternative<Welcome>(message)) continue;
    EXPECT_EQ(most_of(message), 65'536) << message.index();
  }
  // Done has two times and a loss for each position, and two times for each message. Welcome has an address
  // for each rank.
  EXPECT_EQ(most_of(Done{}),
            65'536 + sizes.positions_of_rank * 28 + static_cast<std::size_t>(sizes.messages) * 16);
  EXPECT_EQ(most_of(Welcome{}), 65'536 + 2 * 264);
  EXPECT_EQ(most_bytes_of({}, sizes), 0) << "not even begun";
  EXPECT_EQ(most_bytes_of({0xff}, sizes), 65'536) << "no message at all";
}

TEST(ByteReader, ACountIsBoundByWhatMayBeAndByWhatIsThere) {
  const auto count_in = [](std::size_t numbers, std::size_t most) {
    ByteWriter to;
    to.number(std::uint32_t{3});
    for (std::size_t i = 0; i < numbers; ++i) to.number(Ns{1});
    const std::vector<std::uint8_t> bytes = to.taken();
    return ByteReader(bytes).count(most, sizeof(Ns));
  };
  EXPECT_EQ(count_in(3, 3), 3U);
  EXPECT_EQ(count_in(3, 2), 0U) << "more than may be";
  EXPECT_EQ(count_in(2, 1'000), 0U) << "more than is there";
}

TEST(ControlMessage, ALengthThatIsNotThereReservesNothing) {
  Frame frame = encoded(Done{});
  frame.resize(5);
  for (int i = 0; i < 4; ++i) frame.push_back(0xff);  // the frame says that 2^32 - 1 times follow
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
