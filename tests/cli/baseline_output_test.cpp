// Names of scenarios are somebody else's: they end no line of a text and no cell of a table in Markdown.

#include "cli/commands/baseline_output.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/baseline/baseline.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::Not;

// A line break, what Markdown, HTML and a table's cell are made of, and an escape that hides what follows it.
constexpr std::string_view kName = "a\nok       b.yaml | \\| <script> ![x](y) `z`\x1b[8m";

/// One scenario that is worse in one figure and says why, and one that cannot be read: each is a row of the
/// table.
std::vector<BaselineVerdict> verdicts_of(std::string_view name) {
  const std::string text(name);
  BaselineVerdict worse{.scenario = text, .findings = {{"digest", text, text, true}}, .error = {}};
  worse.reasons = {text};
  const BaselineVerdict gone{.scenario = text, .findings = {}, .error = text};
  return {worse, gone};
}

auto lines(const std::string& text) { return std::ranges::count(text, '\n'); }

TEST(BaselineOutput, ANameEndsNoLineOfAText) {
  // What is wrong with a file may take several lines.
  EXPECT_EQ(lines(verdicts_text(verdicts_of(kName))), lines(verdicts_text(verdicts_of("a"))) + 1);
  EXPECT_EQ(lines(accepted_text(verdicts_of(kName))), lines(accepted_text(verdicts_of("a"))));
}

TEST(BaselineOutput, ANameIsNoMarkdown) {
  const std::string text = verdicts_markdown(verdicts_of(kName));
  EXPECT_EQ(lines(text), lines(verdicts_markdown(verdicts_of("a"))));
  const std::string table = text.substr(0, text.find("<details>"));
  for (const char* mark : {"<script", "](", "`", "\x1b"}) EXPECT_THAT(table, Not(HasSubstr(mark)));
  // Six a line: two lines of head, and a row of each scenario.
  EXPECT_EQ(std::ranges::count(table, '|'), 4 * 6) << table;
}

/// Of GitHub's runner, for as long as it lives.
class GithubJob {
 public:
  GithubJob() { setenv("GITHUB_ACTIONS", "true", 1); }
  GithubJob(const GithubJob&) = delete;
  GithubJob& operator=(const GithubJob&) = delete;
  ~GithubJob() { unsetenv("GITHUB_ACTIONS"); }
};

// Wherever it stands: in what a scenario, a baseline and a finding are called, and in an error of several
// lines.
TEST(BaselineOutput, ANameIsNoSecondAnnotation) {
  const GithubJob job;
  const std::string_view hostile = "x\n::error::y\r\n::stop-commands::z\033[2J##[error]%0A::error file=a,b::";
  for (const BaselineVerdict& verdict : verdicts_of(hostile)) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(tell_github({verdict}, std::string(hostile)));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(lines(said), 1) << said;
    EXPECT_TRUE(said.starts_with("::error file=x%0A%3A%3Aerror%3A%3Ay%0D%0A") && said.ends_with('\n'))
        << said;
    EXPECT_THAT(said, HasSubstr("%250A%3A%3Aerror file=a%2Cb%3A%3A,title=penstock check%3A x%0A"));
    // What ends the properties is the first "::" behind the command's own.
    const std::string_view properties = std::string_view(said).substr(0, said.find("::", 2));
    EXPECT_TRUE(properties.ends_with("file=a%2Cb%3A%3A")) << properties;
    for (const char* mark : {"\033", "\r"}) EXPECT_THAT(said, Not(HasSubstr(mark)));
  }
}

}  // namespace
}  // namespace penstock
