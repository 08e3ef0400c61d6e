#pragma once
// Plans which NCCL communicators a program needs, and in which order its ranks open them. Needs no GPU.

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/check/flat_program.hpp"

namespace penstock {

enum class CommunicatorKind : std::uint8_t {
  edge,   // communicator for transfers from ranks[0] to ranks[1]
  group,  // communicator for collectives and barriers of all `ranks`, in ascending order
};

struct CommunicatorPlan {
  CommunicatorKind kind = CommunicatorKind::edge;
  std::vector<std::int32_t> ranks;

  friend auto operator<=>(const CommunicatorPlan&, const CommunicatorPlan&) = default;
};

/// Returns one communicator for each ordered pair of ranks with messages, and one for each set of ranks with
/// collectives or barriers. They are sorted by first use: by the position in the list of the sender or first
/// member, and then by that rank. All ranks open their communicators in this order, so that they cannot wait
/// for each other in a cycle.
std::vector<CommunicatorPlan> communicators_of(const FlatProgram& flat);

/// Returns the communicator that `message` uses.
CommunicatorPlan communicator_of(const FlatProgram& flat, const FlatMessage& message);

/// Returns the communicator as text, such as "0 -> 1" or "{0, 2}".
std::string to_text(const CommunicatorPlan& plan);

}  // namespace penstock
