// Compares two programs rank by rank. It converts the lists into texts of actions and finds the shortest edit
// script (edit_script.cpp), because the user reads these texts. An action that has moved appears as one
// removed and one added action. Tested by program_diff_test.cpp.

#include "schedules/text/program_diff.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/text/edit_script.hpp"
#include "schedules/text/program_text.hpp"

namespace penstock {
namespace {

/// Returns the text of an action, with its weight version and its overlap, which to_text() leaves out.
std::string full_text(const Action& action, const Action* before) {
  std::string text = to_text(action);
  if (action.weight_version != 0) text += fmt::format("@{}", action.weight_version);
  // The second action of an overlapped pair gets a mark, so that the pair differs from two separate actions.
  return before != nullptr && before->overlaps_next ? "&" + text : text;
}

/// Returns one word for each action, as edit_script() requires.
std::vector<std::string> texts_of(const std::vector<Action>& list) {
  std::vector<std::string> texts;
  texts.reserve(list.size());
  const Action* before = nullptr;
  for (const Action& action : list) {
    texts.push_back(full_text(action, before));
    before = &action;
  }
  return texts;
}

/// Returns the changes between two lists of words. Edits without an equal word between them form one change.
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

/// Returns the lines of the text form before the lists. They contain all other fields of Program, so the
/// comparison misses none.
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
    // The removed and the added lines of a change are paired, as long as both sides have lines.
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
    auto changes = changes_of(texts_of(first), texts_of(second));
    // The last action of a list may have the overlap flag although no action follows. The texts do not show
    // this, so it is no difference.
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
