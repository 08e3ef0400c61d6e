// PipeDream-2BW: two weight versions, a delay of one update on every stage, no flush.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "report/result/metrics.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

template <class Check>
void for_all_shapes(Check check) {
  for (std::int32_t k = 1; k <= 6; ++k) {
    for (std::int32_t m = 1; m <= 8; ++m) {
      for (const std::int32_t iterations : {1, 2, 5}) {
        SCOPED_TRACE(testing::Message() << "K=" << k << " M=" << m << " iterations=" << iterations);
        const Shape shape{.stages = k, .microbatches = m, .iterations = iterations};
        const auto program = generate("pipedream-2bw", shape);
        ASSERT_TRUE(program) << program.error();
        check(shape, *program);
      }
    }
  }
}

TEST(PipeDream2BW, EveryMinibatchUsesTheWeightsOfOneUpdateAgo) {
  for_all_shapes([](const Shape& shape, const Program& program) {
    const auto valid = validate(program);
    EXPECT_TRUE(valid) << valid.error();
    EXPECT_EQ(program.update, UpdateRule::double_buffered);
    for (const std::vector<Action>& list : program.ranks) {
      for (const Action& action : list) {
        if (!has_weight_version(action.kind)) continue;
        EXPECT_EQ(action.weight_version, std::max(0, action.microbatch / shape.microbatches - 1))
            << to_text(action);
      }
    }
  });
}

TEST(PipeDream2BW, NeverNeedsMoreThanTwoVersions) {
  for_all_shapes([](const Shape&, const Program& program) {
    const Experiment experiment = experiment_of(program, unit_costs(program),
                                                uniform_links(program.rank_count(), kUnlimitedBandwidth, 0));
    const Result result =
        summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs});
    for (const RankReport& rank : result.ranks) EXPECT_LE(rank.weight_versions, 2) << "rank " << rank.rank;
  });
}

TEST(PipeDream2BW, StepsOnceAMinibatch) {
  for_all_shapes([](const Shape& shape, const Program& program) {
    for (const std::vector<Action>& list : program.ranks) {
      EXPECT_EQ(std::ranges::count(list, ActionKind::step, &Action::kind), shape.iterations);
    }
  });
}

TEST(PipeDream2BW, FillsThePipelineOnce) {
  for_all_shapes([](const Shape& shape, const Program& program) {
    if (shape.microbatches < shape.stages) return;
    const StageCost cost{.forward_ns = 7, .backward_ns = 13};
    const Experiment experiment = experiment_of(program, uniform_costs(program, cost),
                                                uniform_links(program.rank_count(), kUnlimitedBandwidth, 0));
    EXPECT_EQ(makespan_ns(experiment), (shape.microbatches * shape.iterations + shape.stages - 1) * (7 + 13));
  });
}

}  // namespace
}  // namespace penstock
