#pragma once
// Prices a program: from the model's figures to what each stage and edge costs in the microbatch in force.
// Used by experiment.hpp.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/model.hpp"
#include "scenarios/scenario.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/program.hpp"

namespace penstock {

/// Costs hold for `own` samples a microbatch and are wanted for `wanted`; both at least 1.
struct Scaling {
  std::int64_t own = 1;
  std::int64_t wanted = 1;
};

/// The costs of `program`'s stages and edges. Durations and bytes of a microbatch scale linearly and are
/// rounded to the nearest; step, weights, gradients, optimizer state and overhead do not scale; overhead is
/// added after scaling. Unit costs do not scale. Errors: a list whose length is not the number of stages, a
/// sum that does not hold, layers that cannot be cut, a figure beyond 2^63.
tl::expected<CostTable, std::string> cost_table(const Scenario& scenario, const Program& program,
                                                Scaling scaling);

/// Bytes of optimizer state a byte of fp32 weights.
std::int64_t state_bytes_per_weight_byte(Optimizer optimizer);

}  // namespace penstock
