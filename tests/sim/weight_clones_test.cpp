// PipeDream's released runtime clones a stage's weights warm-up + 1 times when it starts, beside the live
// ones: one version more than is ever needed, and all the time.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/resolved_scenario.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

std::vector<Bytes> versions_of(const Result& result) {
  std::vector<Bytes> bytes;
  for (const RankReport& rank : result.ranks)
    bytes.push_back(rank.memory.peaks[static_cast<std::size_t>(MemoryCategory::weight_versions)]);
  return bytes;
}

Result result_of(std::string_view text) {
  const auto scenario = parse_scenario(text, "a.yaml", ".", {});
  EXPECT_TRUE(scenario) << scenario.error();
  const auto result = simulate_scenario(scenario.value(), {});
  EXPECT_TRUE(result) << result.error().message;
  return result.value();
}

// Four stages, 1F1B: stage s runs 3 - s minibatches ahead of its first backward pass.
constexpr std::string_view kFourStages =
    "model: {stages: {forward: 1 ms, backward: 2 ms, weights: 1 MB}}\n"
    "schedule: {name: 1f1b-rr, stages: 4, microbatches: 40}\n";

TEST(WeightClones, AreOneMoreThanTheVersionsThatAreNeeded) {
  constexpr Bytes kMegabyte = 1'000'000;
  const std::string text(kFourStages);
  EXPECT_EQ(versions_of(result_of(text)),
            (std::vector<Bytes>{3 * kMegabyte, 2 * kMegabyte, 1 * kMegabyte, 0}));
  EXPECT_EQ(versions_of(result_of(text + "training: {weight_versions: needed}\n")),
            versions_of(result_of(text)));
  EXPECT_EQ(versions_of(result_of(text + "training: {weight_versions: cloned}\n")),
            (std::vector<Bytes>{4 * kMegabyte, 3 * kMegabyte, 2 * kMegabyte, 1 * kMegabyte}));
}

TEST(WeightClones, ChangeNoTime) {
  const std::string text(kFourStages);
  EXPECT_EQ(result_of(text + "training: {weight_versions: cloned}\n").makespan_ns,
            result_of(text).makespan_ns);
}

TEST(WeightClones, OfVggsFullyConnectedLayersAre472MiB) {
  const std::string file = source_path("scenarios/library/vgg16-cluster-a-15-1.yaml");
  const auto fullest = [&](const std::vector<Override>& overrides) {
    const auto result = simulate_scenario(load_scenario(file, overrides).value(), {});
    return result.value().ranks.back().memory.peak_bytes;
  };
  const Bytes more = fullest({{.key = "training.weight_versions", .value = "cloned"}}) - fullest({});
  EXPECT_EQ(more / (1 << 20), 471) << "123.6 million parameters of 4 bytes: 471.6 MiB";
}

TEST(WeightClones, AreInTheCostsOfACutThatIsTried) {
  const auto scenario = parse_scenario(
      "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, weights: 1 MB},\n"
      "                 {name: b, forward: 1 ms, backward: 2 ms, weights: 3 MB}]}\n"
      "partition: [1]\n"
      "schedule: {name: 1f1b-rr, stages: 2, microbatches: 8}\n"
      "training: {weight_versions: cloned}\n",
      "a.yaml", ".", {});
  ASSERT_TRUE(scenario) << scenario.error();
  const auto experiment = prepare(*scenario);
  ASSERT_TRUE(experiment) << experiment.error().message;
  EXPECT_EQ(experiment->costs.stages[0].cloned_weights, 2'000'000);
  EXPECT_EQ(experiment->costs.stages[1].cloned_weights, 3'000'000);
  EXPECT_EQ(costs_of_cut(*scenario, experiment->program), experiment->costs);
}

// A list that is loops has no actions to count them in.
TEST(WeightClones, KeepAProgramFromBeingStreamed) {
  const std::vector<Override> cloned = {{.key = "training.weight_versions", .value = "cloned"}};
  const auto scenario = parse_scenario(kFourStages, "a.yaml", ".", cloned);
  ASSERT_TRUE(scenario) << scenario.error();
  const auto experiment = prepare(*scenario, ProgramForm::loops);
  ASSERT_TRUE(experiment) << experiment.error().message;
  EXPECT_TRUE(experiment->loops.empty());
  EXPECT_EQ(experiment->why_lists, "clones of weights, which are counted in a stored program,");
}

}  // namespace
}  // namespace penstock
