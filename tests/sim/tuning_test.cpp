// Compares the search for configurations with slow methods on the same space: one computes the times of all
// configurations, and one gets all figures from simulate(). tuning_space_test.cpp tests the space.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/configuration_figures.hpp"
#include "sim/choose/configuration_prices.hpp"
#include "sim/choose/tune.hpp"
#include "sim/choose/tune_questions.hpp"
#include "sim/choose/tuning_space.hpp"
#include "sim/hold/measured_runs.hpp"
#include "tests/sim/tune_request.hpp"
#include "tests/test_files.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

std::vector<std::string> all_tunable_schedules() {
  return {"naive",
          "gpipe",
          "1f1b",
          "interleaved",
          "zb-h1",
          "zb-h2",
          "zb-1p",
          "zb-2p",
          "kfkb",
          "zb-v",
          "v-half",
          "v-min",
          "1f1b-v",
          "hanayo",
          "looped-bfs",
          "eager-1f1b",
          "dualpipe-v",
          "zbv-zero-bubble",
          "interleaved-zero-bubble",
          "1f1b-vocab-1",
          "1f1b-vocab-2"};
}

Bytes peak_of(const Result& result) {
  Bytes peak = 0;
  for (const RankReport& rank : result.ranks) peak = std::max(peak, rank.memory.peak_bytes);
  return peak;
}

// --- bounds, times and peaks ------------------------------------------------------------------------------

TEST(Tuning, BoundsAreNeverAboveTheTruth) {
  for (const std::string_view scenario : {kTunedLlama, kTunedMixtral}) {
    TuneRequest request = tune_request(scenario, 16);
    request.schedules = all_tunable_schedules();
    request.choices.context = {1, 2};
    request.choices.recompute = {LayerRecompute::none, LayerRecompute::full};
    request.choices.stages = {1, 2, 4};
    request.choices.sharding = {1};
    const auto space = tuning_space(request);
    ASSERT_TRUE(space) << space.error();
    ConfigurationPrices prices(request);
    ProgramLibrary programs(request);
    for (const Configuration& of : *space) {
      const ScheduleOutline& outline = **programs.outline(of);
      const PricedConfiguration priced = prices.of(of, outline);
      const LowerBounds bounds = lower_bounds(priced, outline, of.microbatches);
      const auto program = programs.program(of);
      ASSERT_TRUE(program) << program.error();
      const Ns step_ns = step_times(**program, {&priced, 1}).front();
      ASSERT_LE(bounds.step_ns, step_ns) << of.schedule << " " << of.stages << " x " << of.virtual_stages;
      ASSERT_LE(bounds.peak_bytes, peak_bytes(**program, {&priced, 1}).front())
          << of.schedule << " " << of.stages << " x " << of.virtual_stages << " M " << of.microbatches;
      // With one stage, the bound equals the step time.
      const bool is_tight = of.schedule == "1f1b" && of.stages == 1;
      EXPECT_TRUE(!is_tight || bounds.step_ns == step_ns);
    }
  }
}

TEST(Tuning, TheBoundOfMemoryCountsTheInputOfTheRunningAction) {
  // rank 0   0F0 0F1 0B0 0F2 0B1 ...     0B0 runs with two activations and the gradient from stage 1
  // rank 1   1F0 1B0 1F1 1B1 ...         1F0 runs with one activation and the output of stage 0
  const ScheduleOutline outline = outline_of(*generate("1f1b", {.stages = 2, .microbatches = 4}));
  const CostTable costs{.stages = {{.kept = 10}, {.kept = 10}}, .edges = {{.activation = 3, .gradient = 2}}};
  EXPECT_EQ(least_peak_bytes(costs, outline.ranks[0]), 20);
  EXPECT_EQ(least_peak_bytes(costs, outline, outline.ranks[0]), 20 + 2);
  EXPECT_EQ(least_peak_bytes(costs, outline.ranks[1]), 10);
  EXPECT_EQ(least_peak_bytes(costs, outline, outline.ranks[1]), 10 + 3);
}

// Quick bounds are sums over layers. They must hold for every division of the layers that a price may choose.
TEST(Tuning, QuickBoundsAreNeverAboveTheBoundsOfPrices) {
  std::size_t tight = 0;
  std::size_t compared = 0;
  std::size_t level_ones = 0;
  std::size_t level_tight = 0;
  for (const std::string_view scenario : {kTunedLlama, kTunedMixtral}) {
    TuneRequest request = tune_request(scenario, 32);
    request.schedules = all_tunable_schedules();
    const auto space = tuning_space(request);
    ASSERT_TRUE(space) << space.error();
    ConfigurationPrices prices(request);
    ProgramLibrary programs(request);
    for (const Configuration& of : *space) {
      const auto outline = programs.outline(of);
      if (!outline) continue;
      const LowerBounds exact = lower_bounds(prices.of(of, **outline), **outline, of.microbatches);
      const auto quick = prices.quick_bounds(of, **outline);
      ASSERT_TRUE(quick);
      const std::string name = fmt::format("{} {} x {}, M {}, ZeRO {}, layers {}", of.schedule, of.stages,
                                           of.virtual_stages, of.microbatches, of.sharding, of.layer_split);
      ASSERT_LE(quick->step_ns, exact.step_ns) << name;
      ASSERT_LE(quick->peak_bytes, exact.peak_bytes) << name;
      ++compared;
      if (5 * quick->peak_bytes > 4 * exact.peak_bytes) ++tight;
      const auto level = prices.level_bounds(of, **outline);
      if (!level) continue;
      ASSERT_LE(level->step_ns, exact.step_ns) << name;
      ASSERT_LE(level->peak_bytes, exact.peak_bytes) << name;
      ++level_ones;
      if (5 * level->peak_bytes > 4 * exact.peak_bytes) ++level_tight;
    }
  }
  // If no level layers fit, they stay level, so nearly all of their bounds are close.
  EXPECT_GT(level_ones, 100U);
  EXPECT_GT(level_tight, level_ones / 10 * 9);
  EXPECT_GT(compared, 1000U);
  // The bounds must be close enough to exclude configurations.
  EXPECT_GT(tight, compared / 2);
}

