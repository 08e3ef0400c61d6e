// The smallest shape of a schedule that hangs for want of room.

#include "scenarios/prepare/hanging_shape.hpp"

#include <cstdint>

#include <gtest/gtest.h>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"

namespace penstock {
namespace {

/// Interleaved 1F1B where each channel holds one message that is not consumed yet.
Scenario tight_interleaving(std::int32_t stages, std::int32_t microbatches) {
  Scenario scenario;
  scenario.schedule = "interleaved";
  scenario.shape = {.stages = stages, .virtual_stages = 2};
  scenario.batch.microbatches = microbatches;
  scenario.channels = {.model = ChannelModel::rank, .capacity = 1};
  return scenario;
}

TEST(HangingShape, IsTheFirstThatHangs) {
  const Scenario whole = tight_interleaving(4, 8);
  auto experiment = prepare(whole);
  ASSERT_TRUE(experiment) << experiment.error().message;
  ASSERT_TRUE(find_hang(experiment->program, experiment->channels, experiment->costs));
  const auto [found, shape] = smallest_hanging_shape(whole, *experiment);
  EXPECT_TRUE(find_hang(found.program, found.channels, found.costs));
  EXPECT_EQ(found.program.microbatches, shape.microbatches);
  // Nothing before it hangs, in the order K, v, M.
  for (std::int32_t k = 1; k <= shape.stages; ++k) {
    for (std::int32_t v = 1; v <= 2; ++v) {
      for (std::int32_t m = 1; m <= 8; ++m) {
        if (k == shape.stages &&
            (v > shape.virtual_stages || (v == shape.virtual_stages && m >= shape.microbatches)))
          continue;
        Scenario smaller = tight_interleaving(k, m);
        smaller.shape.virtual_stages = v;
        const auto prepared = prepare(smaller);
        if (!prepared) continue;
        EXPECT_FALSE(find_hang(prepared->program, prepared->channels, prepared->costs))
            << "K=" << k << " v=" << v << " M=" << m;
      }
    }
  }
}

// Edges name stages 0 .. 7, so that no smaller K v than 4 x 2 can be prepared: what shrinks is M.
TEST(HangingShape, PassesOverShapesThatDoNotFitTheModel) {
  Scenario scenario = tight_interleaving(4, 8);
  StageFigures figures;
  figures.forward.values = {1000};
  figures.backward.values = {1000};
  for (std::int32_t stage = 0; stage < 7; ++stage) figures.edges.push_back({.from = stage, .to = stage + 1});
  scenario.model = figures;
  auto experiment = prepare(scenario);
  ASSERT_TRUE(experiment) << experiment.error().message;
  const auto [found, shape] = smallest_hanging_shape(scenario, *experiment);
  EXPECT_EQ(found.program.stage_count(), 8) << "the model's edges name eight";
  EXPECT_LT(shape.microbatches, 8);
}

}  // namespace
}  // namespace penstock
