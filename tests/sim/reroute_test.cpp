// Tests the time of a step in which the copies of a pipeline also run the microbatches of a failed rank.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/risk/risk.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/reference_engine.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns an experiment with compute lists. F takes 1 ns and B 2 ns, and links are free.
Experiment compute_lists(const std::string& schedule, const Shape& shape) {
  const Program program = generate(schedule, shape).value();
  Experiment experiment = experiment_of(program,
                                        uniform_costs(program, {.forward_ns = 1,
                                                                .backward_ns = 2,
                                                                .backward_input_ns = 1,
                                                                .backward_weight_ns = 1,
                                                                .recompute_ns = 1}),
                                        uniform_links(program.rank_count(), kUnlimitedBandwidth, 0));
  experiment.program = program;
  return experiment;
}

Experiment after_failure(const Experiment& experiment, std::int32_t failed) {
  Experiment after = experiment;
  after.program = lower(rerouted(experiment, failed).value()).value();
  return after;
}

Ns step_of(const Experiment& experiment) {
  Experiment stored = experiment;
  if (!has_transfers(stored.program)) stored.program = lower(stored.program).value();
  return makespan_ns(stored);
}

/// Returns the lists of all ranks without the STEPs.
std::string lists_of(const Program& program) {
  std::string text;
  for (const std::vector<Action>& list : program.ranks) {
    for (const Action& action : list)
      if (action.kind != ActionKind::step) text += to_text(action) + " ";
    text += '\n';
  }
  return text;
}

// Rank 3 fails, the second copy of stage 1. Rank 2 takes its microbatches 1 and 3 and then holds the stage
// alone, so nothing is reduced there:
//
//   rank 0   F0F2  B0--      B2--
//   rank 1   F1F3    ..
TEST(Reroute, MovesTheMicrobatchesOfAFailedRankToItsCopies) {
  const Experiment experiment = compute_lists("1f1b", {.stages = 2, .microbatches = 4, .data_parallel = 2});
  EXPECT_EQ(step_of(experiment), (2 + 1) * 3);
  EXPECT_EQ(lists_of(rerouted(experiment, 3).value()),
            "0F0 0F2 0B0 0B2 0REDUCE_GRAD \n"
            "0F1 0F3 0B1 0B3 0REDUCE_GRAD \n"
            "1F0 1F1 1B0 1B1 1F2 1F3 1B2 1B3 \n"
            "\n");
  // Rank 2 begins at 1 and computes for 4 (1 + 2). Then rank 1 runs B3.
  EXPECT_EQ(step_of(after_failure(experiment, 3)), 1 + 4 * 3 + 2);
}

TEST(Reroute, OfOneStageOnTwoRanksTakesTwiceAsLong) {
  const Experiment experiment = compute_lists("1f1b", {.stages = 1, .microbatches = 2, .data_parallel = 2});
  EXPECT_EQ(step_of(experiment), 3);
  EXPECT_EQ(step_of(after_failure(experiment, 0)), 6);
}

// Three copies of 4 stages with 4 microbatches each take 21 ns, of which each rank is idle for 9 ns. Each of
// the two other copies of a failed rank then runs 2 more microbatches, which take 6 ns. On stage s, a rank
// begins after s forwards and ends s backwards before the step ends. So no order takes less than 21, 21, 24
// and 27 ns.
TEST(Reroute, FillsBubblesFirst) {
  const Experiment experiment = compute_lists("1f1b", {.stages = 4, .microbatches = 12, .data_parallel = 3});
  EXPECT_EQ(step_of(experiment), (4 + 3) * 3);
  std::vector<Ns> steps;
  for (std::int32_t rank = 0; rank < 12; rank += 3) steps.push_back(step_of(after_failure(experiment, rank)));
  EXPECT_THAT(steps, ElementsAre(23, 23, 25, 27));
}

/// Returns true if the lists hang under a channel model.
bool hangs(const Experiment& experiment) {
  return std::ranges::any_of(
      std::array{ChannelModel::rank, ChannelModel::pair, ChannelModel::directed}, [&](ChannelModel model) {
        return find_hang(experiment.program, {.model = model}, experiment.costs).has_value();
      });
}

/// Checks the lists after the rank has failed. Another rank may have the work of two ranks, so a step takes
/// at most twice as long.
void expect_sound_lists(const Experiment& experiment, std::int32_t rank) {
  SCOPED_TRACE(fmt::format("{}, rank {}", experiment.program.schedule, rank));
  const auto without = rerouted(experiment, rank);
  ASSERT_TRUE(without) << without.error();
  ASSERT_TRUE(validate(*without)) << validate(*without).error();
  EXPECT_TRUE(without->ranks[static_cast<std::size_t>(rank)].empty());
  const Experiment after = after_failure(experiment, rank);
  EXPECT_FALSE(hangs(after));
  EXPECT_EQ(step_of(after), reference_engine(after).makespan_ns);
  EXPECT_LE(step_of(after), 2 * step_of(experiment));
}

