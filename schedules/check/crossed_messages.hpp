#pragma once
// Finds messages that cross: a SEND meets the RECV of another message, because the two ranks list their
// messages in different orders.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// A SEND and the RECV of another message that it meets.
struct CrossedMessage {
  /// The rank that sends.
  std::int32_t rank = 0;
  /// The position of the SEND in the rank's list, from 0.
  std::int32_t position = 0;
  Action send;
  /// The rank that receives.
  std::int32_t peer = 0;
  /// The position of the RECV in the peer's list, from 0.
  std::int32_t peer_position = 0;
  Action receive;

  friend bool operator==(const CrossedMessage&, const CrossedMessage&) = default;
};

/// Finds every SEND that meets the RECV of another message under `model`. The result is ordered by sending
/// rank and list position. The k-th SEND in a FIFO of the model meets the k-th RECV in this FIFO. Requires a
/// validated, lowered program.
std::vector<CrossedMessage> crossed_messages(const Program& lowered, ChannelModel model);

}  // namespace penstock
