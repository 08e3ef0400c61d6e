#pragma once
// The smallest program that fails as a given one does, to look at instead of it. `penstock check --shrink`.

#include <cstdint>
#include <optional>
#include <string>

#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// What is wrong with a program.
enum class FaultKind : std::uint8_t {
  invalid,       // breaks a rule of validate.hpp
  unexecutable,  // lower.hpp cannot order it: ranks wait for each other's results
  hang,          // stalls under the channels
  crossed,       // a SEND meets the RECV of another message
};

/// The first fault of a program, as its three checks find them in turn.
struct ProgramFault {
  FaultKind kind = FaultKind::invalid;
  /// The rule that is broken: the first line of the check's message, with `#` for numbers; of a hang or
  /// crossing, the milder transports under which the program passes, empty if there are none. Two programs
  /// fail in the same way when kind and rule are equal.
  std::string rule;

  friend bool operator==(const ProgramFault&, const ProgramFault&) = default;
};

/// Returns nothing if the program is valid and, once lowered, passes find_hang() under `channels`. Of `costs`
/// only the edges count, and only with an eager size.
std::optional<ProgramFault> fault_of(const Program& program, const ChannelOptions& channels,
                                     const CostTable& costs);

/// A program that fails as another does, and the costs of its edges.
struct Counterexample {
  Program program;
  CostTable costs;
  ProgramFault fault;
};

/// Takes away ranks, then microbatches, then stages, slices, iterations, all collectives and actions that no
/// F, B, I or W needs, as long as the same fault stays. From the result no rank, stage, microbatch or slice
/// can be taken away any more. Its name is "custom". Nothing when `program` has no fault.
std::optional<Counterexample> smallest_counterexample(const Program& program, const ChannelOptions& channels,
                                                      const CostTable& costs);

}  // namespace penstock
