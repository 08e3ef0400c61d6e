// Where an answer goes: what one of its places cannot take costs no other.

#include "cli/output.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "tests/scratch_folder.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using Text = tl::expected<std::string, std::string>;

std::string content_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

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
  EXPECT_EQ(content_of(small), "a,b\n");
  EXPECT_FALSE(std::filesystem::exists(huge));
}

TEST(Output, ADocumentThatMemoryCannotHoldCostsNoFile) {
  const ScratchFolder folder;
  OutputFlags flags;
  flags.files = {folder.path() / "small.csv"};
  flags.quiet = true;
  const std::vector<OutputForm> forms = {{".csv", []() -> Text { return "a,b\n"; }}};
  const auto written = write_answer(flags, forms, []() -> std::string { throw std::bad_alloc(); });
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("standard output: cannot be written: this machine has too"));
  EXPECT_EQ(content_of(flags.files.front()), "a,b\n");
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

}  // namespace
}  // namespace penstock
