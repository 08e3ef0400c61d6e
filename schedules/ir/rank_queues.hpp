#pragma once
// Finds the queue on a rank for each end of a message, under each channel model (channel.hpp). Flat programs
// link the transfers of a queue with it, and tapes name the queues with it.

#include <cstddef>
#include <cstdint>

#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"

namespace penstock {

/// One end of a message, seen from the rank at this end.
struct MessageEnd {
  std::int32_t peer_rank = 0;
  bool sends = false;
  Flow flow = Flow::activation;
  /// The number of the message's stage edge (edge_numbers.hpp).
  std::size_t edge = 0;
};

/// Returns the largest number of queues that one rank of a program can have.
constexpr std::size_t queue_count(ChannelModel model, std::int32_t ranks, std::size_t edges) {
  switch (model) {
    case ChannelModel::rank:
      return 1;
    case ChannelModel::pair:
      return index(ranks);
    case ChannelModel::direction:
      return 2;
    case ChannelModel::directed:
      return 2 * index(ranks);
    case ChannelModel::boundary:
      return 2 * edges;
  }
  return 0;
}

/// Returns the number of the end's queue on its rank, below queue_count().
constexpr std::size_t queue_of(ChannelModel model, const MessageEnd& end) {
  switch (model) {
    case ChannelModel::rank:
      return 0;
    case ChannelModel::pair:
      return index(end.peer_rank);  // one queue for both directions
    case ChannelModel::direction:
      return static_cast<std::size_t>(end.flow);
    case ChannelModel::directed:
      return 2 * index(end.peer_rank) + (end.sends ? 0 : 1);  // one queue for each direction, for both flows
    case ChannelModel::boundary:
      return 2 * end.edge + static_cast<std::size_t>(end.flow);
  }
  return 0;
}

}  // namespace penstock
