// Tests copies of whole pipelines, which share the microbatches and reduce their gradients, and stages that
// are cut into gradient buckets.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/result/metrics.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"
#include "topology/collective.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

std::string text_of(const std::string& schedule, const Shape& shape) {
  return to_text(*generate(schedule, shape));
}

TEST(PipelineReplicas, ShareTheMicrobatchesAndReduceBeforeTheStep) {
  EXPECT_EQ(text_of("gpipe", {.stages = 2, .microbatches = 4, .data_parallel = 2}),
            "penstock program 1\n"
            "schedule gpipe\n"
            "microbatches 4\n"
            "stage 0: ranks 0 1 route 0 1\n"
            "stage 1: ranks 2 3 route 0 1\n"
            "rank 0: 0F0 0F2 0B0 0B2 0REDUCE_GRAD 0STEP\n"
            "rank 1: 0F1 0F3 0B1 0B3 0REDUCE_GRAD 0STEP\n"
            "rank 2: 1F0 1F2 1B0 1B2 1REDUCE_GRAD 1STEP\n"
            "rank 3: 1F1 1F3 1B1 1B3 1REDUCE_GRAD 1STEP\n");
}

TEST(PipelineReplicas, ReduceEachStageBehindItsLastBackwardOrAllAtTheEnd) {
  Shape shape{.stages = 1, .microbatches = 4, .virtual_stages = 2, .data_parallel = 2};
  EXPECT_THAT(text_of("looped-bfs", shape),
              HasSubstr("rank 0: 0F0 0F2 1F0 1F2 1B2 1B0 1REDUCE_GRAD 0B2 0B0 0REDUCE_GRAD "
                        "0STEP 1STEP\n"));
  shape.reduction = Reduction::at_end;
  EXPECT_THAT(text_of("looped-bfs", shape),
              HasSubstr("rank 0: 0F0 0F2 1F0 1F2 1B2 1B0 0B2 0B0 0REDUCE_GRAD 1REDUCE_GRAD 0STEP 1STEP\n"));
  shape.reduction = Reduction::overlapped;
  shape.replica_sync = ReplicaSync::off;
  EXPECT_THAT(text_of("looped-bfs", shape), testing::Not(HasSubstr("REDUCE_GRAD")));
}

TEST(PipelineReplicas, ReduceEveryUpdateOfADoubleBufferedStage) {
  EXPECT_THAT(text_of("pipedream-2bw", {.stages = 1, .microbatches = 2, .iterations = 2, .data_parallel = 2}),
              HasSubstr("rank 1: 0F1 0B1 0REDUCE_GRAD 0STEP 0F3 0B3 0REDUCE_GRAD 0STEP\n"));
}

TEST(PipelineReplicas, OfBothDirectionsReduceInOneGroup) {
  const Program program = *generate("chimera", {.stages = 2, .microbatches = 4, .data_parallel = 2});
  EXPECT_EQ(program.placement.stages[0].ranks, (std::vector<std::int32_t>{0, 1, 2, 3}));
  for (const auto& list : program.ranks) {
    EXPECT_EQ(std::ranges::count(list, ActionKind::reduce_grad, &Action::kind), 2) << "the schedule's own";
  }
}

TEST(PipelineReplicas, KeepTheSlicesOfAMicrobatchOnOneCopy) {
  const Program program =
      *generate("seq-1f1b", {.stages = 2, .microbatches = 4, .slices = 3, .data_parallel = 2});
  for (std::int32_t unit = 0; unit < program.unit_count(); ++unit) {
    EXPECT_EQ(program.placement.replica_of(0, unit), unit / 3 % 2) << unit;
  }
}

TEST(PipelineReplicas, AreValidAndHangNowhere) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const std::int32_t copies : {2, 3}) {
      Shape shape{.stages = 4, .microbatches = 8 * copies, .data_parallel = copies};
      shape.virtual_stages = chunks_to_try(schedule);
      if (schedule.name == "seq-1f1b") shape.slices = 2;
      const auto program = generate(schedule.name, shape);
      SCOPED_TRACE(testing::Message() << schedule.name << " x " << copies);
      if (!program) {
        EXPECT_THAT(program.error(), HasSubstr("replicas of its own"));
        continue;
      }
      EXPECT_EQ(program->rank_count(), 4 * copies);
      const auto valid = validate(*program);
      ASSERT_TRUE(valid) << valid.error();
      const auto lowered = lower(*program);
      ASSERT_TRUE(lowered) << lowered.error();
      for (const ChannelModel model : kChannelModels) {
        const auto hang =
            find_hang(*lowered, {.model = model, .blocking = Blocking::each}, unit_costs(*lowered));
        EXPECT_FALSE(hang) << hang->message;
      }
    }
  }
}

