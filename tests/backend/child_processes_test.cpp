// How children end, and what their parent hears of it where no socket is left to say it over.

#include "backend/process/child_processes.hpp"

#include <cerrno>
#include <chrono>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// How a child ends that can say it over no socket.
std::string end_of_child(const std::function<int()>& work) {
  ChildProcesses children;
  const auto started = children.start(work);
  EXPECT_TRUE(started);
  std::optional<std::string> how;
  for (const auto until = steady_clock::now() + seconds(5); !how && steady_clock::now() < until;) {
    how = children.how_ended(0);
    std::this_thread::sleep_for(milliseconds(1));
  }
  return how.value_or("it goes on");
}

TEST(ChildProcesses, AChildsLastWordsReachItsParentWithoutASocket) {
  EXPECT_EQ(end_of_child([]() -> int { throw std::bad_alloc(); }),
            "its process could not go on: it has too little memory");
  EXPECT_EQ(end_of_child([]() -> int { throw 7; }),
            "its process could not go on: an exception of unknown type");
  EXPECT_EQ(end_of_child([]() -> int { throw std::runtime_error("no room"); }),
            "its process could not go on: no room");
  EXPECT_THAT(
      end_of_child([]() -> int { throw std::system_error(EAGAIN, std::generic_category(), "a thread"); }),
      AllOf(StartsWith("its process could not go on: a thread: Resource temporarily unavailable"),
            HasSubstr("perhaps because no thread can be started: allow more threads (ulimit -u, pids.max)")));
  EXPECT_EQ(end_of_child([]() -> int { throw std::system_error(EMFILE, std::generic_category(), "a file"); }),
            "its process could not go on: a file: Too many open files");
  EXPECT_EQ(end_of_child([] { return 3; }), "its process ended with status 3");
}

}  // namespace
}  // namespace penstock
