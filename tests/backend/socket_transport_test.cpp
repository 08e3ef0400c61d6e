// Tests frames between two loops. They arrive whole and in order, and a frame that is longer than allowed
// ends the connection.

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/executor/clock.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/socket_loop.hpp"
#include "backend/process/socket_transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/execution.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// One end of a connection, and what this end has received.
struct LoopEnd {
  explicit LoopEnd(std::size_t longest)
      : loop({.received = [this](ConnectionId, Frame frame) { received.push_back(std::move(frame)); },
              .closed = [this](ConnectionId, Closing why) { closed = why; },
              .most_bytes = [longest](ConnectionId, const Frame&) { return longest; }}) {}

  std::vector<Frame> received;
  std::optional<Closing> closed;
  SocketLoop loop;
};

/// Runs both loops until the condition holds, or for so long that nothing more will come.
void run_both(LoopEnd& one, LoopEnd& other, const std::function<bool()>& until) {
  const auto latest = steady_clock::now() + seconds(5);
  while (!until() && steady_clock::now() < latest) {
    for (LoopEnd* end : {&one, &other}) end->loop.run_until(steady_clock::now() + milliseconds(1));
  }
}

enum class Over : std::uint8_t { tcp, socket_pair };

/// Returns the error with which the receiver of `sent` ends if it accepts at most `longest` bytes.
std::string ended_with(Over over, std::size_t longest, const std::vector<Frame>& sent) {
  LoopEnd taker(longest);
  LoopEnd sender(0);
  ConnectionId to = 0;
  if (over == Over::tcp) {
    for (LoopEnd* end : {&taker, &sender}) end->loop.prove_with("known to both");
    const auto where = taker.loop.bind({});
    EXPECT_TRUE(where && taker.loop.listen());
    to = *sender.loop.connect(*where, steady_clock::now() + seconds(5));
  } else {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    taker.loop.adopt(ends[0]);
    to = sender.loop.adopt(ends[1]);
  }
  for (const Frame& frame : sent) sender.loop.send(to, frame);
  run_both(taker, sender, [&] { return taker.closed || taker.received.size() == sent.size(); });
  if (taker.closed) return *taker.closed == Closing::not_a_frame ? "not a frame" : "closed";
  return taker.received == sent ? "all frames" : "others";
}

TEST(SocketLoop, AFrameOfSeveralChunksComesWhole) {
  Frame long_one(3 * kChunkBytes + 7);
  for (std::size_t i = 0; i < long_one.size(); ++i) long_one[i] = static_cast<std::uint8_t>(i % 251);
  for (const Over over : {Over::tcp, Over::socket_pair}) {
    EXPECT_EQ(ended_with(over, 3 * kChunkBytes + 7, {{}, {1, 2}, long_one, Frame(kChunkBytes, 9), {3}}),
              "all frames");
  }
}

TEST(SocketLoop, AFrameThatIsLongerThanItMayBeEndsTheConnection) {
  for (const Over over : {Over::tcp, Over::socket_pair}) {
    EXPECT_EQ(ended_with(over, 2 * kChunkBytes, {{1}, Frame(2 * kChunkBytes + 1)}), "not a frame");
    EXPECT_EQ(ended_with(over, 2 * kChunkBytes, {{1}, Frame(2 * kChunkBytes)}), "all frames");
    EXPECT_EQ(ended_with(over, 0, {Frame(kChunkBytes)}), "all frames") << "a chunk is no more than a chunk";
    EXPECT_EQ(ended_with(over, 0, {Frame(kChunkBytes + 1)}), "not a frame");
  }
}

// Tests frames that peers send to a rank's transport. A frame is accepted only if it belongs to this program,
// this run and this peer.

FlatProgram flat_program_of(const char* schedule, const Shape& shape, const ChannelOptions& channels = {}) {
  const Program program = lowered(*generate(schedule, shape));
  return flatten(program, free_costs(program), {.channels = channels, .iterations = program.iterations});
}

/// The transport of one rank in run 3. A test writes the frames that it receives.
class ReceivingRank {
 public:
  ReceivingRank(const FlatProgram& flat, std::int32_t rank)
      : flat_(flat),
        transport_({.flat = flat,
                    .pace = pace_,
                    .clock = clock_,
                    .codec = nullptr,
                    .rank = rank,
                    .run = 3,
                    .send = [](std::int32_t, const Frame&) {}}) {}

  /// Handles a frame as if it came over the connection with `peer`.
  void hear(std::int32_t peer, const DataHeader& header) { transport_.receive(peer, packed(header, {})); }
  /// Returns true if no message has started.
  bool has_heard_nothing() const {
    for (std::size_t message = 0; message < flat_.messages.size(); ++message) {
      const MessageTime time = transport_.time_of(static_cast<std::int32_t>(message));
      if (time.start_ns != 0 || time.end_ns != 0) return false;
    }
    return true;
  }
  SocketTransport& transport() { return transport_; }

 private:
  const FlatProgram& flat_;
  LinkPace pace_;
  SteadyClock clock_{1, std::chrono::steady_clock::now() - std::chrono::seconds(1)};
  SocketTransport transport_;
};

std::int32_t first_transfer(const FlatProgram& flat, std::int32_t from, std::int32_t to) {
  for (std::size_t id = 0; id < flat.messages.size(); ++id) {
    const FlatMessage& message = flat.messages[id];
    if (message.recv != kNone && message.from_rank == from && message.to_rank == to)
      return static_cast<std::int32_t>(id);
  }
  throw std::runtime_error("no such transfer");
}

