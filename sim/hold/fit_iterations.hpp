#pragma once
// Fits the costs of layers to measured iterations of GPT models on one machine, and predicts the
// iterations with these costs. The iterations come from a CSV file, in which each row is one
// configuration.

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
  std::int64_t microbatches = 1;  ///< number of microbatches of one copy of the pipeline
  double seconds = 1;
  std::size_t line = 1;            ///< line in the file
  std::vector<std::string> cells;  ///< cells of the row in the file
};

struct Iterations {
  std::string file;
  std::vector<std::string> header;
  std::vector<Iteration> rows;
};

/// Reads the file. The columns may have any order. Each may have Penstock's name or vTrain's name (in
/// parentheses):
///
///     global_batch_size (global batch)      micro_batch_size (micro batch)    hidden (hidden size)
///     heads (attention heads)               layers (# layers)                 sequence (sequence length)
///     tensor, data, stages (tensor, data, pipeline parallelism)
///     step_seconds, or iteration time (ms)
///
/// If there is a column devices (GPUs), its value must be tensor x data x stages. Other columns are stored
/// unchanged. Errors have the form "FILE:LINE: COLUMN: expected .., got ..".
tl::expected<Iterations, std::string> read_iterations(const std::string& file);

/// Returns the rows as measured runs of scenarios whose models have the costs `costs`. The schedule is
/// 1F1B, and the links have the bandwidth that `costs` states. A run's id is its line in the file, and its
/// source is its number of stages.
MeasuredRuns runs_with(const Iterations& iterations, const std::shared_ptr<const IterationCosts>& costs);

/// Returns the costs that minimise the sum of the squared relative errors. All rows must have one stage.
IterationCosts costs_of_iterations(const std::vector<Iteration>& rows, std::int64_t vocabulary);

struct FitReport {
  IterationCosts costs;
  std::size_t constants = 0;  ///< number of constants that were fitted
  /// The number of costs that the rows determine. If it is below `constants`, some of the fitted values are
  /// not unique.
  std::size_t determined = 0;
  MeasuredRuns measured;  ///< the rows that can be predicted
  RunsReport runs;        ///< the predictions of `measured`
  /// Line numbers of the rows that cannot be predicted, because no row with one stage has their kind of
  /// layer.
  std::vector<std::size_t> unpriced;
  /// Errors of the rows with several stages. The fit does not use these rows. Absent if there are no such
  /// rows.
  std::optional<RunGroup> held_out;
  /// Errors of the rows with one stage. Each row is predicted with costs that were fitted on the other four
  /// fifths of these rows. Absent if there are fewer than five such rows.
  std::optional<RunGroup> left_out;
};

/// The inputs of a fit that are not in the file of iterations.
struct FitAssumptions {
  std::int64_t vocabulary = 1;       ///< size of the vocabulary, in tokens
  double link_bytes_per_second = 0;  ///< bandwidth of messages between stages; 0: messages take no time
};

/// Fits costs to the rows with one stage, and predicts all rows by simulations of 1F1B. Returns an error if
/// there is no row with one stage, or if a row cannot be simulated. The message names the line of this row.
tl::expected<FitReport, std::string> fit_iterations(const Iterations& iterations,
                                                    const FitAssumptions& assumed);

/// Predicts runs with fitted costs, and groups the errors by source. `is_fitted` has an element for each
/// run: true if the fit used it. Returns an error that names the run's id if a run cannot be simulated.
tl::expected<RunsReport, std::string> predict_iterations(const MeasuredRuns& runs,
                                                         const std::vector<bool>& is_fitted);

/// One equation: the sum of its terms should equal `value`.
struct LinearEquation {
  std::vector<std::pair<std::size_t, double>> terms;  ///< numbers of unknowns, from 0, and their coefficients
  double value = 0;
};

/// Returns non-negative values of the unknowns that minimise the sum of (terms - value)^2 over all
/// equations. If there are several solutions, returns one with few values above 0. The unknowns in the
/// equations must have numbers below `unknowns`.
std::vector<double> non_negative_least_squares(const std::vector<LinearEquation>& equations,
                                               std::size_t unknowns);

/// Returns the rank of the system of equations. It is the number of unknowns that the equations determine.
std::size_t identifiable_unknowns(const std::vector<LinearEquation>& equations, std::size_t unknowns);

}  // namespace penstock
