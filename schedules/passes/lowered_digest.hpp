#pragma once
// The digest of a lowered program, computed without its lowered lists.

#include <optional>
#include <span>
#include <string>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns digest(lower(...)) of the program with `lists`, which hold compute actions and collectives by
/// rank. The program's own lists are not read. Takes time in proportion to the actions and a fourth of the
/// memory of the lowered lists. Returns nothing if lower() would refuse the program or would have to check
/// that it cannot hang.
std::optional<std::string> lowered_digest(const Program& program, std::span<const ActionLoops> lists);

}  // namespace penstock
