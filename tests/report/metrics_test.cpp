// Tests bubble, exposed communication, live activations, versions and throughput, on timelines that can be
// checked by hand. Further parts test the idle time before an action, and the table by stage and unit.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

Result summarized(const Experiment& experiment, double samples_per_microbatch = 1) {
  return summarize(*critical_path(experiment), {.program = experiment.program,
                                                .costs = experiment.costs,
                                                .samples_per_microbatch = samples_per_microbatch});
}

TEST(Metrics, TheThreeBubbleFiguresOf1F1B) {
  // F takes 1 and B takes 2, so the makespan is (M + K - 1) * 3 = 33. A rank is idle for 9 of it: 9/33 of the
  // total time, and 9/24 of the work.
  const Result result = summarized(uniform_experiment("1f1b", {.stages = 4, .microbatches = 8}, {}));
  EXPECT_EQ(result.makespan_ns, 33);
  EXPECT_DOUBLE_EQ(result.bubble.idle_over_total, 3.0 / 11);
  EXPECT_DOUBLE_EQ(result.bubble.idle_over_ideal, 3.0 / 8);
  EXPECT_DOUBLE_EQ(result.bubble.longest_span_rate, 3.0 / 11) << "rank 0 works from 0 to 33";
}

TEST(Metrics, TheLongestSpanLeavesALateStartOut) {
  // With ZB-H1 and F = I = W = 1, each rank works for 12. Rank 1 works from 1 to 13 without a pause. Rank 0
  // works from 0 to 13 with a pause of 1. So the ranks are idle for 2 of 26, and the longest span is idle for
  // 1 of 13.
  const Result result = summarized(
      uniform_experiment("zb-h1", {.stages = 2, .microbatches = 4}, {.forward_ns = 1, .backward_ns = 2}));
  EXPECT_EQ(result.makespan_ns, 13);
  EXPECT_DOUBLE_EQ(result.bubble.idle_over_total, 1.0 / 13);
  EXPECT_DOUBLE_EQ(result.bubble.longest_span_rate, 1.0 / 13);
}

TEST(Metrics, NothingToDoIsNoBubble) {
  Experiment experiment =
      uniform_experiment("gpipe", {.stages = 2, .microbatches = 2}, {.forward_ns = 0, .backward_ns = 0});
  const Result result = summarized(experiment);
  EXPECT_EQ(result.makespan_ns, 0);
  EXPECT_EQ(result.bubble, BubbleReport{});
  EXPECT_EQ(result.throughput.samples_per_second, 0);
}

TEST(Metrics, ExposedCommunicationIsIdleTimeWhileAnAwaitedMessageIsUnderWay) {
  // F on rank 0 ends at 1, and the activation arrives at 6. B on rank 1 ends at 9, and the gradient arrives
  // at 14.
  const Result result =
      summarized(uniform_experiment("naive", {.stages = 2, .microbatches = 1}, {.latency_ns = 5}));
  EXPECT_EQ(result.ranks[0].idle_ns, 16 - 3);
  EXPECT_EQ(result.ranks[0].exposed_communication_ns, 5) << "the rest of the gap rank 1 computes";
  EXPECT_EQ(result.ranks[1].exposed_communication_ns, 5);
}

TEST(Metrics, AReductionThatTheStepWaitsForIsExposed) {
  // Each replica has one microbatch: F ends at 10, and B at 30. The reduction of 2 * 1/2 of 100 bytes at 1
  // byte/ns ends at 130.
  const Program program = *generate("data-parallel", {.stages = 1, .microbatches = 2, .replicas = {2}});
  const Experiment experiment = experiment_of(
      program, {.stages = {{.forward_ns = 10, .backward_ns = 20, .gradients = 100}}, .edges = {}},
      uniform_links(2, 1e9, 0));
  const Result result = summarized(experiment);
  EXPECT_EQ(result.makespan_ns, 130);
  EXPECT_EQ(result.ranks[0].exposed_communication_ns, 100);
  EXPECT_EQ(result.ranks[0].busy_ns, 30);
}

TEST(Metrics, ARecomputationThatWaitsForTheGradientExposesItsTransfer) {
  // Rank 0 is idle from the end of its F to the arrival of the gradient, 5 ns after rank 1's B.
  const Experiment experiment = uniform_experiment(
      "gpipe",
      {.stages = 2, .microbatches = 1, .checkpoint = Checkpoint::always, .recompute = RecomputeTiming::late},
      {.forward_ns = 10, .backward_ns = 20, .latency_ns = 5});
  const Result result =
      summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs});
  EXPECT_EQ(result.ranks[0].exposed_communication_ns, 5);
}

