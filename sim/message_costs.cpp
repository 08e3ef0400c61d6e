// Routes and sizes repeat a lot in one program, so each pair of ranks is priced once per size.

#include "sim/message_costs.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "scenarios/experiment.hpp"
#include "schedules/action.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/program.hpp"
#include "schedules/rendezvous_walk.hpp"
#include "topology/cluster.hpp"
#include "topology/collective.hpp"

namespace penstock {
namespace {

std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }

std::vector<Ns> compute_durations(const Experiment& experiment, const FlatProgram& flat) {
  std::vector<Ns> durations(flat.ops.size(), 0);
  for (std::size_t p = 0; p < flat.ops.size(); ++p) {
    if (flat.ops[p] != FlatOp::compute) continue;
    const auto end = index(flat.group_end(static_cast<std::int32_t>(p)));
    durations[p] = group_duration_ns(experiment.costs, {&flat.actions[p], end - p});
  }
  return durations;
}

}  // namespace

TransferPrices::TransferPrices(const Experiment& experiment)
    : cluster_(experiment.cluster),
      ranks_(index(experiment.program.rank_count())),
      entries_(ranks_ * ranks_) {}

TransferPrices::Price TransferPrices::of(std::int32_t from_rank, std::int32_t to_rank, Bytes bytes) {
  Entry& entry = entries_[index(from_rank) * ranks_ + index(to_rank)];
  if (!entry.known) {
    const Route route = cluster_.route(from_rank, to_rank);
    entry = {
        .known = true, .bytes_per_second = route.bytes_per_second, .price = {.latency_ns = route.latency_ns}};
  }
  if (entry.bytes != bytes) {
    entry.bytes = bytes;
    entry.price.hold_ns = serialization_ns(bytes, entry.bytes_per_second);
  }
  return entry.price;
}

CollectiveShape collective_shape(const Experiment& experiment, const Action& action) {
  const Bytes bytes = collective_bytes(experiment.costs, action);
  if (action.kind == ActionKind::unshard) return {Collective::all_gather, bytes};
  const bool scatters = experiment.program.sharding >= 1;
  return {scatters ? Collective::reduce_scatter : Collective::all_reduce, bytes};
}

RingCost collective_cost(const Experiment& experiment, const Action& action) {
  const CollectiveShape shape = collective_shape(experiment, action);
  const StagePlacement& group = experiment.program.placement.stages[index(action.stage)];
  return ring_cost(experiment.cluster, group.ranks, shape.algorithm, shape.bytes);
}

WalkDurations walk_durations(const Experiment& experiment, const FlatProgram& flat) {
  WalkDurations durations{.compute = compute_durations(experiment, flat),
                          .hold = std::vector<Ns>(flat.messages.size(), 0),
                          .latency = std::vector<Ns>(flat.messages.size(), 0)};
  TransferPrices prices(experiment);
  std::map<std::pair<ActionKind, std::int32_t>, Ns> collectives;
  for (std::size_t id = 0; id < flat.messages.size(); ++id) {
    const FlatMessage& message = flat.messages[id];
    if (message.recv != kNone) {
      const TransferPrices::Price price = prices.of(message.from_rank, message.to_rank, message.bytes);
      durations.hold[id] = price.hold_ns;
      durations.latency[id] = price.latency_ns;
    } else if (flat.ops[index(message.first)] == FlatOp::collective) {
      const Action& action = flat.actions[index(message.first)];
      const auto [entry, fresh] = collectives.try_emplace({action.kind, action.stage}, 0);
      if (fresh) entry->second = collective_cost(experiment, action).duration_ns;
      durations.hold[id] = entry->second;
    }
  }
  return durations;
}

}  // namespace penstock
