#pragma once
// The smallest program that fails in the same way as a given one. Used by `penstock check --shrink`.

#include <cstdint>
#include <optional>
#include <string>

#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The kind of a program's fault.
enum class FaultKind : std::uint8_t {
  invalid,       // breaks a rule of validate.hpp
  unexecutable,  // lower.hpp cannot order it: ranks wait for each other's results
  hang,          // stalls under the channels
  crossed,       // a SEND meets the RECV of another message
};

/// The first fault of a program. Its three checks run in the order of FaultKind.
struct ProgramFault {
  FaultKind kind = FaultKind::invalid;
  /// The broken rule: the first line of the check's message, with `#` for numbers. For a hang or crossed
  /// messages, it lists the milder transports under which the program passes, or is empty if there are none.
  /// Two programs fail in the same way if kind and rule are equal.
  std::string rule;

  friend bool operator==(const ProgramFault&, const ProgramFault&) = default;
};

/// Returns the first fault of the program. Returns nothing if it is valid and, once lowered, passes
/// find_hang() under `channels`. Only the edges of `costs` matter, and only with an eager size.
std::optional<ProgramFault> fault_of(const Program& program, const ChannelOptions& channels,
                                     const CostTable& costs);

/// A smaller program that fails as the given one does, and the costs of its edges.
struct Counterexample {
  Program program;
  CostTable costs;
  ProgramFault fault;
};

/// Returns the smallest program with the same fault, or nothing if `program` has no fault. Removes ranks,
/// then microbatches, stages, slices, iterations, collectives, and actions that no F, B, I or W needs, while
/// the fault stays. No further rank, stage, microbatch or slice can be removed from the result. Its name is
/// "custom".
std::optional<Counterexample> smallest_counterexample(const Program& program, const ChannelOptions& channels,
                                                      const CostTable& costs);

}  // namespace penstock
