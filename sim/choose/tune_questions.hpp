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
#include "sim/hold/predicted_runs.hpp"
#include "sim/hold/run_accuracy.hpp"

namespace penstock {

/// The accuracy of predicted ratios of two configurations, compared with the measured ratios. A pair is two
/// configurations of one job. A job has one source, model, device, precision, number of devices, sequence and
/// batch.
struct PairSpread {
  /// The root mean square, over all pairs, of log(predicted ratio / measured ratio).
  double deviation = 0;
  std::size_t pairs = 0;
  std::size_t jobs = 0;  ///< number of jobs with at least one pair
};

/// The measured run that is most similar to a request, and the error of its prediction.
struct NearestRun {
  std::string id;
  std::string device;
  std::string model;
  std::string precision;
  std::int64_t devices = 0;
  double error = 0;  ///< predicted / measured - 1
  /// The milliseconds a layer for which the host of the run is assumed to launch kernels. 0 with CUDA graphs,
  /// and for models without experts.
  double host_layer_ms = 0;
  /// The property of the request that no measured run has, such as "bf16 on h100-sxm". Empty if there is a
  /// similar run.
  std::string none{};
};
/// Returns the run in words: "nearest measured run: h100-sxm, llama-3.1-70b, fp8, 64 devices: +3.4 % (ID)".
std::string nearest_text(const NearestRun& nearest);

/// The division of a search's candidates into groups that predictions cannot distinguish. Rates within a
/// group differ by at most twice the deviation of pairs (PairSpread).
struct AccuracyGroups {
  /// The accuracy of ratios among measured pairs of the library, predicted with the devices' own constants.
  /// For models with experts, only pairs of such models count; for other models, only the other pairs.
  PairSpread spread;
  NearestRun nearest;
  /// The group of each candidate. Group 0 has the best candidate and all that cannot be distinguished from
  /// it; groups 1, 2, ... follow.
  std::vector<std::size_t> groups;
};

/// Returns the groups of the candidates in `report`, which must be the report of `request`.
AccuracyGroups accuracy_groups(const TuneRequest& request, const TuneReport& report);

/// A row of `penstock tune --sensitivity`: a machine with one changed figure, and the best configuration
/// for it.
struct SensitivityRow {
  std::string_view figure;  ///< "memory", "sustained rate", "network bandwidth" or "rate of collectives"
  double factor = 1;        ///< factor by which the figure is multiplied
  /// The best configuration on the changed machine. If the search finds none that is better there, it is
  /// the best one of the requested machine.
  TunedConfiguration best;
  /// The loss on the changed machine from still using the requested machine's best configuration. It is
  /// that configuration's tokens per second divided by those of `best`, minus 1. It is at most 0. It is
  /// absent if that configuration does not fit.
  std::optional<double> loss{};
};

/// Returns two rows for each figure: one for half and one for twice its value. `best` must be the best
/// configuration of the request. Returns the errors of tune().
tl::expected<std::vector<SensitivityRow>, std::string> sensitivity(const TuneRequest& request,
                                                                   const TunedConfiguration& best);

/// The worth of overlapping tensor collectives with computation, which needs special kernels that a user
/// may not have.
struct TensorOverlapWorth {
  TunedConfiguration same;  ///< the best configuration of the search, predicted without the overlap
  TunedConfiguration best;  ///< the best configuration of a search without the overlap
};

/// Predicts `best` without the overlap of tensor collectives, and searches the best configuration without it.
/// Returns nothing if `best` does not use this overlap. Returns the errors of tune().
tl::expected<std::optional<TensorOverlapWorth>, std::string> tensor_overlap_worth(
    const TuneRequest& request, const TunedConfiguration& best);

/// A value that a measured run has chosen.
struct ChosenValue {
  std::string_view choice;  ///< name of the choice in kChoices
  std::string value;
  /// The relative loss that the value causes: the best step with this value divided by the best step of
  /// all, minus 1. Absent if no configuration with this value fits in memory.
  std::optional<double> longer;
};

struct AgainstBest {
  std::string id;
  bool in_space = false;  ///< true if tuning_space() contains the configuration
  Ns step_ns = 0;
  Ns best_ns = 0;
  /// The values in which the best configuration differs: "tensor 8, micro_batch_size 4".
  std::string best_differs{};
  std::vector<ChosenValue> values{};  ///< the run's values, the one with the largest loss first
  /// The best configuration. Absent if the search had no result within its time.
  std::optional<Scenario> best{};
  bool stopped = false;  ///< true if the search ran out of time, so that a better configuration may exist

  double longer() const { return static_cast<double>(step_ns) / static_cast<double>(best_ns) - 1; }
};

/// A function that is called to report progress: `done` runs out of `all` have been compared.
using AgainstBestProgress = std::function<void(std::size_t done, std::size_t all)>;

/// Compares each measured run with the best configuration of a search, using the devices' own constants. Runs
/// with the same request share one search. If `seconds` is given, each search stops after this time. Returns
/// the errors of tune() and simulate_scenario(), with the run's id in front.
tl::expected<std::vector<AgainstBest>, std::string> against_best(
    std::span<const MeasuredRun> runs, const AgainstBestProgress& progress = {},
    std::optional<double> seconds = std::nullopt);

// Judges the claims of against_best(). It finds the part of a step that a better configuration shortens, and
// whether measurements support the claim.

/// The claim that the best configuration of a search is faster than a measured run.
struct BestClaim {
  StepSeconds own{};   ///< parts of the run's predicted step
  StepSeconds best{};  ///< parts of the best configuration's step
  /// The part of the step that the best configuration shortens most.
  StepPart through = StepPart::products;
  /// True if no other run of the same job has a shorter measured step than this run.
  bool is_best_measured = false;
  /// True if measurements support the claim, by the rules of best_claims().
  bool is_believable = true;
  /// The reason for a claim that exceeds the best measured run of the job by more than kClaimToJustify.
  /// Empty for all other claims.
  std::string note{};
};
/// The relative gain over the best measured run above which a claim needs a reason.
inline constexpr double kClaimToJustify = 0.05;

/// Judges, for each run, the claim that a better configuration exists. `rows` must be the result of
/// against_best() for these runs. `report` must be the result of predict_runs() with the devices' own
/// constants. A claim is believable if the gain exceeds twice the usual error of a ratio between two
/// configurations of one job. In addition, each value of the claimed configuration's choices must occur in
/// some run. Returns an error that names the run if a configuration cannot be prepared.
tl::expected<std::vector<BestClaim>, std::string> best_claims(const MeasuredRuns& runs,
                                                              const RunsReport& report,
                                                              std::span<const AgainstBest> rows);

}  // namespace penstock
