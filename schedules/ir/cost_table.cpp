// Looks up durations and bytes in a CostTable. It also makes the costs of a program without a model: F, I and
// W take 1 ms, and B takes 2 ms. An activation is one unit of memory, and transfers take no time. Only
// compute actions have a duration. For any other action, duration_ns() throws, because the caller has a bug.
// Tested by weighed_costs_test.cpp.

#include "schedules/ir/cost_table.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

const MicrobatchCost& CostTable::of_unit(std::int32_t unit) const {
  // All slices of a microbatch share one entry. Microbatch numbers continue from one iteration to the next,
  // so the index wraps around after the last entry.
  return microbatches[static_cast<std::size_t>(unit / slices) % microbatches.size()];
}

const StageCost& CostTable::stage_of(const Action& action) const {
  const bool is_mean = microbatches.empty() || action.microbatch == kNoMicrobatch;
  return (is_mean ? stages : of_unit(action.microbatch).stages)[static_cast<std::size_t>(action.stage)];
}

Ns duration_ns(const StageCost& cost, ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return cost.forward_ns;
    case ActionKind::backward:
      return cost.backward_ns;
    case ActionKind::backward_input:
      return cost.backward_input_ns;
    case ActionKind::backward_weight:
      return cost.backward_weight_ns;
    case ActionKind::recompute:
      return cost.recompute_ns;
    case ActionKind::step:
      return cost.step_ns;
    case ActionKind::send_forward:
    case ActionKind::recv_forward:
    case ActionKind::send_backward:
    case ActionKind::recv_backward:
    case ActionKind::unshard:
    case ActionKind::reshard:
    case ActionKind::reduce_grad:
    case ActionKind::wait_send_forward:
    case ActionKind::wait_send_backward:
    case ActionKind::wait_reduce_grad:
    case ActionKind::offload:
    case ActionKind::reload:
      break;
  }
  throw std::logic_error("duration_ns takes a compute action");
}

Ns pair_duration_ns(const CostTable& costs, const Action& first, const Action& second) {
  const StageCost& one = costs.stage_of(first);
  const StageCost& other = costs.stage_of(second);
  // Each of the two stages may state a duration for the pair. The two actions share one device, so the larger
  // duration is used.
  const Ns stated = std::max(one.overlapped_pair_ns, other.overlapped_pair_ns);
  if (stated >= 0) return stated;
  // `pair_hidden_ns` is stated for an F and a B of the same stage. If the two actions belong to different
  // stages, the smaller value is used. With the larger one, the pair could be shorter than its exchanges or
  // its computation.
  const Ns sum = duration_ns(one, first.kind) + duration_ns(other, second.kind);
  return std::max<Ns>(0, sum - std::min(one.pair_hidden_ns, other.pair_hidden_ns));
}

Ns group_duration_ns(const CostTable& costs, std::span<const Action> group) {
  if (group.size() == 2) return pair_duration_ns(costs, group[0], group[1]);
  Ns sum = 0;
  for (const Action& action : group) {
    sum += duration_ns(costs.stage_of(action), action.kind);
  }
  return sum;
}

Bytes host_copy_bytes(const CostTable& costs, const Action& copy) { return costs.stage_of(copy).kept; }

Bytes transfer_bytes(const CostTable& costs, const EdgeNumbers& edges, const Action& transfer) {
  if (costs.edges.size() != edges.size()) {
    throw std::logic_error(
        fmt::format("a cost table of {} edges was given for a program of {}: every edge needs its bytes",
                    costs.edges.size(), edges.size()));
  }
  const bool is_mean = !costs.microbatches_differ() || transfer.microbatch == kNoMicrobatch;
  const EdgeCost& cost =
      (is_mean ? costs.edges : costs.of_unit(transfer.microbatch).edges)[edges.of(transfer)];
  return flow_of(transfer.kind) == Flow::activation ? cost.activation : cost.gradient;
}

