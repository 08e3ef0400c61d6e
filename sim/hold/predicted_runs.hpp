#pragma once
// Predicts measured training steps. RunPrices computes the step time of one configuration for any constants
// of its device. fit_constants() fits these constants to measurements. predict_runs() compares predictions
// with measurements and groups the errors.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/priced_scenario.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/cost_table.hpp"
#include "sim/engines/tape.hpp"
#include "sim/hold/measured_runs.hpp"

namespace penstock {

/// The constants of a device that fit_constants() and fit_experts() can fit to measured steps.
struct DeviceConstants {
  double sustained = 1;    ///< slowdown of matrix products (DeviceType::sustained)
  double collectives = 1;  ///< slowdown of collectives that are not overlapped
  /// Part of the time of the gradients' reduction over the network that is added to the step.
  double step_fraction = 0;
  /// Slowdown of the computation in layers of experts by the software (Workload::expert_factor).
  double expert_factor = 1;
  /// The milliseconds that the host needs to launch a layer of experts without CUDA graphs
  /// (Workload::host_layer_seconds). They have no effect on runs with CUDA graphs.
  double host_layer_ms = 0;
  /// The milliseconds that each F, B, I and W takes in addition to its kernels (Workload::action_seconds).
  double action_ms = 0;
  /// Milliseconds of each step that no known part explains (Workload::step_seconds).
  double step_ms = 0;

  friend bool operator==(const DeviceConstants&, const DeviceConstants&) = default;
};
/// Returns the constants of the scenario's device, for the scenario's precision.
DeviceConstants own_constants(const Scenario& scenario);

/// A configuration with its compiled program, which computes the step time for any constants of the device.
class RunPrices {
 public:
  /// Prepares a scenario and compiles its program. Fails if prepare() fails or if the program hangs.
  static tl::expected<RunPrices, std::string> make(const Scenario& scenario);

  /// Returns the seconds of one training step with these constants.
  double step_seconds(const DeviceConstants& constants) const;
  /// Returns the seconds of one training step whose stages have these costs.
  double step_seconds(const CostTable& costs) const;
  /// Returns the costs of all stages if the device has these constants.
  CostTable costs(const DeviceConstants& constants) const;
  /// Returns the workload with a device that has these constants.
  Workload workload(const DeviceConstants& constants) const;
  const DevicePrices& device_prices() const { return prices_; }
  /// Returns true if the schedule splits backward passes into I and W.
  bool splits_backward() const;
  /// Returns the peak memory of the fullest device in bytes. It does not depend on the constants.
  Bytes peak_bytes() const { return peak_bytes_; }

 private:
  DevicePrices prices_;
  Experiment experiment_;
  Tape tape_;
  /// The tape without its last step. Absent if the tape has one step, which ends on all ranks at the same
  /// time.
  std::optional<Tape> earlier_steps_{};
  Bytes peak_bytes_ = 0;
};

/// A configuration and the measured time of its step.
struct TimedRun {
  const RunPrices* prices = nullptr;
  double measured_seconds = 0;  ///< > 0
  /// The sustained factor to use for this configuration. Present if its precision is not the one for which
  /// the constants are fitted.
  std::optional<double> sustained{};

