#pragma once
// What a streamed walk (streamed_walk.cpp) asks of a program before it starts.

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

/// What a streamed walk does not know of; nothing where it can be taken. `lists` are compute actions.
std::optional<std::string> not_streamed(const Experiment& experiment, std::span<const ActionLoops> lists);

/// By rank the stages that it holds, ascending.
std::vector<std::vector<std::int32_t>> stages_by_rank(const Placement& placement, std::size_t ranks);

/// By rank whether its changes of what is held are told in the order of peaks.
std::vector<TellingOrder> telling_orders(const Experiment& experiment, std::span<const ActionLoops> lists);

/// Whether all passes of a stage take time.
bool takes_time(const StageCost& cost);
/// Whether a message over the edge has bytes, either way.
bool has_bytes(const EdgeCost& edge);

}  // namespace penstock
