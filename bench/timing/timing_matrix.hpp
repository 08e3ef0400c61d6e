#pragma once
// Configurations whose predicted time is compared with a measured one, with actions that occupy their
// threads. The labelled test and bench/timing/timing_bench.cpp share them.

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "backend/executor/module_family.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

enum class StageTimes : std::uint8_t {
  balanced,
  imbalanced,  // stage s takes 1, 1.5 or 2 times as long, in turn
  jittered,    // balanced, but each action is drawn from 80 % to 120 %; the prediction knows the draws
};
std::string_view to_text(StageTimes times);

enum class Links : std::uint8_t {
  free,
  slow,  // a latency of half a forward, and bytes that hold the link for a fifth of one
};
std::string_view to_text(Links links);

struct TimingConfiguration {
  std::string schedule;
  std::int32_t ranks = 2;         ///< K
  std::int32_t microbatches = 2;  ///< M
  StageTimes times = StageTimes::balanced;
  Links links = Links::free;
  Ns forward_ns = 2'500'000;  ///< F, I and W of all stages of a rank together; B is I + W

  /// Returns the chunks of a rank: 2 for interleaved.
  std::int32_t virtual_stages() const { return schedule == "interleaved" ? 2 : 1; }
  /// Returns F of one stage: its part of the rank's time, but at least 2.5 ms.
  Ns stage_forward_ns() const;
  /// Returns whether a rank has as much work as with other schedules, so that they may be ranked.
  bool same_model() const { return stage_forward_ns() * virtual_stages() == forward_ns; }

  friend auto operator<=>(const TimingConfiguration&, const TimingConfiguration&) = default;
};

/// Returns the scenario with the stated durations.
tl::expected<Scenario, std::string> stated_scenario(const TimingConfiguration& configuration);

/// Predicts from calibrations. Each is made once by its own programs.
class TimingPredictions {
 public:
  /// Returns the predicted makespan. Errors: a calibration or a schedule failed.
  tl::expected<Ns, std::string> predicted_ns(const TimingConfiguration& configuration);

 private:
  tl::expected<Scenario, std::string> calibrated_scenario(const TimingConfiguration& configuration);

  std::map<TimingConfiguration, std::string> cost_files_;  // by configuration without schedule and M
};

/// Returns the median of repeated runs in threads. A disturbed measurement is repeated, whatever its error,
/// up to kMostAttempts times. It is disturbed if the repeats differ much (their middle half is wider than 4 %
/// of the median), or if threads that only sleep were woken late.
inline constexpr int kMostAttempts = 8;
tl::expected<Ns, std::string> measured_ns(const TimingConfiguration& configuration, std::int32_t repeats);

struct TimingOutcome {
  TimingConfiguration configuration;
  Ns predicted = 0;
  Ns measured = 0;

  double error() const {
    return (static_cast<double>(predicted) - static_cast<double>(measured)) / static_cast<double>(measured);
  }
};

/// Returns, for example, "gpipe K=4 M=8 balanced, slow links: predicted ..., measured ..., error ...".
std::string to_text(const TimingOutcome& outcome);

/// Runs schedules in one shape and returns the predictions and measurements. Pairs of the same model that are
/// ranked wrong are measured again, at most twice.
tl::expected<std::vector<TimingOutcome>, std::string> outcomes_of(const std::vector<std::string>& schedules,
                                                                  const TimingConfiguration& shape,
                                                                  TimingPredictions& predictions,
                                                                  std::int32_t repeats);

/// Returns pairs such as "1f1b and gpipe": pairs of the same model of which one was measured to be faster by
/// over 3 % but was not predicted to be.
std::vector<std::string> ranked_wrong(const std::vector<TimingOutcome>& outcomes);

/// Returns the mean of the absolute errors.
double mean_absolute_error(const std::vector<TimingOutcome>& outcomes);

}  // namespace penstock