Ns makespan_of(const std::string& schedule, const Shape& shape, Bytes gradients) {
  const Program program = *generate(schedule, shape);
  CostTable costs = unit_costs(program);
  for (StageCost& stage : costs.stages) stage.gradients = gradients;
  return makespan_ns(experiment_of(program, costs, uniform_links(program.rank_count(), 1e9, 0)));
}

// Copies do not delay each other. d copies with d M microbatches take the time of one copy with M, and then
// the time of the slowest reduction. In a ring, this is 2 (d-1)/d of the gradients, at one byte in a
// nanosecond.
TEST(PipelineReplicas, TakeTheTimeOfOneAndTheLastReduction) {
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1"}) {
    for (const std::int32_t copies : {2, 4}) {
      const Shape one{.stages = 4, .microbatches = 8};
      const Shape all{.stages = 4, .microbatches = 8 * copies, .data_parallel = copies};
      EXPECT_EQ(makespan_of(schedule, all, 0), makespan_of(schedule, one, 0)) << schedule;
      const Bytes gradients = 1'000'000;
      EXPECT_EQ(makespan_of(schedule, all, gradients),
                makespan_of(schedule, one, 0) + 2 * (copies - 1) * gradients / copies)
          << schedule << ": stage 0 ends last and reduces last";
    }
  }
}

TEST(PipelineReplicas, RefuseMicrobatchesThatDoNotDivide) {
  EXPECT_EQ(generate("1f1b", {.stages = 2, .microbatches = 7, .data_parallel = 3}).error(),
            "microbatches: 7 do not divide among 3 copies of the pipeline; the nearest that work: 6 and 9");
  EXPECT_EQ(generate("1f1b", {.stages = 2, .microbatches = 2, .data_parallel = 3}).error(),
            "microbatches: 2 do not divide among 3 copies of the pipeline; the nearest that work: 3");
  EXPECT_EQ(generate("1f1b", {.stages = 2, .microbatches = 2, .data_parallel = 0}).error(),
            "data_parallel: expected a number of at least 1, got 0");
  EXPECT_EQ(generate("1f1b-rr", {.stages = 2, .microbatches = 2, .data_parallel = 2}).error(),
            "data_parallel: 1f1b-rr has replicas of its own; give `replicas` instead");
  EXPECT_THAT(generate("1f1b", {.stages = 2, .microbatches = 2, .reduction = Reduction::at_end}).error(),
              HasSubstr("reduction: 1f1b does not take it"));
}

// Tests stages that are cut into gradient buckets.

using testing::HasSubstr;

Shape with_buckets(Shape shape, std::vector<std::int32_t> buckets) {
  shape.buckets = std::move(buckets);
  return shape;
}

std::string lists_of(const std::string& schedule, const Shape& shape) {
  const auto program = generate(schedule, shape);
  if (!program) return program.error();
  const std::string text = to_text(*program);
  return text.substr(text.find("stage 0:"));
}

TEST(Buckets, OfAReplicatedStageAreReducedWhileTheBackwardPassGoesOn) {
  Shape shape{.stages = 2, .microbatches = 2};
  shape.replicas = {2, 1};
  shape.routing = Routing::global;
  EXPECT_EQ(lists_of("1f1b-rr", with_buckets(shape, {3, 1})),
            "stage 0: ranks 0 1 route 0 1\n"
            "stage 1: ranks 0 1 route 0 1\n"
            "stage 2: ranks 0 1 route 0 1\n"
            "stage 3: rank 2\n"
            "rank 0: 0F0 1F0 2F0 2B0 2REDUCE_GRAD 1B0 1REDUCE_GRAD 0B0 0REDUCE_GRAD 2STEP 1STEP 0STEP\n"
            "rank 1: 0F1 1F1 2F1 2B1 2REDUCE_GRAD 1B1 1REDUCE_GRAD 0B1 0REDUCE_GRAD 2STEP 1STEP 0STEP\n"
            "rank 2: 3F0 3B0 3STEP 3F1@1 3B1@1 3STEP\n");
}

