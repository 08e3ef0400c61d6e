// Tests the schedules that use costs, with extreme costs, latencies and limits.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/print/memory_category.hpp"
#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "tests/sim/experiments.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

const std::vector<std::string>& schedules_that_weigh_costs() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const ScheduleInfo& schedule : schedule_table()) {
      if (schedule.weighs_costs) found.emplace_back(schedule.name);
    }
    return found;
  }();
  return names;
}

std::vector<std::string> schedules_with_a_memory_limit() { return {"zb-1p", "zb-2p", "zb-v"}; }

std::int32_t model_stages(const std::string& schedule, const Shape& shape) {
  return shape.stages * chunks_of(*find_schedule(schedule), shape);
}

Shape with_costs(const std::string& schedule, Shape shape, const StageCost& cost) {
  const auto stages = static_cast<std::size_t>(model_stages(schedule, shape));
  shape.costs = CostTable{.stages = {stages, cost}, .edges = {stages - 1, EdgeCost{}}};
  return shape;
}

Cluster free_links(const Program& program) {
  return uniform_links(program.rank_count(), kUnlimitedBandwidth, 0);
}

void expect_claim_holds(const ScheduleInfo& schedule, Shape shape, const Experiment& experiment) {
  shape.virtual_stages = chunks_of(schedule, shape);
  const Result result =
      summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs});
  for (const RankReport& rank : result.ranks) {
    EXPECT_LE(rank.peak_live_activations, schedule.peak_activations(shape, rank.rank))
        << "rank " << rank.rank;
  }
}

/// Checks that the program is valid, cannot hang under any channel model, and stays within the peak that the
/// table claims.
void expect_sound(const std::string& schedule, const Shape& shape) {
  const auto program = generate(schedule, shape);
  ASSERT_TRUE(program) << program.error();
  const auto valid = validate(*program);
  ASSERT_TRUE(valid) << valid.error();
  const auto lowered = lower(*program);
  ASSERT_TRUE(lowered) << lowered.error();
  const CostTable costs = shape.costs.value_or(unit_costs(*program));
  for (const ChannelModel model : kChannelModels) {
    const auto hang = find_hang(*lowered, {.model = model, .blocking = Blocking::each}, costs);
    EXPECT_FALSE(hang) << hang->message;
  }
  expect_claim_holds(*find_schedule(schedule), shape, experiment_of(*program, costs, free_links(*program)));
}

std::vector<Bytes> peak_activation_bytes(const Program& program, const CostTable& costs) {
  const Experiment experiment = experiment_of(program, costs, free_links(program));
  std::vector<Bytes> peaks;
  for (const RankMemory& rank : memory_of(*critical_path(experiment), experiment, {.samples = false})) {
    peaks.push_back(rank.peaks[static_cast<std::size_t>(MemoryCategory::activations)]);
  }
  return peaks;
}

TEST(WeighedCosts, SevenSchedulesWeighThem) {
  EXPECT_THAT(schedules_that_weigh_costs(), testing::UnorderedElementsAre("zb-1p", "zb-2p", "zb-v", "v-half",
                                                                          "v-min", "1f1b-v", "synthesized"));
}

TEST(WeighedCosts, MayBeZero) {
  for (const std::string& schedule : schedules_that_weigh_costs()) {
    SCOPED_TRACE(schedule);
    expect_sound(schedule, with_costs(schedule, {.stages = 3, .microbatches = 5}, {}));
    StageCost only_weights{.backward_weight_ns = 7, .kept = 1};
    expect_sound(schedule, with_costs(schedule, {.stages = 3, .microbatches = 5}, only_weights));
  }
}

TEST(WeighedCosts, MayBeDwarfedByLatency) {
  const StageCost cost{
      .forward_ns = 1, .backward_ns = 2, .backward_input_ns = 1, .backward_weight_ns = 1, .kept = 1};
  for (const std::string& schedule : schedules_that_weigh_costs()) {
    for (const std::int32_t microbatches : {1, 3, 9}) {
      SCOPED_TRACE(schedule);
      Shape shape = with_costs(schedule, {.stages = 4, .microbatches = microbatches}, cost);
      shape.transfer_ns = {1'000'000'000'000};
      expect_sound(schedule, shape);
    }
  }
}

TEST(WeighedCosts, MayDifferFromStageToStage) {
  std::mt19937 random(7);
  const auto up_to = [&](std::uint32_t most) { return static_cast<std::int64_t>(random() % (most + 1)); };
  for (const std::string& schedule : schedules_that_weigh_costs()) {
    for (int trial = 0; trial < 40; ++trial) {
      Shape shape{.stages = static_cast<std::int32_t>(1 + up_to(5)),
                  .microbatches = static_cast<std::int32_t>(1 + up_to(11))};
      SCOPED_TRACE(testing::Message() << schedule << " trial " << trial);
      CostTable costs;
      for (std::int32_t stage = 0; stage < model_stages(schedule, shape); ++stage) {
        costs.stages.push_back({.forward_ns = up_to(20),
                                .backward_ns = up_to(40),
                                .backward_input_ns = up_to(20),
                                .backward_weight_ns = up_to(20),
                                .kept = up_to(9),
                                .released_by_input = 0});
        costs.stages.back().released_by_input = up_to(static_cast<std::uint32_t>(costs.stages.back().kept));
        if (stage > 0) shape.transfer_ns.push_back(up_to(30));
      }
      costs.edges.resize(costs.stages.size() - 1);
      shape.costs = costs;
      expect_sound(schedule, shape);
    }
  }
}

