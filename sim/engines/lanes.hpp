#pragma once
// Times one tape under several tables of costs at once. Sweeps of costs, noise and searches use it.

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

/// A function that writes the durations of the instructions from number `first` on, one line each.
using FillDurations = std::function<void(std::size_t first, std::span<LaneLine> durations)>;

/// Returns the makespan for each of 1 to kLanes tables, as makespan_ns() computes it. Requires that
/// tape_costs() has made the tables for `tape`. Lanes without a table return 0.
LaneTimes makespans_ns(const Tape& tape, std::span<const TapeCosts> tables);

/// Returns the makespans if every instruction has its own duration in every lane. All lanes use the links of
/// `costs`; its durations are not read. `fill` is called for one block of instructions after another.
LaneTimes makespans_ns(const Tape& tape, const TapeCosts& costs, const FillDurations& fill);

/// Returns the name of the vector code that this processor runs: "avx512", "avx2" or "portable".
std::string_view lane_code();

}  // namespace penstock
