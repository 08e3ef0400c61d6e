// Tables of "the largest model that fits" count states alone: weights, gradients, optimizer state,
// activations. They are not added up here but simulated, as one training step of a model cut into buckets, so
// that a published table tests the memory rules of the simulator. Durations do not matter and are 1.

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
#include "sim/runs/uniform_run.hpp"

namespace penstock {
namespace {

/// Data parallelism of one step, one microbatch a device; its "stages" are the buckets.
Program program_of(const ShardedModel& model) {
  Shape shape{.stages = model.buckets, .microbatches = model.devices, .sharding = model.sharding};
  shape.replicas = {model.devices};
  auto program = generate("data-parallel", shape);
  if (!program) throw std::logic_error(program.error());
  return *std::move(program);
}

/// A bucket has an equal part of everything; what does not divide is dropped, less than a byte a bucket and
/// kind.
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
  // 0: transfers take no time, as nothing here does.
  const auto result = simulate_uniform(program, costs_of(model, program), 0, SteadyState::skip);
  if (!result) throw std::logic_error(result.error());
  return highest_peak_bytes(*result);
}

Bytes sent_bytes(const ShardedModel& model) {
  const Program program = program_of(model);
  const CostTable costs = costs_of(model, program);
  // All ranks send the same; whatever is reduced or gathered is a collective of its list.
  Bytes bytes = 0;
  for (const Action& action : program.ranks.front()) {
    if (is_collective(action.kind)) bytes += ring_bytes(program, costs, action);
  }
  return bytes;
}

}  // namespace penstock
