// Compares two programs rank by rank. The lists are compared as texts of actions, because the user sees these
// texts. An action that has moved is shown as one removed and one added action. The first part finds a
// shortest edit script (removals and additions) for any two lists of words. Tests:
// tests/schedules/program_text_test.cpp.

#include "schedules/text/program_text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

// Finds the shortest list of removals and additions that changes one list into another (Myers 1986, section
// 4). A position (x, y) means that x words of `before` and y words of `after` have been read. It is on the
// diagonal k = x - y. furthest[k] is the largest x on diagonal k that d edits can reach. For each d, the
// positions of d - 1 are extended by one edit and by all equal words after it:
//
//   before   F0 B0 F1        0 edits: F0 is in both           x = 1 on diagonal 0
//   after    F0    F1        1 edit:  without B0; F1 in both  x = 3 on diagonal 1, the end of both lists
//
// Tests: tests/schedules/program_text_test.cpp.

namespace {

using Words = std::span<const std::string>;
using Furthest = std::vector<std::int32_t>;

std::int32_t length(Words words) { return static_cast<std::int32_t>(words.size()); }

/// Returns the index at which a Furthest stores the entry of this diagonal. Diagonals go from -most - 1 to
/// most + 1.
std::size_t slot(std::int32_t diagonal, std::int32_t most) {
  return static_cast<std::size_t>(std::int64_t{diagonal} + most + 1);
}

/// Returns true if the last of `edits` edits on the way to this diagonal adds a word, and false if it removes
/// one. If both are possible, it is the edit that reaches the larger x (number of words of `before`). If both
/// neighbours of the diagonal have the same x, it is a removal, because a removal increases x by one. An
/// outermost diagonal can be reached from one side only.
bool adds(const Furthest& furthest, std::int32_t diagonal, std::int32_t edits, std::int32_t most) {
  if (diagonal == -edits) return true;
  return diagonal != edits && furthest[slot(diagonal - 1, most)] < furthest[slot(diagonal + 1, most)];
}

/// Returns the furthest positions before each edit, until an edit reaches the end of both lists. Returns
/// nothing if more than kMostEdits edits are necessary. backwards() finds the edits from these positions.
std::optional<std::vector<Furthest>> trace_of(Words before, Words after) {
  const std::int32_t most = std::min(length(before) + length(after), kMostEdits);
  // The vector has one additional diagonal at each end, which is read but never reached. All entries begin at
  // 0, so that the search starts at the beginning of both lists.
  Furthest furthest(static_cast<std::size_t>(2 * most + 3), 0);
  std::vector<Furthest> trace;
  for (std::int32_t edits = 0; edits <= most; ++edits) {
    trace.push_back(furthest);
    // Each edit changes the diagonal by one. So only every second diagonal changes here, and the others still
    // have the results of the previous number of edits.
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

/// Returns the edits of a shortest script, from the last to the first. `trace` comes from trace_of().
/// Requires that the lists have no common beginning or end.
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
    // Before the first edit, only equal words at the beginning of both lists remain.
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

namespace {

/// Returns the text of an action with the weight version, which to_text() leaves out.
std::string full_text(const Action& action) {
  std::string text = to_text(action);
  if (action.weight_version != 0) text += fmt::format("@{}", action.weight_version);
  return text;
}

/// A list of actions as words for edit_script(). A pair or a group of messages is one word, in the notation
/// of program files.
struct ListWords {
  std::vector<std::string> words;
  std::vector<std::int32_t> positions;  ///< the position of each word's first action, and the list's length
};

ListWords list_words_of(const std::vector<Action>& list) {
  ListWords found;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = group_end(list, begin);
    std::vector<std::string> texts;
    for (std::size_t i = begin; i < end; ++i) texts.push_back(full_text(list[i]));
    found.words.push_back(texts.size() == 1
                              ? texts.front()
                              : fmt::format("({}){}", fmt::join(texts, ";"), group_word(list[end - 1])));
    found.positions.push_back(static_cast<std::int32_t>(begin));
    begin = end;
  }
  found.positions.push_back(static_cast<std::int32_t>(list.size()));
  return found;
}

/// Returns the changes between two lists of words. Edits without an equal word between them form one change.
/// The positions are numbers of words.
std::vector<ListChange> changes_of(const std::vector<std::string>& before,
                                   const std::vector<std::string>& after) {
  std::vector<ListChange> changes;
  std::size_t x = 0;
  std::size_t y = 0;
  bool open = false;
  for (const Edit edit : edit_script(before, after)) {
    if (edit == Edit::same) {
      open = false;
      ++x;
      ++y;
      continue;
    }
    // The position of a change is the position of its first edit in the first list.
    if (!std::exchange(open, true)) {
      changes.push_back({.position = static_cast<std::int32_t>(x), .removed = {}, .added = {}});
    }
    if (edit == Edit::removed) {
      changes.back().removed.push_back(before[x++]);
    } else {
      changes.back().added.push_back(after[y++]);
    }
  }
  return changes;
}

/// Returns the changes between two lists of actions. The positions are numbers of actions.
std::vector<ListChange> changes_of(const std::vector<Action>& before, const std::vector<Action>& after) {
  const ListWords first = list_words_of(before);
  std::vector<ListChange> changes = changes_of(first.words, list_words_of(after).words);
  for (ListChange& change : changes)
    change.position = first.positions[static_cast<std::size_t>(change.position)];
  return changes;
}

/// Returns the lines of the program's text form that come before the lists of the ranks. They contain all
/// other fields of Program, so the comparison includes every field.
std::vector<std::string> settings_of(const Program& program) {
  Program without_lists = program;
  // Programs that differ only in the schedule's name are equal here.
  without_lists.schedule = "";
  for (auto& list : without_lists.ranks) list.clear();
  std::vector<std::string> lines;
  const std::string text = to_text(without_lists);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (!line.starts_with("schedule") && !line.starts_with("rank ")) lines.emplace_back(line);
    begin = end + 1;
  }
  return lines;
}

std::vector<SettingChange> setting_changes(const Program& before, const Program& after) {
  std::vector<SettingChange> changes;
  for (const ListChange& change : changes_of(settings_of(before), settings_of(after))) {
    // Removed and added lines of a change are paired as "removed -> added", as long as both sides have lines.
    const auto both = std::min(change.removed.size(), change.added.size());
    for (std::size_t i = 0; i < std::max(change.removed.size(), change.added.size()); ++i) {
      if (i < both) {
        changes.push_back(fmt::format("{} -> {}", change.removed[i], change.added[i]));
      } else if (i < change.removed.size()) {
        changes.push_back(fmt::format("- {}", change.removed[i]));
      } else {
        changes.push_back(fmt::format("+ {}", change.added[i]));
      }
    }
  }
  return changes;
}

std::string change_text(const ListChange& change) {
  std::string text = fmt::format("  position {}:", change.position);
  if (!change.removed.empty()) text += fmt::format(" - {}", fmt::join(change.removed, " "));
  if (!change.added.empty()) text += fmt::format(" + {}", fmt::join(change.added, " "));
  return text + '\n';
}

}  // namespace

ProgramDiff diff_programs(const Program& before, const Program& after) {
  ProgramDiff diff{.settings = setting_changes(before, after), .ranks = {}};
  const std::size_t ranks = std::max(before.ranks.size(), after.ranks.size());
  const std::vector<Action> nothing;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto& first = rank < before.ranks.size() ? before.ranks[rank] : nothing;
    const auto& second = rank < after.ranks.size() ? after.ranks[rank] : nothing;
    if (first == second) continue;
    auto changes = changes_of(first, second);
    // The last action of a list may have the overlap flag although no action follows. The texts do not show
    // this flag, so it does not count as a difference.
    if (changes.empty()) continue;
    diff.ranks.push_back({.rank = static_cast<std::int32_t>(rank),
                          .actions = static_cast<std::int32_t>(first.size()),
                          .changes = std::move(changes)});
  }
  return diff;
}

std::string to_text(const ProgramDiff& diff, std::size_t most_changes) {
  std::string text;
  for (const SettingChange& change : diff.settings) text += change + '\n';
  for (const RankChanges& rank : diff.ranks) {
    text += fmt::format(
        "rank {}: {} in {} actions\n", rank.rank,
        rank.changes.size() == 1 ? "1 change" : fmt::format("{} changes", rank.changes.size()), rank.actions);
    const std::size_t shown = std::min(most_changes, rank.changes.size());
    for (std::size_t i = 0; i < shown; ++i) text += change_text(rank.changes[i]);
    if (shown < rank.changes.size()) text += fmt::format("  and {} more\n", rank.changes.size() - shown);
  }
  return text;
}

}  // namespace penstock
