#pragma once
// Finds the smallest program that has the same fault as a given one. `penstock check --shrink` uses this
// file.

#include <cstdint>
#include <optional>
#include <string>

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

}  // namespace penstock
