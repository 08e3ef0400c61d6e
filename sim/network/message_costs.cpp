// Computes the duration of each compute action and each message. Many messages have the same route and
// size, so the last result for each pair of ranks is cached. A message occupies its channel for its bytes
// divided by the lowest bandwidth on its route. Then the channel is free. The message arrives later, after
// the latencies of the route's links. Tests: tests/sim/engines_test.cpp.

#include "sim/network/message_costs.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"
#include "topology/collective.hpp"

namespace penstock {
namespace {

/// Returns the duration of the compute action at each position. If actions overlap, their common duration is
/// at the position of the first one. All other positions have 0.
std::vector<Ns> compute_durations(const Experiment& experiment, const FlatProgram& flat) {
  std::vector<Ns> durations(flat.ops.size(), 0);
  for (std::size_t p = 0; p < flat.ops.size(); ++p) {
    if (flat.ops[p] != FlatOp::compute) continue;
    const auto end = index(flat.group_end(static_cast<std::int32_t>(p)));
    durations[p] = group_duration_ns(experiment.costs, {&flat.actions[p], end - p});
  }
  return durations;
}

/// Returns the bytes that each rank sends to each other rank in a collective, summed over all phases.
std::vector<RingHop> sent_in_all(const std::vector<CollectivePhase>& phases) {
  std::map<std::pair<std::int32_t, std::int32_t>, Bytes> bytes;
  for (const CollectivePhase& phase : phases) {
    for (const RingHop& hop : phase.hops) bytes[{hop.from, hop.to}] += hop.bytes;
  }
  std::vector<RingHop> sent;
  sent.reserve(bytes.size());
  for (const auto& [hop, sum] : bytes) sent.push_back({hop.first, hop.second, sum});
  return sent;
}

}  // namespace

TransferPrices::TransferPrices(const Experiment& experiment)
    : cluster_(experiment.cluster), entries_(index(experiment.program.rank_count())) {}

TransferPrices::Entry& TransferPrices::entry_of(std::int32_t from_rank, std::int32_t to_rank) {
  std::vector<Entry>& entries = entries_[index(from_rank)];
  // A rank sends to few other ranks, so a linear search is fast. A table of all pairs of ranks would be
  // large.
  const auto known = std::ranges::find(entries, to_rank, &Entry::to_rank);
  if (known != entries.end()) return *known;
  const Route route = cluster_.route(from_rank, to_rank);
  return entries.emplace_back(Entry{.to_rank = to_rank,
                                    .bytes_per_second = route.bytes_per_second,
                                    .price = {.latency_ns = route.latency_ns}});
}

TransferPrices::Price TransferPrices::of(std::int32_t from_rank, std::int32_t to_rank, Bytes bytes) {
  Entry& entry = entry_of(from_rank, to_rank);
  // Most messages between two ranks have the same size, so it is enough to cache the last price.
  if (entry.bytes != bytes) {
    entry.bytes = bytes;
    entry.price.hold_ns = serialization_ns(bytes, entry.bytes_per_second);
  }
  return entry.price;
}

CollectiveShape collective_shape(const Experiment& experiment, const Action& action) {
  const Bytes bytes = collective_bytes(experiment.costs, action);
  if (action.kind == ActionKind::unshard) return {Collective::all_gather, bytes};
  // With sharding, each rank updates only its part of the parameters, so it needs only the sums of this part.
  const bool scatters = experiment.program.sharding >= 1;
  return {scatters ? Collective::reduce_scatter : Collective::all_reduce, bytes};
}

const std::vector<std::int32_t>& CollectiveRings::ranks_of(std::int32_t stage) {
  const std::vector<std::int32_t>& group = experiment_.program.placement.stages[index(stage)].ranks;
  // ring_order() compares all pairs of ranks in the group, and many stages have the same group. So each order
  // is cached.
  const auto [entry, fresh] = orders_.try_emplace(group);
  if (fresh) entry->second = ring_order(experiment_.cluster, group);
  return entry->second;
}

const CollectiveRing& CollectiveRings::of(const Action& action) {
  const auto [entry, fresh] = rings_.try_emplace({action.kind, action.stage});
  if (!fresh) return entry->second;
  const CollectiveShape shape = collective_shape(experiment_, action);
  CollectiveRoute route =
      collective_route(experiment_.cluster, ranks_of(action.stage), shape.algorithm, shape.bytes);
  std::vector<RingHop> sent = sent_in_all(route.phases);
  entry->second = {.phases = std::move(route.phases), .cost = route.cost, .sent = std::move(sent)};
  return entry->second;
}

std::span<const RingHop> CollectiveRing::sent_by(std::int32_t rank) const {
  const auto hops = std::ranges::equal_range(sent, rank, {}, &RingHop::from);
  return {hops.begin(), hops.end()};
}

Ns host_copy_ns(const CostTable& costs, const Action& copy) {
  return costs.host.latency_ns + serialization_ns(host_copy_bytes(costs, copy), costs.host.bytes_per_second);
}

WalkDurations walk_durations(const Experiment& experiment, const FlatProgram& flat) {
  WalkDurations durations{.compute = compute_durations(experiment, flat),
                          .hold = std::vector<Ns>(flat.messages.size(), 0),
                          .latency = std::vector<Ns>(flat.messages.size(), 0),
                          .launch = experiment.costs.launch.overhead_ns};
  TransferPrices prices(experiment);
  CollectiveRings rings(experiment);
  for (std::size_t id = 0; id < flat.messages.size(); ++id) {
    const FlatMessage& message = flat.messages[id];
    if (message.recv != kNone) {
      const TransferPrices::Price price = prices.of(message.from_rank, message.to_rank, message.bytes);
      durations.hold[id] = price.hold_ns;
      durations.latency[id] = price.latency_ns;
    } else if (flat.is_host_copy(message)) {
      durations.hold[id] = host_copy_ns(experiment.costs, flat.actions[index(message.first)]);
      // A barrier keeps its duration of 0.
    } else if (flat.ops[index(message.first)] == FlatOp::collective) {
      durations.hold[id] = rings.of(flat.actions[index(message.first)]).cost.duration_ns;
    }
  }
  return durations;
}

}  // namespace penstock
