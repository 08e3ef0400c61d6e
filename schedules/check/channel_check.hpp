#pragma once
// The channel check: whether a lowered program can hang under a channel model, which ranks wait for which,
// and which messages cross.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/check/crossed_messages.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// One rank's part of a cycle of waits.
struct WaitFor {
  std::int32_t rank = 0;
  /// The position in the rank's list, from 0; it runs on over iterations.
  std::int32_t position = 0;
  Action action;
  /// The action that this one waits for, such as "0RECV_B0 on rank 0, position 4".
  std::string waits_for;

  friend bool operator==(const WaitFor&, const WaitFor&) = default;
};

/// The reason why a program must not run on its channels: it hangs, or its messages cross, or both.
struct Hang {
  ChannelOptions channels;
  /// A shortest cycle; each entry waits for the next, the last for the first. Empty if messages only cross.
  std::vector<WaitFor> cycle;
  std::string message;  ///< The reason in words, one line for each entry of the cycle or crossed message.
  std::vector<CrossedMessage> crossed{};  ///< Empty if every SEND meets its own RECV.
};

/// Finds out whether `lowered` hangs or its messages cross. The walk runs with zero-capacity rendezvous,
/// except that a message below channels.eager_bytes needs only its sender. Each rank posts its transfers in
/// program order, and a compute action waits for its own RECVs. Messages have no tags: the k-th SEND of a
/// FIFO meets the k-th RECV. Requires a validated, lowered program. Returns nothing if the program ends and
/// no messages cross.
std::optional<Hang> find_hang(const Program& lowered, const ChannelOptions& channels, const CostTable& costs);

/// Returns the first model in the order rank, pair, direction, directed, boundary for which find_hang()
/// returns nothing. The other channel options stay as they are. Returns nothing if there is no such model.
std::optional<ChannelModel> weakest_safe_channel(const Program& lowered, ChannelOptions channels,
                                                 const CostTable& costs);

}  // namespace penstock
