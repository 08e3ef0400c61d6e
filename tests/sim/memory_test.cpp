// Bytes held by category, exact on every rank. K stages, M microbatches; links take no time unless stated.

#include <algorithm>
#include <cstdint>

#include <gtest/gtest.h>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/experiments.hpp"
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

// M stage inputs and one microbatch's activations at a time (GPipe, section 2.3).
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
  // The last microbatch's activations and three inputs, and one recomputed microbatch beside them.
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

// F 0..10, I 10..20, W 20..30: what I has computed again is there from its start to the end of W.
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
  experiment.cluster = uniform_links(2, 1e9, 3);  // 10 bytes take 10 ns, 3 ns latency
  const auto ranks = memory(experiment);
  const auto at = [](const RankMemory& rank, MemoryCategory category, Ns time) {
    Bytes bytes = 0;
    for (const MemorySample& sample : rank.samples) {
      if (sample.time_ns <= time) bytes = sample.bytes[static_cast<std::size_t>(category)];
    }
    return bytes;
  };
  // F on rank 0 ends at 10, the activation arrives at 23, F on rank 1 runs 23..33.
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

}  // namespace
}  // namespace penstock
