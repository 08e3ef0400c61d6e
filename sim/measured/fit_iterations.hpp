#pragma once
// Costs out of measured iterations of one machine, and how far they predict iterations that they were not
// fitted to.

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

/// The costs that make the iterations' relative errors least squares. Requires rows of one stage; nothing is
/// fitted on others.
IterationCosts costs_of_iterations(const std::vector<Iteration>& rows, std::int64_t vocabulary);

struct FitReport {
  IterationCosts costs;
  std::size_t constants = 0;          ///< that were fitted
  std::size_t told = 0;               ///< that the rows tell apart; below `constants`: some are not certain
  MeasuredRuns measured;              ///< rows that can be predicted
  RunsReport runs;                    ///< the same beside their predictions
  std::vector<std::size_t> unpriced;  ///< rows with layers that no row of one stage has: their lines
  /// Of the rows of several stages. Absent: there are none.
  std::optional<RunGroup> held_out;
  /// Rows of one stage, each predicted with costs of four fifths of them that it is not in. Absent: fewer
  /// than five rows.
  std::optional<RunGroup> left_out;
};

/// What no row says.
struct FitAssumptions {
  std::int64_t vocabulary = 1;       ///< words of the embedding
  double link_bytes_per_second = 0;  ///< of messages between stages; 0: they are free
};

/// Fits on the rows of one stage and predicts all, those of several stages by simulating 1F1B.
/// Error: no row of one stage; what keeps a row from being simulated, with its line.
tl::expected<FitReport, std::string> fit_iterations(const Iterations& iterations,
                                                    const FitAssumptions& assumed);

/// Runs with fitted costs beside their predictions, grouped by source. `is_fitted` of each run. Error: a run
/// that cannot be simulated, with its id.
tl::expected<RunsReport, std::string> predict_iterations(const MeasuredRuns& runs,
                                                         const std::vector<bool>& is_fitted);

}  // namespace penstock