TEST(Metrics, CollectivesCountAsSentAndReceived) {
  Experiment experiment =
      uniform_experiment("data-parallel", {.stages = 2, .microbatches = 4, .replicas = {4}},
                         {.forward_ns = 1, .backward_ns = 2});
  experiment.costs.stages[0].gradients = 1000;
  experiment.costs.stages[1].gradients = 10;
  const Result result =
      summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs});
  // In an all-reduce of n bytes over 4 ranks, each rank sends 2 * 3/4 n. These are 1500 and 15 bytes.
  EXPECT_EQ(result.ranks[3].sent_bytes, 1515);
  EXPECT_EQ(result.ranks[3].received_bytes, 1515);
}

TEST(Metrics, SamplesCountAllReplicasAndIterations) {
  const Result result =
      summarized(uniform_experiment("data-parallel",
                                    {.stages = 2, .microbatches = 6, .iterations = 3, .replicas = {3}}, {}),
                 4);
  EXPECT_EQ(result.throughput.samples, 6 * 4 * 3);
  EXPECT_EQ(result.throughput.samples_per_update, 24);
}

TEST(Metrics, AnAsynchronousUpdateCoversOneMinibatchOfEveryReplica) {
  const Result result =
      summarized(uniform_experiment("1f1b-rr", {.stages = 2, .microbatches = 8, .replicas = {2, 1}}, {}), 4);
  EXPECT_EQ(result.throughput.samples, 32);
  EXPECT_EQ(result.throughput.samples_per_update, 8);
}

TEST(Metrics, AnOverlappedPairIsBusyOnce) {
  const auto program = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\n"
      "rank 0: 0F0 (0F1;0B0)OVERLAP_F_B 0B1 0STEP\n",
      "pair.psched");
  ASSERT_TRUE(program) << program.error();
  const Experiment experiment = experiment_of(
      *program, {.stages = {{.forward_ns = 10, .backward_ns = 20, .overlapped_pair_ns = 22}}, .edges = {}},
      uniform_links(1, 1e9, 0));
  const Result result = summarized(experiment);
  EXPECT_EQ(result.makespan_ns, 10 + 22 + 20);
  EXPECT_EQ(result.ranks[0].busy_ns, 52);
  EXPECT_EQ(result.ranks[0].peak_live_activations, 2);
}

TEST(OpenMicrobatches, AtOneInstantThoseThatBeganEarlierEndFirst) {
  OpenMicrobatches open;
  const auto forward = [](std::int32_t unit) {
    return Action{.kind = ActionKind::forward, .microbatch = unit};
  };
  open.begin(forward(0), 0);
  open.begin(forward(1), 5);
  open.end(forward(0), 5);
  EXPECT_EQ(open.peak(), 1) << "0 ends before 1 begins, although 1 comes first in the list";
}

TEST(OpenMicrobatches, WhatBeginsAndEndsAtOneInstantCountsInListOrder) {
  OpenMicrobatches open;
  const auto forward = [](std::int32_t unit) {
    return Action{.kind = ActionKind::forward, .microbatch = unit};
  };
  open.begin(forward(0), 5);
  open.end(forward(0), 5);
  open.begin(forward(1), 5);
  EXPECT_EQ(open.peak(), 1);
  open.begin(forward(2), 5);
  open.end(forward(1), 5);
  EXPECT_EQ(open.peak(), 2);
  open.begin(forward(3), 6);
  EXPECT_EQ(open.peak(), 2) << "2 and 3 are open";
}

TEST(Holdings, AtOneInstantReleasesComeBeforeCharges) {
  const std::vector<Holding> holdings = {{.from_ns = 0, .until_ns = 5, .charged_by = 0, .released_by = 1},
                                         {.from_ns = 5, .until_ns = 9, .charged_by = 2, .released_by = 3}};
  EXPECT_EQ(peak_amount(holdings), 1);
}

TEST(Holdings, WhatComesAndGoesAtOneInstantIsCountedInProgramOrder) {
  const std::vector<Holding> one_after_the_other = {
      {.from_ns = 5, .until_ns = 5, .charged_by = 0, .released_by = 1},
      {.from_ns = 5, .until_ns = 5, .charged_by = 2, .released_by = 3}};
  EXPECT_EQ(peak_amount(one_after_the_other), 1);
  const std::vector<Holding> nested = {{.from_ns = 5, .until_ns = 5, .charged_by = 0, .released_by = 3},
                                       {.from_ns = 5, .until_ns = 5, .charged_by = 1, .released_by = 2}};
  EXPECT_EQ(peak_amount(nested), 2);
}

