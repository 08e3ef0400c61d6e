// Where an answer goes: what one of its places cannot take costs no other.

#include "cli/output.hpp"

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
#include "cli/output_file.hpp"
#include "report/print/text_sink.hpp"
#include "tests/schedules/text_files.hpp"
#include "tests/scratch_folder.hpp"

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
  EXPECT_EQ(written.error().code, ExitCode::bad_input);
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
  const std::filesystem::path link = folder.path() / "link.json";
  std::filesystem::create_symlink("new.json", link);
  std::filesystem::create_symlink(".", folder.path() / "here");
  for (const std::filesystem::path& name : {file, link, folder.path() / "here" / "new.json"})
    EXPECT_TRUE(is_same_file(name, file)) << name;
  EXPECT_TRUE(is_same_file("new.json", "./new.json"));
  EXPECT_FALSE(is_same_file(file, folder.path() / "newer.json"));
}

TEST(Output, TwoNamesOfOneFileAreRefusedAndTwoOfADeviceAreNot) {
  const ScratchFolder folder;
  const std::string file = folder.path() / "a.json";
  const std::string link = folder.path() / "l.html";
  std::filesystem::create_symlink("a.json", link);
  const auto refused = check_output_files({file, link}, {".json", ".html"}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::bad_input);
  EXPECT_EQ(refused.error().message, "-o " + link + ": is the same file as -o " + file +
                                         ", which it would replace: name another file");
  const std::string null = folder.path() / "null.json";
  std::filesystem::create_symlink("/dev/null", null);
  EXPECT_TRUE(check_output_files({null, null}, {".json"}, {{"the input", "/dev/null"}}));
}

// It would be opened a second time and cut off, and what is printed would stand in the midst of it.
TEST(Output, AFileIntoWhichStandardOutputGoesIsRefused) {
  const ScratchFolder folder;
  const std::string link = folder.path() / "so.json";
  std::filesystem::create_symlink("/dev/stdout", link);
  testing::internal::CaptureStdout();  // into a file
  const auto refused = check_output_files({link}, {".json"}, {});
  static_cast<void>(testing::internal::GetCapturedStdout());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::bad_input);
  EXPECT_THAT(refused.error().message, HasSubstr("so.json: is the same file as standard output"));
}

/// Names in the folder, sorted.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

/// What lies in a folder while a process is in the midst of writing long.json there, and after a signal.
struct Left {
  std::vector<std::string> before;
  std::vector<std::string> after;
};

