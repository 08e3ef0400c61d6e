// The suite that every generator of the table goes through, over all small shapes. A shape may be refused
// with a message; the table's own constraint says which.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "report/metrics.hpp"
#include "schedules/channel.hpp"
#include "schedules/channel_check.hpp"
#include "schedules/generators.hpp"
#include "schedules/lower.hpp"
#include "schedules/program_text.hpp"
#include "schedules/validate.hpp"
#include "sim/engines.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

/// The shapes to try for K and M: each option that multiplies the order rules takes a few values.
std::vector<Shape> shapes_of(const ScheduleInfo& schedule, std::int32_t stages, std::int32_t microbatches) {
  const auto takes = [&](std::string_view option) {
    return std::ranges::find(schedule.options, option) != schedule.options.end();
  };
  const bool free_chunks = takes("virtual_stages") && schedule.chunks == 0;
  std::vector<Shape> shapes;
  for (std::int32_t v = 1; v <= (free_chunks ? 4 : 1); ++v) {
    shapes.push_back({.stages = stages, .microbatches = microbatches, .virtual_stages = v});
  }
  for (const std::int32_t slices : {2, 3}) {
    if (takes("slices")) shapes.push_back({.stages = stages, .microbatches = microbatches, .slices = slices});
  }
  for (const std::int32_t group : {stages, stages + 1, 2 * stages}) {
    if (takes("group_size")) {
      shapes.push_back(
          {.stages = stages, .microbatches = microbatches, .virtual_stages = 2, .group_size = group});
    }
  }
  return shapes;
}

class Conformance : public testing::TestWithParam<ScheduleInfo> {
 protected:
  /// Calls `check(shape, program)` for every shape that the schedule takes; counts them.
  template <class Check>
  int for_all_shapes(Check check) {
    int taken = 0;
    for (std::int32_t stages = 1; stages <= 8; ++stages) {
      for (std::int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
        for (const Shape& shape : shapes_of(GetParam(), stages, microbatches)) {
          const auto program = generate(GetParam().name, shape);
          if (!program) {
            EXPECT_NE(program.error(), "");
            continue;
          }
          SCOPED_TRACE(testing::Message() << GetParam().name << " K=" << stages << " M=" << microbatches
                                          << " v=" << shape.virtual_stages << " q=" << shape.slices
                                          << " g=" << shape.group_size);
          check(shape, *program);
          ++taken;
          if (HasFailure()) return taken;
        }
      }
    }
    return taken;
  }
};

TEST_P(Conformance, EveryForwardAndBackwardRunsOnceInALegalOrder) {
  const int taken = for_all_shapes([](const Shape& shape, const Program& program) {
    const auto valid = validate(program);
    EXPECT_TRUE(valid) << valid.error();
    EXPECT_EQ(program.microbatches, shape.microbatches);
    std::map<std::pair<std::int32_t, std::int32_t>, int> forwards;
    for (const auto& list : program.ranks) {
      for (const Action& action : list) {
        if (action.kind == ActionKind::forward) ++forwards[{action.stage, action.microbatch}];
      }
    }
    EXPECT_EQ(forwards.size(), static_cast<std::size_t>(program.stage_count() * program.unit_count()));
  });
  EXPECT_GE(taken, 24) << "every schedule takes at least one shape for each M";
}

TEST_P(Conformance, NeverHangsAfterLoweringUnderAnyChannelModel) {
  for_all_shapes([](const Shape& shape, const Program& program) {
    if (shape.microbatches > 12 && shape.microbatches % 5 != 0) return;  // enough, and five times faster
    const auto lowered = lower(program);
    ASSERT_TRUE(lowered) << lowered.error();
    const auto valid = validate(*lowered);
    EXPECT_TRUE(valid) << valid.error();
    for (const ChannelModel model : kChannelModels) {
      for (const bool blocking : {false, true}) {
        const auto hang = find_hang(*lowered, {.model = model, .blocking = blocking}, unit_costs(*lowered));
        EXPECT_FALSE(hang) << hang->message;
      }
    }
  });
}

TEST_P(Conformance, HoldsAtMostTheActivationsThatItClaims) {
  for_all_shapes([](const Shape& shape, const Program& program) {
    const Experiment experiment = experiment_of(program, unit_costs(program),
                                                uniform_links(program.rank_count(), kUnlimitedBandwidth, 0));
    const Result result =
        summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs});
    for (const RankReport& rank : result.ranks) {
      EXPECT_LE(rank.peak_live_activations, GetParam().peak_activations(shape, rank.rank))
          << "rank " << rank.rank;
    }
  });
}

bool splits_backward(const Program& program) {
  return std::ranges::any_of(program.ranks, [](const std::vector<Action>& list) {
    return std::ranges::any_of(list, [](const Action& a) { return a.kind == ActionKind::backward_input; });
  });
}

// No rank can be busier than its own work, and no microbatch passes faster than through all stages.
TEST_P(Conformance, TakesAtLeastTheLowerBounds) {
  for_all_shapes([](const Shape&, const Program& program) {
    const CostTable costs = unit_costs(program);
    const Experiment experiment =
        experiment_of(program, costs, uniform_links(program.rank_count(), kUnlimitedBandwidth, 0));
    const Timeline timeline = *critical_path(experiment);
    const Result result = summarize(timeline, {.program = experiment.program, .costs = costs});
    Ns passage = 0;
    for (const StageCost& cost : costs.stages) {
      passage +=
          cost.forward_ns + std::min(cost.backward_ns, cost.backward_input_ns + cost.backward_weight_ns);
    }
    // A split backward leaves all W but the last off the way up to stage 0.
    if (splits_backward(program))
      passage -= (program.stage_count() - 1) * costs.stages.front().backward_weight_ns;
    EXPECT_GE(timeline.makespan_ns, passage);
    for (const RankReport& rank : result.ranks) EXPECT_GE(timeline.makespan_ns, rank.busy_ns);
  });
}

TEST_P(Conformance, RoundTripsAsText) {
  for_all_shapes([](const Shape&, const Program& program) {
    const auto lowered = lower(program);
    ASSERT_TRUE(lowered);
    for (const Program* form : {&program, &*lowered}) {
      const std::string text = to_text(*form);
      const auto read = parse_program(text, "it");
      ASSERT_TRUE(read) << read.error();
      EXPECT_EQ(*read, *form);
      EXPECT_EQ(to_text(*read), text);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Schedules, Conformance,
                         testing::ValuesIn(schedule_table().begin(), schedule_table().end()),
                         [](const auto& schedule) {
                           std::string name(schedule.param.name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace penstock
