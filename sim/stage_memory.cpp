#include "sim/stage_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include <tl/expected.hpp>

#include "report/result.hpp"
#include "schedules/action.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/generators.hpp"
#include "schedules/program.hpp"
#include "sim/simulate.hpp"
#include "sim/uniform_run.hpp"

namespace penstock {

Bytes peak_of_one_stage(const StageState& state) { return peak_of_sharded_stage(state, 1, 0); }

Bytes peak_of_sharded_stage(const StageState& state, std::int32_t replicas, std::int32_t sharding) {
  Shape shape{.stages = 1, .microbatches = replicas};
  shape.replicas = {replicas};
  auto program = generate("data-parallel", shape);
  if (!program) throw std::logic_error(program.error());
  program->sharding = sharding;
  const CostTable costs{.stages = {{.forward_ns = 1,
                                    .backward_ns = 1,
                                    .kept = state.activations,
                                    .weights = state.weights,
                                    .gradients = state.gradients,
                                    .optimizer_state = state.optimizer_state}},
                        .edges = {}};
  const auto result = simulate_uniform(*program, costs, 0, SteadyState::skip);
  if (!result) throw std::logic_error(result.error());
  return std::ranges::max(result->ranks, {}, [](const RankReport& rank) { return rank.memory.peak_bytes; })
      .memory.peak_bytes;
}

}  // namespace penstock
