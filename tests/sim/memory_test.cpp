// Tests the bytes of each memory category, which must be exact on every rank. K is the number of stages and M
// that of microbatches. Links take no time unless a test states it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/choose/tune.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/tune_request.hpp"
#include "tests/test_files.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr Bytes kKept = 1000;
constexpr Bytes kActivation = 10;
constexpr Bytes kInput = 7;
constexpr Bytes kWeights = 100'000;

Experiment with_memory(const std::string& schedule, const Shape& shape) {
  const Program program = *generate(schedule, shape);
  const StageCost cost{.forward_ns = 10,
                       .backward_ns = 20,
                       .backward_input_ns = 10,
                       .backward_weight_ns = 10,
                       .recompute_ns = 10,
                       .kept = kKept,
                       .input = kInput,
                       .weights = kWeights,
                       .gradients = kWeights};
  return experiment_of(program, uniform_costs(program, cost, {kActivation, kActivation}),
                       uniform_links(program.rank_count(), kUnlimitedBandwidth, 0));
}

std::vector<RankMemory> memory(const Experiment& experiment) {
  return memory_of(*critical_path(experiment), experiment, {});
}

Bytes peak(const RankMemory& memory, MemoryCategory category) {
  return memory.peaks[static_cast<std::size_t>(category)];
}

TEST(Memory, GPipeKeepsEveryMicrobatchOnEveryRank) {
  for (std::int32_t k = 1; k <= 5; ++k) {
    for (std::int32_t m = 1; m <= 9; ++m) {
      for (const RankMemory& rank : memory(with_memory("gpipe", {.stages = k, .microbatches = m}))) {
        EXPECT_EQ(peak(rank, MemoryCategory::activations), m * kKept);
      }
    }
  }
}

// A rank holds M stage inputs and the activations of one microbatch (GPipe, section 2.3).
TEST(Memory, GPipeWithRecomputeKeepsInputsAndOneMicrobatch) {
  for (const RecomputeTiming timing : {RecomputeTiming::early, RecomputeTiming::late}) {
    for (std::int32_t k = 1; k <= 5; ++k) {
      for (std::int32_t m = 1; m <= 9; ++m) {
        const auto ranks = memory(with_memory(
            "gpipe",
            {.stages = k, .microbatches = m, .checkpoint = Checkpoint::always, .recompute = timing}));
        for (std::size_t r = 0; r < ranks.size(); ++r) {
          EXPECT_EQ(peak(ranks[r], MemoryCategory::activations), m * (r == 0 ? kInput : kActivation) + kKept);
        }
      }
    }
  }
}

TEST(Memory, ExceptLastKeepsTheLastMicrobatchWhole) {
  const auto ranks =
      memory(with_memory("gpipe", {.stages = 2, .microbatches = 4, .checkpoint = Checkpoint::except_last}));
  // The rank holds the activations of the last microbatch, three inputs, and the activations of one
  // recomputed microbatch.
  EXPECT_EQ(peak(ranks[1], MemoryCategory::activations), kKept + 3 * kActivation + kKept);
}

TEST(Memory, OneFOneBKeepsOneMicrobatchPerLaterStageAndItsOwn) {
  for (std::int32_t k = 1; k <= 5; ++k) {
    for (std::int32_t m = 1; m <= 9; ++m) {
      const auto ranks = memory(with_memory("1f1b", {.stages = k, .microbatches = m}));
      for (std::int32_t r = 0; r < k; ++r) {
        EXPECT_EQ(peak(ranks[static_cast<std::size_t>(r)], MemoryCategory::activations),
                  std::min(m, k - r) * kKept);
      }
    }
  }
}

TEST(Memory, PipeDreamStashesAWeightVersionForEveryMinibatchInFlight) {
  for (std::int32_t k = 1; k <= 5; ++k) {
    const auto ranks = memory(with_memory("1f1b-rr", {.stages = k, .microbatches = 3 * k}));
    for (std::int32_t r = 0; r < k; ++r) {
      const RankMemory& rank = ranks[static_cast<std::size_t>(r)];
      const std::int32_t in_flight = k - r;
      EXPECT_EQ(peak(rank, MemoryCategory::activations), in_flight * kKept);
      EXPECT_EQ(peak(rank, MemoryCategory::weights), kWeights);
      EXPECT_EQ(peak(rank, MemoryCategory::weight_versions), (in_flight - 1) * kWeights)
          << "the newest one is in weights";
    }
  }
}

TEST(Memory, LatestWeightsNeedNoStash) {
  for (const RankMemory& rank :
       memory(with_memory("1f1b-rr", {.stages = 4, .microbatches = 12, .weights = WeightPolicy::latest}))) {
    EXPECT_EQ(peak(rank, MemoryCategory::weight_versions), 0);
  }
}

