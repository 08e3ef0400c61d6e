// Every file of tests/cli/transcripts is a test: its commands are run from the source directory and must
// print what it says. PENSTOCK_UPDATE_GOLDENS=1 writes the files anew instead.

#include "tests/cli/transcript.hpp"
#include "tests/source_path.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

namespace fs = std::filesystem;

const fs::path kDirectory = fs::path(source_path()) / "tests" / "cli" / "transcripts";

std::vector<fs::path> transcripts() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kDirectory)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

/// The file's name with what a test's name cannot hold as _.
std::string test_name(const testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.stem().string();
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class Transcript : public testing::TestWithParam<fs::path> {};

TEST_P(Transcript, SaysWhatTheCommandPrints) {
  const std::vector<TranscriptStep> expected = read_transcript(GetParam());
  ASSERT_FALSE(expected.empty()) << GetParam() << " holds no command";
  std::vector<TranscriptStep> actual = expected;
  for (TranscriptStep& step : actual) step.outcome = outcome_of(step.command, source_path());
  if (std::getenv("PENSTOCK_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(GetParam()) << to_text(actual);
    GTEST_SKIP() << "written anew: " << GetParam();
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(actual[i].outcome, expected[i].outcome) << "$ " << expected[i].command;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Transcript, testing::ValuesIn(transcripts()), test_name);

}  // namespace
}  // namespace penstock