// Only the first layers of each kind are priced. The sums must be those of all layers, each priced as a stage
// of its own. DeepSeek-V3 begins with three dense layers, and gpt-oss has two kinds in turns.
TEST(Tuning, SumsOfPartsAreThoseOfAllLayersOneByOne) {
  const auto of_part = [](const PartCost& cost) {
    return std::vector<double>{cost.forward_ns,        cost.input_ns,   cost.weight_ns, cost.kept,
                               cost.released_by_input, cost.recomputed, cost.constant,  cost.gradients};
  };
  for (const std::string_view model : {"llama-3.1-70b", "deepseek-v3", "gpt-oss-20b"}) {
    const auto scenario = parse_scenario(
        fmt::format("model: {{huggingface: {}.json, sequence: 4096}}\ncluster: {{device: h100-sxm}}\n",
                    model),
        "test.yaml", source_path("scenarios/library/models"));
    ASSERT_TRUE(scenario) << scenario.error();
    const auto& on_devices = std::get<DeviceModel>(scenario->model);
    const LayerPrices prices(on_devices.work, *on_devices.kernels);
    for (const bool one_rank_has_both_ends : {false, true}) {
      const PartSums sums = part_sums(on_devices.work, prices, one_rank_has_both_ends);
      std::vector<std::int64_t> layers(on_devices.work.model.layers.size() + 2, 1);
      layers.front() = layers.back() = 0;
      std::vector<std::int32_t> ranks(layers.size());
      std::iota(ranks.begin(), ranks.end(), 0);
      if (one_rank_has_both_ends) ranks.back() = 0;
      const std::vector<StagePrice> parts = price_stages(on_devices.work, prices, layers, ranks);
      ASSERT_EQ(sums.before.size(), parts.size() + 1);
      double least_transient = parts[1].transient_bytes;
      std::vector<double> before(8, 0);
      for (std::size_t part = 0; part < parts.size(); ++part) {
        const StagePrice& price = parts[part];
        const std::vector<double> own = {price.forward_s * kNanosecondsPerSecond,
                                         price.backward_input_s * kNanosecondsPerSecond,
                                         price.backward_weight_s * kNanosecondsPerSecond,
                                         price.kept_bytes,
                                         price.released_by_input,
                                         price.recomputed_bytes,
                                         price.weight_bytes + price.optimizer_bytes,
                                         price.gradient_bytes};
        for (std::size_t i = 0; i < before.size(); ++i) before[i] += own[i];
        ASSERT_EQ(of_part(sums.before[part + 1]), before) << model << " part " << part;
        if (part > 0 && part + 1 < parts.size())
          least_transient = std::min(least_transient, price.transient_bytes);
      }
      EXPECT_EQ(sums.embedding.whole, parts.front().transient_bytes);
      EXPECT_EQ(sums.head.whole, parts.back().transient_bytes);
      EXPECT_EQ(sums.layer.whole, least_transient);
    }
  }
}

// Prices beyond 64 bits are an error of the search, also if the first bounds are found without prices.
TEST(Tuning, ConfigurationsNearTheEndOf64BitsHaveNoQuickBounds) {
  TuneRequest request = tune_request(kTunedLlama, 64);
  std::get<DeviceModel>(request.base.model).work.host_layer_seconds = 1e7;
  const auto report = tune(request, {});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, testing::HasSubstr(" nanoseconds or bytes: "));
}

TEST(Tuning, FiguresAreThoseOfSimulate) {
  for (const std::string_view scenario : {kTunedLlama, kTunedMixtral}) {
    TuneRequest request = tune_request(scenario, 16);
    request.choices.context = {1, 2};
    const auto report = tune(request, {.top = 5});
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_GE(report->candidates.size(), 5U);
    for (const TunedConfiguration& tuned : report->candidates) {
      if (tuned.constructed) continue;
      const Result result = simulated_configuration(request, tuned);
      EXPECT_EQ(tuned.step_ns, result.makespan_ns);
      EXPECT_EQ(tuned.peak_bytes, peak_of(result));
      EXPECT_NEAR(tuned.mfu, result.throughput.model->mfu, 1e-12);
      EXPECT_NEAR(tuned.tokens_per_second_per_device, result.throughput.model->tokens_per_second_per_device,
                  1e-6);
      EXPECT_EQ(tuned.fits, std::ranges::none_of(result.ranks, [](const RankReport& rank) {
                  return rank.memory.out_of_memory();
                }));
    }
  }
}