void leave_out_backwards(CostTable& costs, const Program& program) {
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const Passes passes = program.placement.stages[stage].passes;
    if (passes == Passes::both) continue;
    StageCost& cost = costs.stages[stage];
    if (passes == Passes::forward) cost.transient += std::exchange(cost.kept, 0);
    cost.released_by_input = cost.recomputed = cost.recomputed_at_once = 0;
    cost.gradients = cost.optimizer_state = 0;
  }
  const std::vector<StageEdge> edges = stage_edges(program);
  for (std::size_t edge = 0; edge < costs.edges.size(); ++edge) {
    if (!carries(program.placement, edges[edge], Flow::activation)) costs.edges[edge].activation = 0;
    if (!carries(program.placement, edges[edge], Flow::gradient)) costs.edges[edge].gradient = 0;
  }
}

bool holds_local_activations(const Program& program, const CostTable& costs) {
  if (!has_forward_only_stage(program)) return false;
  const auto& stages = program.placement.stages;
  std::size_t number = 0;
  for (const StageEdge& edge : stage_edges(program)) {
    const EdgeCost& cost = costs.edges[number++];
    const std::vector<std::int32_t>& to = stages[index(edge.to)].ranks;
    const bool stays = std::ranges::any_of(stages[index(edge.from)].ranks, [&](std::int32_t rank) {
      return std::ranges::find(to, rank) != to.end();
    });
    const bool counts = cost.activation > 0 || costs.microbatches_differ();
    if (stages[index(edge.from)].is_forward_only() && stays && counts) return true;
  }
  return false;
}

Bytes collective_bytes(const CostTable& costs, const Action& collective) {
  const StageCost& cost = costs.stages[static_cast<std::size_t>(collective.stage)];
  return collective.kind == ActionKind::unshard ? cost.weights : cost.gradients;
}

Bytes ring_bytes(const Program& program, const CostTable& costs, const Action& collective) {
  const auto& members = program.placement.stages[static_cast<std::size_t>(collective.stage)].ranks;
  const auto ranks = static_cast<Bytes>(members.size());
  const bool reduces_everywhere = collective.kind == ActionKind::reduce_grad && program.sharding == 0;
  // In a ring of n members, a reduce-scatter or an all-gather takes n - 1 steps. A ring all-reduce takes 2 (n
  // - 1) steps, because every member needs the whole sum.
  const Bytes steps = (reduces_everywhere ? 2 : 1) * (ranks - 1);
  const Bytes bytes = collective_bytes(costs, collective);
  // The result is steps * bytes / ranks, rounded up. It is computed in two parts, so that no product exceeds
  // 64 bits.
  return steps * (bytes / ranks) + (steps * (bytes % ranks) + ranks - 1) / ranks;
}

CostTable uniform_costs(const Program& program, const StageCost& stage, const EdgeCost& edge) {
  return {.stages = std::vector<StageCost>(program.placement.stages.size(), stage),
          .edges = std::vector<EdgeCost>(stage_edges(program).size(), edge)};
}

CostTable unit_costs(const Program& program) { return uniform_costs(program, kUnitStage); }

Bytes released_activations(const StageCost& cost, ActionKind kind) {
  if (kind == ActionKind::backward) return cost.kept;
  if (kind == ActionKind::backward_input) return cost.released_by_input;
  return kind == ActionKind::backward_weight ? cost.kept - cost.released_by_input : 0;
}

Bytes recomputed_activations(const StageCost& cost, ActionKind kind) {
  const bool is_split = kind == ActionKind::backward_input || kind == ActionKind::backward_weight;
  return is_split ? cost.recomputed : 0;
}

Bytes transient_bytes(const StageCost& cost, ActionKind kind) {
  const bool is_split = kind == ActionKind::backward_input || kind == ActionKind::backward_weight;
  return cost.transient - (is_split ? cost.recomputed_at_once : 0);
}

}  // namespace penstock
