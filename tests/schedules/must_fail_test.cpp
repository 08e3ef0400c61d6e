// Every file of must_fail/ is a small bad program; NAME.expected beside it is the whole message.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "schedules/check/validate.hpp"
#include "schedules/text/program_text.hpp"
#include "schedules/text/pytorch_csv.hpp"
#include "tests/schedules/text_files.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> bad_programs() {
  const fs::path folder = source_path("tests/schedules/must_fail");
  std::vector<fs::path> files = test::files_in(folder, ".psched");
  const std::vector<fs::path> csv = test::files_in(folder, ".csv");
  files.insert(files.end(), csv.begin(), csv.end());
  return files;
}

std::string error_of(const fs::path& file) {
  const std::string text = test::text_of(file);
  const std::string name = file.filename().string();
  const auto program = file.extension() == ".csv" ? parse_pytorch_csv(text, name) : parse_program(text, name);
  if (!program) return program.error();
  const auto valid = validate(*program);
  return valid ? "no error" : valid.error();
}

class MustFail : public testing::TestWithParam<fs::path> {};

TEST_P(MustFail, WithThisMessage) {
  fs::path expected = GetParam();
  expected.replace_extension(".expected");
  EXPECT_EQ(error_of(GetParam()) + "\n", test::text_of(expected));
}

std::string test_name(const testing::TestParamInfo<fs::path>& info) { return info.param.stem().string(); }

INSTANTIATE_TEST_SUITE_P(Program, MustFail, testing::ValuesIn(bad_programs()), test_name);

TEST(MustFailFolder, HoldsAProgramForEachMessage) {
  const fs::path folder = source_path("tests/schedules/must_fail");
  EXPECT_GE(bad_programs().size(), 70U);
  EXPECT_EQ(test::files_in(folder, ".expected").size(), bad_programs().size());
}

}  // namespace
}  // namespace penstock
