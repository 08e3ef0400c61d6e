// Tests that the environment of a process does not change the answer of a command. It may set a German locale
// (1.234,5), a limit on the address space, and variables that describe the terminal. No number may be read or
// written as the locale defines it.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <locale>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/command_line.hpp"
#include "cli/executable.hpp"
#include "cli/terminal.hpp"
#include "report/print/palette.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class GermanNumbers : public std::numpunct<char> {
 protected:
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

class Locales : public testing::Test {
 protected:
  /// Runs the command in a child process that first calls `prepare`, and returns its standard output.
  std::string said(const std::vector<std::string>& command, const std::function<void()>& prepare) const {
    const fs::path file = folder_.path() / "said";
    const pid_t child = fork();
    if (child == 0) {
      prepare();
      if (freopen(file.c_str(), "w", stdout) == nullptr) _exit(99);
      std::vector<const char*> arguments = {"penstock"};
      for (const std::string& argument : command) arguments.push_back(argument.c_str());
      const int status =
          static_cast<int>(run_command_line(static_cast<int>(arguments.size()), arguments.data(), {}));
      static_cast<void>(std::fflush(stdout));
      _exit(status);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0) << command.front();
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  void expect_the_same(const std::function<void()>& prepare) const {
    const std::string library = source_path("scenarios/library");
    const std::vector<std::vector<std::string>> commands = {
        {"simulate", library + "/vgg16-cluster-a.yaml"},
        {"simulate", "--schedule", "zb-v", "--pp-size", "4", "--num-microbatches", "2000", "--json"},
        {"simulate", library + "/llama-70b-h100.yaml", "--json"},
        {"plan", library + "/gnmt-cluster-a.yaml", "--json"},
        {"sweep", "--schedule", "1f1b", "--pp-size", "1..4", "--num-microbatches", "1024,4096", "--json"},
        {"model", library + "/models/llama-3.1-8b.json"},
        {"check", "--baseline", library + "/baseline.json"}};
    for (const std::vector<std::string>& command : commands) {
      const std::string plain = said(command, [] {});
      EXPECT_FALSE(plain.empty());
      EXPECT_EQ(said(command, prepare), plain) << command.front();
    }
  }

  ScratchFolder folder_;
};

TEST_F(Locales, StreamsOfAGermanProgramChangeNothing) {
  expect_the_same([] { std::locale::global(std::locale(std::locale(), new GermanNumbers)); });
}

TEST_F(Locales, CsOwnFunctionsInAGermanProgramChangeNothing) {
  const std::string made = (folder_.path() / "de_DE.UTF-8").string();
  // localedef may print warnings. The test only checks below whether the locale can be used.
  static_cast<void>(std::system(("localedef -i de_DE -f UTF-8 " + made + " > /dev/null 2>&1").c_str()));
  ASSERT_EQ(setenv("LOCPATH", folder_.path().c_str(), 1), 0);
  const bool there = std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr;
  std::array<char, 8> half{};
  static_cast<void>(std::snprintf(half.data(), half.size(), "%.1f", 0.5));
  std::setlocale(LC_ALL, "C");
  if (!there) GTEST_SKIP() << "no German locale can be made here: the package `locales` has what it takes";
  EXPECT_STREQ(half.data(), "0,5");
  expect_the_same([] { std::setlocale(LC_ALL, "de_DE.UTF-8"); });
}

// The address-space limit of `penstock` must not apply to the executables that it starts.

rlim_t bound_now() {
  rlimit bound{};
  getrlimit(RLIMIT_AS, &bound);
  return bound.rlim_cur;
}

TEST(AddressSpace, WhatStartsBehindABoundProcessHasTheBoundFromBefore) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep their own bounds";
#endif
  // This needs a child process, because the limit would stay in this process.
  EXPECT_EXIT(
      {
        const rlim_t before = bound_now();
        bound_address_space();
        const rlim_t bounded = bound_now();
        restore_address_space();
        _exit(bounded < before && bound_now() == before ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(AddressSpace, WithoutABoundThereIsNothingToRestore) {
  const rlim_t before = bound_now();
  restore_address_space();
  EXPECT_EQ(bound_now(), before);
}

// The environment variables with which terminals and users describe a terminal.

TEST(Terminal, ShowsTheColoursThatItAnnounces) {
  EXPECT_EQ(colours_of({.term = "xterm-256color", .colorterm = "truecolor"}), TerminalColours::true_colour);
  EXPECT_EQ(colours_of({.term = "xterm", .colorterm = "24bit"}), TerminalColours::true_colour);
  EXPECT_EQ(colours_of({.term = "xterm-direct", .colorterm = ""}), TerminalColours::true_colour);
  EXPECT_EQ(colours_of({.term = "screen-256color", .colorterm = ""}), TerminalColours::indexed);
  EXPECT_EQ(colours_of({.term = "xterm", .colorterm = ""}), TerminalColours::basic);
  EXPECT_EQ(colours_of({.term = "linux", .colorterm = "yes"}), TerminalColours::basic);
}

TEST(Terminal, ADumbOneShowsNone) {
  EXPECT_EQ(colours_of({.term = "dumb", .colorterm = "truecolor"}), TerminalColours::none);
  EXPECT_EQ(colours_of({.term = "", .colorterm = ""}), TerminalColours::none);
}

}  // namespace
}  // namespace penstock
