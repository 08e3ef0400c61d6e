#pragma once
// The ways that a flat program's messages take, and which registers of a tape say when their queues are free.
// Used by compile.cpp.

#include <cstdint>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// A way is a transfer class, and the link class of the same number.
struct MessageWays {
  std::vector<std::uint32_t> of_message;  ///< nothing of meaning for collectives and barriers
  std::vector<TransferClass> transfers;
  std::vector<LinkClass> links;
  Register queue_count = 0;  ///< how many registers the queues take
  bool both_ends = false;    ///< some link has c != e
};

/// The ways of `flat`, laid out for channels of this model, numbered as messages meet them. Queues are
/// registers from `first` on; messages of different groups go different ways; two queues that hold the same
/// messages at their two ends are one. O(messages).
MessageWays message_ways(const FlatProgram& flat, ChannelModel model, const MicrobatchGroups& groups,
                         Register first);

}  // namespace penstock
