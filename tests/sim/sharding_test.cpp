// Tests the time that ZeRO costs and the memory that it saves (Rajbhandari et al., SC'20, sections 5 and 7).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "report/print/memory_category.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

constexpr Bytes kShardedWeights = 1'200'000;
constexpr double kBytesPerSecond = 1e9;

struct Costs {
  Ns forward_ns = 0;
  Ns backward_ns = 0;
};

/// Returns data parallelism on `ranks` ranks with one microbatch for each rank. Each of the `buckets` stages
/// is on all ranks.
Experiment data_parallel(std::int32_t ranks, std::int32_t buckets, std::int32_t sharding, Costs costs = {},
                         std::int32_t iterations = 1, Gather gather = Gather::microbatch) {
  Shape shape{.stages = buckets,
              .microbatches = ranks,
              .iterations = iterations,
              .sharding = sharding,
              .gather = gather};
  shape.replicas = {ranks};
  const StageCost stage{.forward_ns = costs.forward_ns,
                        .backward_ns = costs.backward_ns,
                        .weights = kShardedWeights,
                        .gradients = kShardedWeights,
                        .optimizer_state = 2 * kShardedWeights};
  const Program program = *generate("data-parallel", shape);
  return experiment_of(program, uniform_costs(program, stage), uniform_links(ranks, kBytesPerSecond, 0));
}

/// Returns the time in which a ring passes the parts of a bucket on, n - 1 times over each link.
Ns ring_pass_ns(std::int32_t ranks) { return (ranks - 1) * kShardedWeights / ranks; }

TEST(ShardedTraffic, OfStages1And2IsThatOfAnAllReduce) {
  for (const std::int32_t ranks : {2, 3, 4}) {
    for (const std::int32_t buckets : {1, 2, 5}) {
      for (const std::int32_t sharding : {0, 1, 2}) {
        EXPECT_EQ(makespan_ns(data_parallel(ranks, buckets, sharding)), 2 * buckets * ring_pass_ns(ranks))
            << ranks << " ranks, " << buckets << " buckets, sharding " << sharding;
      }
    }
  }
}

// F gathers all buckets, and B gathers them again.
TEST(ShardedTraffic, OfStage3IsOneAndAHalfTimesAsMuch) {
  for (const std::int32_t buckets : {1, 4, 10, 100}) {
    EXPECT_EQ(makespan_ns(data_parallel(4, buckets, 3)), 3 * buckets * ring_pass_ns(4));
  }
}

TEST(ShardedTraffic, OfStage3ByStepIsThatOfAnAllReduce) {
  for (const std::int32_t buckets : {1, 4, 10}) {
    EXPECT_EQ(makespan_ns(data_parallel(4, buckets, 3, {}, 1, Gather::step)), 2 * buckets * ring_pass_ns(4));
  }
}

// Each copy has four microbatches. Either each microbatch has two gathers and one scatter, or a whole step
// has one gather and one scatter.
TEST(ShardedTraffic, GrowsWithTheMicrobatchesUnlessItIsByStep) {
  const auto exchanged_ns = [](std::int32_t sharding, Gather gather) {
    const Shape shape{
        .stages = 1, .microbatches = 8, .data_parallel = 2, .sharding = sharding, .gather = gather};
    const StageCost stage{.weights = kShardedWeights, .gradients = kShardedWeights};
    const Program program = *generate("1f1b", shape);
    return makespan_ns(
        experiment_of(program, uniform_costs(program, stage), uniform_links(2, kBytesPerSecond, 0)));
  };
  EXPECT_EQ(exchanged_ns(3, Gather::microbatch), 4 * 3 * ring_pass_ns(2));
  EXPECT_EQ(exchanged_ns(3, Gather::step), 2 * ring_pass_ns(2));
  EXPECT_EQ(exchanged_ns(2, Gather::microbatch), (4 + 1) * ring_pass_ns(2));
  EXPECT_EQ(exchanged_ns(2, Gather::step), 2 * ring_pass_ns(2));
}

std::optional<Span> span_of(const Timeline& timeline, const std::string& action, std::int32_t occurrence) {
  for (const Span& span : timeline.spans) {
    if (span.rank == 0 && to_text(span.action) == action && occurrence-- == 0) return span;
  }
  return std::nullopt;
}

