// Tests where an answer is written. If one output fails, the others must still be written.

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/terminal.hpp"
#include "report/print/table.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using Text = tl::expected<std::string, std::string>;

TEST(Output, AFormThatMemoryCannotHoldCostsNeitherTheOthersNorThePrintedOne) {
  const ScratchFolder folder;
  const std::string huge = folder.path() / "huge.json";
  const std::string small = folder.path() / "small.csv";
  OutputFlags flags;
  flags.files = {huge, small};
  flags.quiet = true;
  const std::vector<OutputForm> forms = {{".json", []() -> Text { throw std::bad_alloc(); }},
                                         {".csv", []() -> Text { return "a,b\n"; }}};
  testing::internal::CaptureStdout();
  const auto written = write_answer(flags, forms, "the table\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "the table\n");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(written.error().message, HasSubstr("huge.json: this machine has too little memory"));
  EXPECT_EQ(test::text_of(small), "a,b\n");
  EXPECT_FALSE(std::filesystem::exists(huge));
}

TEST(Output, ADocumentThatMemoryCannotHoldCostsNoFile) {
  const ScratchFolder folder;
  OutputFlags flags;
  flags.files = {folder.path() / "small.csv"};
  flags.quiet = true;
  const std::vector<OutputForm> forms = {{".csv", []() -> Text { return "a,b\n"; }}};
  const auto written = write_answer(flags, forms, [](const TextSink&) { throw std::bad_alloc(); });
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("standard output: cannot be written: this machine has too"));
  EXPECT_EQ(test::text_of(flags.files.front()), "a,b\n");
}

TEST(Output, AFileThatIsWrittenInPiecesAppearsWholeOrNotAtAll) {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "long.json";
  const auto files = [&] { return std::distance(std::filesystem::directory_iterator(folder.path()), {}); };
  const TextInPieces fails = [&](const TextSink& sink) {
    EXPECT_TRUE(sink("half\n"));
    EXPECT_FALSE(std::filesystem::exists(file) && test::text_of(file) != "before\n")
        << "it shows when it is done";
    throw std::bad_alloc();
  };
  EXPECT_THROW(static_cast<void>(write_file(file, fails)), std::bad_alloc);
  EXPECT_EQ(files(), 0);
  ASSERT_TRUE(write_file(file, "before\n"));
  EXPECT_THROW(static_cast<void>(write_file(file, fails)), std::bad_alloc);
  EXPECT_EQ(test::text_of(file), "before\n");
  const TextInPieces ends = [](const TextSink& sink) { EXPECT_TRUE(sink("a\n") && sink("b\n")); };
  ASSERT_TRUE(write_file(file, ends));
  EXPECT_EQ(test::text_of(file), "a\nb\n");
  EXPECT_EQ(files(), 1);
}

TEST(Output, AFileThatNobodyCanMakeIsRefusedBeforeTheWork) {
  const ScratchFolder folder;
  const auto refused = check_output_files({folder.path() / (std::string(250, 'a') + ".json")}, {".json"}, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("cannot be written: File name too long in "));
  EXPECT_FALSE(check_output_files({"/proc/result.json"}, {".json"}, {})) << "whatever its rights say";
  EXPECT_TRUE(check_output_files({folder.path() / "result.json"}, {".json"}, {}));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "a look leaves nothing";
}

TEST(Output, AFileIsTheSameByAllItsNames) {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.write("a.json", "kept\n");
  const std::filesystem::path link = folder.path() / "link.json";
  const std::filesystem::path second = folder.path() / "second.json";
  std::filesystem::create_symlink("a.json", link);
  std::filesystem::create_hard_link(file, second);
  for (const std::filesystem::path& name : {file, link, second, folder.path() / "." / "a.json"})
    EXPECT_TRUE(is_same_file(name, file)) << name;
  EXPECT_TRUE(is_same_file(std::filesystem::relative(file), file));
  EXPECT_FALSE(is_same_file(file, folder.write("b.json", "kept\n"))) << "its text is no name";
  EXPECT_FALSE(is_same_file(file, folder.path() / "new.json"));
}

TEST(Output, NamesOfAFileThatIsNotThereYetAreCompared) {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "new.json";
  std::filesystem::create_symlink(".", folder.path() / "here");
  for (const std::filesystem::path& name : {file, folder.path() / "here" / "new.json"})
    EXPECT_TRUE(is_same_file(name, file)) << name;
  EXPECT_TRUE(is_same_file("new.json", "./new.json"));
  EXPECT_FALSE(is_same_file(file, folder.path() / "newer.json"));
}

