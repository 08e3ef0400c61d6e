// Tests the limits that the host sets to a run: the memory that a process can use, and the control groups
// that limit it. Also tests that files are removed when a signal ends the process.

#include <signal.h>  // NOLINT(modernize-deprecated-headers): raise() and signal()
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/host/left_names.hpp"
#include "scenarios/host/process_limits.hpp"
#include "schedules/ir/action.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

TEST(MemoryRoom, TheNearestBoundOfAControlGroupHolds) {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder.path() / "job" / "step");
  const auto groups = folder.write("groups", "0::/job/step\n");
  const auto left = [&] { return memory_of_control_groups({.list = groups, .mount = folder.path()}); };
  EXPECT_EQ(left(), std::nullopt);
  static_cast<void>(folder.write("job/step/memory.max", "max\n"));
  static_cast<void>(folder.write("job/step/memory.current", "200\n"));
  EXPECT_EQ(left(), std::nullopt);
  static_cast<void>(folder.write("job/memory.max", "1000\n"));
  static_cast<void>(folder.write("job/memory.current", "700\n"));
  EXPECT_EQ(left(), 300);
  // Files that a process has read count as used memory of its group.
  static_cast<void>(folder.write("job/memory.stat", "anon 250\ninactive_file 300\nactive_file 150\n"));
  EXPECT_EQ(left(), 750);
  static_cast<void>(folder.write("job/step/memory.max", "150\n"));
  EXPECT_EQ(left(), 0);
}

TEST(MemoryRoom, ControlGroupsOfTheFirstVersionHaveOtherNames) {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder.path() / "memory" / "job");
  const auto groups = folder.write("groups", "5:devices:/other\n4:memory:/job\n0::/\n");
  static_cast<void>(folder.write("memory/job/memory.limit_in_bytes", "1000\n"));
  static_cast<void>(folder.write("memory/job/memory.usage_in_bytes", "700\n"));
  static_cast<void>(folder.write("memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 400\n"));
  EXPECT_EQ(memory_of_control_groups({.list = groups, .mount = folder.path()}), 700);
}

TEST(MemoryRoom, AQuarterOfWhatItsControlGroupLeavesIsForOthers) {
  const ScratchFolder folder;
  const auto groups = folder.write("groups", "0::/\n");
  static_cast<void>(folder.write("memory.max", "1000\n"));
  static_cast<void>(folder.write("memory.current", "200\n"));
  EXPECT_EQ(memory_to_take({.list = groups, .mount = folder.path()}), 600);
}

TEST(MemoryRoom, TheMachineHasLessWithinReachThanItHas) {
  const auto available = available_memory();
  const auto within_reach = memory_within_reach();
  ASSERT_TRUE(available);
  ASSERT_TRUE(within_reach);
  EXPECT_GT(*within_reach, 0);
  EXPECT_LT(*within_reach, *available);
}

TEST(MemoryRoom, AThreadsStackIsAsLargeAsItIsAskedFor) {
  const Bytes usual = stack_of_a_thread();
  EXPECT_GE(usual, Bytes{1} << 14);
}

// Tests the control groups of a process: its own group and all groups above it, for all mounted versions.

using testing::ElementsAre;
using testing::IsEmpty;

/// Returns the groups as text, such as "second /groups/job", for a mount at /groups.
std::vector<std::string> groups_in(std::string_view list, std::string_view controller) {
  const ScratchFolder folder;
  const auto file = folder.write("groups", list);
  std::vector<std::string> words;
  for (const ControlGroup& group : control_groups(controller, {.list = file, .mount = "/groups"})) {
    const bool is_first = group.version == ControlGroupVersion::first;
    words.push_back((is_first ? "first " : "second ") + group.folder.lexically_normal().string());
  }
  return words;
}

TEST(ControlGroups, OfTheSecondVersionAllControllersHaveOne) {
  EXPECT_THAT(groups_in("0::/job/step\n", "memory"),
              ElementsAre("second /groups/job/step", "second /groups/job", "second /groups/"));
}

