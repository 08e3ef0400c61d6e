#pragma once
// Checks a program before a streamed walk (streamed_walk.cpp) starts.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/held_amounts.hpp"

namespace penstock {

/// Returns the property of the experiment that a streamed walk cannot handle, or nothing if it can run.
/// `lists` must contain compute actions only.
std::optional<std::string> not_streamed(const Experiment& experiment, std::span<const ActionLoops> lists);

/// Returns the stages that each rank holds, ascending.
std::vector<std::vector<std::int32_t>> stages_by_rank(const Placement& placement, std::size_t ranks);

/// Returns for each rank whether its memory changes are reported in the order in which peaks count them.
std::vector<TellingOrder> telling_orders(const Experiment& experiment, std::span<const ActionLoops> lists);

/// Returns whether all passes of a stage take time.
bool takes_time(const StageCost& cost);
/// Returns whether a message over the edge has bytes in either direction.
bool has_bytes(const EdgeCost& edge);

}  // namespace penstock
