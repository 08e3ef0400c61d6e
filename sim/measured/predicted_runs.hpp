#pragma once
// Measured configurations beside their predictions: errors by group, constants and where they come from.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "sim/measured/measured_runs.hpp"
#include "sim/measured/run_prices.hpp"

namespace penstock {

/// One row of the file.
struct PredictedRun {
  std::string id;
  double measured_seconds = 0;
  double predicted_seconds = 0;
  double error = 0;  ///< predicted / measured - 1
  std::optional<double> measured_gib{};
  std::optional<double> predicted_gib{};  ///< where it was measured
  std::optional<double> memory_error{};
  bool fitted = false;  ///< its group's constants come from this very configuration, among others
};

/// Errors of the rows of one source, device and model.
struct RunGroup {
  std::string name;
  std::size_t rows = 0;
  double mape = 0;   ///< mean of |error|
  double bias = 0;   ///< mean of error
  double worst = 0;  ///< the error that is furthest from 0
};

/// What the rows of one source, device and precision were predicted with.
struct GroupConstants {
  std::string source;
  std::string device;
  std::string precision;
  DeviceConstants constants;
  std::size_t rows = 0;             ///< that they were fitted on; 0: the device's own
  std::vector<std::string> fitted;  ///< names of those that the rows told
};

struct RunsReport {
  std::vector<PredictedRun> rows;  ///< one a row of the file, in its order
  std::vector<RunGroup> groups;    ///< in the order of their first rows
  std::vector<GroupConstants> constants;
  std::optional<RunGroup> all;         ///< all rows
  std::optional<RunGroup> all_memory;  ///< of the rows whose memory was measured
};

/// Predicts every run of `runs`. With `fitted_on`, which may be the same value, whose rows are then priced
/// once, the constants of a source, device and precision are fitted on its rows alone; those of groups
/// without rows there are the device's own. `progress` is told how many of how many rows are priced. Error: a
/// configuration that cannot be prepared, with its id.
tl::expected<RunsReport, std::string> predict_runs(
    const MeasuredRuns& runs, const MeasuredRuns* fitted_on,
    const std::function<void(std::size_t done, std::size_t all)>& progress);

}  // namespace penstock
