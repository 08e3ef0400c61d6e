// Tests the time of overlapped pairs. Small cases are computed by hand, random cases are compared with their
// bounds, and one case with a published profile.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"
#include "tests/scenarios/device_workload.hpp"

namespace penstock {
namespace {

/// The seconds of all computation and of all exchanges.
struct QueueSums {
  double computation = 0;
  double exchanges = 0;
  double sum() const { return computation + exchanges; }
};
QueueSums sums_of(const std::vector<LayerPasses>& layers) {
  QueueSums sums;
  for (const LayerPasses& layer : layers) {
    for (const PartSeconds& pass : {layer.forward, layer.backward, layer.weight}) {
      sums.exchanges += pass[1] + pass[3];
      sums.computation += pass[0] + pass[2];
    }
  }
  return sums;
}

// computation   F attention 0-4 | B experts 4-8, W 8-10 | F experts 10-13 | B attention 13-16, W 16-18
// exchanges     B combine 0-2 | F dispatch 4-6 | B dispatch 8-10 | F combine 13-15
TEST(PairWalk, OneLayerByHand) {
  const std::vector<LayerPasses> layers = {
      {.forward = {4, 2, 3, 2}, .backward = {3, 2, 4, 2}, .weight = {2, 0, 2, 0}}};
  EXPECT_EQ(pair_seconds(layers), 18);
  EXPECT_EQ(hidden_seconds(layers), 8) << "all exchanges";
}

// The second F waits for the combine of the layer before it, and this combine waits for slow exchanges.
TEST(PairWalk, SlowExchangesAreTheLongerQueue) {
  const std::vector<LayerPasses> layers(2, {.forward = {1, 10, 1, 10}, .backward = {1, 10, 1, 10}});
  EXPECT_EQ(sums_of(layers).exchanges, 80);
  EXPECT_GE(pair_seconds(layers), 80);
  EXPECT_LE(pair_seconds(layers), 82);
}

TEST(PairWalk, WithoutExchangesNothingIsHidden) {
  const std::vector<LayerPasses> layers(3, {.forward = {4, 0, 3, 0}, .backward = {5, 0, 6, 0}});
  EXPECT_FALSE(layers.front().exchanges());
  EXPECT_EQ(pair_seconds(layers), 54);
  EXPECT_EQ(hidden_seconds(layers), 0);
}

TEST(PairWalk, IsBetweenTheLongerQueueAndTheSum) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> seconds(0, 9);
  for (int i = 0; i < 2000; ++i) {
    std::vector<LayerPasses> layers(1 + static_cast<std::size_t>(i) % 5);
    for (LayerPasses& layer : layers) {
      for (double& part : layer.forward) part = seconds(random);
      for (double& part : layer.backward) part = seconds(random);
      layer.weight = {static_cast<double>(seconds(random)), 0, static_cast<double>(seconds(random)), 0};
    }
    const QueueSums sums = sums_of(layers);
    const double pair = pair_seconds(layers);
    EXPECT_GE(pair, std::max(sums.computation, sums.exchanges));
    EXPECT_LE(pair, sums.sum());
    EXPECT_EQ(pair + hidden_seconds(layers), sums.sum());
  }
}

// DeepSeek has published the profile of one pair (deepseek-ai/profile-data, train.json). It has four layers
// of DeepSeek-V3 with experts, on H800 with 200 GB/s of NVLink in each direction. 64 devices share the
// experts, and a microbatch is one sequence of 4096 tokens. Computation takes 124.3 ms and messages take
// 113.4 ms, of which 96 % are hidden. The pair takes 129.0 ms.
TEST(PairWalk, HidesTheMessagesOfDeepSeeksProfile) {
  Workload work = workload_on("h100", "deepseek-v3", 4096);
  work.device.nvlink_bytes_per_second = 200e9;
  work.precision = GemmPrecision::fp8;
  work.parallel.expert = work.parallel.data = 64;
  work.parallel.expert_dispatch = ExpertDispatch::deepep;
  work.parallel.fp8_dispatch = true;
  const LayerPasses layer = passes_of(layer_terms(work, kernels_of(work), work.model.layers.back()));
  std::vector<LayerPasses> layers(4, layer);
  const QueueSums sums = sums_of(layers);
  EXPECT_NEAR(sums.computation, 0.1243, 0.15 * 0.1243);
  // The kernels of messages also wait for other devices. No price contains this time.
  EXPECT_LT(sums.exchanges, 0.1134);
  EXPECT_NEAR(pair_seconds(layers), 0.129, 0.2 * 0.129);
  // If the sums of the profile are used, only the order of the parts decides how much time is hidden.
  for (LayerPasses& of : layers) {
    for (PartSeconds* pass : {&of.forward, &of.backward, &of.weight}) {
      for (const std::size_t part : {0, 2}) pass->at(part) *= 0.1243 / sums.computation;
      for (const std::size_t part : {1, 3}) pass->at(part) *= 0.1134 / sums.exchanges;
    }
  }
  EXPECT_NEAR(hidden_seconds(layers) / 0.1134, 0.96, 0.03);
  EXPECT_NEAR(pair_seconds(layers), 0.129, 0.03 * 0.129);
}

}  // namespace
}  // namespace penstock
