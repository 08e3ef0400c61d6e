// Published tables of "the largest model that fits" count only states: weights, gradients, optimizer state,
// activations. This file simulates them as one training step of a model cut into buckets. The published
// tables thereby test the simulator's memory rules. Durations do not matter and are 1.

#include "sim/planning/stage_memory.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

/// Returns data parallelism of one step with one microbatch a device. Its "stages" are the buckets.
Program program_of(const ShardedModel& model) {
  Shape shape{.stages = model.buckets, .microbatches = model.devices, .sharding = model.sharding};
  shape.replicas = {model.devices};
  auto program = generate("data-parallel", shape);
  if (!program) throw std::logic_error(program.error());
  return *std::move(program);
}

/// Gives each bucket an equal part of everything. The remainder, less than a byte for each bucket and kind,
/// is dropped.
CostTable costs_of(const ShardedModel& model, const Program& program) {
  const StageCost bucket{.forward_ns = 1,
                         .backward_ns = 1,
                         .kept = model.state.activations / model.buckets,
                         .weights = model.state.weights / model.buckets,
                         .gradients = model.state.gradients / model.buckets,
                         .optimizer_state = model.state.optimizer_state / model.buckets};
  return uniform_costs(program, bucket);
}

}  // namespace

Bytes peak_of_one_stage(const StageState& state) { return peak_of({.state = state}); }

Bytes peak_of(const ShardedModel& model) {
  const Program program = program_of(model);
  // The argument 0 means that transfers take no time.
  const auto result = simulate_uniform(program, costs_of(model, program), 0, SteadyState::skip);
  if (!result) throw std::logic_error(result.error());
  return highest_peak_bytes(*result);
}

Bytes sent_bytes(const ShardedModel& model) {
  const Program program = program_of(model);
  const CostTable costs = costs_of(model, program);
  // All ranks send the same. Everything that is reduced or gathered is a collective in its list.
  Bytes bytes = 0;
  for (const Action& action : program.ranks.front()) {
    if (is_collective(action.kind)) bytes += ring_bytes(program, costs, action);
  }
  return bytes;
}

}  // namespace penstock