// Rules may divide layers equally, such as even and balanced. The report lists such a configuration once.
TEST(Tuning, NoTwoCandidatesAreTheSame) {
  const TuneRequest request = tune_request(kTunedLlama, 16);
  const auto report = tune(request, {.top = 25});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GE(report->candidates.size(), 25U);
  for (std::size_t i = 0; i < report->candidates.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const TunedConfiguration& one = report->candidates[i];
      const TunedConfiguration& other = report->candidates[j];
      Configuration alike = one.configuration;
      alike.layer_split = other.configuration.layer_split;
      EXPECT_FALSE(alike == other.configuration && one.step_ns == other.step_ns &&
                   one.peak_bytes == other.peak_bytes)
          << j << " " << i;
    }
  }
  // The value of a listed twin refers to the candidate that represents the twin.
  for (const ChoiceCost& choice : report->choices) {
    EXPECT_LT(choice.best.value_or(0), report->candidates.size()) << choice.choice << " " << choice.value;
  }
}

TEST(Tuning, SelectiveRecomputationIsListedOnlyIfNoneIsNot) {
  for (const std::string_view scenario : {kTunedLlama, kTunedMixtral}) {
    TuneRequest none = tune_request(scenario, 16);
    none.choices.recompute = {LayerRecompute::none};
    TuneRequest both = none;
    both.choices.recompute.push_back(LayerRecompute::selective);
    TuneRequest selective = none;
    selective.choices.recompute = {LayerRecompute::selective};
    const auto space = tuning_space(none);
    ASSERT_TRUE(space) << space.error();
    EXPECT_EQ(tuning_space(both), space);
    EXPECT_EQ(tuning_space(selective)->size(), space->size());
    // The two configurations may count as one only if they have the same price.
    ConfigurationPrices prices(none);
    ProgramLibrary programs(none);
    for (Configuration of : *space) {
      const ScheduleOutline& outline = **programs.outline(of);
      const PricedConfiguration plain = prices.of(of, outline);
      of.recompute = LayerRecompute::selective;
      ASSERT_EQ(prices.of(of, outline), plain);
    }
  }
}

/// The programs need lowered lists, because of blocking channels or host launches, or have overlapped
/// actions.
TEST(Tuning, FiguresAreThoseOfSimulateWhereTurnsDoNotTell) {
  TuneRequest blocking = tune_request(kTunedLlama, 16);
  blocking.base.channels.blocking = Blocking::each;
  TuneRequest launching = tune_request(kTunedLlama, 16);
  launching.base.launch.overhead_ns = 30'000;
  TuneRequest overlapping = tune_request(kTunedLlama, 16);
  overlapping.schedules = {"dualpipe-v"};
  for (TuneRequest request : {blocking, launching, overlapping}) {
    request.choices.stages = {2, 4};  // because one stage sends no messages
    const auto report = tune(request, {.top = 5, .refined = 0});
    ASSERT_TRUE(report) << report.error().message;
    int compared = 0;
    for (const TunedConfiguration& tuned : report->candidates) {
      if (tuned.constructed) continue;
      const Result result = simulated_configuration(request, tuned);
      EXPECT_EQ(tuned.step_ns, result.makespan_ns) << tuned.configuration.schedule;
      EXPECT_EQ(tuned.peak_bytes, peak_of(result)) << tuned.configuration.schedule;
      ++compared;
    }
    EXPECT_GT(compared, 0);
  }
}

/// Bounds exclude most ranks of deep pipelines with many microbatches.
TEST(Tuning, PeaksOfDeepPipelinesAreThoseOfSimulate) {
  TuneRequest request = tune_request(
      "model: {huggingface: llama-3.1-405b.json, sequence: 8192, layers: 30}\n"
      "cluster: {device: h100-sxm, nodes: 16}\n",
      64);
  request.schedules = all_tunable_schedules();
  request.choices.tensor = {8};
  request.choices.context = {1};
  request.choices.stages = {8, 16};
  request.choices.micro_batch_size = {1};
  request.choices.sharding = {0, 1};
  request.choices.recompute = {LayerRecompute::none};
  const auto space = tuning_space(request);
  ASSERT_TRUE(space) << space.error();
  ConfigurationPrices prices(request);
  ProgramLibrary programs(request);
  for (const Configuration& of : *space) {
    if (find_schedule(of.schedule)->weighs_costs) continue;
    const auto program = programs.program(of);
    ASSERT_TRUE(program) << program.error();
    const PricedConfiguration priced = prices.of(of, **programs.outline(of));
    EXPECT_EQ(peak_bytes(**program, {&priced, 1}).front(),
              peak_of(simulated_configuration(with_layers(request, of, priced.layers), of)))
        << of.schedule << " " << of.stages << " x " << of.virtual_stages << " layout " << of.layer_split;
  }
}

