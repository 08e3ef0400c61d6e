#pragma once
// Which register of a tape says when a queue is free. Used by compile.cpp.

#include <limits>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

inline constexpr Register kNoRegister = std::numeric_limits<Register>::max();

/// The queues at a message's two ends; none at the receiver's end of an eager message behind which nothing
/// waits there, and none of collectives and barriers.
struct QueueEnds {
  Register sender = kNoRegister;
  Register receiver = kNoRegister;
};

struct QueueRegisters {
  std::vector<QueueEnds> ends;  ///< by message
  Register count = 0;           ///< how many registers they are
};

/// Numbers the queues of `flat` from `first` on, in the order in which messages meet them. Two queues that
/// hold the same messages at their two ends are one register. O(messages).
QueueRegisters queue_registers(const FlatProgram& flat, Register first);

}  // namespace penstock
