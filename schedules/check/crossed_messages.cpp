// Finds messages that cross because two ranks list them in different orders. A transport without tags
// (NCCL) knows only the sending and the receiving rank. The k-th SEND of a FIFO therefore meets the k-th
// RECV, even if they belong to different messages:
//
//   rank 0   0F0 0SEND_F0 0F1 0SEND_F1                0SEND_F0  0SEND_F1
//   rank 1   1RECV_F1 1F1 ... 1RECV_F0 1F0            1RECV_F1  1RECV_F0      each meets the wrong one
//
// The program does not hang, but rank 1 computes microbatch 1 with the tensor of microbatch 0.
// channel_check.cpp finds programs that hang. Tests: tests/schedules/channel_check_test.cpp.

#include "schedules/check/flat_program.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// A FIFO queue from one rank to another. The key has the two ranks, and two numbers that distinguish the
/// FIFOs between these ranks.
using Fifo = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t>;

Fifo fifo_of(const StageMessage& message, std::int32_t from, std::int32_t to, ChannelModel model) {
  switch (model) {
    case ChannelModel::rank:
    case ChannelModel::pair:
    case ChannelModel::directed:
      return {from, to, 0, 0};
    case ChannelModel::direction:
      return {from, to, static_cast<std::int32_t>(message.flow), 0};
    case ChannelModel::boundary:
      return {from, to, message.from, message.to};
  }
  return {};
}

/// The place of an action: its rank and its position in the rank's list.
struct Place {
  std::int32_t rank = 0;
  std::int32_t position = 0;
};

/// The two ends of all messages in one FIFO, in the order of the ranks' lists.
struct FifoEnds {
  std::vector<Place> sends;
  std::vector<Place> receives;
};

std::map<Fifo, FifoEnds> fifos_of(const Program& lowered, ChannelModel model) {
  std::map<Fifo, FifoEnds> fifos;
  for (std::int32_t rank = 0; rank < lowered.rank_count(); ++rank) {
    const std::vector<Action>& list = lowered.ranks[index(rank)];
    for (std::size_t position = 0; position < list.size(); ++position) {
      const Action& action = list[position];
      const Place place{.rank = rank, .position = static_cast<std::int32_t>(position)};
      if (!is_send(action.kind) && !is_recv(action.kind)) continue;
      const StageMessage message = message_of(action);
      const std::int32_t from = lowered.placement.rank_of(message.from, message.microbatch);
      const std::int32_t to = lowered.placement.rank_of(message.to, message.microbatch);
      FifoEnds& ends = fifos[fifo_of(message, from, to, model)];
      (is_send(action.kind) ? ends.sends : ends.receives).push_back(place);
    }
  }
  return fifos;
}

}  // namespace

std::vector<CrossedMessage> crossed_messages(const Program& lowered, ChannelModel model) {
  std::vector<CrossedMessage> crossed;
  const auto at = [&](const Place& place) -> const Action& {
    return lowered.ranks[index(place.rank)][index(place.position)];
  };
  for (const auto& [fifo, ends] : fifos_of(lowered, model)) {
    // A valid program has both ends of each message, so both lists have the same length.
    for (std::size_t k = 0; k < ends.sends.size(); ++k) {
      const Place& send = ends.sends[k];
      const Place& receive = ends.receives[k];
      if (message_of(at(send)) == message_of(at(receive))) continue;
      crossed.push_back({.rank = send.rank,
                         .position = send.position,
                         .send = at(send),
                         .peer = receive.rank,
                         .peer_position = receive.position,
                         .receive = at(receive)});
    }
  }
  std::ranges::sort(crossed, {}, [](const CrossedMessage& one) { return std::pair(one.rank, one.position); });
  return crossed;
}

}  // namespace penstock
