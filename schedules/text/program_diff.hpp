#pragma once
// What differs between two programs: their settings, their placement, and each rank's list action by action.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "schedules/ir/program.hpp"

namespace penstock {

/// One setting or placement that differs: "microbatches 8 -> microbatches 16", "+ sharding 2", "- barrier".
using SettingChange = std::string;

/// A run of actions that only one of the programs has, or that stand elsewhere in it.
struct ListChange {
  std::int32_t position = 0;         ///< in the first program's list, where `removed` stood
  std::vector<std::string> removed;  ///< text forms
  std::vector<std::string> added;

  friend bool operator==(const ListChange&, const ListChange&) = default;
};

/// The changes of one rank's list, in order; a shortest edit script.
struct RankChanges {
  std::int32_t rank = 0;
  std::int32_t actions = 0;  ///< in the first program's list
  std::vector<ListChange> changes;

  friend bool operator==(const RankChanges&, const RankChanges&) = default;
};

struct ProgramDiff {
  std::vector<SettingChange> settings;
  std::vector<RankChanges> ranks;  ///< only those that differ, ascending

  bool empty() const { return settings.empty() && ranks.empty(); }
  friend bool operator==(const ProgramDiff&, const ProgramDiff&) = default;
};

/// What turns `before` into `after`. The name of the schedule does not count. A rank that only one of them
/// has counts as empty in the other. O(actions * differences); see edit_script.hpp.
ProgramDiff diff_programs(const Program& before, const Program& after);

/// Settings, then for each rank its changes: "  position 3: - 0B0 + 0F4". Of each rank at most
/// `most_changes` are written, then how many there are more. Empty when nothing differs.
std::string to_text(const ProgramDiff& diff, std::size_t most_changes);

}  // namespace penstock
