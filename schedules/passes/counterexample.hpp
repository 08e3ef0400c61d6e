#pragma once
// Finds the smallest program that has the same fault as a given one. `penstock check --shrink` uses this
// file.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The kind of fault that a program has.
enum class FaultKind : std::uint8_t {
  invalid,       // the program breaks a rule of validate.hpp
  unexecutable,  // lower() fails, because ranks wait for each other
  hang,          // the program hangs on its channels
  crossed,       // a SEND meets the RECV of another message
};

/// The first fault of a program that the checks find. The checks run in the order of FaultKind.
struct ProgramFault {
  FaultKind kind = FaultKind::invalid;
  /// The rule that the program breaks. For a hang or crossed messages, it is a list of the milder
  /// transports under which the program passes, and empty if there are none. For all other faults, it is
  /// the first line of the check's message, with `#` instead of numbers. Two programs have the same fault
  /// if both `kind` and `rule` are equal.
  std::string rule;

  friend bool operator==(const ProgramFault&, const ProgramFault&) = default;
};

/// Returns the first fault of the program. Returns nothing if the program is valid and, after lowering,
/// find_hang() finds nothing under `channels`. It reads only the message sizes in `costs`, and these only
/// if `channels` has an eager size.
std::optional<ProgramFault> fault_of(const Program& program, const ChannelOptions& channels,
                                     const CostTable& costs);

/// A smaller program with the same fault as the given one, and the costs of its edges.
struct Counterexample {
  Program program;
  CostTable costs;
  ProgramFault fault;
};

/// Returns a program with the same fault from which no rank, stage, microbatch or slice can be removed.
/// Returns nothing if `program` has no fault. As long as the fault remains, it removes ranks, microbatches,
/// stages, slices, iterations and collectives. It also removes actions that no F, B, I or W needs. The name
/// of the result is "custom".
std::optional<Counterexample> smallest_counterexample(const Program& program, const ChannelOptions& channels,
                                                      const CostTable& costs);

// Removes ranks, stages, microbatches or actions from a program, and renumbers the remaining parts. The
// program may be invalid. If it is valid, the result is usually also valid.

/// A program and the costs of its stages and edges.
struct Excerpt {
  Program program;
  CostTable costs;
};

/// Returns the excerpt without `stage` and its actions. If the stage has exactly one predecessor and one
/// successor, the predecessor then sends directly to the successor. The size of this message is the larger
/// of the two removed messages. A rank that has no stages and actions left is also removed.
Excerpt without_stage(const Excerpt& whole, std::int32_t stage);

/// Returns the excerpt without the stages that `rank` holds. These stages are also removed from all other
/// ranks.
Excerpt without_stages_of(const Excerpt& whole, std::int32_t rank);

/// Returns the excerpt without `rank`. A stage that only this rank holds is removed. If other ranks also hold
/// a stage, the microbatches that `rank` runs on it are removed from the program.
Excerpt without_replicas_of(const Excerpt& whole, std::int32_t rank);

/// Returns the excerpt without `count` microbatches from `first` on, with all their slices. If the program
/// updates the weights once in each minibatch, nothing else is removed. Otherwise, a REDUCE_GRAD or STEP
/// that depends only on removed backward passes is removed, too. The weight versions are then numbered
/// anew.
Excerpt without_microbatches(const Excerpt& whole, std::int32_t first, std::int32_t count = 1);

/// Returns the excerpt without slice `slice` of every microbatch.
Excerpt without_slice(const Excerpt& whole, std::int32_t slice);

/// Returns the excerpt without one action. The other actions of its overlapped group remain a group.
Excerpt without_action(const Excerpt& whole, std::int32_t rank, std::size_t position);

}  // namespace penstock