/// Returns every change as (time, true if it is a charge), sorted directly by the rule in spans.hpp. At one
/// time, releases of older holdings come first (phase 0). Holdings that begin at this time, or begin and end
/// at it, follow by their position in the program (phase 1).
std::vector<std::pair<Ns, bool>> sorted_changes(const std::vector<Holding>& holdings) {
  using Key = std::tuple<Ns, int, std::int32_t, int, std::size_t>;  // time, phase, position, order, holding
  std::vector<Key> keys;
  for (std::size_t i = 0; i < holdings.size(); ++i) {
    const Holding& held = holdings[i];
    keys.emplace_back(held.from_ns, 1, held.charged_by, 1, i);
    if (held.until_ns == kHeldForEver) continue;
    const bool own = held.charged_by == held.released_by;
    keys.emplace_back(held.until_ns, held.until_ns == held.from_ns ? 1 : 0, held.released_by, own ? 2 : 0, i);
  }
  std::ranges::sort(keys);
  std::vector<std::pair<Ns, bool>> changes;
  for (const Key& key : keys) changes.emplace_back(std::get<0>(key), std::get<3>(key) == 1);
  return changes;
}

TEST(Holdings, AreMergedIntoTheOrderThatSortingGives) {
  std::mt19937 random(7);
  const auto pick = [&](int most) { return std::uniform_int_distribution(0, most)(random); };
  for (int round = 0; round < 500; ++round) {
    std::vector<Holding> holdings;
    for (int i = pick(30); i > 0; --i) {
      const Ns from = pick(8);
      holdings.push_back({.from_ns = from,
                          .until_ns = pick(5) == 0 ? kHeldForEver : from + pick(4),
                          .charged_by = pick(9) - 1,
                          .released_by = pick(9),
                          .kind = pick(3),
                          .amount = 1});
    }
    std::vector<std::pair<Ns, bool>> changes;
    for (const HoldingChange& change : changes_in_order(holdings))
      changes.emplace_back(change.time_ns, change.charge);
    ASSERT_EQ(changes, sorted_changes(holdings)) << "round " << round;
  }
}

const Experiment& of_two_ranks() {
  static const Experiment experiment = uniform_experiment("naive", {.stages = 2, .microbatches = 1}, {});
  return experiment;
}

/// The parts of a result of two ranks, with the facts of a program for them.
struct MadeOf {
  std::vector<RankFigures> ranks = std::vector<RankFigures>(2);
  RunFacts facts = {.program = of_two_ranks().program, .costs = of_two_ranks().costs};
};

Timeline one_span_until(Ns end_ns) {
  Span span;
  span.action = {.kind = ActionKind::forward, .stage = 0, .microbatch = 0};
  span.end_ns = end_ns;
  return {.rank_count = 2, .makespan_ns = 100, .spans = {span}};
}

/// Returns the exception's text if no result with a makespan of 100 ns can be made from the parts. Returns ""
/// if a result is made.
std::string not_made(MadeOf parts) {
  try {
    static_cast<void>(summarize(std::move(parts.ranks), 100, std::move(parts.facts)));
    return "";
  } catch (const std::logic_error& thrown) {
    return thrown.what();
  }
}

TEST(Metrics, AResultThatCannotBeIsNotMade) {
  EXPECT_EQ(not_made({}), "");
  MadeOf busy;
  busy.ranks[1].report.busy_ns = 101;
  EXPECT_EQ(not_made(std::move(busy)), "ranks[1].busy_ns: expected a time up to the makespan, 100, got 101");
  MadeOf wrapped;
  wrapped.ranks[0].report.sent_bytes = -8;
  EXPECT_EQ(not_made(std::move(wrapped)), "ranks[0].sent_bytes: expected at least 0, got -8");
}

TEST(Metrics, NorOneWithATimelineClockErrorOrRateThatCannotBe) {
  MadeOf late;
  late.facts.timeline = one_span_until(101);
  EXPECT_EQ(not_made(std::move(late)),
            "timeline[0].end_ns: expected a time up to the makespan, 100, got 101");
  MadeOf apart;
  apart.facts.clock_error_ns = -1;
  EXPECT_EQ(not_made(std::move(apart)), "clock_error_ns: expected at least 0, got -1");
  MadeOf rate;
  rate.facts.steady_samples_per_second = -1;
  EXPECT_EQ(not_made(std::move(rate)), "throughput.steady_samples_per_second: expected at least 0, got -1");
  MadeOf model;
  model.facts.model = {.report = {.devices = 1}, .tokens_per_sample = -1e-7, .peak_flops_per_second = 1};
  EXPECT_EQ(not_made(std::move(model)), "throughput.tokens_per_second: expected at least 0, got -1");
}

