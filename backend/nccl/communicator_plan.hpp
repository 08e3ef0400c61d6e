#pragma once
// Which communicators a program needs, and in which order its ranks make them: a decision, without a GPU.

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

/// One for each directed pair of ranks that exchanges anything, and one for each set of ranks that meets in
/// collectives or barriers, in the order in which the program first uses them: by how far into its own list
/// the sender, or the first member, stands then, and by that rank. All ranks make theirs in this one order,
/// so that none waits for another in a circle.
std::vector<CommunicatorPlan> communicators_of(const FlatProgram& flat);

/// The one that the message takes.
CommunicatorPlan communicator_of(const FlatProgram& flat, const FlatMessage& message);

/// "0 -> 1", "{0, 2}".
std::string to_text(const CommunicatorPlan& plan);

}  // namespace penstock
