// Figures that differ from microbatch to microbatch, in the three ways in which a scenario may write them.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/scenario_text.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "tests/scenarios/read_scenario.hpp"

namespace penstock {
namespace {

/// K = 2, M = 3; F and B of the stages as stated.
std::string scenario_of(std::string_view forward, std::string_view backward, std::string_view others = "") {
  return std::string("model:\n  batch: 1\n  stages:\n    forward: ") + std::string(forward) +
         "\n    backward: " + std::string(backward) + "\n" + std::string(others) +
         "schedule: {name: 1f1b, stages: 2, microbatches: 3}\n";
}

/// F of every microbatch on a stage.
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
  EXPECT_EQ(experiment.costs.stages[0].forward_ns, 3);  // the mean, for what asks of no microbatch
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

// The same file the other way round: two microbatches of three stages each, 1 5 3 and 2 2 7.
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

// B = I + W holds in each microbatch, and each is scaled to the microbatch in force.
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

}  // namespace
}  // namespace penstock
