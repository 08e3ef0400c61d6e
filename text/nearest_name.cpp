// Finds the known name with the smallest edit distance to a mistyped name. The distance is the number of
// letters that must be replaced, added, removed, or swapped with a neighbour (optimal string alignment):
//
//   d(i, j) = least of  d(i-1, j-1) + (a_i != b_j),  d(i-1, j) + 1,  d(i, j-1) + 1,
//                       d(i-2, j-2) + 1  where a_i = b_j-1 and a_i-1 = b_j
//
// Only three lines of the table are in memory, because a cell depends only on the two lines before its own.
// Tested by errors_test.cpp.

#include "text/enum_words.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace penstock {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::string lower(std::string_view text) {
  std::string letters(text);
  std::ranges::transform(letters, letters.begin(), [](char c) { return lower(c); });
  return letters;
}

/// Returns the edit distance of `a` and `b`. The time is O(letters of a * letters of b).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_back;
  std::vector<std::size_t> back;
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_back = std::exchange(back, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = back[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, back[j] + 1, row[j - 1] + 1});
      const bool swaps = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swaps) row[j] = std::min(row[j], two_back[j - 2] + 1);
    }
  }
  return row.back();
}

/// Returns how many letters a mistyped name may have wrong: a third of the letters of `name`. If half of
/// the letters could differ, sequence-parallel would be suggested for expert-parallel.
std::size_t most_differences(std::string_view name) { return name.size() / 3; }

/// Returns true if `typed` is one or more whole words at the beginning or the end of `name`, such as
/// "bandwidth" in "intra_bandwidth".
bool is_part_of(std::string_view typed, std::string_view name) {
  // A text with fewer letters would match too many names.
  constexpr std::size_t kLeast = 3;
  if (typed.size() < kLeast || typed.size() >= name.size()) return false;
  const auto is_between_words = [](char c) { return c == '-' || c == '_'; };
  const bool begins =
      lower(name.substr(0, typed.size())) == lower(typed) && is_between_words(name[typed.size()]);
  const std::size_t rest = name.size() - typed.size();
  const bool ends = lower(name.substr(rest)) == lower(typed) && is_between_words(name[rest - 1]);
  return begins || ends;
}

}  // namespace

std::optional<std::string_view> likely_name(std::string_view typed, std::span<const std::string_view> known) {
  const auto surplus = [&](std::string_view name) {
    return std::max(typed.size(), name.size()) - std::min(typed.size(), name.size());
  };
  std::optional<std::string_view> likely;
  std::size_t least = 0;
  for (const std::string_view name : known) {
    // If the lengths alone differ too much, the distance is not computed. `typed` may be as long as a whole
    // file, and the computation would take too long.
    if (surplus(name) > most_differences(name)) continue;
    const std::size_t distance = edit_distance(lower(typed), lower(name));
    if (distance > most_differences(name) || (likely && distance >= least)) continue;
    likely = name;
    least = distance;
  }
  if (likely) return likely;
  const auto whole =
      std::ranges::find_if(known, [&](std::string_view name) { return is_part_of(typed, name); });
  return whole == known.end() ? std::nullopt : std::optional(*whole);
}

std::string did_you_mean(std::string_view typed, std::span<const std::string_view> known) {
  const auto name = likely_name(typed, known);
  return name ? fmt::format("; did you mean {}?", *name) : "";
}

std::string plain_name(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c != '-' && c != '_') letters.push_back(lower(c));
  }
  return letters;
}

}  // namespace penstock
