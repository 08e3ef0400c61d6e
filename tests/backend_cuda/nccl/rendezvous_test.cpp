// Tests the store through which ranks exchange data.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/stream.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/nccl_run.hpp"
#include "backend/nccl/rendezvous.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPatience(5000);
const WaitLimits kMeetingLimits{.stopped = {}, .deadline = kPatience};

TEST(Rendezvous, WhatOneRankSetsAnotherGets) {
  auto socket = ListeningSocket::open("127.0.0.1", 0);
  ASSERT_TRUE(socket) << socket.error();
  ASSERT_GT(socket->port(), 0);
  const std::uint16_t port = socket->port();
  Rendezvous host({.port = port, .socket = socket->release()}, kMeetingLimits);
  Rendezvous guest({.port = port}, kMeetingLimits);
  EXPECT_EQ(guest.look_up("id/0"), std::nullopt);
  const std::string bytes("\0\x01\xff later", 9);
  std::jthread late([&] {
    std::this_thread::sleep_for(milliseconds(50));
    host.set("id/0", bytes);
  });
  EXPECT_EQ(guest.get("id/0", kMeetingLimits, "rank 0"), bytes);
}

TEST(Rendezvous, PrefixesKeepUsersOfOneStoreApart) {
  auto socket = ListeningSocket::open("127.0.0.1", 0);
  ASSERT_TRUE(socket) << socket.error();
  const std::uint16_t port = socket->port();
  Rendezvous host({.port = port, .prefix = "penstock/0/", .socket = socket->release()}, kMeetingLimits);
  Rendezvous restarted({.port = port, .prefix = "penstock/1/"}, kMeetingLimits);
  host.set("id/0", "old");
  EXPECT_EQ(host.look_up("id/0"), "old");
  EXPECT_EQ(restarted.look_up("id/0"), std::nullopt);
}

TEST(Rendezvous, APeerThatNeverComesIsNamed) {
  auto socket = ListeningSocket::open("127.0.0.1", 0);
  ASSERT_TRUE(socket) << socket.error();
  const std::uint16_t port = socket->port();
  Rendezvous host({.port = port, .socket = socket->release()}, kMeetingLimits);
  try {
    host.get("id/3", {.stopped = {}, .deadline = milliseconds(50)}, "rank 2 for communicator 2 -> 0");
    FAIL() << "came from nowhere";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "nothing came from rank 2 for communicator 2 -> 0 through the store (id/3)");
  }
  EXPECT_THROW(host.get("id/3", {.stopped = [] { return true; }}, "rank 2"), Stopped);
}

/// A connection to a store whose host has ended.
struct Orphan {
  Orphan() {
    auto socket = ListeningSocket::open("127.0.0.1", 0).value();
    const std::uint16_t port = socket.port();
    const Rendezvous host({.port = port, .socket = socket.release()}, kMeetingLimits);
    guest.emplace(RendezvousPlace{.port = port}, kMeetingLimits);
    name = "the store at 127.0.0.1:" + std::to_string(port);
  }
  std::optional<Rendezvous> guest{};
  std::string name{};
};

TEST(Rendezvous, WhoLosesTheStoreLetsItsHostSayWhy) {
  Orphan orphan;
  const auto begin = steady_clock::now();
  std::atomic<bool> has_heard_the_host = false;
  const std::jthread coordinator([&] {
    std::this_thread::sleep_for(milliseconds(200));
    has_heard_the_host = true;
  });
  const WaitLimits limits{.stopped = [&] { return has_heard_the_host.load(); }, .deadline = kPatience};
  EXPECT_THROW(orphan.guest->get("id/0", limits, "rank 0"), Stopped);
  EXPECT_THROW(orphan.guest->set("id/1", "mine", limits), Stopped);
  EXPECT_GE(steady_clock::now() - begin, milliseconds(200));
}

TEST(Rendezvous, AStoreThatIsLostIsNamedInOneLineWhereNobodyElseSaysWhy) {
  Orphan orphan;
  try {
    orphan.guest->get("id/0", {.stopped = {}, .deadline = milliseconds(50)}, "rank 0");
    FAIL() << "came from nowhere";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::StartsWith(orphan.name + " is lost: "));
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
  }
}

/// A process that starts a store and is then suspended.
class SuspendedHost {
 public:
  explicit SuspendedHost(ListeningSocket& socket) : process_(fork()) {
    if (process_ != 0) return;
    const Rendezvous host({.port = socket.port(), .socket = socket.release()}, kMeetingLimits);
    raise(SIGSTOP);
    _exit(0);
  }
  SuspendedHost(const SuspendedHost&) = delete;
  SuspendedHost& operator=(const SuspendedHost&) = delete;
  ~SuspendedHost() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  void wait_until_suspended() const {
    int status = 0;
    waitpid(process_, &status, WUNTRACED);
    EXPECT_TRUE(WIFSTOPPED(status));
  }

 private:
  pid_t process_;
};

TEST(Rendezvous, AStoreWhoseHostIsSuspendedHoldsNobodyBeyondStopAndDeadline) {
  auto socket = ListeningSocket::open("127.0.0.1", 0);
  ASSERT_TRUE(socket) << socket.error();
  const std::uint16_t port = socket->port();
  const SuspendedHost host(*socket);
  host.wait_until_suspended();
  const auto begin = steady_clock::now();
  EXPECT_THROW(
      Rendezvous({.port = port}, {.stopped = [&] { return steady_clock::now() - begin > milliseconds(50); }}),
      Stopped);
  EXPECT_THROW(Rendezvous({.port = port}, {.stopped = {}, .deadline = milliseconds(50)}), std::runtime_error);
}

TEST(Rendezvous, APortInUseIsRefused) {
  const auto first = ListeningSocket::open("127.0.0.1", 0);
  ASSERT_TRUE(first) << first.error();
  const auto second = ListeningSocket::open("127.0.0.1", first->port());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(),
            "cannot listen on 127.0.0.1:" + std::to_string(first->port()) + ": Address already in use");
  EXPECT_FALSE(ListeningSocket::open("no.such.host.invalid", 0));
}

TEST(Rendezvous, AnAttemptToReachAStoreCanBeStopped) {
  std::uint16_t port = 0;
  {
    const auto closed = ListeningSocket::open("127.0.0.1", 0);
    ASSERT_TRUE(closed) << closed.error();
    port = closed->port();
  }
  const auto begin = steady_clock::now();
  const WaitLimits limits{.stopped = [&] { return steady_clock::now() - begin > milliseconds(100); },
                          .deadline = std::chrono::minutes(10)};
  EXPECT_THROW(Rendezvous({.port = port}, limits), Stopped);
}

TEST(Rendezvous, AStoreThatIsNotThereIsNamed) {
  std::uint16_t port = 0;
  {
    const auto closed = ListeningSocket::open("127.0.0.1", 0);
    ASSERT_TRUE(closed) << closed.error();
    port = closed->port();
  }
  try {
    const Rendezvous nowhere({.port = port}, {.stopped = {}, .deadline = milliseconds(300)});
    FAIL() << "connected to nothing";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("the store at 127.0.0.1:" + std::to_string(port) +
                                                  " cannot be reached: "));
  }
}

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

/// A call that returns only at the end of the test.
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
