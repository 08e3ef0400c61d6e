// The list of lowering passes, from a compute program to one that can run: SEND and RECV actions, placed by
// the sender.
//
//   rank 0   0F0 0F1 0B0 0B1        0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
//   rank 1   1F0 1B0 1F1 1B1   ->   1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1
//
// A program that has its transfers, or needs none, is left as it is, so that lowering twice is lowering once.

#include "schedules/passes/lower.hpp"

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "schedules/check/channel_check.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/list_writer.hpp"
#include "schedules/passes/take_turns.hpp"

namespace penstock {

tl::expected<Program, std::string> lower(const Program& program) {
  if (is_lowered(program)) return program;
  Program lowered = without_lists(program);
  ListWriter writer(program);
  TurnsTaken taken = take_turns(program, writer);
  if (!taken.finished) return tl::unexpected(std::move(taken.stuck));
  lowered.ranks = std::move(writer).lists();
  // Whoever joined a collective early has given up the argument that nothing can hang, so it is proven, under
  // the default channels and not under one FIFO a rank, which such a program need not survive.
  if (!taken.stuck.empty() && find_hang(lowered, {}, unit_costs(lowered)))
    return tl::unexpected(std::move(taken.stuck));
  return lowered;
}

}  // namespace penstock