TEST(Buckets, OfAStageThatNobodySharesOnlyRunInARow) {
  EXPECT_EQ(lists_of("gpipe", with_buckets({.stages = 1, .microbatches = 2}, {2})),
            "stage 0: rank 0\n"
            "stage 1: rank 0\n"
            "rank 0: 0F0 1F0 0F1 1F1 1B0 0B0 1B1 0B1 1STEP 0STEP\n");
}

TEST(Buckets, OfAPipelinesCopies) {
  Shape shape{.stages = 1, .microbatches = 4, .data_parallel = 2};
  EXPECT_THAT(lists_of("1f1b", with_buckets(shape, {2})),
              HasSubstr("rank 0: 0F0 1F0 1B0 0B0 0F2 1F2 1B2 1REDUCE_GRAD 0B2 0REDUCE_GRAD 1STEP 0STEP\n"));
  shape.reduction = Reduction::at_end;
  EXPECT_THAT(lists_of("1f1b", with_buckets(shape, {2})),
              HasSubstr("1REDUCE_GRAD 0REDUCE_GRAD 1STEP 0STEP\n"));
}

TEST(Buckets, OfOneChangeNothing) {
  const Shape shape{.stages = 3, .microbatches = 4};
  EXPECT_EQ(generate("1f1b", with_buckets(shape, {1})), generate("1f1b", shape));
  EXPECT_EQ(generate("1f1b", with_buckets(shape, {1, 1, 1})), generate("1f1b", shape));
}

TEST(Buckets, SplitBackwardsKeepTheirOrder) {
  const auto program = generate("zb-h1", with_buckets({.stages = 2, .microbatches = 2}, {2}));
  ASSERT_TRUE(program) << program.error();
  EXPECT_THAT(to_text(*program), HasSubstr("rank 1: 2F0 3F0 3I0 2I0 2F1 3F1 3I1 2I1 "));
}

TEST(Buckets, OfEveryScheduleAreValidAndCanBeLowered) {
  int cut = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const Shape shape =
        with_buckets({.stages = 2, .microbatches = 8, .virtual_stages = chunks_to_try(schedule)}, {3});
    const auto program = generate(schedule.name, shape);
    if (!program) {
      EXPECT_THAT(program.error(), HasSubstr("overlapped pairs")) << schedule.name;
      continue;
    }
    const auto valid = validate(*program);
    EXPECT_TRUE(valid) << schedule.name << ": " << valid.error();
    EXPECT_TRUE(lower(*program)) << schedule.name;
    ++cut;
  }
  EXPECT_GT(cut, 20);
}

// Minibatch 7 goes backward through rank 8. The second reduction of rank 8 waits for the forward of minibatch
// 16 on other ranks, and this forward waits for minibatch 7. So no rank may stop at a reduction until all
// members have reached it.
TEST(Buckets, OfUnevenReplicasAreReducedWithoutOneOrderOfAllRanks) {
  Shape shape{.stages = 3, .microbatches = 56};
  shape.replicas = {8, 7, 1};
  shape.routing = Routing::global;
  ASSERT_TRUE(lower(*generate("1f1b-rr", shape)));
  const auto program = lower(*generate("1f1b-rr", with_buckets(shape, {4})));
  ASSERT_TRUE(program) << program.error();
  EXPECT_FALSE(find_hang(*program, {.model = ChannelModel::directed}, unit_costs(*program)));
}

TEST(Buckets, MustBeOneNumberOrOneAStage) {
  EXPECT_THAT(
      lists_of("1f1b", with_buckets({.stages = 3, .microbatches = 4}, {2, 2})),
      HasSubstr(
          "expected one number of at least 1, or 3, one for each stage of the schedule, got 2 numbers"));
  EXPECT_THAT(lists_of("1f1b", with_buckets({.stages = 3, .microbatches = 4}, {0})), HasSubstr("at least 1"));
  EXPECT_THAT(lists_of("1f1b", with_buckets({.stages = 3, .microbatches = 4}, {2'000'000'000})),
              HasSubstr("an impossible shape"));
}

TEST(Buckets, DoNotGoWithRecomputation) {
  EXPECT_THAT(lists_of("gpipe",
                       with_buckets({.stages = 2, .microbatches = 2, .checkpoint = Checkpoint::always}, {2})),
              HasSubstr("recomputation"));
}

}  // namespace
}  // namespace penstock
