#pragma once
// Several tables of costs on one tape, side by side: what sweeps of costs, noise and searches ask for.

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "schedules/ir/action.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

using LaneTimes = std::array<Ns, kLanes>;

/// One time for each lane.
struct alignas(kLaneBytes) LaneLine {
  LaneTimes of{};
};

/// Writes the durations of the instructions from `first` on, one line each.
using FillDurations = std::function<void(std::size_t first, std::span<LaneLine> durations)>;

/// The makespan of each of 1 to kLanes tables, made by tape_costs() for `tape`, as makespan_ns() says it; 0
/// for lanes without a table.
LaneTimes makespans_ns(const Tape& tape, std::span<const TapeCosts> tables);

/// The makespans where every instruction has a duration of its own in every lane; those of `costs` are not
/// read, its links are those of all lanes. `fill` is asked for them block by block, from the first to the
/// last.
LaneTimes makespans_ns(const Tape& tape, const TapeCosts& costs, const FillDurations& fill);

/// The vector code that this processor runs: "avx512", "avx2" or "portable".
std::string_view lane_code();

}  // namespace penstock