TEST(Metrics, NorOneOfSpansThatEndAfterIt) {
  const Experiment experiment =
      uniform_experiment("naive", {.stages = 2, .microbatches = 1}, {.latency_ns = 5});
  Timeline timeline = *critical_path(experiment);
  const auto sent =
      std::ranges::find_if(timeline.spans, [](const Span& span) { return is_send(span.action.kind); });
  sent->end_ns = timeline.makespan_ns + 1;
  EXPECT_THROW(summarize(timeline, {.program = experiment.program, .costs = experiment.costs}),
               std::logic_error);
}

TEST(Metrics, WhatThereIsInTheFactsIsInTheResult) {
  MadeOf parts;
  parts.facts.clock_error_ns = 7;
  parts.facts.updates = 4;
  parts.facts.model = {.report = {.parameters = 12, .flops_per_sample = 6, .devices = 2},
                       .tokens_per_sample = 3,
                       .peak_flops_per_second = 6e7};
  parts.facts.timeline = one_span_until(100);
  const Result result = summarize(std::move(parts.ranks), 100, std::move(parts.facts));
  EXPECT_EQ(result.clock_error_ns, 7);
  EXPECT_EQ(result.throughput.samples_per_update, 0.25) << "one sample in four updates";
  EXPECT_EQ(result.timeline.spans.size(), 1U);
  ASSERT_TRUE(result.model && result.throughput.model);
  EXPECT_EQ(result.model->parameters, 12);
  EXPECT_DOUBLE_EQ(result.throughput.model->tokens_per_second, 3e7) << "a sample in 100 ns";
  EXPECT_DOUBLE_EQ(result.throughput.model->tokens_per_second_per_device, 1.5e7);
  EXPECT_DOUBLE_EQ(result.throughput.model->mfu, 0.5)
      << "6 operations in 100 ns by two devices of 6e7 a second";
}

TEST(Metrics, KCountsTheRanksOfOnePipelineWhateverCopiesAndChunksThereAre) {
  const auto size = [](const std::string& schedule, const Shape& shape) {
    return summarized(uniform_experiment(schedule, shape, {})).program.pipeline_size;
  };
  EXPECT_EQ(size("1f1b", {.stages = 4, .microbatches = 8}), 4);
  EXPECT_EQ(size("1f1b", {.stages = 4, .microbatches = 8, .data_parallel = 4, .buckets = {8}}), 4);
  EXPECT_EQ(size("interleaved", {.stages = 4, .microbatches = 8, .virtual_stages = 2}), 4);
  EXPECT_EQ(size("1f1b-rr", {.stages = 2, .microbatches = 8, .replicas = {2, 1}}), 2);
  EXPECT_EQ(size("data-parallel", {.stages = 4, .microbatches = 8}), 4) << "all stages are on all ranks";
  EXPECT_EQ(size("data-parallel", {.stages = 4, .microbatches = 8, .replicas = {2}}), 4);
  EXPECT_EQ(size("dualpipe", {.stages = 4, .microbatches = 8}), 4) << "stages 0 and 3 share ranks";
}

// Tests how the idle time before an action is divided.

/// Returns a span on rank 1. A message comes from the previous stage.
Span span(ActionKind kind, std::int32_t stage, std::int32_t microbatch, Ns start_ns, Ns end_ns) {
  return {.rank = 1,
          .action = {.kind = kind, .stage = stage, .microbatch = microbatch, .peer = stage - 1},
          .start_ns = start_ns,
          .end_ns = end_ns};
}

TEST(IdleBeforeActions, IsWaitingUntilTheMessageIsOnItsWayThenTransferThenLaunch) {
  //   0         30           70  75          100
  //   | waiting | transfer   | launch | F    |
  const std::vector<Span> spans = {span(ActionKind::recv_forward, 1, 0, 30, 70),
                                   span(ActionKind::forward, 1, 0, 75, 100)};
  EXPECT_EQ(idle_before_actions(spans),
            (std::vector<IdleBefore>{{.position = 1, .transfer_ns = 40, .launch_ns = 5, .waiting_ns = 30}}));
}