std::int32_t first_collective(const FlatProgram& flat) {
  for (std::size_t id = 0; id < flat.messages.size(); ++id)
    if (flat.messages[id].recv == kNone) return static_cast<std::int32_t>(id);
  throw std::runtime_error("no collective");
}

TEST(SocketTransport, ATransferArrivesFromItsSenderAlone) {
  // With interleaved stages, messages go around the ring, so rank 2 also sends to rank 0.
  const FlatProgram flat =
      flat_program_of("interleaved", {.stages = 3, .microbatches = 6, .virtual_stages = 2});
  ReceivingRank one(flat, 1);
  const std::int32_t awaited = first_transfer(flat, 0, 1);
  const DataHeader right{.run = 3, .message = awaited, .from_rank = 0, .start_ns = 5, .end_ns = 7};
  const auto wrong = [&](std::int32_t peer, const auto& change) {
    DataHeader header = right;
    change(header);
    one.hear(peer, header);
    EXPECT_TRUE(one.has_heard_nothing());
  };
  wrong(2, [](DataHeader& header) { header.from_rank = 2; });
  wrong(0, [](DataHeader& header) { header.from_rank = 2; });
  wrong(2, [](DataHeader&) {});
  wrong(0, [](DataHeader& header) { header.run = 2; });
  wrong(0, [](DataHeader& header) { header.start_ns = -1; });
  wrong(0, [](DataHeader& header) { header.end_ns = -1; });
  wrong(0, [](DataHeader& header) { header.message = -1; });
  wrong(0, [&](DataHeader& header) { header.message = static_cast<std::int32_t>(flat.messages.size()); });
  wrong(0, [&](DataHeader& header) { header.message = first_transfer(flat, 1, 2); });
  wrong(2, [&](DataHeader& header) {
    header.message = first_transfer(flat, 2, 0);  // it is sent to another rank
    header.from_rank = 2;
  });
  one.hear(0, right);
  one.transport().wait(awaited, 1);
  EXPECT_EQ(one.transport().time_of(awaited).start_ns, 5);
  EXPECT_EQ(one.transport().time_of(awaited).end_ns, 7);
  EXPECT_EQ(one.transport().take(awaited), nullptr);
}

TEST(SocketTransport, ATransferOfAGroupLeavesWhenItsReceiverHasPostedIt) {
  constexpr Ns kPosted = 3'600'000'000'000;  // an hour, so that it is later than the SEND
  const FlatProgram flat =
      flat_program_of("1f1b", {.stages = 3, .microbatches = 3}, {.blocking = Blocking::batched});
  ReceivingRank one(flat, 1);
  const std::int32_t sent = first_transfer(flat, 1, 2);
  one.transport().send(sent, nullptr);
  one.hear(0, {.run = 3, .message = sent, .from_rank = 0, .start_ns = kPosted});
  one.hear(2, {.run = 2, .message = sent, .from_rank = 2, .start_ns = kPosted});
  EXPECT_EQ(one.transport().time_of(sent).end_ns, 0) << "no frame was that of the receiver in this run";
  one.hear(2, {.run = 3, .message = sent, .from_rank = 2, .start_ns = kPosted});
  one.hear(2, {.run = 3, .message = sent, .from_rank = 2, .start_ns = 2 * kPosted});
  EXPECT_EQ(one.transport().time_of(sent).start_ns, kPosted);
  EXPECT_EQ(one.transport().time_of(sent).end_ns, kPosted);
}

TEST(SocketTransport, AFrameThatIsNoHeaderIsPassedOver) {
  const FlatProgram flat = flat_program_of("1f1b", {.stages = 2, .microbatches = 2});
  ReceivingRank one(flat, 1);
  Frame cut = packed({.run = 3, .message = 0, .from_rank = 0, .start_ns = 5, .end_ns = 7}, {});
  cut.pop_back();
  one.transport().receive(0, cut);
  one.transport().receive(0, {});
  EXPECT_TRUE(one.has_heard_nothing());
}

TEST(SocketTransport, OnlyMembersJoinACollectiveAndEachOnce) {
  // Three replicas of stage 0 are on ranks 0, 1 and 2. Rank 3 holds stage 1 and is a peer of all of them.
  Shape shape{.stages = 2, .microbatches = 6};
  shape.replicas = {3, 1};
  const FlatProgram flat = flat_program_of("1f1b-rr", shape);
  const std::int32_t reduction = first_collective(flat);
  ReceivingRank zero(flat, 0);
  const DataHeader joined{.run = 3, .message = reduction, .from_rank = 1, .start_ns = 5};
  zero.hear(3, {.run = 3, .message = reduction, .from_rank = 3, .start_ns = 9});
  EXPECT_TRUE(zero.has_heard_nothing()) << "rank 3 is no member";
  zero.hear(1, joined);
  zero.hear(1, joined);
  zero.transport().join(reduction, 0, nullptr);
  EXPECT_EQ(zero.transport().time_of(reduction).end_ns, 0) << "rank 2 has not joined";
  zero.hear(2, {.run = 3, .message = reduction, .from_rank = 2, .start_ns = 8});
  zero.transport().wait(reduction, 0);
  EXPECT_EQ(zero.transport().collect(reduction, 0).size(), 3U);
}

}  // namespace
}  // namespace penstock
