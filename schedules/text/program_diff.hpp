#pragma once
// The differences between two programs: their settings, their placement, and each rank's list.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "schedules/ir/program.hpp"

namespace penstock {

/// One setting or placement that differs: "microbatches 8 -> microbatches 16", "+ sharding 2" or "- barrier".
using SettingChange = std::string;

/// Neighbouring actions that only one of the programs has, or that are elsewhere in the other.
struct ListChange {
  /// The position in the first program's list at which the change begins.
  std::int32_t position = 0;
  /// The texts of actions that only the first program has here.
  std::vector<std::string> removed;
  /// The texts of actions that only the second program has here.
  std::vector<std::string> added;

  friend bool operator==(const ListChange&, const ListChange&) = default;
};

/// The changes of one rank's list in the order of the list. They form a shortest edit script.
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
  /// The ranks that differ, ascending.
  std::vector<RankChanges> ranks;

  bool empty() const { return settings.empty() && ranks.empty(); }
  friend bool operator==(const ProgramDiff&, const ProgramDiff&) = default;
};

/// Returns the differences that turn `before` into `after`. The name of the schedule is ignored. A rank that
/// only one program has counts as empty in the other. Takes time O(actions * differences); see
/// edit_script.hpp.
ProgramDiff diff_programs(const Program& before, const Program& after);

/// Returns the differences as text: the settings, then the changes of each rank, such as " position 3: - 0B0
/// + 0F4". At most `most_changes` are written for a rank, then the number of the others. The text is empty if
/// nothing differs.
std::string to_text(const ProgramDiff& diff, std::size_t most_changes);

}  // namespace penstock