TEST(IdleBeforeActions, WhatHadArrivedBeforeTheRankWasFreeLeavesOnlyLaunch) {
  const std::vector<Span> spans = {span(ActionKind::forward, 1, 0, 0, 100),
                                   span(ActionKind::recv_backward, 1, 0, 20, 60),
                                   span(ActionKind::backward, 1, 0, 103, 200)};
  EXPECT_EQ(idle_before_actions(spans)[1], (IdleBefore{.position = 2, .launch_ns = 3}));
}

TEST(IdleBeforeActions, AMessageOfAnotherActionDoesNotCount) {
  const std::vector<Span> spans = {
      span(ActionKind::recv_forward, 1, 0, 0, 10), span(ActionKind::forward, 1, 0, 10, 20),
      span(ActionKind::recv_forward, 1, 1, 20, 90), span(ActionKind::backward, 1, 0, 60, 70)};
  EXPECT_EQ(idle_before_actions(spans)[1], (IdleBefore{.position = 3, .launch_ns = 40}));
}

TEST(IdleBeforeActions, ARecomputationWaitedForItsGradientOnlyIfThatHadArrived) {
  const std::vector<Span> late = {span(ActionKind::recv_backward, 1, 0, 10, 50),
                                  span(ActionKind::recompute, 1, 0, 52, 60)};
  EXPECT_EQ(idle_before_actions(late)[0],
            (IdleBefore{.position = 1, .transfer_ns = 40, .launch_ns = 2, .waiting_ns = 10}));
  const std::vector<Span> early = {span(ActionKind::recv_backward, 1, 0, 10, 50),
                                   span(ActionKind::recompute, 1, 0, 5, 20)};
  EXPECT_EQ(idle_before_actions(early)[0], (IdleBefore{.position = 1, .launch_ns = 5}));
}

TEST(IdleBeforeActions, AStepWaitsForItsReduction) {
  const std::vector<Span> spans = {span(ActionKind::reduce_grad, 1, kNoMicrobatch, 0, 30),
                                   span(ActionKind::step, 1, kNoMicrobatch, 31, 40)};
  EXPECT_EQ(idle_before_actions(spans)[0], (IdleBefore{.position = 1, .transfer_ns = 30, .launch_ns = 1}));
}

TEST(IdleBeforeActions, AnOverlappedPairWaitsForWhatBothNeedAndIsOneAction) {
  std::vector<Span> spans = {
      span(ActionKind::recv_forward, 1, 1, 0, 10), span(ActionKind::recv_backward, 1, 0, 0, 40),
      span(ActionKind::forward, 1, 1, 44, 60), span(ActionKind::backward, 1, 0, 44, 60)};
  spans[2].action.overlaps_next = true;
  EXPECT_EQ(idle_before_actions(spans),
            (std::vector<IdleBefore>{{.position = 2, .transfer_ns = 40, .launch_ns = 4}}));
}

// Tests that every value in the table is found again, for any order of units.

/// Stores a number at each of these units on two stages. After each step, checks that all numbers are found
/// again.
void holds_all(const std::vector<std::int32_t>& units) {
  StageUnitTable<std::int32_t> table(-1);
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> put;
  for (const std::int32_t unit : units) {
    for (const std::int32_t stage : {7, 0}) {
      EXPECT_EQ(table.at(stage, unit), -1) << stage << " " << unit;
      table.at(stage, unit) = put[{stage, unit}] = static_cast<std::int32_t>(put.size());
      for (const auto& [place, value] : put) ASSERT_EQ(table.at(place.first, place.second), value);
    }
  }
}

TEST(StageUnitTable, FindsUnitsThatComeInOrder) {
  std::vector<std::int32_t> units(300);
  for (std::size_t i = 0; i < units.size(); ++i) units[i] = static_cast<std::int32_t>(i);
  holds_all(units);
  std::ranges::reverse(units);
  holds_all(units);
}

TEST(StageUnitTable, FindsTheUnitsOfOneReplicaAmongThousands) {
  holds_all({12'345, 112'345, 212'345, 312'345, 1'000'000'000});
}

TEST(StageUnitTable, FindsUnitsFarAwayOnceThoseBeforeThemAreThere) {
  std::vector<std::int32_t> units{100, 300, 150};
  for (std::int32_t unit = 0; unit < 100; ++unit) units.push_back(unit);
  holds_all(units);
}

TEST(StageUnitTable, FindsUnitsInAnyOrder) {
  std::vector<std::int32_t> units(400);
  for (std::size_t i = 0; i < units.size(); ++i) units[i] = static_cast<std::int32_t>(i);
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    std::shuffle(units.begin(), units.end(), std::mt19937(seed));
    holds_all(units);
  }
}

}  // namespace
}  // namespace penstock