TEST(WeighedCosts, AreThoseOfEveryModelStage) {
  Shape shape{.stages = 3, .microbatches = 2};
  shape.costs = CostTable{.stages = {2, StageCost{}}, .edges = {}};
  EXPECT_EQ(generate("zb-1p", shape).error(), "costs: expected those of 3 stages, got 2");
  shape.costs.reset();
  shape.transfer_ns = {1, 2, 3};
  EXPECT_EQ(generate("zb-1p", shape).error(),
            "transfer_ns: expected one number or 2, one a stage edge, got 3 numbers");
  shape.transfer_ns = {-1};
  EXPECT_EQ(generate("zb-1p", shape).error(), "transfer_ns: expected numbers of at least 0, got -1");
}

// Stages are unequal, I releases a part of the memory, and limits begin with the smallest one that works.
TEST(MemoryLimit, HoldsToTheByte) {
  for (const std::string& schedule : schedules_with_a_memory_limit()) {
    for (std::int32_t stages = 1; stages <= 5; ++stages) {
      Shape shape{.stages = stages, .microbatches = 2 * stages + 1};
      CostTable costs;
      for (std::int32_t stage = 0; stage < model_stages(schedule, shape); ++stage) {
        costs.stages.push_back({.forward_ns = 5 + stage % 3,
                                .backward_input_ns = 6 + stage % 2,
                                .backward_weight_ns = 4,
                                .kept = 10 + 3 * (stage % 2),
                                .released_by_input = 4});
      }
      costs.edges.resize(costs.stages.size() - 1);
      shape.costs = costs;
      const Bytes least = schedule == "zb-v" ? 26 : 13;
      for (Bytes limit = least; limit <= 20 * stages; limit += 7) {
        SCOPED_TRACE(testing::Message() << schedule << " K=" << stages << " limit=" << limit);
        shape.memory_limit = {limit};
        expect_sound(schedule, shape);
        for (const Bytes peak : peak_activation_bytes(*generate(schedule, shape), costs)) {
          EXPECT_LE(peak, limit);
        }
      }
    }
  }
}

TEST(MemoryLimit, MayDifferFromRankToRank) {
  Shape shape{.stages = 3, .microbatches = 8, .memory_limit = {3, 2, 1}};
  const Program program = *generate("zb-2p", shape);
  EXPECT_THAT(peak_activation_bytes(program, unit_costs(program)),
              testing::ElementsAre(testing::Le(3), testing::Le(2), testing::Le(1)));
}

TEST(MemoryLimit, OfOneMicrobatchRunsOneByOne) {
  Shape shape{.stages = 2, .microbatches = 2, .memory_limit = {1}};
  const Program program = *generate("zb-1p", shape);
  EXPECT_THAT(peak_activation_bytes(program, unit_costs(program)), testing::Each(1));
}

TEST(MemoryLimit, NeverMakesAScheduleFasterWhenItShrinks) {
  const StageCost cost{.forward_ns = 5, .backward_input_ns = 6, .backward_weight_ns = 4, .kept = 1};
  Ns before = 0;
  for (const Bytes limit : {8, 4, 2, 1}) {
    Shape shape = with_costs("zb-1p", {.stages = 4, .microbatches = 12, .memory_limit = {limit}}, cost);
    const Ns makespan = makespan_ns(
        experiment_of(*generate("zb-1p", shape), *shape.costs, uniform_links(4, kUnlimitedBandwidth, 0)));
    EXPECT_GE(makespan, before) << limit;
    before = makespan;
  }
}

Ns longest_span_ns(const Program& program, const CostTable& costs) {
  const Timeline timeline = *critical_path(experiment_of(program, costs, free_links(program)));
  std::vector<Ns> first(program.ranks.size(), timeline.makespan_ns);
  std::vector<Ns> last(program.ranks.size(), 0);
  for (const Span& span : timeline.spans) {
    if (!is_compute(span.action.kind)) continue;
    const auto rank = static_cast<std::size_t>(span.rank);
    first[rank] = std::min(first[rank], span.start_ns);
    last[rank] = std::max(last[rank], span.end_ns);
  }
  Ns longest = 0;
  for (std::size_t rank = 0; rank < first.size(); ++rank)
    longest = std::max(longest, last[rank] - first[rank]);
  return longest;
}