TEST(Tuning, SchedulesThatSearchAreRefinedAmongTheFirst) {
  TuneRequest request = tune_request(kTunedLlama, 16);
  request.schedules = {"zb-v", "v-half", "zb-1p"};
  request.choices.stages = {4};
  TuneRequest launching = request;
  launching.base.launch.overhead_ns = 30'000;
  for (const TuneRequest& asked : {request, launching}) {
    const auto report = tune(asked, {.top = 20, .refined = 3});
    ASSERT_TRUE(report) << report.error().message;
    for (std::size_t i = 0; i < 3; ++i) {
      const TunedConfiguration& tuned = report->candidates[i];
      EXPECT_FALSE(tuned.constructed);
      const Result result = simulated_configuration(asked, tuned);
      EXPECT_EQ(tuned.step_ns, result.makespan_ns);
      EXPECT_EQ(tuned.peak_bytes, peak_of(result));
    }
  }
}

// --- the search -------------------------------------------------------------------------------------------

TEST(Tuning, ABatchThatFitsNoMachineIsRefused) {
  const auto report = tune(tune_request(kTunedLlama, 1'000'000'000), {});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, testing::HasSubstr("take a smaller global batch"));
}

/// Returns the reason why the costs of the request's first configuration cannot be computed.
std::string price_fault(TuneRequest request) {
  request.schedules = {"1f1b"};
  request.choices.stages = {4};
  const auto space = tuning_space(request);
  if (!space || space->empty()) return "no configuration";
  ConfigurationPrices prices(request);
  ProgramLibrary programs(request);
  const Configuration& first = space->front();
  return prices.of(first, **programs.outline(first)).fault;
}

TEST(Tuning, WhatDoesNotFitIsNamedByItsStage) {
  TuneRequest request = tune_request(kTunedLlama, 64);
  EXPECT_EQ(price_fault(request), "");
  std::get<DeviceModel>(request.base.model).work.host_layer_seconds = 1e7;
  EXPECT_THAT(price_fault(request),
              testing::AllOf(testing::StartsWith("tune: one thing after the other, a step of "),
                             testing::HasSubstr(" nanoseconds or bytes: 3B takes 1.333e+07 s, 32"),
                             testing::EndsWith(" times; take shorter times, smaller sizes or faster links")));
  // Here, a single microbatch exceeds 64 bits.
  std::get<DeviceModel>(request.base.model).work.host_layer_seconds = 4e9;
  EXPECT_THAT(
      price_fault(request),
      testing::AllOf(testing::StartsWith("model: a stage takes "),
                     testing::EndsWith(" beyond 64 bits: 3B takes 5.333e+09 s; take a shorter sequence or "
                                       "fewer samples")));
}

void expect_same_answer(const TuneRequest& request, std::size_t top) {
  const auto pruned = tune(request, {.top = top});
  const auto all = tune(request, {.top = top, .prune = false});
  ASSERT_TRUE(pruned) << pruned.error().message;
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->evaluated, all->space);
  EXPECT_EQ(pruned->evaluated + pruned->pruned_by_memory + pruned->pruned_by_time, all->space);
  ASSERT_EQ(pruned->candidates.size(), all->candidates.size());
  for (std::size_t i = 0; i < all->candidates.size(); ++i) {
    EXPECT_EQ(pruned->candidates[i].configuration, all->candidates[i].configuration) << i;
    EXPECT_EQ(pruned->candidates[i].step_ns, all->candidates[i].step_ns) << i;
    EXPECT_EQ(pruned->candidates[i].peak_bytes, all->candidates[i].peak_bytes) << i;
  }
  EXPECT_EQ(pruned->front, all->front);
  ASSERT_EQ(pruned->choices.size(), all->choices.size());
  for (std::size_t i = 0; i < all->choices.size(); ++i) {
    EXPECT_EQ(pruned->choices[i].best, all->choices[i].best)
        << all->choices[i].choice << all->choices[i].value;
    EXPECT_EQ(pruned->choices[i].faster, all->choices[i].faster) << all->choices[i].choice;
  }
}

TEST(Tuning, PruningChangesNothing) {
  expect_same_answer(tune_request(kTunedLlama, 16), 20);
  expect_same_answer(tune_request(kTunedMixtral, 8), 10);
}

TEST(Tuning, PruningChangesNothingWhereLittleOrNothingFits) {
  for (const std::string_view memory : {"30GiB", "20GiB", "1GiB"}) {
    const std::string scenario =
        "model: {huggingface: llama-3.1-70b.json, sequence: 4096, layers: 8}\n"
        "cluster: {device: h100-sxm, memory: " +
        std::string(memory) + "}\n";
    expect_same_answer(tune_request(scenario, 16), 10);
  }
}

/// The exact figures are close to their bounds. The first configurations of a round therefore exclude most
/// others. Those must not be timed at the same time.
TEST(Tuning, FewConfigurationsAreTimedWhereBoundsAreClose) {
  TuneRequest request = tune_request(R"(
model: {huggingface: ../../../scenarios/library/models/llama-3.1-8b.json, sequence: 8192}
cluster: {device: h100-sxm, nodes: 2}
)",
                                     64);
  request.schedules = {"1f1b", "interleaved"};
  const auto report = tune(request, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->space, 15'000U);
  EXPECT_LT(report->evaluated, 800U);
}

/// The search of a long order gets no passes, because there would be too few of them. A short order gets the
/// default number.
TEST(Tuning, LongOrdersAreNotSearched) {
  const TuneRequest request = tune_request(kTunedLlama, 16);
  const auto passes = [&](std::int32_t microbatches) {
    return scenario_of(request,
                       {.stages = 64, .virtual_stages = 2, .schedule = "zb-v", .microbatches = microbatches})
        .shape.effort.passes;
  };
  EXPECT_EQ(passes(8), SearchEffort::kDefaultPasses);
  EXPECT_EQ(passes(128), 101);
  EXPECT_EQ(passes(400), 32);
  EXPECT_EQ(passes(1024), 0);
}

TEST(Tuning, WhatIsReservedHoldsNothing) {
  const auto fits = [](std::int64_t reserved_bytes) {
    TuneRequest request = tune_request(kTunedLlama, 16);
    std::get<DeviceModel>(request.base.model).work.device.reserved_bytes = reserved_bytes;
    const TunedConfiguration best = tune(request, {.top = 1})->candidates.front();
    const auto usable = model_of(request).work.device.usable_memory();
    EXPECT_EQ(best.fits, best.peak_bytes <= *usable);
    const Result result = simulated_configuration(request, best.configuration);
    EXPECT_EQ(best.fits, !any_out_of_memory(result));
    EXPECT_EQ(result.ranks.front().memory.usable(), usable);
    return best.fits;
  };
  EXPECT_TRUE(fits(0));
  EXPECT_FALSE(fits(70LL << 30));
}

TEST(Tuning, TheBestIsTheFastestThatFits) {
  const TuneRequest request = tune_request(kTunedLlama, 16);
  const auto report = tune(request, {.top = 10, .prune = false});
  ASSERT_TRUE(report);
  const TunedConfiguration& best = report->candidates.front();
  for (const TunedConfiguration& other : report->candidates)
    EXPECT_TRUE(!other.fits || other.step_ns >= best.step_ns);
  // Along the front, the time increases and the memory decreases, so no candidate is better in both.
  for (std::size_t i = 1; i < report->front.size(); ++i) {
    EXPECT_GE(report->candidates[report->front[i]].step_ns, report->candidates[report->front[i - 1]].step_ns);
    EXPECT_LT(report->candidates[report->front[i]].peak_bytes,
              report->candidates[report->front[i - 1]].peak_bytes);
  }
}

// In the measurement, plain data parallelism was 11 % faster than an earlier prediction for chunks of one
// layer on 2 stages.
TEST(Tuning, AModelThatFitsOnOneDeviceNeedsNeitherChunksNorARing) {
  TuneRequest request = tune_request(R"(
model: {huggingface: ../../../scenarios/library/models/llama-3.1-8b.json, sequence: 8192}
cluster: {device: h100-sxm, nodes: 4}
)",
                                     512);
  request.schedules = {"1f1b", "interleaved"};
  const auto report = tune(request, {.top = 1});
  ASSERT_TRUE(report) << report.error().message;
  const Configuration& best = report->candidates.front().configuration;
  EXPECT_EQ(best.stages, 1);
  EXPECT_EQ(best.context, 1);
  EXPECT_EQ(best.tensor, 1);
}

