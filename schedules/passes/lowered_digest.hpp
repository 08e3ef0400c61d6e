#pragma once
// The digest of a lowered program without its lowered lists.

#include <optional>
#include <span>
#include <string>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// digest(lower(...)) of the program with these lists, by rank, of compute actions and collectives; its own
/// are not read. O(actions); a fourth of the lowered lists' memory. Nothing where lower() would have to prove
/// that the order of actions cannot hang, or would refuse it.
std::optional<std::string> lowered_digest(const Program& program, std::span<const ActionLoops> lists);

}  // namespace penstock