TEST(Output, TwoNamesOfOneFileAreRefusedAndTwoOfADeviceAreNot) {
  const ScratchFolder folder;
  const std::string file = folder.path() / "a.json";
  const std::string link = folder.path() / "l.html";
  folder.write("a.json", "before\n");
  std::filesystem::create_symlink("a.json", link);
  const auto refused = check_output_files({file, link}, {".json", ".html"}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(refused.error().message, "-o " + link + ": is the same file as -o " + file +
                                         ", which it would replace: name another file");
  const std::string null = folder.path() / "null.json";
  std::filesystem::create_symlink("/dev/null", null);
  EXPECT_TRUE(check_output_files({null, null}, {".json"}, {{"the input", "/dev/null"}}));
}

// The file would be opened a second time and truncated. The printed text would then be in the middle of it.
TEST(Output, AFileIntoWhichStandardOutputGoesIsRefused) {
  const ScratchFolder folder;
  const std::string link = folder.path() / "so.json";
  std::filesystem::create_symlink("/dev/stdout", link);
  testing::internal::CaptureStdout();  // now goes to a file
  const auto refused = check_output_files({link}, {".json"}, {});
  static_cast<void>(testing::internal::GetCapturedStdout());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(refused.error().message, HasSubstr("so.json: is the same file as standard output"));
}

/// Returns the sorted names of the files in the folder.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

/// The files in a folder while a process writes long.json there, and after a signal has ended the process.
struct Left {
  std::vector<std::string> before;
  std::vector<std::string> after;
};

/// Returns the files that a writer leaves when the signal ends it.
Left left_by_a_writer_that(int signal, const std::filesystem::path& folder) {
  std::array<int, 2> writing{};
  EXPECT_EQ(::pipe(writing.data()), 0);
  const pid_t writer = fork();
  EXPECT_GE(writer, 0);
  if (writer == 0) {
    // The text is endless. If no signal arrives, the alarm ends the writer after a minute.
    alarm(60);
    const TextInPieces text = [&](const TextSink& sink) {
      while (sink("line\n") && ::write(writing[1], "w", 1) == 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    static_cast<void>(problem_of_writing(folder / "long.json", text));
    _exit(0);
  }
  close(writing[1]);
  char byte = 0;
  EXPECT_EQ(::read(writing[0], &byte, 1), 1);
  Left left{.before = names_in(folder), .after = {}};
  kill(writer, signal);
  int status = 0;
  EXPECT_EQ(waitpid(writer, &status, 0), writer);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
  close(writing[0]);
  left.after = names_in(folder);
  return left;
}

TEST(Output, ASignalInTheMidstOfALongTextLeavesNoTemporaryName) {
  const ScratchFolder folder;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const Left left = left_by_a_writer_that(signal, folder.path());
    EXPECT_THAT(left.before, testing::ElementsAre(testing::MatchesRegex("long[.]json[.][0-9]+[.]tmp")));
    EXPECT_THAT(left.after, testing::IsEmpty());
  }
}

// In a container, a new run often has the process number of an earlier run that was killed.
TEST(Output, WhatAKilledRunHasLeftIsNotInTheWay) {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "a.json";
  folder.write("a.json." + std::to_string(getpid()) + ".tmp", "half");
  EXPECT_EQ(problem_of_writing(file, [](const TextSink& sink) { sink("1\n"); }), "");
  EXPECT_EQ(test::text_of(file), "1\n");
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("a.json"));
}

TEST(Output, ALinkAndTheModeOfItsFileStay) {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.write("a.json", "before\n");
  const std::filesystem::path link = folder.path() / "link.json";
  std::filesystem::create_symlink("a.json", link);
  constexpr auto kPrivate = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  std::filesystem::permissions(file, kPrivate);
  ASSERT_TRUE(write_file(link, "1\n"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(test::text_of(file), "1\n");
  EXPECT_EQ(std::filesystem::status(file).permissions(), kPrivate);
}

TEST(Output, ALinkToAFileThatIsNotThereIsRefusedAndStays) {
  const ScratchFolder folder;
  const std::filesystem::path link = folder.path() / "link.json";
  std::filesystem::create_symlink("new.json", link);
  const auto refused = check_output_files({link}, {".json"}, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("it is a link to a file that is not there; name that file"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
}

TEST(Output, LinksInACircleStayAndAreAnError) {
  const ScratchFolder folder;
  const std::filesystem::path one = folder.path() / "one.json";
  const std::filesystem::path other = folder.path() / "other.json";
  std::filesystem::create_symlink("one.json", other);
  std::filesystem::create_symlink("other.json", one);
  const auto written = write_file(one, "1\n");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("it is a link to a file that is not there"));
  EXPECT_TRUE(std::filesystem::is_symlink(one));
}

TEST(Output, APlaceThatIsFullEndsTheMakingOfTheText) {
  std::size_t pieces = 0;
  const TextInPieces endless = [&](const TextSink& sink) {
    while (sink("line\n") && pieces < 1'000) ++pieces;
  };
  const auto written = write_file("/dev/full", endless);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("/dev/full: cannot be written: No space left"));
  // The first piece cannot be written, so no second piece is made.
  EXPECT_EQ(pieces, 0);
}

TEST(Output, ANameIsNoCommandToWhoReadsTheLogOfAJob) {
  testing::internal::CaptureStdout();
  EXPECT_TRUE(write_stdout("::error::a\n  ::stop-commands::b\na::b\n::\n::::\n"));
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "\\x3a:error::a\n  \\x3a:stop-commands::b\na::b\n\\x3a:\n\\x3a:::\n");
  testing::internal::CaptureStderr();
  write_stderr("x\n::error::a");
  write_command("::error::b");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "x\n\\x3a:error::a\n::error::b\n");
}

// Two hash signs and a bracket are a command anywhere in a line. Blanks of other alphabets before a command
// are ignored as well.
TEST(Output, ANameIsNoCommandInTheMidstOfALineNorBehindAnyBlank) {
  testing::internal::CaptureStdout();
  EXPECT_TRUE(write_stdout("FAILED a##[error]b\n\"##vso[task]\"\n"));
  EXPECT_TRUE(write_stdout("\u00a0 ::error::a\n### a ## b\n"));
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "FAILED a\\u0023#[error]b\n\"\\u0023#vso[task]\"\n\u00a0 \\x3a:error::a\n### a ## b\n");
  testing::internal::CaptureStderr();
  write_stderr("no a##[add-mask]b");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "no a\\u0023#[add-mask]b\n");
}