TEST(Tuning, AChoiceCostsWhatTheSmallerSpaceLacks) {
  const TuneRequest request = tune_request(kTunedLlama, 16);
  const auto report = tune(request, {});
  ASSERT_TRUE(report);
  for (const ChoiceCost& choice : report->choices) {
    if (choice.choice != "tensor") continue;
    TuneRequest held = request;
    held.choices.tensor = {std::stoi(choice.value)};
    const auto smaller = tune(held, {.top = 1, .refined = 0});
    ASSERT_TRUE(smaller);
    if (!choice.best) {
      EXPECT_FALSE(smaller->candidates.front().fits);
    } else if (!report->candidates[*choice.best].constructed &&
               find_schedule(report->candidates[*choice.best].configuration.schedule)->weighs_costs ==
                   false) {
      EXPECT_EQ(report->candidates[*choice.best].step_ns, smaller->candidates.front().step_ns);
    }
  }
}

// --- stopped searches ------------------------------------------------------------------------------------

TEST(StoppableWork, ThatDoesNotEndIsLeftAlone) {
  const auto begin = std::chrono::steady_clock::now();
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  const auto nothing = done_unless([] { return true; },
                                   [ended] {
                                     while (!*ended)
                                       std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                     return 1;
                                   });
  EXPECT_EQ(nothing, std::nullopt);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  *ended = true;
}

TEST(StoppableWork, ThatEndsIsThere) {
  EXPECT_EQ(done_unless([] { return false; }, [] { return 2; }), 2);
  EXPECT_EQ(done_unless({}, [] { return 3; }), 3);
  EXPECT_THROW(done_unless([] { return false; }, []() -> int { throw std::runtime_error("no"); }),
               std::runtime_error);
}

