#pragma once
// Answers further questions about a search (tune.hpp). Which candidates cannot be distinguished by
// predictions? Does the answer change on another machine? How much slower are measured configurations than
// the best one?

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

/// A machine on which one figure is changed, with the best configuration for it. `penstock tune
/// --sensitivity` prints the rows.
struct SensitivityRow {
  std::string_view figure;  ///< "memory", "sustained rate", "network bandwidth" or "rate of collectives"
  double factor = 1;        ///< factor by which the figure is multiplied
  /// The best configuration on the changed machine. If the search finds no better one, it is that of the
  /// requested machine.
  TunedConfiguration best;
  /// The loss of the requested machine's best configuration on the changed machine: its tokens per second
  /// divided by those of `best`, minus 1. It is at most 0, and absent if the configuration does not fit.
  std::optional<double> loss{};
};

/// Returns a row for half and a row for twice each figure. `best` must be the best configuration of the
/// request. Error: that of tune().
tl::expected<std::vector<SensitivityRow>, std::string> sensitivity(const TuneRequest& request,
                                                                   const TunedConfiguration& best);

/// The effect of the overlap of tensor collectives, which needs special kernels that a user may not have.
struct TensorOverlapWorth {
  TunedConfiguration same;  ///< the best configuration, predicted without the overlap
  TunedConfiguration best;  ///< the best configuration of a search without the overlap
};

/// Predicts the best configuration without the overlap of tensor collectives, and searches without this
/// overlap. Returns nothing if `best` has no such overlap. Error: that of tune().
tl::expected<std::optional<TensorOverlapWorth>, std::string> tensor_overlap_worth(
    const TuneRequest& request, const TunedConfiguration& best);

/// A value that a measured run has chosen.
struct ChosenValue {
  std::string_view choice;  ///< name of the choice in kChoices
  std::string value;
  /// The best step with this value divided by the best step of all, minus 1. Absent if no configuration with
  /// this value fits.
  std::optional<double> longer;
};

struct AgainstBest {
  std::string id;
  bool in_space = false;  ///< true if tuning_space() contains the configuration
  Ns step_ns = 0;
  Ns best_ns = 0;
  std::string best_differs{};  ///< the values in which the best one differs: "tensor 8, micro_batch_size 4"
  std::vector<ChosenValue> values{};  ///< the most costly value first
  /// The best configuration. Absent if the search had no result within its time.
  std::optional<Scenario> best{};
  bool stopped = false;  ///< true if the search ran out of time, so that a better configuration may exist

  double longer() const { return static_cast<double>(step_ns) / static_cast<double>(best_ns) - 1; }
};

/// A function that is called with the number of compared runs and of all runs.
using AgainstBestProgress = std::function<void(std::size_t done, std::size_t all)>;

/// Compares each run, with the devices' own constants. Runs with the same question share one search, which
/// stops after `seconds` if they are given. Errors: the errors of tune() and of simulate_scenario(), with the
/// run's id in front.
tl::expected<std::vector<AgainstBest>, std::string> against_best(
    std::span<const MeasuredRun> runs, const AgainstBestProgress& progress = {},
    std::optional<double> seconds = std::nullopt);

}  // namespace penstock
