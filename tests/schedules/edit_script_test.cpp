// Scripts against a slow, obvious table of longest common subsequences.

#include "schedules/text/edit_script.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using Words = std::vector<std::string>;

std::size_t longest_common(const Words& a, const Words& b) {
  std::vector<std::vector<std::size_t>> best(a.size() + 1, std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      best[i][j] = a[i - 1] == b[j - 1] ? best[i - 1][j - 1] + 1 : std::max(best[i - 1][j], best[i][j - 1]);
    }
  }
  return best[a.size()][b.size()];
}

/// What the script makes of `before`, taking added words from `after`; its `same` words must agree.
Words applied(const std::vector<Edit>& script, const Words& before, const Words& after) {
  Words made;
  std::size_t x = 0;
  std::size_t y = 0;
  for (const Edit edit : script) {
    if (edit == Edit::same) {
      EXPECT_EQ(before.at(x), after.at(y));
    }
    if (edit != Edit::removed) made.push_back(after.at(y++));
    if (edit != Edit::added) ++x;
  }
  EXPECT_EQ(x, before.size());
  return made;
}

Words random_words(std::mt19937& random) {
  Words words(random() % 12);
  for (std::string& word : words) word = std::string(1, static_cast<char>('a' + random() % 4));
  return words;
}

TEST(EditScript, OfRandomListsIsRightAndShortest) {
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    const Words before = random_words(random);
    const Words after = random_words(random);
    const std::vector<Edit> script = edit_script(before, after);
    ASSERT_EQ(applied(script, before, after), after);
    EXPECT_EQ(std::ranges::count(script, Edit::same),
              static_cast<std::ptrdiff_t>(longest_common(before, after)));
  }
}

TEST(EditScript, OfListsThatDifferInTooMuchReplacesTheMiddle) {
  Words before{"first"};
  Words after{"first"};
  for (std::int32_t i = 0; i < kMostEdits; ++i) {
    before.push_back("b" + std::to_string(i));
    after.push_back("a" + std::to_string(i));
  }
  before.emplace_back("last");
  after.emplace_back("last");
  const std::vector<Edit> script = edit_script(before, after);
  EXPECT_EQ(applied(script, before, after), after);
  EXPECT_EQ(script.front(), Edit::same);
  EXPECT_EQ(script.back(), Edit::same);
  EXPECT_EQ(std::ranges::count(script, Edit::same), 2);
}

}  // namespace
}  // namespace penstock
