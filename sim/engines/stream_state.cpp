// Stores the queues that messages pass in a streamed walk. A message passes one queue of its sender and
// one queue of its receiver. With `directed` channels, a queue belongs to one sender and one receiver.
// Queues are numbered at their first use, so that no table has an entry for every pair of ranks.

#include "sim/engines/stream_state.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {

TransferWays::TransferWays(const Experiment& experiment, const EdgeNumbers& edges)
    : experiment_(experiment), edges_(edges), prices_(experiment), ways_(2 * edges.size()) {}

std::size_t TransferWays::queue_at(std::int32_t rank, std::size_t number, std::int32_t sender) {
  const auto [entry, is_new] = queue_numbers_.try_emplace({rank, number}, queues_.size());
  if (is_new) queues_.emplace_back();
  std::vector<std::int32_t>& senders = queues_[entry->second].senders;
  if (std::ranges::find(senders, sender) == senders.end()) senders.push_back(sender);
  return entry->second;
}

TransferWay TransferWays::new_way(const StageMessage& message, std::size_t number, std::int32_t from_rank,
                                  std::int32_t to_rank) {
  const auto edge = static_cast<std::uint32_t>(number / 2);
  const ChannelModel model = experiment_.channels.model;
  const MessageEnd leaves{.peer_rank = to_rank, .sends = true, .flow = message.flow, .edge = edge};
  const MessageEnd enters{.peer_rank = from_rank, .sends = false, .flow = message.flow, .edge = edge};
  const Bytes bytes = transfer_bytes(experiment_.costs, edges_, send_of(message));
  const TransferPrices::Price price = prices_.of(from_rank, to_rank, bytes);
  return {.from_rank = from_rank,
          .to_rank = to_rank,
          .sender_queue = queue_at(from_rank, queue_of(model, leaves), from_rank),
          .receiver_queue = queue_at(to_rank, queue_of(model, enters), from_rank),
          .hold_ns = price.hold_ns,
          .latency_ns = price.latency_ns,
          .bytes = bytes};
}

}  // namespace penstock
