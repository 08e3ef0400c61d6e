#pragma once
// Which of a rank's first-in-first-out queues one end of a message is in, under each channel model
// (channel.hpp). Used where flat programs thread queues and where tapes name them.

#include <cstddef>
#include <cstdint>

#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"

namespace penstock {

/// One end of a message, as its rank sees it.
struct MessageEnd {
  std::int32_t peer_rank = 0;
  bool sends = false;
  Flow flow = Flow::activation;
  std::size_t edge = 0;  ///< number of its stage edge
};

/// How many queues a rank of a program has at most.
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

/// The number of the end's queue among those of its rank, below queue_count().
constexpr std::size_t queue_of(ChannelModel model, const MessageEnd& end) {
  switch (model) {
    case ChannelModel::rank:
      return 0;
    case ChannelModel::pair:
      return index(end.peer_rank);  // in both directions
    case ChannelModel::direction:
      return static_cast<std::size_t>(end.flow);
    case ChannelModel::directed:
      return 2 * index(end.peer_rank) + (end.sends ? 0 : 1);  // whatever flows, one way
    case ChannelModel::boundary:
      return 2 * end.edge + static_cast<std::size_t>(end.flow);
  }
  return 0;
}

}  // namespace penstock