TEST(ShardedTraffic, OfStage1OverlapsTheNextPass) {
  const Experiment experiment = data_parallel(2, 4, 1, {.forward_ns = 1'000, .backward_ns = 2'000}, 2);
  const auto timeline = critical_path(experiment);
  ASSERT_TRUE(timeline);
  const auto first_gather = span_of(*timeline, "0UNSHARD", 0);
  const auto last_gather = span_of(*timeline, "3UNSHARD", 0);
  const auto next_forward = span_of(*timeline, "0F2", 0);
  const auto next_deep_forward = span_of(*timeline, "3F2", 0);
  ASSERT_TRUE(first_gather && last_gather && next_forward && next_deep_forward);
  EXPECT_EQ(next_forward->start_ns, first_gather->end_ns);
  EXPECT_LT(next_forward->start_ns, last_gather->start_ns);
  EXPECT_EQ(next_deep_forward->start_ns, last_gather->end_ns);
}

TEST(ShardedTraffic, IsTheSameOnSharedLinks) {
  for (const std::int32_t sharding : {1, 2, 3}) {
    const Experiment experiment =
        data_parallel(3, 4, sharding, {.forward_ns = 300'000, .backward_ns = 500'000}, 2);
    const auto timeline = event_simulation(experiment);
    ASSERT_TRUE(timeline);
    EXPECT_EQ(timeline->makespan_ns, makespan_ns(experiment));
  }
}

// Gradients are reduced while the rank computes. The rank only waits for those of the first layers.
TEST(Buckets, HideTheReductionBehindTheBackwardPass) {
  constexpr Ns kBackward = 8'000'000;
  constexpr Bytes kGradients = 4'000'000;  // take 4 ms between two ranks
  const auto step_ns = [&](std::int32_t buckets) {
    Shape shape{.stages = 1, .microbatches = 2};
    shape.replicas = {2};
    shape.buckets = {buckets};
    const StageCost stage{.backward_ns = kBackward / buckets, .gradients = kGradients / buckets};
    const Program program = *generate("1f1b-rr", shape);
    return makespan_ns(
        experiment_of(program, uniform_costs(program, stage), uniform_links(2, kBytesPerSecond, 0)));
  };
  EXPECT_EQ(step_ns(1), 12'000'000);
  EXPECT_EQ(step_ns(2), 10'000'000);
  EXPECT_EQ(step_ns(4), 9'000'000);
  EXPECT_EQ(step_ns(8), 8'500'000);
}

TEST(Buckets, OfUnevenReplicasTakeTheSameTimeInBothEngines) {
  Shape shape{.stages = 2, .microbatches = 24};
  shape.replicas = {4, 3};
  shape.buckets = {4};
  const StageCost stage{.forward_ns = 100'000, .backward_ns = 200'000, .gradients = 400'000};
  const Program program = *generate("1f1b-rr", shape);
  const Experiment experiment =
      experiment_of(program, uniform_costs(program, stage), uniform_links(7, kBytesPerSecond, 0));
  const auto timeline = event_simulation(experiment);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->makespan_ns, makespan_ns(experiment));
}

// --- memory -----------------------------------------------------------------------------------------------

Bytes peak(const Experiment& experiment, MemoryCategory category) {
  const auto memory = memory_of(*critical_path(experiment), experiment, {});
  return memory.front().peaks[static_cast<std::size_t>(category)];
}

TEST(ShardedMemory, HasPartsOfTheStateFromStage1On) {
  for (const std::int32_t sharding : {0, 1, 2, 3}) {
    EXPECT_EQ(peak(data_parallel(4, 1, sharding), MemoryCategory::optimizer_state),
              sharding == 0 ? 2 * kShardedWeights : 2 * kShardedWeights / 4);
  }
}

