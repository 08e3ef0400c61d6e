// A process that shares a sweep, knows the job's secret and says what none of them says: it is turned away
// with its name, and no process ends as if all were well.

#include "cli/socket_group.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <tl/expected.hpp>

#include "backend/process/launch_environment.hpp"
#include "backend/process/socket_loop.hpp"
#include "cli/process_group.hpp"
#include "tests/backend/process_fixture.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr const char* kSecret = "0123456789abcdef0123456789abcdef";

LaunchedProcess one_of_two(std::int32_t rank, std::uint16_t port) {
  LaunchedProcess process{.place = place_of(rank, port), .world_size = 2};
  process.place.secret = kSecret;
  return process;
}

SocketEvents deaf() {
  return {.received = [](ConnectionId, const Frame&) {},
          .closed = [](ConnectionId, Closing) {},
          .most_bytes = [](ConnectionId, const Frame&) { return kChunkBytes; }};
}

/// Joins as process 1 and says these.
void join_and_say(std::uint16_t port, const std::vector<Frame>& frames) {
  SocketLoop loop(deaf());
  loop.prove_with(kSecret);
  const auto to = loop.connect({.address = "127.0.0.1", .port = port}, steady_clock::now() + seconds(5));
  ASSERT_TRUE(to);
  loop.send(*to, {0, '1'});
  for (const Frame& frame : frames) loop.send(*to, frame);
  const auto until = steady_clock::now() + milliseconds(500);
  while (steady_clock::now() < until) loop.run_until(steady_clock::now() + milliseconds(10));
}

TEST(SocketGroup, WhoSaysWhatNoneOfThemSaysIsTurnedAway) {
  const std::vector<Frame> odd = {{}, {1, '0'}, {3}, {255, 'x'}};
  for (const Frame& frame : odd) {
    const std::uint16_t port = HeldPort().port();
    std::thread liar([&] { join_and_say(port, {{0, 'h', 'i'}, frame, {0, 'n', 'o'}}); });
    testing::internal::CaptureStderr();
    {
      const auto group = joined_by_sockets(one_of_two(0, port));
      ASSERT_TRUE(group) << group.error();
      const auto first = group->hear(seconds(10));
      ASSERT_TRUE(first && first->what == Heard::What::said);
      EXPECT_EQ(first->text, "hi");
      const auto second = group->hear(seconds(10));
      EXPECT_TRUE(second && second->rank == 1 && second->what == Heard::What::ended);
      EXPECT_FALSE(group->hear(milliseconds(100))) << "of who was turned away nothing more is heard";
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "penstock: process 1 of 2 is turned away: it has sent what none says that shares a sweep\n");
    liar.join();
  }
}

/// Process 1, whose process 0 says that all shall end so.
void hear_of_the_end(const std::string& code) {
  const std::uint16_t port = HeldPort().port();
  std::thread zero([&] {
    SocketLoop* answers = nullptr;
    Frame end{1};
    end.insert(end.end(), code.begin(), code.end());
    SocketEvents events = deaf();
    events.received = [&](ConnectionId from, const Frame&) { answers->send(from, end); };
    SocketLoop loop(events);
    answers = &loop;
    loop.prove_with(kSecret);
    if (!loop.bind({.address = "127.0.0.1", .port = port}) || !loop.listen()) return;
    for (;;) loop.run_until(steady_clock::now() + milliseconds(10));
  });
  const auto group = joined_by_sockets(one_of_two(1, port));
  if (group) static_cast<void>(group->hear(seconds(10)));
}

TEST(SocketGroupDeathTest, AnEndOfAllIsAFailureWhateverItSays) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(hear_of_the_end("2"), testing::ExitedWithCode(2), "");
  for (const std::string code : {"0", "77", "-1", "256", "", "x"})
    EXPECT_EXIT(hear_of_the_end(code), testing::ExitedWithCode(4), "") << code;
}

}  // namespace
}  // namespace penstock
