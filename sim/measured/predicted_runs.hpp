#pragma once
// Predictions of measured configurations, with errors by group and the constants that were used.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "sim/measured/measured_runs.hpp"
#include "sim/measured/run_prices.hpp"

namespace penstock {

/// The prediction of one row of the file.
struct PredictedRun {
  std::string id;
  double measured_seconds = 0;
  double predicted_seconds = 0;
  double error = 0;  ///< predicted / measured - 1
  std::optional<double> measured_gib{};
  std::optional<double> predicted_gib{};  ///< absent if the memory was not measured
  std::optional<double> memory_error{};
  bool fitted = false;  ///< the fit of its constants used this configuration
};

/// The errors of some rows, such as those of one source, device and model.
struct RunGroup {
  std::string name;
  std::size_t rows = 0;
  double mape = 0;   ///< mean of |error|
  double bias = 0;   ///< mean of error
  double worst = 0;  ///< error with the largest absolute value
};

/// The constants with which the rows of one source, device and precision were predicted. Rows with experts
/// have their own for each release, because software has changed these models most.
struct GroupConstants {
  std::string source;
  std::string device;
  std::string precision;
  std::string release{};  ///< empty for rows without experts
  DeviceConstants constants;
  std::size_t rows = 0;  ///< number of rows on which they were fitted; 0: they are the device's own constants
  std::vector<std::string> fitted;  ///< names of the constants that were fitted
};

struct RunsReport {
  std::vector<PredictedRun> rows;  ///< one for each run of the file, in its order
  std::vector<RunGroup> groups;    ///< by source, device and model, in the order of their first rows
  /// Errors by what limits a row: experts, sharded weights, a pipeline, or a network. In the order of the
  /// names.
  std::vector<RunGroup> classes{};
  std::vector<LeftOutRun> left_out{};  ///< rows of the file that cannot be predicted
  std::vector<GroupConstants> constants;
  std::optional<RunGroup> all;         ///< errors of all rows; absent without rows
  std::optional<RunGroup> all_memory;  ///< memory errors of the rows whose memory was measured
};

/// Predicts every run of `runs`. With `fitted_on`, each source, device and precision gets constants that are
/// fitted on its own rows there. Rows with experts use those of their release, or of all releases if it has
/// none. If there are rows without experts, these give all constants but the time of a layer of experts. A
/// group without rows there has the device's own constants. `fitted_on` may
/// be `&runs`. `progress` is called with the number of rows that are priced and the number of all rows.
/// Error: a configuration cannot be prepared; the message names its id.
tl::expected<RunsReport, std::string> predict_runs(
    const MeasuredRuns& runs, const MeasuredRuns* fitted_on,
    const std::function<void(std::size_t done, std::size_t all)>& progress);

}  // namespace penstock