TEST(ControlGroups, OfTheFirstVersionEachControllerHasItsOwn) {
  const std::string_view both = "8:pids:/jobs\n4:memory:/\n1:name=systemd:/user\n0::/\n";
  EXPECT_THAT(groups_in(both, "pids"),
              ElementsAre("first /groups/pids/jobs", "first /groups/pids/", "second /groups/"));
  EXPECT_THAT(groups_in(both, "memory"), ElementsAre("first /groups/memory/", "second /groups/"));
}

TEST(ControlGroups, WhatIsNoListNamesNone) {
  EXPECT_THAT(groups_in("", "memory"), IsEmpty());
  EXPECT_THAT(groups_in("memory\n", "memory"), IsEmpty());
  EXPECT_THAT(control_groups("memory", {.list = "/nowhere", .mount = "/"}), IsEmpty());
}

TEST(ControlGroups, WhatBoundsNothingIsNoNumber) {
  const ScratchFolder folder;
  EXPECT_EQ(number_in(folder.write("bounded", "4096\n")), 4096);
  EXPECT_EQ(number_in(folder.write("unbounded", "max\n")), std::nullopt);
  EXPECT_EQ(number_in(folder.path() / "absent"), std::nullopt);
}

// Tests that a signal which ends a process removes exactly the files whose names the process has recorded.

/// Runs `work` in a child process. Returns the signal that ended the child, or 0 if it ended by itself.
int signal_that_ends(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    // The signals may be ignored in the test process (nohup, or a background job of a shell).
    for (const int ended_by : {SIGINT, SIGTERM, SIGHUP}) ::signal(ended_by, SIG_DFL);
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

class LeftNames : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.write(name, "half of it"); }
  bool is_left(const std::string& name) const { return std::filesystem::exists(folder_.path() / name); }

  ScratchFolder folder_;
};

TEST_F(LeftNames, ASignalThatEndsTheProcessRemovesThemAll) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string first = file("first");
    const std::string second = file("second");
    const std::string third = file("third");
    EXPECT_EQ(signal_that_ends([&] {
                const LeftName of_first(first);
                of_first.is_there();
                LeftName passing(second);
                passing.is_there();
                const LeftName of_second(std::move(passing));
                const LeftName of_third(third);
                raise(signal);
              }),
              signal);
    EXPECT_FALSE(is_left("first"));
    EXPECT_FALSE(is_left("second")) << "whoever has it now";
    EXPECT_TRUE(is_left("third")) << "this process has not said that it made it";
  }
}

TEST_F(LeftNames, WhatIsGoneOrNoLongerNotedIsLeftAlone) {
  const std::string renamed = file("renamed");
  const std::string kept = file("kept");
  EXPECT_EQ(signal_that_ends([&] {
              const LeftName of_renamed(renamed);
              of_renamed.is_there();
              of_renamed.is_gone();
              {
                const LeftName of_kept(kept);
                of_kept.is_there();
              }
              raise(SIGTERM);
            }),
            SIGTERM);
  EXPECT_TRUE(is_left("renamed"));
  EXPECT_TRUE(is_left("kept"));
}

TEST_F(LeftNames, ASignalThatIsIgnoredStaysIgnored) {
  const std::string name = file("output");
  EXPECT_EQ(signal_that_ends([&] {
              signal(SIGHUP, SIG_IGN);
              const LeftName noted(name);
              noted.is_there();
              raise(SIGHUP);
            }),
            0);
  EXPECT_TRUE(is_left("output"));
}

TEST_F(LeftNames, MoreThanThereIsPlaceForAreNotNoted) {
  const std::string name = file("output");
  EXPECT_EQ(signal_that_ends([&] {
              const LeftName too_long(std::string(5000, 'a'));
              too_long.is_there();
              const LeftName one(name);
              const LeftName two(name);
              const LeftName three(name);
              const LeftName four(name);
              const LeftName five(name);
              five.is_there();
              raise(SIGINT);
            }),
            SIGINT);
  EXPECT_TRUE(is_left("output"));
}

TEST_F(LeftNames, AfterTheLastOneASignalIsAsItWas) {
  struct sigaction now{};
  {
    const LeftName noted("output");
    sigaction(SIGTERM, nullptr, &now);
    EXPECT_NE(now.sa_handler, SIG_DFL);
  }
  sigaction(SIGTERM, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace penstock