TEST(Memory, SplitBackwardGivesBackAPartAtI) {
  Experiment experiment = with_memory("zb-h1", {.stages = 1, .microbatches = 1});
  experiment.costs.stages[0].released_by_input = 400;
  const RankMemory rank = memory(experiment).front();
  std::vector<std::pair<Ns, Bytes>> activations;
  for (const MemorySample& sample : rank.samples) {
    activations.emplace_back(sample.time_ns,
                             sample.bytes[static_cast<std::size_t>(MemoryCategory::activations)]);
  }
  // F 0..10, I 10..20, W 20..30
  EXPECT_EQ(activations, (std::vector<std::pair<Ns, Bytes>>{{0, 1000}, {20, 600}, {30, 0}}));
}

// F runs from 0 to 10, I from 10 to 20, and W from 20 to 30. The rank holds what I recomputes from the start
// of I to the end of W.
TEST(Memory, WhatIComputesAgainWaitsForW) {
  Experiment experiment = with_memory("zb-h1", {.stages = 1, .microbatches = 1});
  StageCost& cost = experiment.costs.stages[0];
  cost.recomputed = 700;
  cost.transient = 50;
  cost.recomputed_at_once = 20;
  const RankMemory rank = memory(experiment).front();
  std::vector<std::pair<Ns, Bytes>> activations;
  std::vector<std::pair<Ns, Bytes>> transients;
  for (const MemorySample& sample : rank.samples) {
    activations.emplace_back(sample.time_ns,
                             sample.bytes[static_cast<std::size_t>(MemoryCategory::activations)]);
    transients.emplace_back(sample.time_ns,
                            sample.bytes[static_cast<std::size_t>(MemoryCategory::transient)]);
  }
  EXPECT_EQ(activations, (std::vector<std::pair<Ns, Bytes>>{{0, 1000}, {10, 1700}, {20, 1700}, {30, 0}}));
  EXPECT_EQ(transients, (std::vector<std::pair<Ns, Bytes>>{{0, 50}, {10, 30}, {20, 30}, {30, 0}}));
}

TEST(Memory, GradientsLiveFromTheFirstBackwardToTheStep) {
  const RankMemory rank = memory(with_memory("gpipe", {.stages = 1, .microbatches = 2})).front();
  const auto gradients = [&](Ns time) {
    Bytes bytes = 0;
    for (const MemorySample& sample : rank.samples) {
      if (sample.time_ns <= time) bytes = sample.bytes[static_cast<std::size_t>(MemoryCategory::gradients)];
    }
    return bytes;
  };
  EXPECT_EQ(gradients(19), 0);
  EXPECT_EQ(gradients(20), kWeights);
  EXPECT_EQ(gradients(59), kWeights);
  EXPECT_EQ(gradients(60), 0);
}

TEST(Memory, AReplicaWithoutAMicrobatchGetsTheSumOfTheGradientsAllTheSame) {
  const auto ranks = memory(with_memory("data-parallel", {.stages = 3, .microbatches = 2}));
  EXPECT_EQ(peak(ranks[0], MemoryCategory::gradients), 3 * kWeights);
  EXPECT_EQ(peak(ranks[1], MemoryCategory::gradients), 3 * kWeights);
  EXPECT_EQ(peak(ranks[2], MemoryCategory::gradients), kWeights) << "one stage's at a time, until its STEP";
}

TEST(Memory, BuffersLiveWhileAMessageIsUnderWay) {
  Experiment experiment = with_memory("gpipe", {.stages = 2, .microbatches = 1});
  experiment.cluster = uniform_links(2, 1e9, 3);  // 10 bytes take 10 ns; the latency is 3 ns
  const auto ranks = memory(experiment);
  const auto at = [](const RankMemory& rank, MemoryCategory category, Ns time) {
    Bytes bytes = 0;
    for (const MemorySample& sample : rank.samples) {
      if (sample.time_ns <= time) bytes = sample.bytes[static_cast<std::size_t>(category)];
    }
    return bytes;
  };
  // F on rank 0 ends at 10, the activation arrives at 23, and F on rank 1 runs from 23 to 33.
  EXPECT_EQ(at(ranks[0], MemoryCategory::send_buffers, 9), 0);
  EXPECT_EQ(at(ranks[0], MemoryCategory::send_buffers, 10), kActivation);
  EXPECT_EQ(at(ranks[0], MemoryCategory::send_buffers, 23), 0);
  EXPECT_EQ(at(ranks[1], MemoryCategory::receive_buffers, 10), kActivation);
  EXPECT_EQ(at(ranks[1], MemoryCategory::receive_buffers, 32), kActivation);
  EXPECT_EQ(at(ranks[1], MemoryCategory::receive_buffers, 33), 0);
}