/// Of a process that the signal ends.
Left left_by_a_writer_that(int signal, const std::filesystem::path& folder, NewFile kind) {
  std::array<int, 2> writing{};
  EXPECT_EQ(::pipe(writing.data()), 0);
  const pid_t writer = fork();
  EXPECT_GE(writer, 0);
  if (writer == 0) {
    // Endless; should nobody end it, it is over when the disk is full or in a minute.
    alarm(60);
    const TextInPieces text = [&](const TextSink& sink) {
      while (sink("line\n") && ::write(writing[1], "w", 1) == 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    static_cast<void>(problem_of_writing(folder / "long.json", text, kind));
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
    const Left nameless = left_by_a_writer_that(signal, folder.path(), NewFile::nameless_where_known);
    EXPECT_THAT(nameless.after, testing::IsEmpty());
    const Left named = left_by_a_writer_that(signal, folder.path(), NewFile::named);
    EXPECT_THAT(named.before, testing::ElementsAre(testing::MatchesRegex("long[.]json[.][0-9]+[.]tmp")));
    EXPECT_THAT(named.after, testing::IsEmpty());
  }
}

TEST(Output, NorDoesAKillWhereFilesNeedNoName) {
  const ScratchFolder folder;
  if (!folder.has_nameless_files()) GTEST_SKIP() << "this file system has no files without names";
  const Left left = left_by_a_writer_that(SIGKILL, folder.path(), NewFile::nameless_where_known);
  EXPECT_THAT(left.before, testing::IsEmpty());
  EXPECT_THAT(left.after, testing::IsEmpty());
}

// Where files need a name all else is as where they need none.
TEST(Output, AFileWithANameBesideItAppearsWholeOrNotAtAll) {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "a.json";
  const auto written = [&](const TextInPieces& text) {
    return problem_of_writing(file, text, NewFile::named);
  };
  const TextInPieces fails = [](const TextSink& sink) {
    EXPECT_TRUE(sink("half\n"));
    throw std::bad_alloc();
  };
  EXPECT_EQ(unwritable(file, NewFile::named), "");
  EXPECT_THROW(static_cast<void>(written(fails)), std::bad_alloc);
  EXPECT_THAT(names_in(folder.path()), testing::IsEmpty());
  for (const char* const text : {"1\n", "2\n"}) {
    EXPECT_EQ(written([text](const TextSink& sink) { sink(text); }), "");
    EXPECT_EQ(test::text_of(file), text);
    EXPECT_THROW(static_cast<void>(written(fails)), std::bad_alloc);
    EXPECT_EQ(test::text_of(file), text);
    EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("a.json"));
  }
}

// In a container the run that comes after one that was killed often has its number.
TEST(Output, WhatAKilledRunHasLeftIsNotInTheWay) {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "a.json";
  const std::filesystem::path left = folder.write("a.json." + std::to_string(getpid()) + ".tmp", "half");
  for (const NewFile kind : {NewFile::nameless_where_known, NewFile::named}) {
    EXPECT_EQ(unwritable(file, kind), "");
    EXPECT_EQ(problem_of_writing(file, [](const TextSink& sink) { sink("1\n"); }, kind), "");
    EXPECT_EQ(test::text_of(file), "1\n");
    EXPECT_EQ(test::text_of(left), "half");
    std::filesystem::remove(file);
  }
}

TEST(Output, ASecondNameOfAFileShowsTheNewContentToo) {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "a.json";
  const std::filesystem::path second = folder.path() / "b.json";
  ASSERT_TRUE(write_file(file, "a text that is longer than what replaces it\n"));
  std::filesystem::create_hard_link(file, second);
  ASSERT_TRUE(write_file(file, [](const TextSink& sink) { EXPECT_TRUE(sink("1\n") && sink("2\n")); }));
  EXPECT_EQ(test::text_of(file), "1\n2\n");
  EXPECT_EQ(test::text_of(second), "1\n2\n");
}

TEST(Output, AFileOfAnotherUserStaysThatUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may write files of others";
  const ScratchFolder folder;
  const std::filesystem::path file = folder.write("a.json", "before");
  constexpr uid_t kUser = 65'534;
  constexpr gid_t kGroup = 65'533;
  ASSERT_EQ(::chown(file.c_str(), kUser, kGroup), 0);
  ASSERT_TRUE(write_file(file, "1\n"));
  struct stat status{};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, kUser);
  EXPECT_EQ(status.st_gid, kGroup);
  EXPECT_EQ(test::text_of(file), "1\n");
}

TEST(Output, ALinkToAFileThatIsNotThereYetStaysALink) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder.path() / "results");
  const std::filesystem::path file = folder.path() / "results" / "new.json";
  const std::filesystem::path second = folder.path() / "results" / "second.json";
  const std::filesystem::path first = folder.path() / "first.json";
  std::filesystem::create_symlink("new.json", second);
  std::filesystem::create_symlink("results/second.json", first);
  ASSERT_TRUE(write_file(first, "1\n"));
  EXPECT_TRUE(std::filesystem::is_symlink(first));
  EXPECT_TRUE(std::filesystem::is_symlink(second));
  EXPECT_EQ(test::text_of(file), "1\n");
}

TEST(Output, LinksInACircleStayAndAreAnError) {
  const ScratchFolder folder;
  const std::filesystem::path one = folder.path() / "one.json";
  const std::filesystem::path other = folder.path() / "other.json";
  std::filesystem::create_symlink("one.json", other);
  std::filesystem::create_symlink("other.json", one);
  const auto written = write_file(one, "1\n");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("Too many levels of symbolic links"));
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
  // The first piece is refused, so that no second one is made.
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

// Two signs and a bracket are obeyed anywhere in a line, and blanks of other alphabets are taken off, too.
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

// A name that is all of a file's text would else stand in a log that everybody reads.
TEST(Output, AWordWithoutEndIsCut) {
  testing::internal::CaptureStderr();
  write_stderr("no schedule " + std::string(200'000, 'x') + " is known");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "no schedule " + std::string(128, 'x') + "... (199872 more bytes) is known\n");
}

}  // namespace
}  // namespace penstock
