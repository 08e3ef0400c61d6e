#pragma once
// Fits costs of layers to measured iterations of one machine, and checks them on iterations that were not
// used for the fit.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/pricing/iteration_costs.hpp"
#include "sim/measured/measured_iterations.hpp"
#include "sim/measured/measured_runs.hpp"
#include "sim/measured/predicted_runs.hpp"

namespace penstock {

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

}  // namespace penstock
