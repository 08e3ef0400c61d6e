// Tests that figures do not need a timeline. Figures from the spans of one rank after the other equal those
// of the whole timeline, for all schedules, channels and engines. Then tests the cost of a million samples,
// and the rates of copies on devices.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/priced_scenario.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/choose/plan_search.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/run_facts.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/sweep/sweep.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

SimulateOptions figures_by(Engine engine) {
  return {.engine = engine, .memory = {}, .steady = SteadyState::skip, .timeline = TimelineKept::none};
}

/// Returns the figures of a timeline. Names of devices are those of `named`.
Result of_timeline(const Timeline& timeline, const Experiment& experiment, const Result& named) {
  std::vector<std::string> devices;
  for (const RankReport& rank : named.ranks) devices.push_back(rank.device);
  return summarize(timeline, {.program = experiment.program,
                              .costs = experiment.costs,
                              .samples_per_microbatch = experiment.samples_per_microbatch,
                              .scenario = named.scenario,
                              .engine = named.engine,
                              .channels = experiment.channels,
                              .link_sharing = named.link_sharing,
                              .devices = devices,
                              .memories = memory_of(timeline, experiment, {}),
                              .links = named.links,
                              .notes = named.notes});
}

void expect_rows_figures(const Experiment& experiment, Engine engine, const Result& whole) {
  SimulateOptions options = figures_by(engine);
  options.figures = WantedFigures::of_rows;
  const Result row = *simulate(experiment, options);
  EXPECT_EQ(row.makespan_ns, whole.makespan_ns);
  EXPECT_EQ(row.bubble, whole.bubble);
  EXPECT_EQ(row.throughput, whole.throughput);
  ASSERT_EQ(row.ranks.size(), whole.ranks.size());
  for (std::size_t rank = 0; rank < row.ranks.size(); ++rank) {
    EXPECT_EQ(row.ranks[rank].busy_ns, whole.ranks[rank].busy_ns);
    EXPECT_EQ(row.ranks[rank].memory, whole.ranks[rank].memory);
  }
}

void expect_figures(const Experiment& experiment, Engine engine) {
  const auto found = simulate(experiment, figures_by(engine));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->timeline.spans.empty());
  Result expected =
      of_timeline(engine == Engine::event ? *event_simulation(experiment) : *critical_path(experiment),
                  experiment, *found);
  set_releases(expected.timeline.spans, experiment);
  SimulateOptions with_timeline = figures_by(engine);
  with_timeline.timeline = TimelineKept::all;
  EXPECT_EQ(*simulate(experiment, with_timeline), expected);
  expected.timeline = {};
  EXPECT_EQ(*found, expected);
  expect_rows_figures(experiment, engine, expected);
}

/// Returns costs with bytes of every kind, so that all memory categories occur.
CostTable heavy_costs(const Program& program) {
  CostTable costs = uniform_costs(program,
                                  {.forward_ns = 100,
                                   .backward_ns = 210,
                                   .backward_input_ns = 90,
                                   .backward_weight_ns = 120,
                                   .recompute_ns = 100,
                                   .step_ns = 11,
                                   .kept = 80,
                                   .released_by_input = 20,
                                   .recomputed = 30,
                                   .input = 7,
                                   .weights = 500,
                                   .gradients = 500,
                                   .optimizer_state = 1000,
                                   .transient = 13,
                                   .recomputed_at_once = 5},
                                  {.activation = 60, .gradient = 40});
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage)
    costs.stages[static_cast<std::size_t>(stage)].forward_ns += 37 * (stage % 3);
  return costs;
}

TEST(Figures, NeedNoTimelineOnAnyGeneratorAndChannel) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const int before = compared;
    for (const std::int32_t microbatches : {4, 8}) {
      const auto program = generate(schedule.name, {.stages = 4,
                                                    .microbatches = microbatches,
                                                    .virtual_stages = chunks_to_try(schedule),
                                                    .iterations = 2});
      if (!program) continue;
      Experiment experiment =
          experiment_of(*program, heavy_costs(*program), uniform_links(program->rank_count(), 1e9, 7));
      for (const ChannelModel model : kChannelModels) {
        for (const Blocking blocking : {Blocking::none, Blocking::each, Blocking::batched}) {
          experiment.channels = {
              .model = model, .blocking = blocking, .capacity = blocking == Blocking::none ? 1 : 0};
          if (find_hang(experiment.program, experiment.channels, experiment.costs)) continue;
          SCOPED_TRACE(testing::Message() << schedule.name << " M=" << microbatches << " " << to_text(model)
                                          << blocking_suffix(blocking));
          expect_figures(experiment, Engine::critical_path);
          ASSERT_FALSE(HasFailure());
          ++compared;
        }
      }
    }
    EXPECT_GT(compared, before) << schedule.name;
  }
  EXPECT_GT(compared, 300);
}

