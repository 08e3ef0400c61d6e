#pragma once
// Measured iterations of GPT models on one machine: reads them from a CSV file with one configuration a
// row, fits costs of layers to them, and predicts them again.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/pricing/iteration_costs.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"

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

// Fits costs of layers to measured iterations of one machine, and checks them on iterations that were not
// used for the fit.

/// Returns the costs that minimise the squared relative errors of the iterations. Uses only the rows of one
/// stage.
IterationCosts costs_of_iterations(const std::vector<Iteration>& rows, std::int64_t vocabulary);

struct FitReport {
  IterationCosts costs;
  std::size_t constants = 0;  ///< number of constants that were fitted
  /// Number of constants that the rows determine; if it is below `constants`, some values are not unique.
  std::size_t determined = 0;
  MeasuredRuns measured;  ///< rows that can be predicted
  RunsReport runs;        ///< predictions of `measured`
  /// Line numbers of the rows that cannot be predicted, because no row of one stage has their kind of layer.
  std::vector<std::size_t> unpriced;
  /// Errors of the rows of several stages. Absent if there are none.
  std::optional<RunGroup> held_out;
  /// Errors of the rows of one stage, each predicted with costs that were fitted on the other four fifths of
  /// these rows. Absent with fewer than five rows.
  std::optional<RunGroup> left_out;
};

/// The inputs of a fit that the file of iterations does not state.
struct FitAssumptions {
  std::int64_t vocabulary = 1;       ///< size of the vocabulary, in tokens
  double link_bytes_per_second = 0;  ///< bandwidth of messages between stages; 0: messages take no time
};

/// Fits costs to the rows of one stage, and predicts all rows. Rows of several stages are predicted by a
/// simulation of 1F1B. Errors: there is no row of one stage, or a row cannot be simulated; the message names
/// its line.
tl::expected<FitReport, std::string> fit_iterations(const Iterations& iterations,
                                                    const FitAssumptions& assumed);

/// Predicts runs with fitted costs, grouped by source. `is_fitted` states for each run whether its row was
/// used for the fit. Error: a run cannot be simulated; the message names its id.
tl::expected<RunsReport, std::string> predict_iterations(const MeasuredRuns& runs,
                                                         const std::vector<bool>& is_fitted);

/// One equation: the sum of its terms should equal `value`.
struct LinearEquation {
  std::vector<std::pair<std::size_t, double>> terms;  ///< number of the unknown, from 0, and its coefficient
  double value = 0;
};

/// Returns the x >= 0 that minimises the sum of (terms(x) - value)^2, as a vector of `unknowns` elements. Of
/// several solutions it returns one with few elements above 0. Requires that all unknowns in the equations
/// are below `unknowns`.
std::vector<double> non_negative_least_squares(const std::vector<LinearEquation>& equations,
                                               std::size_t unknowns);

/// Returns the rank of the equations: the number of unknowns that they determine.
std::size_t identifiable_unknowns(const std::vector<LinearEquation>& equations, std::size_t unknowns);

}  // namespace penstock
