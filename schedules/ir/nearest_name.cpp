// Levenshtein's edit distance by rows: d(i, j) is the least of d(i-1, j-1) + (a_i != b_j), d(i-1, j) + 1 and
// d(i, j-1) + 1, and one row is enough, since the old value of a cell is the diagonal of the next. Letters'
// case does not count. The first of several nearest names is taken.

#include "schedules/ir/nearest_name.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

/// O(letters of a x letters of b): who takes `a` from a file cuts it first.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_name(std::string_view typed, std::span<const std::string_view> known) {
  return *std::ranges::min_element(known, {},
                                   [&](std::string_view name) { return edit_distance(typed, name); });
}

std::optional<std::string_view> likely_name(std::string_view typed, std::span<const std::string_view> known) {
  const std::string_view name = nearest_name(typed, known);
  // With more than a third of its letters different a name is no guess worth making: half of them would make
  // expert-parallel of sequence-parallel.
  if (3 * edit_distance(typed, name) > name.size()) return std::nullopt;
  return name;
}

std::string plain_name(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c != '-' && c != '_') letters.push_back(lower(c));
  }
  return letters;
}

}  // namespace penstock
