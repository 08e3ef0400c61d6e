#pragma once
// Further questions to the search (tune.hpp): which candidates predictions cannot tell apart, whether
// another machine changes the answer, and what measured configurations lose against the best one.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/tune.hpp"
#include "sim/hold/measured_runs.hpp"

namespace penstock {

/// How far predicted ratios of two configurations are from measured ones. A job has one source, model,
/// device, precision, number of devices, sequence and batch. A pair is two configurations of one job.
struct PairSpread {
  /// Root of the mean square, over all pairs, of log(predicted ratio / measured ratio).
  double deviation = 0;
  std::size_t pairs = 0;
  std::size_t jobs = 0;  ///< number of jobs with at least one pair
};

/// The measured run that is most like a question, and the error of its prediction.
struct NearestRun {
  std::string id;
  std::string device;
  std::string model;
  std::string precision;
  std::int64_t devices = 0;
  double error = 0;  ///< predicted / measured - 1
  /// The part of the question that no measured run has, such as "bf16 on h100-sxm"; empty if there is a run.
  std::string none{};
};
/// Returns the run in words: "nearest measured run: h100-sxm, llama-3.1-70b, fp8, 64 devices: +3.4 % (ID)".
std::string nearest_text(const NearestRun& nearest);

/// The groups of candidates. Rates within a group differ by at most twice the deviation of pairs.
struct AccuracyGroups {
  /// Errors of ratios among the library's measured pairs, with the devices' own constants. Models with
  /// experts have the pairs of such models, and other models the pairs of the others.
  PairSpread spread;
  NearestRun nearest;
  /// group of each candidate: 0 for the best and all that are as good, then 1, 2, ...
  std::vector<std::size_t> groups;
};

/// Groups the candidates of a report, which must be that of the request.
AccuracyGroups accuracy_groups(const TuneRequest& request, const TuneReport& report);

// Finds the best configurations for machines that differ in one figure from the requested machine. Also finds
// the loss of the requested machine's best configuration on them. `penstock tune --sensitivity` prints both.

/// A machine with one figure changed.
struct SensitivityRow {
  std::string_view figure;  ///< "memory", "sustained rate", "network bandwidth" or "rate of collectives"
  double factor = 1;        ///< factor by which the device's figure is multiplied
  /// Best configuration on that machine; this machine's best one if the search finds no better one.
  TunedConfiguration best;
  /// Tokens per second of this machine's best configuration there, divided by the tokens per second of
  /// `best`, minus 1; at most 0. Absent if it does not fit.
  std::optional<double> loss{};
};

/// Returns a row for half and for twice each figure. `best` must be the best configuration of the request.
/// Errors: the errors of tune().
tl::expected<std::vector<SensitivityRow>, std::string> sensitivity(const TuneRequest& request,
                                                                   const TunedConfiguration& best);

/// The value of the overlap of tensor collectives, which needs tuned kernels that a user may not have.
struct TensorOverlapWorth {
  TunedConfiguration same;  ///< the best configuration, run without the overlap
  TunedConfiguration best;  ///< the best configuration that runs without the overlap
};

/// Compares the best configuration with and without the overlap of tensor collectives. Returns nothing if it
/// overlaps none. Errors: the errors of tune().
tl::expected<std::optional<TensorOverlapWorth>, std::string> tensor_overlap_worth(
    const TuneRequest& request, const TunedConfiguration& best);

// Compares measured configurations with the best one that the search finds for the same model, devices and
// batch.

/// One value of a configuration.
struct ChosenValue {
  std::string_view choice;  ///< name of the choice in kChoices
  std::string value;
  /// Relative increase of the step: the best step with this value over the best of all, minus 1. Absent if
  /// nothing with this value fits.
  std::optional<double> longer;
};

struct AgainstBest {
  std::string id;
  bool in_space = false;  ///< tuning_space() has the configuration
  Ns step_ns = 0;
  Ns best_ns = 0;
  std::string best_differs{};  ///< the values in which the best one differs: "tensor 8, micro_batch_size 4"
  std::vector<ChosenValue> values{};  ///< the most costly value first
  /// The best configuration. Absent if the search had no result within its time.
  std::optional<Scenario> best{};
  bool stopped = false;  ///< true if the search ran out of time, so that a better configuration may exist

  double longer() const { return static_cast<double>(step_ns) / static_cast<double>(best_ns) - 1; }
};

/// A function that is called with the number of runs that are compared, and of all runs.
using AgainstBestProgress = std::function<void(std::size_t done, std::size_t all)>;

/// Compares each run, with the devices' own constants. Runs with the same question share one search, which
/// stops after `seconds` if they are given. Errors: the errors of tune() and of simulate_scenario(), with the
/// run's id in front.
tl::expected<std::vector<AgainstBest>, std::string> against_best(
    std::span<const MeasuredRun> runs, const AgainstBestProgress& progress = {},
    std::optional<double> seconds = std::nullopt);

}  // namespace penstock
