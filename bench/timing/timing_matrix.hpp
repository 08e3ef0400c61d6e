#pragma once
// Configurations for which predicted times are compared with measured times. Actions occupy their threads. A
// labelled test and bench/timing/timing_bench.cpp use them.

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
  imbalanced,  // the times of stages are multiplied by 1, 1.5 and 2, cyclically
  jittered,    // balanced, but each action has a random factor from 80 % to 120 %, which the prediction also
               // uses
};
std::string_view to_text(StageTimes times);

enum class Links : std::uint8_t {
  free,
  slow,  // a latency of half a forward, and bytes that occupy the link for a fifth of a forward
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
  /// Returns the F time of one stage: its part of the rank's time, but at least 2.5 ms.
  Ns stage_forward_ns() const;
  /// Returns true if a rank has as much work as with other schedules, so that the schedules can be ranked.
  bool same_model() const { return stage_forward_ns() * virtual_stages() == forward_ns; }

  friend auto operator<=>(const TimingConfiguration&, const TimingConfiguration&) = default;
};

/// Returns the scenario with the stated durations.
tl::expected<Scenario, std::string> stated_scenario(const TimingConfiguration& configuration);

/// Makes predictions from calibrations. Each calibration is made only once.
class TimingPredictions {
 public:
  /// Returns the predicted makespan. Fails if a calibration or a schedule failed.
  tl::expected<Ns, std::string> predicted_ns(const TimingConfiguration& configuration);

 private:
  tl::expected<Scenario, std::string> calibrated_scenario(const TimingConfiguration& configuration);

  std::map<TimingConfiguration, std::string> cost_files_;  // by configuration, without schedule and M
};

/// Returns the median of repeated runs in threads. A disturbed measurement is repeated up to kMostAttempts
/// times, even if its error is small. A measurement is disturbed if the repeats differ much (the middle half
/// is wider than 4 % of the median), or if threads that only sleep wake up late.
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

/// Runs schedules with one shape, and returns their predictions and measurements. If two schedules of the
/// same model are ranked wrong, they are measured again, at most twice.
tl::expected<std::vector<TimingOutcome>, std::string> outcomes_of(const std::vector<std::string>& schedules,
                                                                  const TimingConfiguration& shape,
                                                                  TimingPredictions& predictions,
                                                                  std::int32_t repeats);

/// Returns pairs such as "1f1b and gpipe" that are ranked wrong. Both have the same model. One was measured
/// to be faster by more than 3 %, but was not predicted to be faster.
std::vector<std::string> ranked_wrong(const std::vector<TimingOutcome>& outcomes);

/// Returns the mean of the absolute errors.
double mean_absolute_error(const std::vector<TimingOutcome>& outcomes);

}  // namespace penstock
