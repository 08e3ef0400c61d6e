// Schedules that search their order for what stages cost: which of a space is the best must not depend on how
// many are listed, nor on whether it was found here or on a machine with one figure changed.

#include <algorithm>
#include <cstddef>
#include <optional>

#include <gtest/gtest.h>

#include "scenarios/pricing/workload.hpp"
#include "sim/tuning/choice_values.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/sensitivity.hpp"
#include "sim/tuning/tune.hpp"
#include "tests/sim/tune_request.hpp"

namespace penstock {
namespace {

/// A configuration that is the best once its order is searched for, and has many before it until then.
TuneRequest request_of_searches() {
  TuneRequest request = tune_request(
      "model: {huggingface: llama-3.1-70b.json, sequence: 2048}\ncluster: {device: b200-sxm, nodes: 8}\n",
      64);
  request.schedules = {"interleaved", "zb-v"};
  request.choices.stages = {4, 8};
  request.choices.micro_batch_size = {2, 4};
  request.choices.sharding = {0, 1};
  request.choices.recompute = {LayerRecompute::none, LayerRecompute::selective};
  return request;
}

TEST(Tuning, HowManyAreListedDoesNotDecideWhichIsBest) {
  const TuneRequest request = request_of_searches();
  const auto shortest = tune(request, {.top = 1});
  ASSERT_TRUE(shortest) << shortest.error().message;
  const TunedConfiguration& best = shortest->candidates.front();
  EXPECT_FALSE(best.constructed);
  for (const std::size_t top : {2UL, 10UL, 20UL, 50UL}) {
    const auto report = tune(request, {.top = top});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->candidates.front().configuration, best.configuration) << top;
    EXPECT_EQ(report->candidates.front().step_ns, best.step_ns) << top;
    EXPECT_GE(report->candidates.size(), top);
  }
}

/// Also where a search has carried another one of a value forward.
TEST(Tuning, ValuesOfTheBestCostNothing) {
  const TuneRequest request = request_of_searches();
  const auto report = tune(request, {});
  ASSERT_TRUE(report) << report.error().message;
  const ChoiceTexts texts = choice_texts(request, report->candidates.front().configuration);
  for (std::size_t choice = 0; choice < kChoices.size(); ++choice) {
    const auto cost = std::ranges::find_if(report->choices, [&](const ChoiceCost& one) {
      return one.choice == kChoices[choice] && one.value == texts[choice];
    });
    ASSERT_NE(cost, report->choices.end()) << kChoices[choice];
    EXPECT_EQ(cost->best, std::optional<std::size_t>(0)) << kChoices[choice];
  }
}

TEST(Sensitivity, NoRowIsWorseThanTheBestOfThisMachineThere) {
  TuneRequest request = tune_request(
      "model: {huggingface: ../../../scenarios/library/models/llama-3.1-8b.json, sequence: 2048}\ncluster: "
      "{device: h100-sxm, nodes: 2}\n",
      32);
  request.schedules = {"interleaved", "zb-v"};
  request.choices.stages = {2, 4, 8};
  request.choices.sharding = {0, 1};
  request.choices.recompute = {LayerRecompute::none};
  const auto report = tune(request, {.top = 1});
  ASSERT_TRUE(report) << report.error().message;
  const auto rows = sensitivity(request, report->candidates.front());
  ASSERT_TRUE(rows) << rows.error();
  EXPECT_EQ(rows->size(), 8U);
  for (const SensitivityRow& row : *rows) {
    EXPECT_LE(row.loss.value_or(0), 0) << row.figure << " " << row.factor;
    const TunedConfiguration& old = report->candidates.front();
    // Another machine may balance the layers of the same configuration in another way.
    const bool is_same = row.best.configuration == old.configuration && row.best.layers == old.layers;
    EXPECT_TRUE(!is_same || !row.loss || *row.loss == 0) << row.figure << " " << row.factor;
  }
}

}  // namespace
}  // namespace penstock
