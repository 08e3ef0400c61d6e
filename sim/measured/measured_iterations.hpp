#pragma once
// Reads measured iterations of GPT models on one machine from a CSV file. Each row is one configuration.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/pricing/iteration_costs.hpp"
#include "sim/measured/measured_runs.hpp"

namespace penstock {

/// One measured configuration.
struct Iteration {
  FittedLayer kind;
  std::int64_t layers = 1;
  std::int32_t data = 1;
  std::int32_t stages = 1;
  std::int64_t microbatches = 1;  ///< microbatches of one copy of the pipeline
  double seconds = 1;
  std::size_t line = 1;            ///< line in the file
  std::vector<std::string> cells;  ///< cells of the row in the file
};

struct Iterations {
  std::string file;
  std::vector<std::string> header;
  std::vector<Iteration> rows;
};

/// Reads the file. Columns may come in any order and may have Penstock's names or vTrain's (in parentheses):
///
///     global_batch_size (global batch)      micro_batch_size (micro batch)    hidden (hidden size)
///     heads (attention heads)               layers (# layers)                 sequence (sequence length)
///     tensor, data, stages (tensor, data, pipeline parallelism)
///     step_seconds, or iteration time (ms)
///
/// If there is a column devices (GPUs), it must agree with the degrees. Other columns are retained unchanged.
/// Errors: "FILE:LINE: COLUMN: expected .., got ..".
tl::expected<Iterations, std::string> read_iterations(const std::string& file);

/// Returns the rows as runs of scenarios with these costs. The schedule is 1F1B, and messages have the link
/// rate of the costs. A run's id is its line in the file, and its source is its number of stages.
MeasuredRuns runs_with(const Iterations& iterations, const std::shared_ptr<const IterationCosts>& costs);

}  // namespace penstock