TEST(Tuning, ASearchThatIsStoppedAtAnyMomentReportsWhatSimulateSays) {
  TuneRequest request = tune_request(kTunedLlama, 8);
  request.schedules = {"1f1b", "zb-v"};
  int reported = 0;
  for (int most = 1; most < 100'000; most = 2 * most) {
    // The counter is shared, because work may continue after the search has ended.
    const auto asked = std::make_shared<std::atomic<int>>(0);
    TuneOptions options{.top = 3, .prune = false};
    options.stopped = [asked, most] { return ++*asked > most; };
    const auto report = tune(request, options);
    if (!report) {
      EXPECT_EQ(report.error().message, "interrupted before any configuration was timed");
      continue;
    }
    ++reported;
    const TunedConfiguration& best = report->candidates.front();
    if (!best.constructed) {
      EXPECT_EQ(best.step_ns, simulated_configuration(request, best).makespan_ns);
    }
    const bool is_partial = !report->notes.empty() && report->notes.back().starts_with("interrupted: ");
    EXPECT_EQ(is_partial, *asked > most);
  }
  EXPECT_GT(reported, 2);
}

TEST(Tuning, EagerMessagesAreRefused) {
  TuneRequest request = tune_request(kTunedLlama, 16);
  request.base.channels.eager_bytes = 1 << 16;
  const auto report = tune(request, {});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, testing::EndsWith("; leave schedule.eager out"));
}

// --- configurations that others ran ----------------------------------------------------------------------

TEST(AgainstBest, SaysWhatEachChoiceOfARunCosts) {
  constexpr std::string_view kRuns =
      "id,source,model,device,precision,devices,tensor,stages,virtual_stages,context,context_exchange,expert,"
      "data,micro_batch_size,microbatches,sequence,layers,layer_split,schedule,recompute,tensor_overlap,"
      "data_overlap,gradient_bytes,step_seconds,peak_gib\n"
      "a,us,llama-3.1-70b.json,b200-sxm,bf16,8,1,2,1,1,,1,4,1,4,4096,12,even,1f1b,none,no,no,4,0.843,\n"
      "b,us,llama-3.1-70b.json,b200-sxm,bf16,8,4,1,1,1,,1,2,1,8,4096,12,even,1f1b,none,no,no,4,0.4098,\n"
      "c,us,llama-3.1-70b.json,b200-sxm,bf16,8,2,1,1,4,all-to-all,1,1,1,4,32768,12,even,1f1b,none,no,no,4,"
      "1.758,\n";
  const auto text_of = [](const std::string& model) {
    return read_text_file(source_path("tests/scenarios/configs/" + model), model);
  };
  const auto runs = parse_measured_runs(kRuns, "runs.csv", text_of);
  ASSERT_TRUE(runs) << runs.error();
  const auto rows = against_best(runs->runs);
  ASSERT_TRUE(rows) << rows.error();
  ASSERT_EQ(rows->size(), 3U);
  for (const AgainstBest& row : *rows) {
    EXPECT_TRUE(row.in_space) << row.id;
    EXPECT_LE(row.best_ns, row.step_ns) << row.id;
    EXPECT_FALSE(row.best_differs.empty()) << row.id;
    EXPECT_FALSE(row.values.empty());
    // The best configuration with one value of the run is at least as fast as the run, and at most as fast as
    // the best of all.
    for (const ChosenValue& value : row.values) {
      ASSERT_TRUE(value.longer) << value.choice;
      EXPECT_GE(*value.longer, 0) << value.choice;
      EXPECT_LE(*value.longer, row.longer() + 1e-12) << row.id << " " << value.choice;
    }
    EXPECT_TRUE(std::ranges::is_sorted(row.values, std::ranges::greater(), &ChosenValue::longer));
  }
  EXPECT_EQ((*rows)[0].best_ns, (*rows)[1].best_ns) << "16 samples both, on the same devices";
}

// The search chooses degrees, but the software of a run decides how its experts exchange.
TEST(AgainstBest, RunsWithAnotherExchangeOfExpertsAreAnotherQuestion) {
  constexpr std::string_view kRuns =
      "id,source,model,device,precision,devices,tensor,stages,expert,micro_batch_size,microbatches,sequence,"
      "layers,schedule,recompute,step_seconds,expert_dispatch\n"
      "a,us,qwen3-30b-a3b.json,h100-sxm,bf16,8,1,1,8,1,2,4096,2,1f1b,none,0.1,alltoall\n"
      "b,us,qwen3-30b-a3b.json,h100-sxm,bf16,8,1,1,8,1,2,4096,2,1f1b,none,0.1,hybridep\n";
  const auto text_of = [](const std::string& model) {
    return read_text_file(source_path("tests/scenarios/configs/" + model), model);
  };
  const auto runs = parse_measured_runs(kRuns, "runs.csv", text_of);
  ASSERT_TRUE(runs) << runs.error();
  const auto rows = against_best(runs->runs);
  ASSERT_TRUE(rows) << rows.error();
  const auto dispatch_of = [](const AgainstBest& row) {
    return std::get<DeviceModel>(row.best->model).work.parallel.expert_dispatch;
  };
  EXPECT_EQ(dispatch_of((*rows)[0]), ExpertDispatch::alltoall);
  EXPECT_EQ(dispatch_of((*rows)[1]), ExpertDispatch::hybridep);
}

// --- the scenario -----------------------------------------------------------------------------------------

