#pragma once
// Checks whether a lowered program can hang under a channel model. It reports which ranks wait for each other
// and which messages cross.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The wait of one rank in a cycle of waits: the position at which it waits, and the action that it waits
/// for.
struct WaitFor {
  std::int32_t rank = 0;
  /// The position in the rank's list, from 0. With n entries in the list, the second iteration begins at n,
  /// or at n + 1 after a barrier.
  std::int32_t position = 0;
  Action action;
  /// The action that this rank waits for, such as "0RECV_B0 on rank 0, position 4".
  std::string waits_for;

  friend bool operator==(const WaitFor&, const WaitFor&) = default;
};

/// The reason why a program must not run on its channels: it hangs, its messages cross, or both.
struct Hang {
  ChannelOptions channels;
  /// A shortest cycle of waits. Each entry waits for the next one, and the last waits for the first. Empty
  /// if messages cross but nothing hangs.
  std::vector<WaitFor> cycle;
  /// The reason in words, with one line for each entry of the cycle and each crossed message.
  std::string message;
  std::vector<CrossedMessage> crossed{};  ///< Empty if every SEND meets its own RECV.
};

/// Returns the reason why `lowered` hangs or its messages cross. Returns nothing if neither is the case.
/// Requires a validated, lowered program.
/// A transfer has no buffer, so the sender and the receiver wait for each other. A message smaller than
/// channels.eager_bytes waits only for its sender. Each rank posts its transfers in program order. A
/// compute action waits for the RECVs of its inputs. Messages have no tags: the k-th SEND of a FIFO meets
/// the k-th RECV.
std::optional<Hang> find_hang(const Program& lowered, const ChannelOptions& channels, const CostTable& costs);

/// Returns the channel model with the fewest queues under which find_hang() finds no hang and no crossed
/// messages. The models are tried in the order rank, pair, direction, directed, boundary. All other channel
/// options stay unchanged. Returns nothing if no model is safe.
std::optional<ChannelModel> weakest_safe_channel(const Program& lowered, ChannelOptions channels,
                                                 const CostTable& costs);

// Finds the reason why a walk of a flat program stalls. Callers use this part if they already have the flat
// program or the stalled walk. find_hang() makes the flat program itself and also finds crossed messages.

/// Returns the hang of a flat program, including hangs under launch order. Returns nothing if the program
/// runs to its end. `flat` must have been made for `channels`. A launch starts when three conditions hold.
/// All earlier launches of its rank have started. All earlier transfers of its queue, or collectives of its
/// rank, have ended. The data that it sends is ready. A message ends when both ends, or all members of a
/// collective, have started. The engines use the same rules when they compute times.
std::optional<Hang> find_stall(const FlatProgram& flat, const ChannelOptions& channels);

/// Returns a shortest cycle among the waits that remain after ListWalk has stalled in `flat`. Requires a walk
/// that has stalled before the end.
Hang hang_of(const FlatProgram& flat, const WalkState& stalled, const ChannelOptions& channels);

// Finds hangs that occur if a rank's communication kernels start in the order of their launches, as with
// NCCL_LAUNCH_ORDER_IMPLICIT=1. Such a hang is possible even if the program cannot hang on its channels.

/// Returns the hang of a program under launch order, or nothing if it does not hang. Also returns nothing if
/// channels.launch_order is false or ranks wait for their transfers. launch_lists.hpp has the order of
/// launches.
///
/// A launch starts when three conditions hold. All earlier launches of its rank have started. All earlier
/// transfers of its queue, or collectives of its rank, have ended. The data that it sends is ready. A
/// message ends when both ends, or all members of a collective, have started. The engines compute times by
/// the same walk. Requires a flat program that was made for `channels`.
std::optional<Hang> find_launch_hang(const FlatProgram& flat, const ChannelOptions& channels);

// Finds a shortest cycle of waits among the positions of a stalled program, and writes the message about it.

/// A function that returns the positions for which the action at a position waits.
using WaitsOf = std::function<std::vector<std::int32_t>(std::int32_t)>;
/// A function that returns the text after "A waits for B", such as ", launched before it". It is usually
/// empty.
using WordsOf = std::function<std::string_view(std::int32_t waits, std::int32_t for_that)>;

/// Returns the hang of the stalled program `flat`, with a shortest cycle of waits. `stalled` has the
/// position at which each stalled rank waits, and `waits_of` the positions that a position waits for.
/// Requires that a cycle exists.
Hang hang_of_cycle(const FlatProgram& flat, const std::vector<std::int32_t>& stalled, const WaitsOf& waits_of,
                   const ChannelOptions& channels, const WordsOf& words_of = {});

}  // namespace penstock
