// Files whose names are noted are gone when a signal has ended the process that made them, and no others.

#include "scenarios/host/left_names.hpp"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): raise() and signal()
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/scratch_folder.hpp"

namespace penstock {
namespace {

/// The signal that ended a process which ran this; 0: it ended by itself.
int signal_that_ends(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    // Whoever runs the tests may have them ignored (nohup, a shell's background).
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
