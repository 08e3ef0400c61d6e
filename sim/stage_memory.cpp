#include "sim/stage_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include <tl/expected.hpp>

#include "report/result.hpp"
#include "schedules/action.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/generators.hpp"
#include "schedules/program.hpp"
#include "sim/simulate.hpp"
#include "sim/uniform_run.hpp"

namespace penstock {
namespace {

Program program_of(const ShardedModel& model) {
  Shape shape{.stages = model.buckets, .microbatches = model.devices, .sharding = model.sharding};
  shape.replicas = {model.devices};
  auto program = generate("data-parallel", shape);
  if (!program) throw std::logic_error(program.error());
  return *std::move(program);
}

CostTable costs_of(const ShardedModel& model) {
  const StageCost bucket{.forward_ns = 1,
                         .backward_ns = 1,
                         .kept = model.state.activations / model.buckets,
                         .weights = model.state.weights / model.buckets,
                         .gradients = model.state.gradients / model.buckets,
                         .optimizer_state = model.state.optimizer_state / model.buckets};
  return {.stages = {static_cast<std::size_t>(model.buckets), bucket}, .edges = {}};
}

}  // namespace

Bytes peak_of_one_stage(const StageState& state) { return peak_of({.state = state}); }

Bytes peak_of(const ShardedModel& model) {
  const auto result = simulate_uniform(program_of(model), costs_of(model), 0, SteadyState::skip);
  if (!result) throw std::logic_error(result.error());
  return std::ranges::max(result->ranks, {}, [](const RankReport& rank) { return rank.memory.peak_bytes; })
      .memory.peak_bytes;
}

Bytes sent_bytes(const ShardedModel& model) {
  const Program program = program_of(model);
  const CostTable costs = costs_of(model);
  Bytes bytes = 0;
  for (const Action& action : program.ranks.front()) {
    if (is_collective(action.kind)) bytes += ring_bytes(program, costs, action);
  }
  return bytes;
}

}  // namespace penstock