// With 8 ranks and equal times, no rank pauses if it has the memory of 16 activations. More memory does not
// make the span shorter.
TEST(MemoryLimit, IsNotFilledWhereLessIsAsShort) {
  constexpr std::int32_t kMicrobatches = 48;
  for (const std::string schedule : {"synthesized", "zb-1p", "zb-2p", "zb-v"}) {
    for (const bool has_costs : {false, true}) {
      Shape shape{.stages = 8, .microbatches = kMicrobatches, .memory_limit = {32}};
      if (has_costs) {
        shape = with_costs(schedule, shape,
                           {.forward_ns = 5, .backward_input_ns = 5, .backward_weight_ns = 5, .kept = 1});
      }
      SCOPED_TRACE(testing::Message() << schedule << (has_costs ? " with costs" : ""));
      const Program roomy = *generate(schedule, shape);
      const CostTable costs = shape.costs.value_or(unit_costs(roomy));
      const Bytes peak = std::ranges::max(peak_activation_bytes(roomy, costs));
      const Ns span = longest_span_ns(roomy, costs);
      EXPECT_EQ(span, 3 * kMicrobatches * costs.stages.front().forward_ns * roomy.stage_count() / 8);
      EXPECT_LE(peak, 16);
      // With less memory than this, the schedule has no span that is as short.
      shape.memory_limit = {peak - 1};
      EXPECT_GT(longest_span_ns(*generate(schedule, shape), costs), span);
    }
  }
}

// If ranks may store different amounts, the rank with the highest peak counts.
TEST(MemoryLimit, IsNotFilledWhereRanksMayHoldUnlikeAmounts) {
  Shape shape{.stages = 4, .microbatches = 24, .memory_limit = {40, 12, 12, 12}};
  const Program program = *generate("zb-2p", shape);
  const auto peaks = peak_activation_bytes(program, unit_costs(program));
  EXPECT_THAT(peaks, testing::Each(testing::Le(7)));
  EXPECT_EQ(longest_span_ns(program, unit_costs(program)), 3 * 24 * unit_costs(program).stages[0].forward_ns);
}

TEST(MemoryLimit, BelowOneMicrobatchNamesWhatIsNeeded) {
  Shape shape =
      with_costs("zb-1p", {.stages = 2, .microbatches = 4, .memory_limit = {200, 99}}, {.kept = 100});
  EXPECT_EQ(
      generate("zb-1p", shape).error(),
      "memory_limit: rank 1 keeps 100 bytes for one microbatch, the limit is 99; at least 100 are needed");
  shape = with_costs("zb-v", {.stages = 2, .microbatches = 4, .memory_limit = {150}}, {.kept = 100});
  EXPECT_EQ(
      generate("zb-v", shape).error(),
      "memory_limit: rank 0 keeps 200 bytes for one microbatch, the limit is 150; at least 200 are needed");
}

TEST(MemoryLimit, IsOneNumberOrOneARank) {
  const Shape shape{.stages = 3, .microbatches = 4, .memory_limit = {5, 5}};
  EXPECT_EQ(generate("zb-2p", shape).error(),
            "memory_limit: expected one number or 3, one a rank, got 2 numbers");
}

TEST(MemoryLimit, IsRefusedWhereTheRuleFixesTheMemory) {
  const Shape shape{.stages = 3, .microbatches = 4, .memory_limit = {5}};
  EXPECT_THAT(generate("v-min", shape).error(), testing::HasSubstr("memory_limit: v-min does not take it"));
}

// A scenario has no key `effort`, but it has keys for passes, seed and budget.
TEST(Effort, IsRefusedByTheKeyThatWasGiven) {
  const auto refusal = [](const SearchEffort& effort) {
    return generate("gpipe", {.stages = 2, .microbatches = 2, .effort = effort}).error();
  };
  EXPECT_EQ(refusal({.passes = 9}),
            "passes: gpipe does not take it; it takes backward_order, checkpoint, recompute, replicas, "
            "replica_sync");
  EXPECT_THAT(refusal({.seed = 9}), testing::StartsWith("seed: gpipe"));
  EXPECT_THAT(refusal(with_budget({}, 9)), testing::StartsWith("budget: gpipe"));
  EXPECT_EQ(generate("v-min", {.stages = 2, .microbatches = 2, .memory_limit = {5}}).error(),
            "memory_limit: v-min does not take it; it takes virtual_stages, passes, seed, budget");
}

// The user does not state the size of an activation. It then counts as one unit, so that memory stays
// limited.
TEST(MemoryLimit, OfTheScheduleItselfCountsActivationsWhoseBytesAreUnknown) {
  const StageCost cost{.forward_ns = 5, .backward_input_ns = 6, .backward_weight_ns = 4};
  const Program program = *generate("zb-1p", with_costs("zb-1p", {.stages = 3, .microbatches = 20}, cost));
  EXPECT_THAT(peak_activation_bytes(program, unit_costs(program)), testing::Each(testing::Le(3)));
}

}  // namespace
}  // namespace penstock
