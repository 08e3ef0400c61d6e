// Tests vocabulary parallelism: the lists and edges of both algorithms for small shapes, the microbatches
// that they store, and the times that all ranks are idle.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

std::string divided_text(const char* name, std::int32_t stages, std::int32_t microbatches) {
  return to_text(*generate(name, {.stages = stages, .microbatches = microbatches}));
}

// Stages 3 to 5 are the slices, and stage 6 is the loss. T (3B0, 4B0, 5B0) gives the gradient of the input,
// so 2B0 waits for T on all ranks.
TEST(Vocabulary, WithTwoBarriersRunsTBeforeTheBackwardsOfTheLayers) {
  EXPECT_EQ(divided_text("1f1b-vocab-1", 3, 2), R"(penstock program 1
schedule 1f1b-vocab-1
microbatches 2
edges 0>1 1>2 2>3 2>4 2>5 3>6 4>6 5>6
stage 0: rank 0
stage 1: rank 1
stage 2: rank 2
stage 3: rank 0
stage 4: rank 1
stage 5: rank 2
stage 6: rank 2
rank 0: 0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1 0STEP 3STEP
rank 1: 1F0 4F0 1F1 4B0 4F1 4B1 1B0 1B1 1STEP 4STEP
rank 2: 2F0 5F0 2F1 6F0 6B0 5B0 5F1 6F1 6B1 5B1 2B0 2B1 2STEP 5STEP 6STEP
)");
}

// S gives the gradient of the input, which the loss (stage 6) rescales. So 2B0 waits for no T.
TEST(Vocabulary, WithOneBarrierRunsTBehindTheBackwardsOfTheLayers) {
  EXPECT_EQ(divided_text("1f1b-vocab-2", 3, 2), R"(penstock program 1
schedule 1f1b-vocab-2
microbatches 2
edges 0>1 1>2 2>3! 2>4! 2>5! 2<6! 3>6 4>6 5>6
stage 0: rank 0
stage 1: rank 1
stage 2: rank 2
stage 3: rank 0
stage 4: rank 1
stage 5: rank 2
stage 6: rank 2
rank 0: 0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1 0STEP 3STEP
rank 1: 1F0 4F0 1F1 4B0 4F1 1B0 4B1 1B1 1STEP 4STEP
rank 2: 2F0 5F0 2F1 6F0 6B0 2B0 5B0 5F1 6F1 6B1 2B1 5B1 2STEP 5STEP 6STEP
)");
}

TEST(Vocabulary, HasOneSliceOnOneRank) {
  EXPECT_THAT(divided_text("1f1b-vocab-1", 1, 1),
              testing::EndsWith("rank 0: 0F0 1F0 2F0 2B0 1B0 0B0 0STEP 1STEP 2STEP\n"));
  EXPECT_THAT(divided_text("1f1b-vocab-2", 1, 1),
              testing::EndsWith("rank 0: 0F0 1F0 2F0 2B0 0B0 1B0 0STEP 1STEP 2STEP\n"));
}

TEST(Vocabulary, RunsOneMicrobatchThroughAllStagesAndBack) {
  EXPECT_THAT(divided_text("1f1b-vocab-1", 2, 1),
              testing::EndsWith("rank 0: 0F0 2F0 2B0 0B0 0STEP 2STEP\n"
                                "rank 1: 1F0 3F0 4F0 4B0 3B0 1B0 1STEP 3STEP 4STEP\n"));
  EXPECT_THAT(divided_text("1f1b-vocab-2", 2, 1),
              testing::EndsWith("rank 0: 0F0 2F0 2B0 0B0 0STEP 2STEP\n"
                                "rank 1: 1F0 3F0 4F0 4B0 1B0 3B0 1STEP 3STEP 4STEP\n"));
}

