#pragma once
// The channel check: can a lowered program hang, under which channel model, and who waits for whom.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// One rank's part of a wait-for cycle.
struct WaitFor {
  std::int32_t rank = 0;
  std::int32_t position = 0;  ///< in the rank's list, from 0; runs on over iterations
  Action action;
  std::string waits_for;  ///< "0RECV_B0 on rank 0, position 4"

  friend bool operator==(const WaitFor&, const WaitFor&) = default;
};

/// Why a program hangs.
struct Hang {
  ChannelOptions channels;
  std::vector<WaitFor> cycle;  ///< a shortest one; each entry waits for the next, the last for the first
  std::string message;         ///< the cycle in words, one line an entry
};

/// Runs `lowered` with zero-capacity rendezvous (a message below channels.eager_bytes needs only its
/// sender) until it ends or stalls: in program order each rank posts its transfers, and a compute
/// action waits for its own RECVs. Requires a validated, lowered program. The answer is empty when the
/// program cannot hang.
std::optional<Hang> find_hang(const Program& lowered, const ChannelOptions& channels, const CostTable& costs);

/// The first model in the order rank, pair, direction, directed, boundary under which the program does
/// not hang; the other channel options stay. Empty when it hangs under all.
std::optional<ChannelModel> weakest_safe_channel(const Program& lowered, ChannelOptions channels,
                                                 const CostTable& costs);

}  // namespace penstock