/// If the scenario has several iterations, the figures are those of one iteration. Written scenarios have one
/// iteration.
TEST(Tuning, AStepIsOneIteration) {
  TuneRequest request = tune_request(kTunedLlama, 16);
  request.choices.stages = {1, 2};
  const auto once = tune(request, {.top = 3});
  request.base.shape.iterations = 3;
  const auto thrice = tune(request, {.top = 3});
  ASSERT_TRUE(once) << once.error().message;
  ASSERT_TRUE(thrice) << thrice.error().message;
  ASSERT_EQ(thrice->candidates.size(), once->candidates.size());
  for (std::size_t i = 0; i < once->candidates.size(); ++i) {
    EXPECT_EQ(thrice->candidates[i].configuration, once->candidates[i].configuration);
    EXPECT_EQ(thrice->candidates[i].step_ns, once->candidates[i].step_ns);
    EXPECT_EQ(thrice->candidates[i].peak_bytes, once->candidates[i].peak_bytes);
  }
  EXPECT_THAT(thrice->notes, testing::Contains(testing::HasSubstr("training.iterations is 3")));
  EXPECT_THAT(once->notes, testing::Not(testing::Contains(testing::HasSubstr("training.iterations"))));
  const TunedConfiguration& best = thrice->candidates.front();
  EXPECT_EQ(simulated_configuration(request, best).makespan_ns, best.step_ns);
  EXPECT_THAT(overrides_of(request, best.configuration),
              testing::Contains(Override{.key = "training.iterations", .value = "1"}));
}

// --- divided output layers --------------------------------------------------------------------------------

/// Eight layers of a model whose output layer is as large as nearly five of them.
constexpr std::string_view kLargeOutput = R"(
model: {huggingface: gemma-2-9b.json, sequence: 4096, layers: 8}
cluster: {device: h100-sxm}
)";

TEST(Tuning, DividedOutputLayersCostWhatSimulateSays) {
  for (const std::string_view scenario : {kLargeOutput, kTunedLlama}) {
    TuneRequest request = tune_request(scenario, 32);
    request.schedules = {"1f1b-vocab-1", "1f1b-vocab-2"};
    request.choices.stages = {2, 4, 8};
    request.choices.context = {1};
    request.choices.recompute = {LayerRecompute::none, LayerRecompute::full};
    const auto report = tune(request, {.top = 20, .prune = false});
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_GE(report->candidates.size(), 20U);
    for (const TunedConfiguration& tuned : report->candidates) {
      const Configuration& of = tuned.configuration;
      EXPECT_EQ(tuned.layers.size(), static_cast<std::size_t>(of.stages));
      const Result result = simulated_configuration(request, tuned);
      EXPECT_EQ(tuned.step_ns, result.makespan_ns) << of.schedule << " " << of.stages;
      EXPECT_EQ(tuned.peak_bytes, peak_of(result)) << of.schedule << " " << of.stages;
      EXPECT_EQ(simulated_configuration(request, of).makespan_ns, tuned.step_ns) << "balanced layers";
    }
  }
}

TEST(Tuning, ALargeOutputLayerIsDividedByDefault) {
  TuneRequest request = tune_request(kLargeOutput, 32);
  request.schedules = default_tuned_schedules(model_of(request).work.model);
  EXPECT_THAT(request.schedules, testing::IsSupersetOf({"1f1b-vocab-1", "1f1b-vocab-2"}));
  EXPECT_EQ(default_tuned_schedules(model_of(tune_request(kTunedLlama, 32)).work.model),
            default_tuned_schedules());
  // Only whole layers can be moved, so the last of eight stages has the most work even without a layer.
  request.choices.stages = {8};
  const auto report = tune(request, {.top = 1});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->candidates.front().configuration.schedule.substr(0, 10), "1f1b-vocab");
  std::get<DeviceModel>(request.base.model).work.model.multi_token = 1;
  request.schedules = {"1f1b-vocab-1"};
  EXPECT_THAT(tuning_space(request).error(), testing::HasSubstr("set model.multi_token to 0"));
}

// --- offload ---------------------------------------------------------------------------------------------

/// Devices with less memory than the activations need, and a connection to their hosts.
constexpr std::string_view kOffloading = R"(
model: {huggingface: llama-3.1-70b.json, sequence: 4096, layers: 8}
cluster: {device: h100-sxm, memory: 40 GiB, host: {bandwidth: 50 GB/s, latency: 10 us}}
)";

TuneRequest offloading_request() {
  TuneRequest request = tune_request(kOffloading, 32);
  request.schedules = {"1f1b", "interleaved"};
  request.choices.stages = {2, 4};
  request.choices.context = {1};
  request.choices.recompute = {LayerRecompute::none};
  return request;
}

TEST(Tuning, OffloadCostsWhatSimulateSays) {
  TuneRequest request = offloading_request();
  request.choices.offload = {50, 100};
  const auto report = tune(request, {.top = 20, .prune = false});
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_GE(report->candidates.size(), 20U);
  for (const TunedConfiguration& tuned : report->candidates) {
    const Result result = simulated_configuration(request, tuned);
    EXPECT_EQ(tuned.step_ns, result.makespan_ns) << tuned.configuration.schedule;
    EXPECT_EQ(tuned.peak_bytes, peak_of(result)) << tuned.configuration.schedule;
  }
}