TEST(Memory, ThePeakNamesTheActionThatCausedIt) {
  const RankMemory rank = memory(with_memory("gpipe", {.stages = 1, .microbatches = 3})).front();
  EXPECT_EQ(rank.peak_action, "0B0") << "three microbatches are held when the gradient buffer comes";
  EXPECT_EQ(rank.peak_time_ns, 30);
  EXPECT_EQ(rank.peak_bytes, 2 * kWeights + 3 * kKept);
}

TEST(Memory, ADeviceThatIsTooSmallIsReported) {
  Experiment experiment = with_memory("gpipe", {.stages = 2, .microbatches = 3});
  experiment.cluster = *uniform_cluster({.devices = 2, .memory_bytes = 2 * kWeights + 3 * kKept});
  const auto fits = simulate(experiment, {});
  EXPECT_TRUE(fits->ranks[0].memory.out_of_memory()) << "a send buffer does not fit";
  experiment.cluster =
      *uniform_cluster({.devices = 2, .memory_bytes = 2 * kWeights + 3 * kKept + 2 * kActivation});
  EXPECT_FALSE(simulate(experiment, {})->ranks[0].memory.out_of_memory());
}

TEST(Memory, ZeroCostStagesHoldOneMicrobatchAtATimeInProgramOrder) {
  Experiment experiment = with_memory("naive", {.stages = 3, .microbatches = 4});
  for (StageCost& cost : experiment.costs.stages) {
    cost = {.kept = kKept};
  }
  for (const RankMemory& rank : memory(experiment)) EXPECT_EQ(peak(rank, MemoryCategory::activations), kKept);
}

TEST(Memory, IsBackAtTheWeightsInTheEnd) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    int taken = 0;
    for (const std::int32_t v : {1, 2}) {
      const Shape shape{.stages = 2, .microbatches = 6, .virtual_stages = v};
      if (!generate(schedule.name, shape)) continue;
      ++taken;
      for (const RankMemory& rank : memory(with_memory(std::string(schedule.name), shape))) {
        MemoryByCategory left = rank.samples.back().bytes;
        left[static_cast<std::size_t>(MemoryCategory::weights)] = 0;
        EXPECT_EQ(total_bytes(left), 0) << schedule.name;
      }
    }
    EXPECT_GT(taken, 0) << schedule.name;
  }
}

// If a schedule splits the backward pass, I recomputes activations that W also needs, so they are held in
// between. A walk through the lists of a program gives the peak of each rank:
//
//   F  + kept     B  - kept     I  + recomputed     W  - kept - recomputed
//
// The tests above have small programs, and recomputation as a separate action (R).

Scenario on_devices(std::string_view schedule, std::int32_t virtual_stages, LayerRecompute recompute) {
  const std::string text = fmt::format(
      "model: {{transformer: {{layers: 32, hidden: 4096, heads: 32, kv_heads: 8, sequence: 4096, "
      "vocabulary: 32000, feed_forward: 12288, gated: true}}}}\n"
      "cluster: {{device: a100-sxm}}\nparallel: {{data: 2}}\n"
      "schedule: {{name: {}, stages: 4, microbatches: 16{}}}\n"
      "training: {{micro_batch_size: 1, recompute: {}}}\n",
      schedule, virtual_stages > 1 ? fmt::format(", virtual_stages: {}", virtual_stages) : "",
      to_text(recompute));
  return parse_scenario(text, "test.yaml", ".").value();
}

std::vector<Bytes> activation_peaks(const Scenario& scenario) {
  const auto result = simulate_scenario(scenario, {});
  EXPECT_TRUE(result) << result.error().message;
  std::vector<Bytes> peaks;
  for (const RankReport& rank : result->ranks)
    peaks.push_back(rank.memory.peaks[static_cast<std::size_t>(MemoryCategory::activations)]);
  return peaks;
}

/// Returns the peak of the bytes that the list's actions hold. The actions of an overlapped pair start
/// together.
Bytes most_in_list(const std::vector<Action>& list, const CostTable& costs) {
  Bytes held = 0;
  Bytes most = 0;
  Bytes released = 0;
  for (const Action& action : list) {
    if (action.stage < 0) continue;
    const StageCost& cost = costs.stages[static_cast<std::size_t>(action.stage)];
    if (action.kind == ActionKind::forward) held += cost.kept;
    if (action.kind == ActionKind::backward_input) held += cost.recomputed;
    if (action.kind == ActionKind::backward) released += cost.kept;
    if (action.kind == ActionKind::backward_weight) released += cost.kept + cost.recomputed;
    if (action.overlaps_next) continue;
    most = std::max(most, held);
    held -= released;
    released = 0;
  }
  return most;
}