// Such a word may be the whole text of a file. The text must not get into a log that everybody can read.
TEST(Output, AWordWithoutEndIsCut) {
  testing::internal::CaptureStderr();
  write_stderr("no schedule " + std::string(200'000, 'x') + " is known");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "no schedule " + std::string(128, 'x') + "... (199872 more bytes) is known\n");
}

// A progress bar must leave nothing on the terminal, even on a narrow one.

using testing::HasSubstr;

/// Returns everything that a bar writes during its lifetime.
std::string written(ProgressDisplay display) {
  testing::internal::CaptureStderr();
  {
    ProgressBar bar(display);
    bar.show(3, 6);
    bar.show(6, 6);
  }
  return testing::internal::GetCapturedStderr();
}

TEST(ProgressBar, IsWipedByAsManyBlanksAsItHasCharacters) {
  const std::string text = written(ProgressDisplay::on);
  EXPECT_THAT(text, HasSubstr("\r[###############...............] 3 of 6"));
  ASSERT_TRUE(text.ends_with(" \r")) << text;
  const std::size_t wiped = text.size() - 1 - (text.rfind('\r', text.size() - 2) + 1);
  const std::size_t last = text.rfind("\r[");
  EXPECT_EQ(wiped, text.find('\r', last + 1) - last - 1);
  EXPECT_LT(wiped, 80U) << "a line of a usual terminal";
}

// A step of unknown length is drawn at once, and its line is wiped like a bar.
TEST(ProgressBar, DrawsAStepAndTheSecondsSinceItsStart) {
  testing::internal::CaptureStderr();
  {
    ProgressBar bar(ProgressDisplay::on);
    bar.say("searching plans");
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    bar.say("simulating");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("\rsearching plans, 0 s\rsearching plans, 1 s"));
  EXPECT_THAT(text, HasSubstr("\rsimulating, 1 s"));
  EXPECT_TRUE(text.ends_with("\r" + std::string(std::string("searching plans, 0 s").size(), ' ') + "\r"));
}

TEST(ProgressBar, WritesNothingOfAStepThatEndsWithinItsDelay) {
  const auto text_of = [](std::chrono::milliseconds delay) {
    testing::internal::CaptureStderr();
    {
      ProgressBar bar(ProgressDisplay::on);
      bar.say("predicting", delay);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(text_of(std::chrono::hours(1)), "");
  EXPECT_THAT(text_of(std::chrono::milliseconds(20)), HasSubstr("\rpredicting, 0 s"));
}

TEST(ProgressBar, WritesNothingWhereItIsOff) { EXPECT_EQ(written(ProgressDisplay::off), ""); }

}  // namespace
}  // namespace penstock