TEST(Tuning, OffloadIsTriedWhereAHostIsStated) {
  const TuneRequest request = offloading_request();
  const auto space = tuning_space(request);
  ASSERT_TRUE(space) << space.error();
  ConfigurationPrices prices(request);
  ProgramLibrary programs(request);
  std::size_t offloading = 0;
  for (const Configuration& of : *space) {
    if (of.offload == 0) continue;
    ++offloading;
    const ScheduleOutline& outline = **programs.outline(of);
    const PricedConfiguration priced = prices.of(of, outline);
    const LowerBounds bounds = lower_bounds(priced, outline, of.microbatches);
    const auto quick = prices.quick_bounds(of, outline);
    ASSERT_TRUE(quick);
    const auto program = programs.program(of);
    ASSERT_TRUE(program) << program.error();
    ASSERT_LE(quick->peak_bytes, bounds.peak_bytes) << of.schedule << " " << of.stages;
    ASSERT_LE(bounds.step_ns, step_times(**program, {&priced, 1}).front()) << of.schedule << " " << of.stages;
    ASSERT_LE(bounds.peak_bytes, peak_bytes(**program, {&priced, 1}).front())
        << of.schedule << " " << of.stages;
  }
  EXPECT_EQ(3 * offloading, 2 * space->size()) << "none, half, all";
  TuneRequest without_host = request;
  without_host.base.host = {};
  EXPECT_EQ(tuning_space(without_host)->size(), space->size() / 3);
  without_host.choices.offload = {50};
  EXPECT_THAT(tuning_space(without_host).error(), testing::HasSubstr("state cluster.host.bandwidth"));
}

TEST(Tuning, OffloadIsWritten) {
  TuneRequest request = offloading_request();
  request.choices.offload = {50};
  const auto report = tune(request, {.top = 1});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(overrides_of(request, report->candidates.front().configuration),
              testing::Contains(Override{.key = "schedule.offload", .value = "0.5"}));
  request.launcher = Launcher::megatron;
  EXPECT_THAT(tuning_space(request).error(), testing::HasSubstr("take --offload none"));
}

/// The number of layers is prime, so only balanced splits allow several stages.
TEST(Tuning, BalancedLayersAreThoseOfTheScenarioThatIsWritten) {
  TuneRequest request = tune_request(
      "model: {huggingface: llama-3.1-70b.json, sequence: 4096, layers: 13}\n"
      "cluster: {device: h100-sxm}\n",
      32);
  request.choices.stages = {4, 8};
  request.schedules = {"1f1b", "interleaved", "zb-h1"};
  const auto report = tune(request, {.top = 10});
  ASSERT_TRUE(report) << report.error().message;
  for (const TunedConfiguration& tuned : report->candidates) {
    const Configuration& of = tuned.configuration;
    EXPECT_EQ(tuned.layers.size(), static_cast<std::size_t>(of.stages) * of.virtual_stages);
    EXPECT_EQ(std::accumulate(tuned.layers.begin(), tuned.layers.end(), std::int64_t{0}), 13);
    const TuneRequest listed = with_layers(request, of, tuned.layers);
    EXPECT_EQ(tuned.step_ns, simulated_configuration(listed, of).makespan_ns);
    EXPECT_EQ(tuned.peak_bytes, peak_of(simulated_configuration(listed, of)));
  }
  const TunedConfiguration& best = report->candidates.front();
  EXPECT_THAT(overrides_of(with_layers(request, best.configuration, best.layers), best.configuration),
              testing::Contains(Override{.key = "schedule.layer_split",
                                         .value = fmt::format("[{}]", fmt::join(best.layers, ", "))}));
  // The layers that simulate() chooses itself are not better than the reported ones.
  EXPECT_LE(best.step_ns, simulated_configuration(request, best.configuration).makespan_ns);
}

TEST(Tuning, TheScenarioReadsBackAsTheConfiguration) {
  const TuneRequest request = tune_request(kTunedMixtral, 16);
  const auto space = tuning_space(request);
  ASSERT_TRUE(space);
  for (std::size_t i = 0; i < space->size(); i += space->size() / 40) {
    const Configuration& of = (*space)[i];
    std::vector<Override> overrides = {
        {.key = "model",
         .value = "{huggingface: " + source_path("tests/scenarios/configs/mixtral-8x22b.json") +
                  ", sequence: 4096, layers: 6}"},
        {.key = "cluster", .value = "{device: h100-sxm}"}};
    for (Override& change : overrides_of(request, of)) overrides.push_back(std::move(change));
    const auto text = edited_scenario("", overrides);
    ASSERT_TRUE(text) << text.error();
    const auto scenario = parse_scenario(*text, "best.yaml", "/");
    ASSERT_TRUE(scenario) << scenario.error() << "\n" << *text;
    const auto result = simulate_scenario(*scenario, {});
    ASSERT_TRUE(result) << result.error().message << "\n" << *text;
    const Result expected = simulated_configuration(request, of);
    EXPECT_EQ(result->makespan_ns, expected.makespan_ns) << *text;
    EXPECT_EQ(peak_of(*result), peak_of(expected)) << *text;
  }
}

}  // namespace
}  // namespace penstock
