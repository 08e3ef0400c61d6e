// Names of scenarios are somebody else's: they end no line of a text and no cell of a table in Markdown.

#include "cli/commands/baseline_output.hpp"

#include <algorithm>
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

}  // namespace
}  // namespace penstock
