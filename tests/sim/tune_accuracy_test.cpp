// Tests the accuracy that `tune` states for its answer: the error of the ratio of two measured runs, and the
// nearest measured run.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/model/model.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/tune.hpp"
#include "sim/choose/tune_questions.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "tests/sim/tune_request.hpp"

namespace penstock {
namespace {

/// Returns a report with one candidate on `nodes` nodes of eight devices. The accuracy depends on nothing
/// else.
TuneReport report_on(std::int32_t nodes) {
  TunedConfiguration best;
  best.configuration.nodes = nodes;
  best.configuration.data = 8 * nodes;
  TuneReport report;
  report.candidates = {best};
  return report;
}

NearestRun nearest_to(const std::string& scenario, std::int32_t nodes) {
  const TuneRequest request = tune_request(scenario, 64);
  return accuracy_groups(request, report_on(nodes)).nearest;
}

std::string question_on(std::string_view device, std::string_view model, std::string_view precision) {
  return "model: {huggingface: " + std::string(model) +
         ", sequence: 8192}\ncluster: {device: " + std::string(device) +
         "}\ntraining: {precision: " + std::string(precision) + "}\n";
}

TEST(NearestRun, HasTheDeviceAndThePrecisionOfTheQuestion) {
  const NearestRun small = nearest_to(question_on("h100-sxm", "llama-3.1-70b.json", "fp8"), 8);
  EXPECT_EQ(small.device, "h100-sxm");
  EXPECT_EQ(small.model, "llama-3.1-70b");
  EXPECT_EQ(small.precision, "fp8");
  EXPECT_EQ(small.devices, 64);
  EXPECT_EQ(small.none, "");
  EXPECT_LT(std::abs(small.error), 0.2);
  EXPECT_EQ(nearest_to(question_on("h100-sxm", "llama-3.1-70b.json", "fp8"), 256).devices, 2048);
}

TEST(NearestRun, NamesWhatNoMeasuredRunHas) {
  const NearestRun other = nearest_to(question_on("h200-sxm", "llama-3.1-70b.json", "bf16"), 8);
  // On H200 only fp8 was measured.
  EXPECT_EQ(other.device, "h200-sxm");
  EXPECT_EQ(other.precision, "fp8");
  EXPECT_EQ(other.none, "bf16 on h200-sxm");
  EXPECT_THAT(nearest_text(other), testing::EndsWith("; bf16 on h200-sxm: none"));
}

// Predictions with CUDA graphs are compared with rows that have them. Rows without them count if the scenario
// states the time of the host.
TEST(NearestRun, HasCudaGraphsIfThePredictionAssumesThem) {
  const std::string question = question_on("h100-sxm", "qwen3-30b-a3b.json", "fp8");
  const NearestRun with_graphs = nearest_to(question, 2);
  EXPECT_EQ(with_graphs.host_layer_ms, 0);
  EXPECT_THAT(nearest_text(with_graphs), testing::Not(testing::HasSubstr("CUDA graphs")));
  std::string with_host = question;
  with_host.replace(with_host.rfind('}'), 1, ", host_layer: 8.8 ms}");
  const NearestRun without = nearest_to(with_host, 2);
  EXPECT_EQ(without.model, "qwen3-30b-a3b");
  EXPECT_EQ(without.devices, 16);
  EXPECT_THAT(nearest_text(without), testing::HasSubstr("no CUDA graphs and so a host_layer of 8.8 ms: "));
}

/// Returns the spread of the pairs, computed row by row. Rows that differ only in their seconds are repeats.
PairSpread slow_spread(bool experts) {
  MeasuredRuns runs = all_library_runs();
  std::erase_if(runs.runs, [&](const MeasuredRun& run) {
    return std::get<DeviceModel>(run.scenario.model).work.model.experts.has_value() != experts;
  });
  const RunsReport report = predict_runs(runs, nullptr, nullptr).value();
  // Configurations of one job differ in the predicted step, the schedule or the recomputed parts. The errors
  // of repeats are averaged.
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::int64_t, std::int64_t>,
           std::map<std::pair<double, std::string>, std::vector<double>>>
      jobs;
  for (std::size_t i = 0; i < runs.runs.size(); ++i) {
    const MeasuredRun& run = runs.runs[i];
    const auto& model = std::get<DeviceModel>(run.scenario.model);
    const std::int64_t batch =
        *run.scenario.batch.micro_batch_size * *run.scenario.batch.microbatches * *model.copies;
    jobs[{run.source, run.model + std::to_string(model.work.model.layers.size()), run.device,
          run.precision + std::to_string(model.work.sequence), model.devices, batch}]
        [{report.rows[i].predicted_seconds, run.scenario.schedule + to_text(model.work.recompute)}]
            .push_back(std::log1p(report.rows[i].error));
  }
  PairSpread spread;
  double squares = 0;
  for (const auto& [job, configurations] : jobs) {
    std::vector<double> errors;
    for (const auto& [seconds, repeats] : configurations) {
      double sum = 0;
      for (const double error : repeats) sum += error;
      errors.push_back(sum / static_cast<double>(repeats.size()));
    }
    if (errors.size() > 1) ++spread.jobs;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        squares += (errors[i] - errors[j]) * (errors[i] - errors[j]);
        ++spread.pairs;
      }
    }
  }
  spread.deviation = std::sqrt(squares / static_cast<double>(spread.pairs));
  return spread;
}

TEST(PairSpread, ComesFromPairsOfConfigurationsAndNotFromRepeats) {
  for (const std::string_view scenario : {kTunedLlama, kTunedMixtral}) {
    const TuneRequest request = tune_request(scenario, 64);
    const PairSpread spread = accuracy_groups(request, report_on(1)).spread;
    const PairSpread slow = slow_spread(scenario == kTunedMixtral);
    EXPECT_EQ(spread.pairs, slow.pairs);
    EXPECT_EQ(spread.jobs, slow.jobs);
    EXPECT_NEAR(spread.deviation, slow.deviation, 1e-9);
    EXPECT_GT(spread.pairs, 3U);
  }
}

TEST(AccuracyGroups, AGroupIsWithinTwiceTheDeviationOfItsFirst) {
  const TuneRequest request = tune_request(kTunedLlama, 64);
  TuneReport report = report_on(1);
  const double deviation = accuracy_groups(request, report).spread.deviation;
  report.candidates.resize(4, report.candidates.front());
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    report.candidates[i].tokens_per_second_per_device =
        1000 * std::exp(-1.5 * deviation * static_cast<double>(i));
  }
  EXPECT_EQ(accuracy_groups(request, report).groups, (std::vector<std::size_t>{0, 0, 1, 1}));
}

}  // namespace
}  // namespace penstock
