#pragma once
// Iterations of GPTs that somebody measured on one machine, read from a CSV file: a configuration a row.

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
  std::int64_t microbatches = 1;  ///< of one copy of the pipeline
  double seconds = 1;
  std::size_t line = 1;            ///< of the file
  std::vector<std::string> cells;  ///< of the file's row
};

struct Iterations {
  std::string file;
  std::vector<std::string> header;
  std::vector<Iteration> rows;
};

/// Columns, in any order, by Penstock's names or vTrain's: global_batch_size (global batch),
/// micro_batch_size (micro batch), hidden (hidden size), heads (attention heads), layers (# layers), sequence
/// (sequence length), tensor, data, stages (tensor, data, pipeline parallelism), and step_seconds or
/// iteration time (ms). devices (GPUs) may be there and is held against the degrees; others are kept. Errors:
/// "FILE:LINE: COLUMN: expected .., got ..".
tl::expected<Iterations, std::string> read_iterations(const std::string& file);

/// The rows as runs of scenarios whose models have those costs, by 1F1B on the costs' links. Their ids are
/// the lines of the file, their sources the numbers of stages.
MeasuredRuns runs_with(const Iterations& iterations, const std::shared_ptr<const IterationCosts>& costs);

}  // namespace penstock
