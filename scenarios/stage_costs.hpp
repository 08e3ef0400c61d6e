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

/// The costs of `program`'s stages and edges for `micro_batch_size` samples a microbatch, of which each slice
/// takes its share; `scenario.shape.buckets` is that of stage_buckets(). Durations and bytes of a microbatch
/// scale linearly and are rounded to the nearest; step, weights, gradients, optimizer state and overhead do
/// not scale; overhead is added after scaling. Unit costs scale, too, but a slice costs as much as a
/// microbatch. Errors: a list whose length is not the number of stages, a sum that does not hold, layers that
/// cannot be cut, a figure beyond 2^63.
tl::expected<CostTable, std::string> cost_table(const Scenario& scenario, const Program& program,
                                                std::int64_t micro_batch_size);

/// What training holds for a byte of weights beside it: gradients and the optimizer's state.
struct BytesPerWeightByte {
  std::int64_t gradients = 1;
  std::int64_t optimizer_state = 0;
};
BytesPerWeightByte bytes_per_weight_byte(Optimizer optimizer, Precision precision);

}  // namespace penstock
