#pragma once
// Lowering turns a compute program into one that can run: it inserts SEND and RECV, placed by the sender.
//
//   rank 0   0F0 0F1 0B0 0B1        0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
//   rank 1   1F0 1B0 1F1 1B1   ->   1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the program with SEND and RECV actions. A program that already has them, or needs none, is
/// returned unchanged. Requires validate(program). Error: the order of the lists cannot be executed; the
/// message lists what each blocked rank waits for.
///
/// Actions are placed in rounds (take_turns.hpp). When a producing action is placed, its SENDs go to its own
/// list and the matching RECVs to the consumers' lists at the same moment. A collective is placed on all its
/// members at once. So all lists are projections of one global order, which cannot hang even with one
/// rendezvous FIFO a rank (PyTorch's _add_send_recv order).
///
/// Sometimes there is no such order, because a rank must continue after a collective before the other members
/// reach it. Then the rank continues up to the action that waits for the collective. Such a program hangs
/// under no `directed` channel.
tl::expected<Program, std::string> lower(const Program& program);

}  // namespace penstock
