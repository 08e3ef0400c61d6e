// Tests the batch rule, which computes the third of global batch size, microbatch size and number of
// microbatches. Also tests figures that differ between microbatches, and copies of a pipeline that share the
// microbatches.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "tests/scenarios/read_scenario.hpp"

namespace penstock {
namespace {

constexpr auto kPart = MicrobatchMeaning::part_of_minibatch;
constexpr auto kWhole = MicrobatchMeaning::whole_minibatch;
using Size = std::optional<std::int64_t>;

Batch batch(Size micro, Size global, Size microbatches) {
  return {.own_micro_batch_size = 1,
          .micro_batch_size = micro,
          .global_batch_size = global,
          .microbatches = microbatches};
}

ResolvedBatch resolved(std::int64_t micro, std::int32_t microbatches) {
  return {.micro_batch_size = micro, .microbatches = microbatches};
}

TEST(Batch, TheThirdFollowsFromTwo) {
  EXPECT_EQ(resolve_batch(batch(4, 128, {}), kPart), resolved(4, 32));
  EXPECT_EQ(resolve_batch(batch({}, 128, 32), kPart), resolved(4, 32));
  EXPECT_EQ(resolve_batch(batch(4, {}, 32), kPart), resolved(4, 32));
}

TEST(Batch, OneSampleAMicrobatchWithoutSizes) {
  EXPECT_EQ(resolve_batch(batch({}, {}, 32), kPart), resolved(1, 32));
  EXPECT_EQ(resolve_batch(batch({}, {}, 32), kWhole), resolved(1, 32));
}

TEST(Batch, AllThreeMustAgree) {
  EXPECT_EQ(resolve_batch(batch(4, 128, 32), kPart), resolved(4, 32));
  EXPECT_EQ(resolve_batch(batch(4, 128, 16), kPart).error(),
            "training.micro_batch_size 4 x schedule.microbatches 16 do not make training.global_batch_size "
            "128: all three must agree, or leave one out");
  EXPECT_FALSE(resolve_batch(batch(4, 129, 32), kPart));
}

TEST(Batch, WhatDoesNotDivideNamesTheNearest) {
  EXPECT_EQ(resolve_batch(batch({}, 100, 32), kPart).error(),
            "training.global_batch_size 100 is not a multiple of schedule.microbatches 32; the nearest that "
            "are: 96 or 128");
  EXPECT_EQ(resolve_batch(batch(8, 3, {}), kPart).error(),
            "training.global_batch_size 3 is not a multiple of training.micro_batch_size 8; the nearest that "
            "are: 8");
}

TEST(Batch, MicrobatchesMustFollowFromSomething) {
  for (const Batch& too_little : {batch({}, {}, {}), batch(4, {}, {}), batch({}, 128, {})}) {
    EXPECT_FALSE(resolve_batch(too_little, kPart));
  }
}

TEST(Batch, SizesBelowOneAreNamed) {
  EXPECT_EQ(resolve_batch(batch(0, {}, 4), kPart).error(),
            "training.micro_batch_size: expected a number of at least 1, got 0");
  EXPECT_EQ(resolve_batch(batch({}, -8, 4), kPart).error(),
            "training.global_batch_size: expected a number of at least 1, got -8");
  EXPECT_EQ(resolve_batch(batch({}, {}, 0), kWhole).error(),
            "schedule.microbatches: expected a number of at least 1, got 0");
}

TEST(Batch, MoreMicrobatchesThanNumbersIsAnError) {
  EXPECT_FALSE(resolve_batch(batch({}, {}, 1LL << 31), kPart));
  EXPECT_FALSE(resolve_batch(batch(1, 1LL << 40, {}), kPart));
  EXPECT_TRUE(resolve_batch(batch({}, {}, (1LL << 31) - 1), kPart));
}

TEST(Batch, AsynchronousSizesMeanTheSameAndMicrobatchesAreFree) {
  EXPECT_EQ(resolve_batch(batch(64, {}, 7), kWhole), resolved(64, 7));
  EXPECT_EQ(resolve_batch(batch({}, 64, 7), kWhole), resolved(64, 7));
  EXPECT_EQ(resolve_batch(batch(64, 64, 7), kWhole), resolved(64, 7));
  EXPECT_FALSE(resolve_batch(batch(32, 64, 2), kWhole));
  EXPECT_FALSE(resolve_batch(batch(64, 64, {}), kWhole));
}

TEST(Batch, TheFilesOwnMicrobatchFollowsFromItsSizes) {
  EXPECT_EQ(micro_batch_size_of(batch({}, {}, {}), kPart), 1);
  EXPECT_EQ(micro_batch_size_of(batch(4, {}, {}), kPart), 4);
  EXPECT_EQ(micro_batch_size_of(batch({}, 128, 32), kPart), 4);
  EXPECT_EQ(micro_batch_size_of(batch({}, 128, {}), kPart), std::nullopt);
  EXPECT_EQ(micro_batch_size_of(batch({}, 128, 33), kPart), std::nullopt);
  EXPECT_EQ(micro_batch_size_of(batch({}, 128, {}), kWhole), 128);
}

TEST(Batch, TheMinibatchFollowsFromTheFilesSizes) {
  EXPECT_EQ(global_batch_size_of(batch({}, 128, {}), kPart), 128);
  EXPECT_EQ(global_batch_size_of(batch(4, {}, 32), kPart), 128);
  EXPECT_EQ(global_batch_size_of(batch({}, {}, 32), kPart), 32);
  EXPECT_EQ(global_batch_size_of(batch(4, {}, {}), kPart), std::nullopt);
  EXPECT_EQ(global_batch_size_of(batch(64, {}, 60), kWhole), 64);
}

TEST(Batch, AMinibatchOfMoreSamplesThanCanBeCountedIsRefused) {
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  EXPECT_EQ(
      global_batch_size_of(batch(kMany, {}, kMany), kPart).error(),
      "training.micro_batch_size 1099511627776 x schedule.microbatches 1099511627776 are more than 2^63 "
      "samples; take fewer");
}

TEST(StatedBatch, LeavesTheScenarioAsItIsWhenNothingIsStated) {
  EXPECT_EQ(overridden(batch(4, 32, 8), {}, kPart), batch(4, 32, 8));
}

TEST(StatedBatch, ReplacesWhatTheScenarioSays) {
  EXPECT_EQ(overridden(batch(4, {}, 8), batch(2, {}, {}), kPart), batch(2, {}, 8));
  EXPECT_EQ(overridden(batch({}, {}, {}), batch({}, 32, 8), kPart), batch({}, 32, 8));
}

TEST(StatedBatch, ANumberOfMicrobatchesHoldsTheGlobalBatch) {
  EXPECT_EQ(overridden(batch(4, 32, {}), batch({}, {}, 16), kPart), batch({}, 32, 16));
}

TEST(StatedBatch, ASizeOfTheMicrobatchHoldsTheGlobalBatch) {
  EXPECT_EQ(overridden(batch({}, 32, 8), batch(2, {}, {}), kPart), batch(2, 32, {}));
}

TEST(StatedBatch, AGlobalBatchHoldsTheSizeOfTheMicrobatch) {
  EXPECT_EQ(overridden(batch(4, {}, 8), batch({}, 64, {}), kPart), batch(4, 64, {}));
}

TEST(StatedBatch, TwoFiguresPushOutTheThird) {
  EXPECT_EQ(overridden(batch(4, {}, {}), batch({}, 64, 8), kPart), batch({}, 64, 8));
  EXPECT_EQ(overridden(batch({}, 32, {}), batch(4, {}, 8), kPart), batch(4, {}, 8));
  EXPECT_EQ(overridden(batch({}, {}, 8), batch(4, 64, {}), kPart), batch(4, 64, {}));
}

TEST(StatedBatch, ThreeFiguresAreTakenAtTheirWord) {
  EXPECT_EQ(overridden(batch(1, 1, 1), batch(4, 64, 8), kPart), batch(4, 64, 8))
      << "resolve_batch() refuses them";
}

TEST(StatedBatch, InAnAsynchronousScheduleBothSizesAreOne) {
  EXPECT_EQ(overridden(batch(64, {}, 60), batch({}, 128, {}), kWhole), batch({}, 128, 60));
  EXPECT_EQ(overridden(batch({}, 128, 60), batch(64, {}, {}), kWhole), batch(64, {}, 60));
}

TEST(Batch, OnlyAsynchronousSchedulesTakeAMicrobatchForAMinibatch) {
  EXPECT_EQ(meaning_of_microbatch("1f1b"), kPart);
  EXPECT_EQ(meaning_of_microbatch("1F1B_RR"), kWhole);
  EXPECT_EQ(meaning_of_microbatch("of a program file"), kPart);
}

// Tests figures that differ between microbatches, in the three forms that a scenario may use.

/// Returns a scenario with K = 2, M = 3, and the given F and B of the stages.
std::string scenario_of(std::string_view forward, std::string_view backward, std::string_view others = "") {
  return std::string("model:\n  batch: 1\n  stages:\n    forward: ") + std::string(forward) +
         "\n    backward: " + std::string(backward) + "\n" + std::string(others) +
         "schedule: {name: 1f1b, stages: 2, microbatches: 3}\n";
}

/// Returns the F time of every microbatch on a stage.
std::vector<Ns> forwards(const Experiment& experiment, std::size_t stage) {
  std::vector<Ns> times;
  for (const MicrobatchCost& one : experiment.costs.microbatches)
    times.push_back(one.stages[stage].forward_ns);
  return times;
}

TEST(MicrobatchFigures, AListInAStagesPlaceIsOneAMicrobatch) {
  const Experiment experiment = prepared(scenario_of("[[1 ns, 5 ns, 3 ns], 4 ns]", "8 ns"));
  EXPECT_EQ(forwards(experiment, 0), (std::vector<Ns>{1, 5, 3}));
  EXPECT_EQ(forwards(experiment, 1), (std::vector<Ns>{4, 4, 4}));
  // The mean, for code that does not distinguish microbatches.
  EXPECT_EQ(experiment.costs.stages[0].forward_ns, 3);
  EXPECT_TRUE(experiment.notes.empty());
}

TEST(MicrobatchFigures, OneListForAllStages) {
  const Experiment experiment = prepared(scenario_of("{microbatches: [1 ns, 5 ns, 3 ns]}", "8 ns"));
  EXPECT_EQ(forwards(experiment, 0), (std::vector<Ns>{1, 5, 3}));
  EXPECT_EQ(forwards(experiment, 1), (std::vector<Ns>{1, 5, 3}));
}

// microbatch_times.csv:  1,5,3 / 2,2,7
TEST(MicrobatchFigures, AFileHasARowAStage) {
  const Experiment experiment = prepared(scenario_of("{file: microbatch_times.csv, unit: ns}", "8 ns"));
  EXPECT_EQ(forwards(experiment, 0), (std::vector<Ns>{1, 5, 3}));
  EXPECT_EQ(forwards(experiment, 1), (std::vector<Ns>{2, 2, 7}));
}

// The file with rows as microbatches: two microbatches, with the times 1 5 3 and 2 2 7 on three stages.
TEST(MicrobatchFigures, OrARowAMicrobatch) {
  const Experiment experiment =
      prepared(scenario_of("{file: microbatch_times.csv, unit: us, rows: microbatches}", "8 us"),
               {{.key = "schedule.stages", .value = "3"}});
  EXPECT_EQ(experiment.costs.microbatches[1].stages[0].forward_ns, 2'000);
}

TEST(MicrobatchFigures, AnOverrideMayNameTheFile) {
  const Experiment experiment =
      prepared(scenario_of("1 ns", "8 ns"),
               {{.key = "model.stages.forward", .value = "{file: microbatch_times.csv, unit: ns}"}});
  EXPECT_EQ(forwards(experiment, 1), (std::vector<Ns>{2, 2, 7}));
}

// B = I + W holds in each microbatch, and the times of each microbatch are scaled to the microbatch size in
// force.
TEST(MicrobatchFigures, EachMicrobatchIsPricedAsOneAlone) {
  const Experiment experiment = prepared(scenario_of("1 ns", "{microbatches: [3 ns, 9 ns, 4 ns]}") +
                                         "training: {micro_batch_size: 2}\n");
  const StageCost& one = experiment.costs.microbatches[1].stages[1];
  EXPECT_EQ(one.backward_ns, 18);
  EXPECT_EQ(one.backward_input_ns + one.backward_weight_ns, 18);
}

TEST(MicrobatchFigures, ShortListsRepeatAndANoteSaysSo) {
  const Experiment experiment = prepared(scenario_of("{microbatches: [1 ns, 5 ns]}", "8 ns"));
  EXPECT_EQ(forwards(experiment, 0), (std::vector<Ns>{1, 5, 1}));
  EXPECT_EQ(experiment.costs.stage_of({.kind = ActionKind::forward, .stage = 0, .microbatch = 2}).forward_ns,
            1);
  ASSERT_EQ(experiment.notes.size(), 1U);
  EXPECT_EQ(experiment.notes[0],
            "s.yaml:4:14: model.stages.forward: 2 microbatches are listed, which repeat up to M");
}

TEST(MicrobatchFigures, OfLongListsTheFirstCount) {
  const Experiment experiment = prepared(scenario_of("{microbatches: [1 ns, 5 ns, 3 ns, 9 ns]}", "8 ns"));
  EXPECT_EQ(forwards(experiment, 0), (std::vector<Ns>{1, 5, 3}));
  EXPECT_EQ(experiment.notes.at(0),
            "s.yaml:4:14: model.stages.forward: 4 microbatches are listed, of which the first M are taken");
}

TEST(MicrobatchFigures, SlicesShareTheirMicrobatch) {
  const Experiment experiment = prepared(
      scenario_of("{microbatches: [2 ns, 6 ns, 4 ns]}", "8 ns") + "training: {micro_batch_size: 1}\n",
      {{.key = "schedule.name", .value = "seq-1f1b"}, {.key = "schedule.slices", .value = "2"}});
  // Units 2 and 3 are the slices of microbatch 1.
  EXPECT_EQ(experiment.costs.stage_of({.kind = ActionKind::forward, .stage = 0, .microbatch = 3}).forward_ns,
            3);
}

TEST(MicrobatchFigures, AreWrittenAsTheyAreRead) {
  const std::string text = scenario_of("[[1 ns, 5 ns, 3 ns], 4 ns]", "{microbatches: [8 ns, 7 ns, 9 ns]}");
  const Scenario scenario = read_scenario(text);
  const auto& figures = std::get<StageFigures>(scenario.model);
  EXPECT_EQ(read_scenario(stages_to_yaml(figures, 1) + "schedule: {name: 1f1b, stages: 2, microbatches: 3}\n")
                .model.index(),
            scenario.model.index());
  const std::string written = stages_to_yaml(figures, 1);
  EXPECT_NE(written.find("forward: [[1 ns, 5 ns, 3 ns], 4 ns]"), std::string::npos) << written;
  EXPECT_NE(written.find("backward: {microbatches: [8 ns, 7 ns, 9 ns]}"), std::string::npos) << written;
}

// Tests copies of a whole pipeline that a scenario states.

Experiment experiment_in(const std::string& text) {
  auto experiment = prepare(read_scenario(text));
  if (!experiment) throw std::runtime_error(experiment.error().message);
  return *std::move(experiment);
}

// 64 samples in microbatches of 4 are 16 microbatches, eight for each copy of the pipeline.
TEST(DataParallel, CopiesShareTheMicrobatchesOfTheGlobalBatch) {
  const Experiment experiment = experiment_in(
      "schedule: {name: 1f1b, stages: 4, data_parallel: 2}\n"
      "training: {global_batch_size: 64, micro_batch_size: 4}\n");
  EXPECT_EQ(experiment.program.rank_count(), 8);
  EXPECT_EQ(experiment.program.stage_count(), 4);
  EXPECT_EQ(experiment.program.microbatches, 16) << "over all copies";
  EXPECT_EQ(experiment.cluster.device_count(), 8) << "as many as ranks";
}

// The time of a transfer depends on the links between neighbouring ranks. Here the copies of a stage are on
// one node, so each transfer of activations is between nodes.
TEST(DataParallel, SchedulesThatWeighCostsAreGivenThoseOfOneCopy) {
  const std::string model =
      "model: {stages: {forward: 1 ms, backward: 2 ms, activation: 10 MB, kept: 1 GiB}}\n"
      "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, intra_bandwidth: 100 GB/s,"
      " inter_bandwidth: 10 GB/s}\n";
  const Experiment one = experiment_in(
      model + "schedule: {name: zb-2p, stages: 2, microbatches: 6, memory_limit: [3 GiB, 2 GiB]}\n");
  const Experiment two = experiment_in(model +
                                       "schedule: {name: zb-2p, stages: 2, microbatches: 12, memory_limit: "
                                       "[3 GiB, 2 GiB], data_parallel: 2}\n");
  ASSERT_EQ(two.program.rank_count(), 4);
  const auto forwards_first = [](const Experiment& experiment, std::size_t rank) {
    std::int32_t count = 0;
    for (const Action& action : experiment.program.ranks[rank]) {
      if (action.kind == ActionKind::backward_input) break;
      count += action.kind == ActionKind::forward ? 1 : 0;
    }
    return count;
  };
  for (const std::size_t copy : {std::size_t{0}, std::size_t{1}}) {
    EXPECT_EQ(forwards_first(two, copy), forwards_first(one, 0)) << "the limit of rank 0 of the pipeline";
    EXPECT_EQ(forwards_first(two, 2 + copy), forwards_first(one, 1));
  }
}

TEST(DataParallel, RefusesMicrobatchesThatDoNotDivide) {
  const auto experiment =
      prepare(read_scenario("schedule: {name: gpipe, stages: 2, microbatches: 5, data_parallel: 2}"));
  ASSERT_FALSE(experiment);
  EXPECT_EQ(experiment.error().kind, ErrorKind::bad_input) << "bad input";
  EXPECT_NE(experiment.error().message.find("the nearest that work: 4 and 6"), std::string::npos);
}

}  // namespace
}  // namespace penstock
