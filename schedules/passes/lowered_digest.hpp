#pragma once
// Computes the digest of a lowered program without its lowered lists.

#include <optional>
#include <span>
#include <string>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns digest(lower(...)) of a program with the lists `lists`, which hold compute actions and collectives
/// by rank. It does not read the lists of `program`. It takes time in proportion to the actions, and a
/// quarter of the memory of the lowered lists. Returns nothing if lower() would fail, or if lower() would
/// need a check that the program cannot hang.
std::optional<std::string> lowered_digest(const Program& program, std::span<const ActionLoops> lists);

}  // namespace penstock
