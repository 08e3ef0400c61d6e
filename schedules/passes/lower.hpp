#pragma once
// Lowering: from a compute program to one that says every message.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// The program with SEND and RECV actions placed by the sender; one that has them already is returned as it
/// is. Requires validate(program). Errors: the order of the lists cannot be executed; the message lists what
/// each blocked rank waits for.
///
/// Ranks take turns (take_turns.hpp); when a producing action is placed, its SENDs go to its own list and the
/// matching RECVs to the consumers' lists at the same moment, and a collective is placed on all its members
/// at once. All lists are therefore projections of one global order, which cannot hang even with one
/// rendezvous FIFO a rank (PyTorch's _add_send_recv order). Where no such order is there, because a rank has
/// to go on behind a collective before the others come to it, it does so up to what waits for the collective;
/// such a program hangs under no `directed` channel.
tl::expected<Program, std::string> lower(const Program& program);

}  // namespace penstock
