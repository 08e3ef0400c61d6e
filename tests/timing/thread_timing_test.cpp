// Compares predicted with measured times, and prints both. The configurations are a part of those that
// bench/timing/timing_bench.cpp runs. With balanced stages, they have K = 2 and 4 with M = K, 2K and 4K, and
// K = 8 with M = K and 2K, each with free and with slow links. With slow links and M = 2K, they also have
// imbalanced stages (K = 4) and stages with jitter (K = 2 and 4). The schedule naive takes longest, so it
// runs only with M = K. The calibration of interleaved takes twice as long, so it runs only up to K = 4 and
// with equal stages.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bench/timing/timing_matrix.hpp"

namespace penstock {
namespace {

constexpr double kTolerance = 0.05;
constexpr std::int32_t kRepeats = 3;

class ThreadTiming : public testing::Test {
 protected:
  static TimingPredictions predictions;
};
TimingPredictions ThreadTiming::predictions;

std::vector<TimingConfiguration> shapes() {
  std::vector<TimingConfiguration> shapes;
  for (const std::int32_t ranks : {2, 4, 8}) {
    for (const std::int32_t rounds : {1, 2, 4}) {
      if (ranks == 8 && rounds == 4) continue;
      TimingConfiguration shape{.schedule = "", .ranks = ranks, .microbatches = ranks * rounds};
      shapes.push_back(shape);
      shape.links = Links::slow;
      shapes.push_back(shape);
      if (ranks == 8 || rounds != 2) continue;
      shape.times = StageTimes::jittered;
      shapes.push_back(shape);
      if (ranks != 4) continue;
      shape.times = StageTimes::imbalanced;
      shapes.push_back(shape);
    }
  }
  return shapes;
}

std::vector<std::string> schedules_of(const TimingConfiguration& shape) {
  std::vector<std::string> schedules = {"gpipe", "1f1b", "zb-h1"};
  if (shape.microbatches == shape.ranks) schedules.emplace_back("naive");
  if (shape.ranks <= 4 && shape.times != StageTimes::imbalanced) schedules.emplace_back("interleaved");
  return schedules;
}

TEST_F(ThreadTiming, PredictionsAreWithinFivePercentOfMeasurementsAndRankSchedulesRight) {
  std::vector<TimingOutcome> all;
  for (const TimingConfiguration& shape : shapes()) {
    const auto outcomes = outcomes_of(schedules_of(shape), shape, predictions, kRepeats);
    ASSERT_TRUE(outcomes) << outcomes.error();
    for (const TimingOutcome& outcome : *outcomes) std::printf("  %s\n", to_text(outcome).c_str());
    std::fflush(stdout);
    EXPECT_EQ(ranked_wrong(*outcomes), std::vector<std::string>{})
        << "K = " << shape.ranks << ", M = " << shape.microbatches << ", " << to_text(shape.times);
    all.insert(all.end(), outcomes->begin(), outcomes->end());
  }
  const double mean = mean_absolute_error(all);
  std::printf("  mean absolute error %.2f %% over %zu configurations\n", 100 * mean, all.size());
  EXPECT_LE(mean, kTolerance);
}

// Tests that the tolerance is narrow enough to distinguish one schedule from another.

double error_between(const TimingConfiguration& predicted, const TimingConfiguration& measured,
                     TimingPredictions& predictions) {
  const auto prediction = predictions.predicted_ns(predicted);
  const auto measurement = measured_ns(measured, kRepeats);
  if (!prediction || !measurement) return 0;
  const TimingOutcome outcome{predicted, *prediction, *measurement};
  std::printf("  as %s: %s\n", measured.schedule.c_str(), to_text(outcome).c_str());
  return std::abs(outcome.error());
}

TEST_F(ThreadTiming, APredictionOfNaiveDoesNotFitAMeasurementOfGPipe) {
  EXPECT_GT(error_between({.schedule = "naive", .ranks = 4, .microbatches = 8},
                          {.schedule = "gpipe", .ranks = 4, .microbatches = 8}, predictions),
            kTolerance);
}

TEST_F(ThreadTiming, APredictionOfGPipeDoesNotFitAMeasurementOf1F1BWhereLinksAreSlow) {
  EXPECT_GT(
      error_between({.schedule = "gpipe", .ranks = 4, .microbatches = 8, .links = Links::slow},
                    {.schedule = "1f1b", .ranks = 4, .microbatches = 8, .links = Links::slow}, predictions),
      kTolerance);
}

}  // namespace
}  // namespace penstock
