#pragma once
// Turns repeated measurements into figures: means, medians, their spread, and lines through points. It also
// extracts the durations, launches and hops from one run of a calibration program.

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The mean, the median and the spread of repeated measurements of one quantity. Predictions use the mean,
/// because a makespan is a sum of durations, and a sum of n durations is n times their mean.
struct Spread {
  Ns median_ns = 0;
  Ns mean_ns = 0;
  Ns middle_half_ns = 0;  ///< third quartile minus first quartile of the samples
  std::int64_t samples = 0;

  /// Returns the relative spread: middle_half_ns / median_ns, or 0 if the median is 0.
  double relative() const {
    return median_ns > 0 ? static_cast<double>(middle_half_ns) / static_cast<double>(median_ns) : 0;
  }
  friend bool operator==(const Spread&, const Spread&) = default;
};

/// Returns the spread of the samples. All fields are 0 if there are no samples. If the number of samples is
/// even, the median is the lower of the two middle values.
Spread spread_of(std::vector<Ns> samples);

/// A line y = constant + slope * x.
struct Line {
  double constant = 0;
  double slope = 0;
  double slope_error = 0;  ///< standard error of the slope; 0 if there are fewer than three points

  double at(double x) const { return constant + slope * x; }
  friend bool operator==(const Line&, const Line&) = default;
};

struct LinePoint {
  double x = 0;
  double y = 0;
};

/// Returns the line with the least sum of squared errors. If all points have the same x, returns a horizontal
/// line through their mean.
Line fit_line(const std::vector<LinePoint>& points);

// Extracts from one run of a calibration program the durations of actions, the times between actions, and the
// times of messages. Used by calibration.hpp.

struct StageKind {
  std::int32_t stage = 0;
  ActionKind kind = ActionKind::forward;

  friend auto operator<=>(const StageKind&, const StageKind&) = default;
};

/// A message for which the receiving rank was already waiting.
struct Hop {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  Bytes bytes = 0;
  /// The time from the end of the action that produced the message to the start of the action that needed it.
  Ns time_ns = 0;
};

struct CalibrationSamples {
  std::map<StageKind, std::vector<Ns>> durations;
  std::map<std::int32_t, std::vector<Ns>>
      /// The launch times by stage. A launch time is the time from the end of one action to the start of
      /// the next one on an otherwise idle rank.
      launches;
  std::vector<Hop> hops;
};

/// The range [first, last) of the microbatches that are measured. The same range of numbers also selects
/// the STEPs (optimizer steps) that are measured.
struct CountedMicrobatches {
  std::int32_t first = 0;
  std::int32_t last = 0;
};

/// Returns the durations, launch times and message times that `timeline` contains. Requires that it is the
/// timeline of a run of `experiment`.
CalibrationSamples samples_of(const Timeline& timeline, const Experiment& experiment,
                              const CountedMicrobatches& counted);

// The options for measuring the layers of a network (backend/torch/networks.hpp).

struct ProfileOptions {
  std::int64_t samples = 1;  ///< number of samples in the measured microbatch; >= 1
  std::int32_t warmup = 5;   ///< number of passes before the measurement; >= 0
  /// The number of measured passes, at least 1. The time of a layer in the result is the median over these
  /// passes.
  std::int32_t repeats = 30;
};

}  // namespace penstock
