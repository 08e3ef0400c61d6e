#pragma once
// The differences between two programs: their settings, their placement, and each rank's list. The lists are
// compared by a shortest edit script.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedules/ir/program.hpp"

namespace penstock {

/// One entry of an edit script, which turns one list into another. A script reads both lists from the
/// beginning to the end.
enum class Edit : std::uint8_t {
  same,     // a word of both lists
  removed,  // a word of the first list only
  added,    // a word of the second list only
};

/// Returns a shortest edit script from `before` to `after` (Myers, "An O(ND) Difference Algorithm",
/// Algorithmica 1986). If more than kMostEdits words differ, only the words at the common beginning and end
/// remain. The script then removes and adds all other words. Takes time O(words * edits) and memory O(edits
/// * min(words, kMostEdits)).
std::vector<Edit> edit_script(std::span<const std::string> before, std::span<const std::string> after);
inline constexpr std::int32_t kMostEdits = 4096;

/// A text for one setting or placement that differs: "microbatches 8 -> microbatches 16", "+ sharding 2" or
/// "- barrier".
using SettingChange = std::string;

/// Consecutive actions of a rank's list that only one program has, or that the other program has at another
/// position.
struct ListChange {
  /// The position in the first program's list at which the change begins.
  std::int32_t position = 0;
  /// The texts of actions that only the first program has at this position.
  std::vector<std::string> removed;
  /// The texts of actions that only the second program has at this position.
  std::vector<std::string> added;

  friend bool operator==(const ListChange&, const ListChange&) = default;
};

/// The changes of one rank's list, in list order. They form a shortest edit script.
struct RankChanges {
  std::int32_t rank = 0;
  /// The number of actions in the first program's list.
  std::int32_t actions = 0;
  std::vector<ListChange> changes;

  friend bool operator==(const RankChanges&, const RankChanges&) = default;
};

/// All differences between two programs.
struct ProgramDiff {
  std::vector<SettingChange> settings;
  /// The ranks with different lists, in ascending order.
  std::vector<RankChanges> ranks;

  bool empty() const { return settings.empty() && ranks.empty(); }
  friend bool operator==(const ProgramDiff&, const ProgramDiff&) = default;
};

/// Returns the differences from `before` to `after`. It ignores the schedule's name. A rank that only one
/// program has counts as an empty list in the other program. Takes time O(actions * differences); see
/// edit_script().
ProgramDiff diff_programs(const Program& before, const Program& after);

/// Returns the differences as text: first the settings, then the changes of each rank, such as " position 3:
/// - 0B0 + 0F4". For each rank it writes at most `most_changes` changes, and then the number of the others.
/// The text is empty if there are no differences.
std::string to_text(const ProgramDiff& diff, std::size_t most_changes);

}  // namespace penstock
