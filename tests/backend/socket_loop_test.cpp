// Frames between two loops: whole and in order, and none that is longer than the other side says it may be.

#include "backend/process/socket_loop.hpp"

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// One end of a connection, and what it has been told.
struct LoopEnd {
  explicit LoopEnd(std::size_t longest)
      : loop({.received = [this](ConnectionId, Frame frame) { received.push_back(std::move(frame)); },
              .closed = [this](ConnectionId, Closing why) { closed = why; },
              .most_bytes = [longest](ConnectionId, const Frame&) { return longest; }}) {}

  std::vector<Frame> received;
  std::optional<Closing> closed;
  SocketLoop loop;
};

/// Both run until then, or for so long that nothing more will come.
void run_both(LoopEnd& one, LoopEnd& other, const std::function<bool()>& until) {
  const auto latest = steady_clock::now() + seconds(5);
  while (!until() && steady_clock::now() < latest) {
    for (LoopEnd* end : {&one, &other}) end->loop.run_until(steady_clock::now() + milliseconds(1));
  }
}

enum class Over : std::uint8_t { tcp, socket_pair };

/// What the end that takes `longest` bytes ends with, when these come to it.
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

}  // namespace
}  // namespace penstock
