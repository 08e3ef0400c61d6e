// A model on devices is one pipeline of several copies. Here all of them run.

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <variant>

#include "scenarios/model/device_model.hpp"
#include "scenarios/prepare/device_prices.hpp"
#include "scenarios/read/load.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

constexpr std::string_view kFourCopies = R"(
model: {huggingface: llama-3.1-8b.json, sequence: 4096, layers: 16}
cluster: {device: h100-sxm, nodes: 4}
parallel: {tensor: 2}
schedule: {name: 1f1b, stages: 4}
training: {global_batch_size: 64}
)";

Scenario scheduled(const std::string& schedule) {
  return parse_scenario(kFourCopies, "a.yaml", source_path("scenarios/library/models"),
                        std::vector<Override>{{.key = "schedule.name", .value = schedule}})
      .value();
}

/// The same stages in a program of all copies, whose reductions move nothing: what they cost is part of STEP.
Scenario all_copies(const Scenario& scenario) {
  const SettledScenario one = price_on_devices(scenario).value().settled;
  Scenario copies = one.scenario;
  copies.shape.data_parallel = one.copies;
  copies.batch.global_batch_size = *one.scenario.batch.global_batch_size * one.copies;
  auto& cluster = std::get<UniformCluster>(copies.cluster.shape);
  cluster.devices *= one.copies;
  auto& figures = std::get<StageFigures>(copies.model);
  for (Bytes& gradients : figures.gradients.values) gradients = 0;
  return copies;
}

/// What is left of a reduction of no bytes among four: 2 (n - 1) latencies of 5 us.
constexpr Ns kRingLatency = Ns{2} * 3 * 5'000;

// Four copies of four stages, eight devices each: 16 ranks that all do what the four of one copy do.
TEST(DeviceCopies, OneStandsForAll) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    SCOPED_TRACE(schedule);
    const Scenario scenario = scheduled(schedule);
    const Result one = simulate_scenario(scenario, {}).value();
    const Result all = simulate_scenario(all_copies(scenario), {}).value();
    ASSERT_EQ(one.ranks.size(), 4U);
    ASSERT_EQ(all.ranks.size(), 16U);
    EXPECT_EQ(all.makespan_ns, one.makespan_ns + kRingLatency);
    EXPECT_NEAR(all.throughput.samples_per_second / one.throughput.samples_per_second, 1, 1e-4);
    EXPECT_NEAR(all.bubble.idle_over_total, one.bubble.idle_over_total, 1e-4);
    for (std::size_t rank = 0; rank < 4; ++rank)
      EXPECT_EQ(one.ranks[rank].busy_ns, all.ranks[4 * rank].busy_ns) << rank;
  }
}

TEST(DeviceCopies, RatesAreThoseOfAllDevices) {
  const Result result = simulate_scenario(scheduled("1f1b"), {}).value();
  ASSERT_TRUE(result.model);
  ASSERT_TRUE(result.throughput.model);
  EXPECT_EQ(result.model->devices, 32);
  const ModelRates& rates = *result.throughput.model;
  EXPECT_DOUBLE_EQ(rates.tokens_per_second, 64 * 4096 / (static_cast<double>(result.makespan_ns) * 1e-9));
  EXPECT_DOUBLE_EQ(rates.tokens_per_second_per_device, rates.tokens_per_second / 32);
  EXPECT_DOUBLE_EQ(rates.mfu, rates.model_flops_per_second_per_device / 989.4e12);
  EXPECT_GT(rates.mfu, 0.2);
  EXPECT_LT(rates.mfu, 0.6);
}

}  // namespace
}  // namespace penstock