/// Returns true if a rank of the program may fail.
bool may_lose_a_rank(const Program& program) {
  return program.update == UpdateRule::minibatch && program.schedule != "data-parallel";
}

// Tests the failure of each rank, for each schedule. The lists must remain valid and must not hang under any
// channel model. The engine and the slow reference must find the same time.
TEST(Reroute, MakesValidListsOfEverySchedule) {
  std::int32_t schedules = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const std::int32_t copies : {2, 3}) {
      const Shape shape{.stages = 2,
                        .microbatches = 4 * copies,
                        .virtual_stages = schedule.default_chunks,
                        .data_parallel = copies};
      const auto program = generate(schedule.name, shape);
      if (!program || !may_lose_a_rank(*program)) continue;
      ++schedules;
      const Experiment experiment = compute_lists(std::string(schedule.name), shape);
      for (std::int32_t rank = 0; rank < program->rank_count(); ++rank) expect_sound_lists(experiment, rank);
    }
  }
  EXPECT_GT(schedules, 30);
}

TEST(Reroute, NeedsACopyOfEachStage) {
  EXPECT_THAT(rerouted(compute_lists("1f1b", {.stages = 2, .microbatches = 4}), 1).error(),
              HasSubstr("no other rank holds stage 1 of rank 1: expected copies of the pipeline"));
  EXPECT_THAT(
      rerouted(compute_lists("1f1b", {.stages = 2, .microbatches = 4, .data_parallel = 2}), 4).error(),
      HasSubstr("expected a rank from 0 to 3, got 4"));
  EXPECT_THAT(
      rerouted(compute_lists("1f1b", {.stages = 2, .microbatches = 4, .data_parallel = 2, .sharding = 3}), 1)
          .error(),
      HasSubstr("the shard of a failed rank is lost"));
}

RerouteReport report_of(const std::string& text) {
  auto report = reroute_report(parse_scenario(text, "s.yaml", ".").value());
  if (!report) throw std::runtime_error(report.error().message);
  return *std::move(report);
}

TEST(Reroute, ReportsAStepForAFailedRankOfEachStage) {
  const RerouteReport report = report_of(
      "model: {stages: {forward: 1 ms, backward: 2 ms}}\n"
      "schedule: {name: 1f1b, stages: 2, microbatches: 4, data_parallel: 2}\n"
      "training: {iterations: 3}\n");
  EXPECT_EQ(report.before_ns, 9'000'000) << "one step of three";
  ASSERT_EQ(report.after.size(), 2U);
  EXPECT_EQ(report.after[1].rank, 2);
  EXPECT_EQ(report.after[1].step_ns, 15'000'000);
  EXPECT_EQ(report.longest().step_ns, 15'000'000);
}

// The program of a model on named devices has no copies. They are added for the failure.
TEST(Reroute, AddsTheCopiesOfAModelOnDevices) {
  const RerouteReport report = report_of(
      "model: {huggingface: llama-3.1-8b, sequence: 4096}\ncluster: {device: h100-sxm, nodes: 1}\n"
      "parallel: {tensor: 1, data: 2}\nschedule: {name: 1f1b, stages: 4}\n"
      "training: {micro_batch_size: 1, global_batch_size: 16}\n");
  EXPECT_EQ(report.after.size(), 4U);
  for (const ReroutedStep& step : report.after) {
    EXPECT_GT(step.step_ns, report.before_ns);
    EXPECT_LT(step.step_ns, 2 * report.before_ns);
  }
}

// For a model on named devices, the samples and the price of a microbatch are those of all copies. The
// program with all copies has one microbatch for each copy instead.
TEST(Reroute, CountsTheSamplesOfFourCopiesOnce) {
  const std::string text =
      "model: {huggingface: llama-3.1-8b, sequence: 4096}\n"
      "cluster: {device: h100-sxm, nodes: 2, price: 2}\n"
      "parallel: {data: 4}\nschedule: {name: 1f1b, stages: 4, microbatches: 16}\n"
      "training: {micro_batch_size: 1}\n";
  const Scenario scenario = parse_scenario(text, "s.yaml", ".").value();
  const Result one_copy = simulate_scenario(scenario, {}).value();
  Experiment all = with_all_copies(prepare(scenario, ProgramForm::lists).value()).value();
  const Result copies = simulate(lowered(std::move(all)).value(), {}).value();
  EXPECT_EQ(copies.throughput.samples, 64);
  EXPECT_EQ(copies.throughput.samples, one_copy.throughput.samples);
  EXPECT_NEAR(copies.throughput.model->mfu / one_copy.throughput.model->mfu, 1, 0.01);
  EXPECT_NEAR(*copies.throughput.cost_per_million_samples / *one_copy.throughput.cost_per_million_samples, 1,
              0.01);
  EXPECT_EQ(report_of(text).after.size(), 4U);
}

}  // namespace
}  // namespace penstock