/// Returns the most microbatches of a stage that are between F and B at one moment.
std::int32_t most_live(const Program& program, std::int32_t stage) {
  std::int32_t live = 0;
  std::int32_t most = 0;
  for (const std::vector<Action>& list : program.ranks) {
    for (const Action& action : list) {
      if (action.stage != stage) continue;
      if (action.kind == ActionKind::forward) most = std::max(most, ++live);
      if (action.kind == ActionKind::backward) --live;
    }
  }
  return most;
}

// The paper (section 5.2) states K + 2 and K + 1 microbatches for the first rank.
TEST(Vocabulary, StoresOneMicrobatchMoreThanOneF1bForEachBarrier) {
  for (const auto& [name, barriers] : {std::pair{"1f1b-vocab-1", 2}, std::pair{"1f1b-vocab-2", 1}}) {
    for (std::int32_t stages = 1; stages <= 8; ++stages) {
      const Program program = *generate(name, {.stages = stages, .microbatches = 24});
      for (std::int32_t stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(most_live(program, stage), stages - stage + barriers) << name << " stage " << stage;
        EXPECT_EQ(most_live(program, stages + stage), 1) << name << " slice " << stage;
      }
    }
  }
}

/// The times of one microbatch on each rank.
struct SliceTimes {
  Ns forward = 0;
  Ns backward = 0;
  Ns s = 0;
  Ns t = 0;

  Ns sum() const { return forward + backward + s + t; }
};

Ns divided_makespan(const char* name, const Shape& shape, const SliceTimes& times) {
  const Program program = *generate(name, shape);
  CostTable costs = unit_costs(program);
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    const bool is_slice = stage >= shape.stages;
    costs.stages[static_cast<std::size_t>(stage)] = {.forward_ns = is_slice ? times.s : times.forward,
                                                     .backward_ns = is_slice ? times.t : times.backward};
  }
  costs.stages.back() = {};
  return makespan_ns(
      experiment_of(program, costs, uniform_links(program.rank_count(), kUnlimitedBandwidth, 0)));
}

// The output layer has the work of one stage of layers. Beside the K - 1 passes that 1F1B fills and drains
// with, the run is longer by F - T with one barrier, and by F + B - S with two.
TEST(Vocabulary, IsIdleForOnePassMoreThanOneF1bAtMost) {
  constexpr Ns kLayersForward = 840;
  for (std::int32_t stages = 3; stages <= 8; ++stages) {
    const Ns share = kLayersForward / stages;
    const SliceTimes two{
        .forward = kLayersForward, .backward = 2 * kLayersForward, .s = share, .t = 2 * share};
    const SliceTimes one{
        .forward = kLayersForward, .backward = 2 * kLayersForward, .s = 2 * share, .t = share};
    for (const std::int32_t microbatches : {3, 4, 7, 8, 24}) {
      const Shape shape{.stages = stages, .microbatches = microbatches};
      const Ns passes = (stages - 1) * Ns{3} * kLayersForward + microbatches * two.sum();
      EXPECT_EQ(divided_makespan("1f1b-vocab-1", shape, two), passes + 3 * kLayersForward - two.s) << stages;
      EXPECT_EQ(divided_makespan("1f1b-vocab-2", shape, one), passes + kLayersForward - one.t) << stages;
    }
  }
}

TEST(Vocabulary, IsFoundByNameAndAlias) {
  EXPECT_EQ(extra_stages_of("1F1B_vocab_1"), ExtraStages::output_slices);
  EXPECT_EQ(extra_stages_of("vocabulary-parallel"), ExtraStages::output_slices_inputs);
  EXPECT_EQ(extra_stages_of("1f1b"), ExtraStages::none);
  Program program = *generate("1f1b-vocab-1", {.stages = 4, .microbatches = 2});
  EXPECT_EQ(extra_stages_of(program), ExtraStages::output_slices);
  program.placement.stages.pop_back();
  EXPECT_EQ(extra_stages_of(program), ExtraStages::none) << "a file with this name may have other stages";
}

}  // namespace
}  // namespace penstock