TEST(Figures, NeedNoTimelineOnRandomPrograms) {
  for (std::uint32_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Experiment experiment = random_experiment(seed);
    expect_figures(experiment, Engine::critical_path);
    expect_figures(experiment, Engine::event);
    ASSERT_FALSE(HasFailure());
  }
}

// The cost of a million samples, in all outputs that contain it.

/// Returns a scenario with two devices. Each costs 3.60 an hour, which is 0.001 a second.
Scenario priced_scenario(const std::string& schedule, const std::string& price = ", price: 3.6") {
  auto scenario = parse_scenario(
      "model: {stages: {forward: 1 ms, backward: 2 ms}}\ncluster: {preset: uniform, devices: 2" + price +
          "}\nschedule: {" + schedule + "}\n",
      "s.yaml", {}, {});
  EXPECT_TRUE(scenario) << scenario.error();
  return *std::move(scenario);
}

std::optional<double> cost_of(const Scenario& scenario) {
  const auto result = simulate_scenario(scenario, {});
  EXPECT_TRUE(result) << result.error().message;
  return result->throughput.cost_per_million_samples;
}

TEST(Cost, IsDevicesTimesTimeTimesPrice) {
  // One sample takes 6 ms on 2 devices, so a million samples take 12 million device-ms.
  ASSERT_TRUE(cost_of(priced_scenario("name: naive, stages: 2, microbatches: 1")));
  EXPECT_NEAR(*cost_of(priced_scenario("name: naive, stages: 2, microbatches: 1")), 12, 1e-9);
}

TEST(Cost, OfAStreamIsThatOfItsSteadyRate) {
  // 1F1B on two stages completes a minibatch every 3 ms. The cost is 2 devices * 3 ms * 1e6 samples, at 0.001
  // a second.
  EXPECT_NEAR(*cost_of(priced_scenario("name: 1f1b-rr, stages: 2, microbatches: 4")), 6, 1e-9);
}

TEST(Cost, IsAbsentWithoutAPriceAndNothingWhereDevicesAreFree) {
  EXPECT_FALSE(cost_of(priced_scenario("name: gpipe, stages: 2, microbatches: 4", "")));
  EXPECT_EQ(cost_of(priced_scenario("name: gpipe, stages: 2, microbatches: 4", ", price: 0")), 0);
  EXPECT_FALSE(cost_per_million_samples({}, 2, 1.0)) << "no rate";
}

TEST(Cost, IsInEveryRowOfASweep) {
  SweepGrid grid;
  grid.schedules = {"gpipe", "1f1b-rr"};
  grid.stages = {2};
  grid.microbatches = {4};
  const auto swept = sweep(priced_scenario("name: gpipe, stages: 2, microbatches: 4"), grid);
  ASSERT_EQ(swept.rows.size(), 2);
  EXPECT_EQ(swept.rows[0].throughput.cost_per_million_samples,
            cost_of(priced_scenario("name: gpipe, stages: 2, microbatches: 4")));
  EXPECT_NEAR(swept.rows[1].throughput.cost_per_million_samples.value(), 6, 1e-9);
}

TEST(Cost, OfAPlanIsItsDeviceHoursTimesThePrice) {
  const auto scenario = parse_scenario(
      "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms}, {name: b, forward: 1 ms, backward: 2 "
      "ms}]}\n"
      "cluster: {preset: uniform, devices: 2, price: 2}\n",
      "s.yaml", {}, {});
  ASSERT_TRUE(scenario) << scenario.error();
  const auto plan = evaluate_plan(*scenario, {});
  ASSERT_TRUE(plan) << plan.error();
  EXPECT_DOUBLE_EQ(plan->cost_per_million_samples().value(), 2 * plan->device_hours_per_million_samples());
}

// For a model on devices, Penstock predicts one of several copies of the pipeline. These tests compare it
// with a program of all copies.

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

/// Returns a scenario whose program contains all copies. Its reductions have no bytes, because the stages'
/// STEPs include their time.
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

double sent_bytes(const Result& result) {
  double sent = 0;
  for (const RankReport& rank : result.ranks) sent += static_cast<double>(rank.sent_bytes);
  return sent;
}

/// The time of a reduction without bytes among four copies: 2 (n - 1) latencies of 5 us.
constexpr Ns kRingLatency = Ns{2} * 3 * 5'000;

// There are four copies with four stages each. All 16 ranks must have the times of the four ranks of one
// copy.
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
    EXPECT_EQ(one.program.copies, 4);
    EXPECT_EQ(all.program.copies, 1);
    // The links of `one` are those of one copy, so their bytes belong to a quarter of the samples.
    EXPECT_DOUBLE_EQ(sent_bytes(one) / samples_of_copy(one), sent_bytes(all) / samples_of_copy(all));
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
