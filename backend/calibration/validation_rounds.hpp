#pragma once
// Tests whether costs that one program has measured predict other programs on this machine. `penstock
// validate` prints the answer.
//
//     round 1   source  1f1b  gpipe  zb-h1        the order of each round is random
//     round 2   gpipe   source  zb-h1  1f1b       error of a round = predicted from its source / measured - 1
//
// The programs of a round run soon after each other. The state of the machine (such as its clock rate) is
// therefore nearly the same for all of them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "backend/calibration/calibration.hpp"
#include "backend/calibration/calibration_samples.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The mean times of the actions, launches and messages in a run.
struct MeanCosts {
  std::map<StageKind, Ns> durations;    ///< time of an action
  std::map<std::int32_t, Ns> launches;  ///< time between an action and the next one, by stage
  /// The mean latency of the messages from one rank to another. It is the time of a message minus its bytes
  /// divided by the bandwidth.
  std::map<std::pair<std::int32_t, std::int32_t>, Ns> latencies;
};

/// Returns the mean times of `samples`. Requires that they were measured in a run of `experiment`.
MeanCosts mean_costs(const CalibrationSamples& samples, const Experiment& experiment);

/// Returns the experiment with the measured costs. An action takes its mean duration plus the launch time
/// of its stage. A message between two ranks without measurement takes the mean latency of all messages.
/// Costs that were not measured do not change. Fails if the links cannot be made.
tl::expected<Experiment, std::string> with_mean_costs(Experiment experiment, const MeanCosts& costs);

/// A program whose prediction is compared with measurements.
struct ValidationCase {
  std::string name;       ///< for example "1f1b, M 8"
  Experiment experiment;  ///< lowered; all cases have the same stages on the same ranks
};

struct ValidationOptions {
  std::int32_t rounds = 5;    ///< number of rounds that count, >= 2
  std::int32_t samples = 20;  ///< number of actions of each kind that the source measures in a round
  double tolerance = 0.05;    ///< a case holds if its mean error is at most this
  std::uint64_t seed = 1;     ///< seed of the random order in which a round runs the source and the cases
  /// A function that is called after each measurement of the source program or of a case. It receives the
  /// number of finished measurements and the number of all measurements. May be empty.
  std::function<void(std::size_t done, std::size_t total)> progress{};
};

/// The verdict on the predictions for one case. It depends on the 95 % interval of the mean error.
enum class ValidationVerdict : std::uint8_t {
  holds,    // the interval lies within the tolerance
  misses,   // the interval lies outside of the tolerance
  unclear,  // the interval contains an end of the tolerance: this machine is too noisy for this number of
            // rounds
};
template <>
inline constexpr auto kEnumWords<ValidationVerdict> =
    std::to_array<EnumWord<ValidationVerdict>>({{ValidationVerdict::holds, "holds"},
                                                {ValidationVerdict::misses, "misses"},
                                                {ValidationVerdict::unclear, "cannot be told here"}});

/// A mean over the rounds, with half the width of its 95 % interval (Student's t).
struct MeanInterval {
  double mean = 0;
  double half_width = 0;
};

/// Returns the mean of the values and its interval. Requires at least two values.
MeanInterval interval_of(const std::vector<double>& values);

/// Returns the verdict for a mean error with its interval. Requires tolerance > 0.
ValidationVerdict verdict_of(const MeanInterval& error, double tolerance);

struct ValidatedCase {
  std::string name;
  double predicted_ns = 0;  ///< mean over the rounds
  double measured_ns = 0;   ///< mean over the rounds
  MeanInterval error{};     ///< interval of predicted / measured - 1
  /// The mean over the rounds of |measured in a round / measured in the round before - 1|. No prediction
  /// can be more exact than this.
  double noise_floor = 0;
  /// The error of a prediction that uses the mean times of the predicted run itself. It shows the error
  /// that remains because of the form of the cost table.
  MeanInterval replay{};
  ValidationVerdict verdict = ValidationVerdict::unclear;
};

struct Validation {
  std::string engine{};  ///< for example "cpu-thread"
  ValidationOptions options{};
  std::vector<ValidatedCase> cases{};

  /// Returns `misses` if at least one case misses. Otherwise returns `unclear` if at least one case is
  /// unclear, and `holds` in all other cases.
  ValidationVerdict verdict() const;
};

/// A function that returns the prediction for an experiment.
using PredictExperiment = std::function<tl::expected<Result, UserError>(const Experiment&)>;

/// Runs all rounds. In each round, it measures a source program and all cases. The source is a calibration
/// program with the stages of `scenario` and all kinds of actions that the cases have. Fails if a run or a
/// prediction fails, or if prepare() rejects the scenario.
tl::expected<Validation, UserError> validate_predictions(const Scenario& scenario,
                                                         const std::vector<ValidationCase>& cases,
                                                         const ValidationOptions& options,
                                                         const CalibrationRun& run,
                                                         const PredictExperiment& predict);

/// Returns a text with a line for each case, and the verdict.
std::string validation_to_table(const Validation& validation);
/// Returns the figures of validation_to_table() as a JSON document. Times are in nanoseconds.
std::string validation_to_json(const Validation& validation);

}  // namespace penstock
