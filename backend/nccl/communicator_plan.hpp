#pragma once
// Plans which communicators a program needs, and in which order its ranks open them. Needs no GPU.

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/check/flat_program.hpp"

namespace penstock {

enum class CommunicatorKind : std::uint8_t {
  edge,   // transfers from ranks[0] to ranks[1]
  group,  // collectives and barriers of all ranks, which ascend
};

struct CommunicatorPlan {
  CommunicatorKind kind = CommunicatorKind::edge;
  std::vector<std::int32_t> ranks;

  friend auto operator<=>(const CommunicatorPlan&, const CommunicatorPlan&) = default;
};

/// Returns one communicator for each ordered pair of ranks that exchanges messages, and one for each set of
/// ranks that runs collectives or barriers. They are in the order of their first use: by the position in the
/// list of the sender or first member, then by that rank. All ranks open theirs in this order, so that no
/// cycle of waiting ranks can arise.
std::vector<CommunicatorPlan> communicators_of(const FlatProgram& flat);

/// Returns the communicator that the message uses.
CommunicatorPlan communicator_of(const FlatProgram& flat, const FlatMessage& message);

/// Returns, for example, "0 -> 1" or "{0, 2}".
std::string to_text(const CommunicatorPlan& plan);

}  // namespace penstock