// The gradients of a bucket are whole until they are reduced. During the reduction, those of the next bucket
// appear.
TEST(ShardedMemory, HasPartsOfReducedGradientsFromStage2On) {
  for (const std::int32_t buckets : {1, 2, 10}) {
    for (const std::int32_t sharding : {0, 1}) {
      EXPECT_EQ(peak(data_parallel(4, buckets, sharding, {.forward_ns = 1, .backward_ns = 10'000'000}),
                     MemoryCategory::gradients),
                buckets * kShardedWeights);
    }
    for (const std::int32_t sharding : {2, 3}) {
      EXPECT_EQ(peak(data_parallel(4, buckets, sharding, {.forward_ns = 1, .backward_ns = 10'000'000}),
                     MemoryCategory::gradients),
                buckets == 1 ? kShardedWeights : 2 * kShardedWeights + (buckets - 2) * kShardedWeights / 4);
    }
  }
}

// If the passes hide the gathers, at most three whole buckets are in memory, in addition to the parts of all
// buckets.
TEST(ShardedMemory, HasPartsOfWeightsInStage3) {
  EXPECT_EQ(peak(data_parallel(4, 10, 2), MemoryCategory::weights), 10 * kShardedWeights);
  const Costs long_passes{.forward_ns = 10'000'000, .backward_ns = 10'000'000};
  EXPECT_EQ(peak(data_parallel(4, 10, 3, long_passes), MemoryCategory::weights),
            10 * kShardedWeights / 4 + 3 * kShardedWeights);
  EXPECT_EQ(peak(data_parallel(4, 1, 3), MemoryCategory::weights), kShardedWeights / 4 + kShardedWeights);
}

// Each copy has two microbatches. Whole gradients are held only during each backward pass, or from the start
// of the first one to the end of the second one.
TEST(ShardedMemory, HasWholeGradientsBetweenMicrobatchesByStepAlone) {
  const auto held_between = [](Gather gather) {
    const Shape shape{.stages = 1, .microbatches = 4, .data_parallel = 2, .sharding = 2, .gather = gather};
    const StageCost stage{.forward_ns = 10'000'000, .backward_ns = 10'000'000, .gradients = kShardedWeights};
    const Program program = *generate("1f1b", shape);
    const Experiment experiment =
        experiment_of(program, uniform_costs(program, stage), uniform_links(2, kBytesPerSecond, 0));
    const auto memory = memory_of(*critical_path(experiment), experiment, {.samples = true});
    // In the list 0F0 0B0 0F2 0B2, the second forward pass ends at 30 ms.
    Bytes held = 0;
    for (const MemorySample& sample : memory.front().samples) {
      if (sample.time_ns < 30'000'000)
        held = sample.bytes[static_cast<std::size_t>(MemoryCategory::gradients)];
    }
    return held;
  };
  EXPECT_EQ(held_between(Gather::microbatch), kShardedWeights / 2);
  EXPECT_EQ(held_between(Gather::step), kShardedWeights);
}

// The second microbatch makes a whole gradient, in addition to the reduced part of the first one.
TEST(ShardedMemory, HasAWholeGradientBesideThePartThatIsReduced) {
  const auto peak_by = [](Gather gather) {
    const Shape shape{.stages = 1, .microbatches = 4, .data_parallel = 2, .sharding = 2, .gather = gather};
    const StageCost stage{.forward_ns = 10'000'000, .backward_ns = 1, .gradients = kShardedWeights};
    const Program program = *generate("1f1b", shape);
    return peak(experiment_of(program, uniform_costs(program, stage), uniform_links(2, kBytesPerSecond, 0)),
                MemoryCategory::gradients);
  };
  EXPECT_EQ(peak_by(Gather::microbatch), kShardedWeights + kShardedWeights / 2);
  EXPECT_EQ(peak_by(Gather::step), kShardedWeights);
}

TEST(ShardedMemory, OfOneRankIsWhole) {
  for (const std::int32_t sharding : {0, 1, 2, 3}) {
    const Experiment experiment = data_parallel(1, 2, sharding);
    EXPECT_EQ(peak(experiment, MemoryCategory::weights), 2 * kShardedWeights);
    EXPECT_EQ(peak(experiment, MemoryCategory::gradients), 2 * kShardedWeights);
    EXPECT_EQ(peak(experiment, MemoryCategory::optimizer_state), 4 * kShardedWeights);
  }
}

}  // namespace
}  // namespace penstock
