// Finds the shortest list of removals and additions that changes one list into another (Myers 1986, section
// 4). A position (x, y) means that x words of `before` and y words of `after` have been read. It is on the
// diagonal k = x - y. furthest[k] is the largest x on diagonal k that d edits can reach. For each d, the
// positions of d - 1 are extended by one edit and by all equal words after it:
//
//   before   F0 B0 F1        0 edits: F0 is in both           x = 1 on diagonal 0
//   after    F0    F1        1 edit:  without B0; F1 in both  x = 3 on diagonal 1, the end of both lists
//
// Tested by edit_script_test.cpp.

#include "schedules/text/edit_script.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace penstock {
namespace {

using Words = std::span<const std::string>;
using Furthest = std::vector<std::int32_t>;

std::int32_t length(Words words) { return static_cast<std::int32_t>(words.size()); }

/// Returns the index of a diagonal in a Furthest. Diagonals go from -most - 1 to most + 1.
std::size_t slot(std::int32_t diagonal, std::int32_t most) {
  return static_cast<std::size_t>(std::int64_t{diagonal} + most + 1);
}

/// Returns true if the last of `edits` edits on this diagonal adds a word, and false if it removes one. The
/// edit that reaches a larger x is chosen. If both are equal, it is the removal, because it increases x. An
/// outermost diagonal can be reached from one side only.
bool adds(const Furthest& furthest, std::int32_t diagonal, std::int32_t edits, std::int32_t most) {
  if (diagonal == -edits) return true;
  return diagonal != edits && furthest[slot(diagonal - 1, most)] < furthest[slot(diagonal + 1, most)];
}

/// Returns a list with the furthest positions before each edit, up to the edit that reaches the end of both
/// lists. Returns nothing if more than kMostEdits edits are necessary. backwards() finds the edits in the
/// result.
std::optional<std::vector<Furthest>> trace_of(Words before, Words after) {
  const std::int32_t most = std::min(length(before) + length(after), kMostEdits);
  // The vector has one additional diagonal at each end, which is read but never reached. All entries begin at
  // 0, so that the search starts at the beginning of both lists.
  Furthest furthest(static_cast<std::size_t>(2 * most + 3), 0);
  std::vector<Furthest> trace;
  for (std::int32_t edits = 0; edits <= most; ++edits) {
    trace.push_back(furthest);
    // Each edit changes the diagonal by one. The diagonals of the other parity still have the results of the
    // previous number of edits.
    for (std::int32_t diagonal = -edits; diagonal <= edits; diagonal += 2) {
      std::int32_t x = adds(furthest, diagonal, edits, most) ? furthest[slot(diagonal + 1, most)]
                                                             : furthest[slot(diagonal - 1, most)] + 1;
      while (x < length(before) && x - diagonal < length(after) &&
             before[static_cast<std::size_t>(x)] == after[static_cast<std::size_t>(x - diagonal)]) {
        ++x;
      }
      furthest[slot(diagonal, most)] = x;
      if (x >= length(before) && x - diagonal >= length(after)) return trace;
    }
  }
  return std::nullopt;
}

/// Returns the edits from the last to the first. The lists have no common beginning or end.
std::vector<Edit> backwards(const std::vector<Furthest>& trace, Words before, Words after) {
  const std::int32_t most = std::min(length(before) + length(after), kMostEdits);
  std::vector<Edit> script;
  std::int32_t x = length(before);
  std::int32_t y = length(after);
  for (auto edits = static_cast<std::int32_t>(trace.size()) - 1; edits >= 0; --edits) {
    const Furthest& furthest = trace[static_cast<std::size_t>(edits)];
    const std::int32_t diagonal = x - y;
    const bool added = adds(furthest, diagonal, edits, most);
    const std::int32_t from_diagonal = added ? diagonal + 1 : diagonal - 1;
    // Before the first edit, only words that both lists have at the beginning remain.
    const std::int32_t from_x = edits == 0 ? 0 : furthest[slot(from_diagonal, most)];
    const std::int32_t from_y = edits == 0 ? 0 : from_x - from_diagonal;
    for (; x > from_x && y > from_y; --x, --y) script.push_back(Edit::same);
    if (edits > 0) script.push_back(added ? Edit::added : Edit::removed);
    x = from_x;
    y = from_y;
  }
  return script;
}

}  // namespace

std::vector<Edit> edit_script(Words before, Words after) {
  const auto [first, second] = std::ranges::mismatch(before, after);
  const auto common = static_cast<std::size_t>(first - before.begin());
  std::vector<Edit> script(common, Edit::same);
  before = before.subspan(common);
  after = after.subspan(common);
  std::size_t tail = 0;
  while (tail < std::min(before.size(), after.size()) &&
         before[before.size() - 1 - tail] == after[after.size() - 1 - tail]) {
    ++tail;
  }
  before = before.first(before.size() - tail);
  after = after.first(after.size() - tail);
  if (const auto trace = trace_of(before, after)) {
    const std::vector<Edit> middle = backwards(*trace, before, after);
    script.insert(script.end(), middle.rbegin(), middle.rend());
  } else {
    // The lists differ too much for a search, so the script removes all words of one list and adds those of
    // the other.
    script.insert(script.end(), before.size(), Edit::removed);
    script.insert(script.end(), after.size(), Edit::added);
  }
  script.insert(script.end(), tail, Edit::same);
  return script;
}

}  // namespace penstock