  /// Returns the predicted seconds of the step.
  double step_seconds(DeviceConstants constants) const {
    if (sustained) constants.sustained = *sustained;
    return prices->step_seconds(constants);
  }
};

struct FittedConstants {
  DeviceConstants constants;
  /// Names of the fitted constants. All others have the values in `prior`.
  std::vector<std::string> fitted;
  /// Names of those fitted constants that stopped at a bound other than 0. The best value may be beyond it,
  /// so the runs have a cost that no constant describes.
  std::vector<std::string> stopped{};
};

/// Fits constants by least squares of log(predicted / measured). The bounds are 0.9 to 1.6 for `sustained`,
/// 1 to 2.2 for `collectives`, 0 to 0.35 for `step_fraction`, 0 to 3 ms for `action_ms` and 0 to 200 ms for
/// `step_ms`. A constant keeps its value in `prior` if no run depends on it, or if its effect cannot be
/// separated from that of earlier constants. If there are no runs, all constants keep their values.
FittedConstants fit_constants(std::span<const TimedRun> runs, const DeviceConstants& prior);

/// Fits constants in the same way as fit_constants(), but to runs of models with experts. It fits
/// `expert_factor` within 0.8 to 2, then `host_layer_ms` within 1 to 30 ms, and then `collectives` if
/// `with_collectives` is true. All other constants keep their values in `prior`.
FittedConstants fit_experts(std::span<const TimedRun> runs, const DeviceConstants& prior,
                            bool with_collectives);

/// A fitted constant, with the interval in which it lies with a probability of 95 %.
struct ConstantInterval {
  std::string name;
  double value = 0;
  double low = 0;
  double high = 0;
};

/// The prediction of one row in a file of measured runs, and its error.
struct PredictedRun {
  std::string id;
  double measured_seconds = 0;
  double predicted_seconds = 0;
  double error = 0;  ///< predicted / measured - 1
  std::optional<double> measured_gib{};
  std::optional<double> predicted_gib{};  ///< absent, like `memory_error`, if the memory was not measured
  std::optional<double> memory_error{};
  bool fitted = false;          ///< true if the constants were fitted on this configuration, too
  DeviceConstants constants{};  ///< the constants of the prediction
};

/// The errors of a group of rows, for example of all rows with one source, device and model.
struct RunGroup {
  std::string name;
  std::size_t rows = 0;
  double mape = 0;   ///< mean of |error|
  double bias = 0;   ///< mean of error
  double worst = 0;  ///< error with the largest absolute value
};

/// The constants for the rows with one source, framework, device and precision. Rows with experts have
/// separate constants for each release, because the speed of these models depends most on the software.
struct GroupConstants {
  std::string source;
  Framework framework = Framework::megatron_te;
  std::string device;
  std::string precision;
  std::string release{};  ///< empty for rows without experts
  DeviceConstants constants;
  std::size_t rows = 0;  ///< number of fitted rows; if it is 0, the constants are those of the device
  std::vector<std::string> fitted;     ///< names of the constants that were fitted
  std::vector<std::string> stopped{};  ///< names of those fitted constants that stopped at a bound of the fit
  std::vector<ConstantInterval> intervals{};  ///< intervals of the fitted constants, if the caller wants them
};

struct RunsReport {
  std::vector<PredictedRun> rows;  ///< one for each run of the file, in the order of the file
  std::vector<RunGroup> groups;    ///< groups by source, device and model, in the order of their first rows
  /// The errors of each class of rows, in alphabetical order. The class of a row says whether it has experts,
  /// sharded weights, a pipeline and a network.
  std::vector<RunGroup> classes{};
  std::vector<LeftOutRun> left_out{};  ///< rows of the file that cannot be predicted
  std::vector<GroupConstants> constants;
  std::optional<RunGroup> all;         ///< errors of all rows; absent without rows
  std::optional<RunGroup> all_memory;  ///< memory errors; absent if no row has a measured memory
};

/// Returns true if two rows measure the same configuration. Their releases and times may differ.
bool is_repeat(const MeasuredRun& a, const MeasuredRun& b);

/// The properties that all configurations of a job share: source, model, device, precision, layers, devices,
/// tokens of a sample, and samples of a step.
using MeasuredJob = std::tuple<std::string, std::string, std::string, std::string, std::size_t, std::int64_t,
                               std::int64_t, std::int64_t>;
/// Returns the job of a row.
MeasuredJob job_of(const MeasuredRun& run);

/// Returns the name of a run's class. The predictions of all runs in one class use the same terms.
std::string class_of(const MeasuredRun& run);

/// Measured runs, each with its compiled program.
struct PricedRuns {
  const MeasuredRuns* runs = nullptr;  ///< must outlive this object
  std::vector<RunPrices> prices{};     ///< one for each run
};

/// Prepares and compiles every run. `one_done` is called after each run, from any thread. Returns an error
/// that names the run's id if a configuration cannot be prepared.
tl::expected<PricedRuns, std::string> price_runs(
    const MeasuredRuns& runs, const std::function<void()>& one_done = [] {});

/// Predicts every run in the same way as the function with `progress` below. If `scatter` is given, the
/// fitted constants get intervals. `scatter` is the standard deviation of log(predicted / measured) that is
/// usual after a fit. In the computation of an interval, it has the weight of four rows.
RunsReport predict_runs(const PricedRuns& runs, const PricedRuns* fitted_on,
                        std::optional<double> scatter = std::nullopt);

/// The prediction error of a run, with constants that were fitted without this run.
struct LeftOutError {
  double log_error = 0;  ///< log(predicted / measured)
  std::size_t rows = 0;  ///< number of rows of the fit; if it is 0, the constants are those of the device
};
/// Returns the error of each run, predicted with constants that were fitted on the other runs. The fit also
/// leaves out repeats of the run.
std::vector<LeftOutError> left_out_errors(const PricedRuns& runs);

/// Predicts every run of `runs`. If `fitted_on` is given, it first fits the constants of each source,
/// framework, device and precision on the matching rows in `fitted_on`. `fitted_on` may be `&runs`. For rows
/// with experts, the matching rows are those of the same release. If there are none in their precision, those
/// in other precisions are used, or else those of all releases. `expert_factor` is fitted on rows with
/// experts. If no such row of the device depends on it, it is fitted on the rows of the same release on other
/// devices. The other constants are fitted on rows without experts. If there are no such rows, only
/// `collectives` is fitted in addition. If no row matches, the device's own constants are used. `progress`
/// gets the number of prepared rows and the number of all rows. Returns an error that names the run's id if a
/// configuration cannot be prepared.
tl::expected<RunsReport, std::string> predict_runs(
    const MeasuredRuns& runs, const MeasuredRuns* fitted_on,
    const std::function<void(std::size_t done, std::size_t all)>& progress);

/// Sums of the prediction errors of one group of rows, which give the mean and the worst error.
class GroupErrors {
 public:
  void add(double error) {
    ++rows_;
    absolute_ += std::abs(error);
    sum_ += error;
    if (std::abs(error) > std::abs(worst_)) worst_ = error;
  }
  /// Returns the errors as a group with this name: the number of rows, the mean of the absolute errors, the
  /// mean error, and the worst error. Requires at least one error.
  RunGroup named(std::string name) const {
    const auto n = static_cast<double>(rows_);
    return {.name = std::move(name), .rows = rows_, .mape = absolute_ / n, .bias = sum_ / n, .worst = worst_};
  }
  bool empty() const { return rows_ == 0; }

 private:
  std::size_t rows_ = 0;
  double absolute_ = 0;
  double sum_ = 0;
  double worst_ = 0;
};

/// The errors of rows by group name, in the order of the groups' first rows. A file has about a dozen groups,
/// so a linear search is fast enough.
class ErrorsByGroup {
 public:
  void add(const std::string& name, double error) {
    for (auto& [known, errors] : groups_) {
      if (known == name) return errors.add(error);
    }
    groups_.emplace_back(name, GroupErrors{}).second.add(error);
  }
  std::vector<RunGroup> groups() const {
    std::vector<RunGroup> named;
    named.reserve(groups_.size());
    for (const auto& [name, errors] : groups_) named.push_back(errors.named(name));
    return named;
  }

 private:
  std::vector<std::pair<std::string, GroupErrors>> groups_;
};

}  // namespace penstock