//   rank 3   F0 I0 F1 I1 F2 I2 F3 I3 W0 ...     four microbatches wait for W: all of them whole
//   rank 0   F0 F1 F2 F3 .. I0 W0 F4 I1 W1      three wait for I with their layers' inputs, one is whole
TEST(Recomputation, OfASplitBackwardPassIsHeldUntilWHasReadIt) {
  const Scenario scenario = on_devices("zb-h1", 1, LayerRecompute::full);
  const CostTable costs = prepare(scenario)->costs;
  const std::vector<Bytes> peaks = activation_peaks(scenario);
  ASSERT_EQ(peaks.size(), 4U);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const Bytes inputs = costs.stages[rank].kept;
    const Bytes whole = inputs + costs.stages[rank].recomputed;
    const auto r = static_cast<Bytes>(rank);
    EXPECT_EQ(peaks[rank], (3 - r) * inputs + (r + 1) * whole) << "rank " << rank;
  }
  const std::vector<Bytes> without = activation_peaks(on_devices("zb-h1", 1, LayerRecompute::none));
  EXPECT_EQ(peaks[3], without[3]) << "the last rank saves nothing";
  EXPECT_LT(3 * peaks[0], without[0]);
}

TEST(Recomputation, OfAWholeBackwardPassIsThereALayerAtATime) {
  const Scenario scenario = on_devices("1f1b", 1, LayerRecompute::full);
  const CostTable costs = prepare(scenario)->costs;
  const std::vector<Bytes> peaks = activation_peaks(scenario);
  for (std::size_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(peaks[rank], static_cast<Bytes>(4 - rank) * costs.stages[rank].kept) << "rank " << rank;
}

TEST(Recomputation, AgreesWithAWalkThroughTheListsOfEverySchedule) {
  int compared = 0;
  int split = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const LayerRecompute recompute :
         {LayerRecompute::selective, LayerRecompute::norm, LayerRecompute::activation, LayerRecompute::mlp,
          LayerRecompute::full}) {
      const Scenario scenario = on_devices(schedule.name, takes_chunks(schedule) ? 2 : 1, recompute);
      const auto experiment = prepare(scenario);
      // Schedules with several ranks for a stage are refused for models on devices.
      if (!experiment) continue;
      SCOPED_TRACE(testing::Message() << schedule.name << " " << to_text(recompute));
      const std::vector<Bytes> peaks = activation_peaks(scenario);
      for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
        const std::vector<Action>& list = experiment->program.ranks[rank];
        EXPECT_EQ(peaks[rank], most_in_list(list, experiment->costs)) << "rank " << rank;
        split += std::ranges::find(list, ActionKind::backward_weight, &Action::kind) != list.end() ? 1 : 0;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
  EXPECT_GT(split, 150) << "ranks that split their backward passes";
}

// With full recomputation, zb-v would be the fastest schedule here. But between I and W it holds more than
// twice the memory of a device.
TEST(Recomputation, DoesNotMakeASplitBackwardPassFit) {
  TuneRequest request = tune_request(
      "model: {transformer: {layers: 64, hidden: 5120, heads: 64, kv_heads: 8, head_dim: 128, sequence: "
      "16384, "
      "vocabulary: 151936, feed_forward: 25600, gated: true, query_key_norm: true}}\n"
      "cluster: {device: a100-sxm, nodes: 2}\n",
      64);
  request.schedules = {"1f1b", "zb-h1", "zb-v"};
  request.choices.stages = {4};
  request.choices.tensor = {2};
  request.choices.context = {1};
  request.choices.recompute = {LayerRecompute::full};
  request.layer_splits = {{}};
  const auto report = tune(request, {.top = 100});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->candidates.front().configuration.schedule, "1f1b");
  EXPECT_TRUE(report->candidates.front().fits);
  int split = 0;
  for (const TunedConfiguration& tuned : report->candidates) {
    if (tuned.configuration.schedule == "1f1b") continue;
    EXPECT_FALSE(tuned.fits) << tuned.configuration.schedule;
    EXPECT_GT(tuned.peak_bytes, Bytes{100} << 30) << tuned.configuration.schedule;
    ++split;
  }
  EXPECT_GT(split, 3);
}

// When PipeDream's released runtime starts, it clones the weights of a stage warm-up + 1 times, in addition
// to the current weights. This is one version more than is ever needed, and the clones exist all the time.

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

// With 1F1B on four stages, stage s runs 3 - s warm-up forwards.
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

// A program with cloned weights is not streamed. The number of clones is computed from stored lists, which a
// program of loops does not have.
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
