// The tests that every generator of the table must pass, for all small shapes. A generator may refuse a shape
// with a message. The text `constraint` in the table says which shapes are refused.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "report/result/metrics.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/asked_schedule.hpp"
#include "schedules/rules/closed_forms.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {

/// GoogleTest calls this function, so that failures show the name of the schedule.
static void PrintTo(const ScheduleInfo& schedule, std::ostream* out) { *out << schedule.name; }

namespace {

/// Returns the shapes to test for K and M. Each option that changes the order gets a few values, one option
/// at a time.
std::vector<Shape> shapes_of(const ScheduleInfo& schedule, std::int32_t stages, std::int32_t microbatches) {
  const bool free_chunks = takes_chunks(schedule);
  const Shape plain{.stages = stages, .microbatches = microbatches};
  std::vector<Shape> shapes;
  const auto add = [&](auto change) {
    Shape shape = plain;
    change(shape);
    shapes.push_back(shape);
  };
  for (std::int32_t v = 1; v <= (free_chunks ? 4 : 1); ++v) add([&](Shape& s) { s.virtual_stages = v; });
  if (takes_option(schedule, "slices")) {
    for (const std::int32_t slices : {2, 3}) add([&](Shape& s) { s.slices = slices; });
  }
  if (takes_option(schedule, "group_size")) {
    for (const std::int32_t group : {stages, stages + 1, 2 * stages}) {
      add([&](Shape& s) { s.virtual_stages = free_chunks ? 2 : 1, s.group_size = group; });
    }
  }
  if (takes_option(schedule, "replicas")) {
    add([&](Shape& s) { s.replicas = {2}; });
    if (!copies_are_replicas(schedule)) {
      add([&](Shape& s) {
        for (std::int32_t stage = 0; stage < stages; ++stage) s.replicas.push_back(1 + (stage + 1) % 3 % 2);
      });
      add([&](Shape& s) {
        for (std::int32_t stage = 0; stage < stages; ++stage) s.replicas.push_back(1 + stage * 5 % 4);
      });
    }
  }
  if (!copies_are_replicas(schedule) && microbatches % 2 == 0) {
    add([&](Shape& s) { s.data_parallel = 2, s.virtual_stages = free_chunks ? 2 : 1; });
  }
  if (schedule.name == "pipedream-2bw") add([&](Shape& s) { s.iterations = 3; });
  if (takes_option(schedule, "backward_order"))
    add([&](Shape& s) { s.backward_order = BackwardOrder::lifo; });
  if (takes_option(schedule, "update")) add([&](Shape& s) { s.update = UpdateRule::microbatch; });
  if (takes_option(schedule, "weights")) add([&](Shape& s) { s.weights = WeightPolicy::vertical_sync; });
  if (takes_option(schedule, "checkpoint")) {
    add([&](Shape& s) { s.checkpoint = Checkpoint::except_last, s.virtual_stages = free_chunks ? 2 : 1; });
  }
  return shapes;
}

class Conformance : public testing::TestWithParam<ScheduleInfo> {
 protected:
  /// Calls `check(shape, program)` for every shape that the schedule accepts. Returns the number of these
  /// shapes.
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
          SCOPED_TRACE(testing::Message()
                       << GetParam().name << " K=" << stages << " M=" << microbatches
                       << " v=" << shape.virtual_stages << " q=" << shape.slices << " g=" << shape.group_size
                       << " d=" << shape.data_parallel << " replicas " << shape.replicas.size());
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
    EXPECT_EQ(program.microbatches * program.iterations, shape.microbatches * shape.iterations);
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

TEST_P(Conformance, SaysWithoutGeneratingWhichShapesItTakes) {
  for (std::int32_t stages = 1; stages <= 8; ++stages) {
    for (std::int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
      for (const Shape& shape : shapes_of(GetParam(), stages, microbatches)) {
        if (!shape.replicas.empty()) continue;  // for replicas, K, v and M are not enough to decide
        const Generated program = generate(GetParam().name, shape);
        const ShapeCheck taken = check_shape(GetParam().name, shape);
        ASSERT_EQ(taken.has_value(), program.has_value()) << "K " << stages << ", M " << microbatches;
        if (taken) continue;
        EXPECT_EQ(taken.error(), program.error());
      }
    }
  }
}

TEST_P(Conformance, NeverHangsAfterLoweringUnderAnyChannelModel) {
  for_all_shapes([](const Shape&, const Program& program) {
    const auto lowered = lower(program);
    ASSERT_TRUE(lowered) << lowered.error();
    const auto valid = validate(*lowered);
    EXPECT_TRUE(valid) << valid.error();
    for (const ChannelModel model : kChannelModels) {
      for (const Blocking blocking : {Blocking::none, Blocking::each, Blocking::batched}) {
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
      EXPECT_LE(rank.peak_live_activations, claimed_peak(GetParam(), shape, rank.rank))
          << "rank " << rank.rank;
    }
  });
}

// There is one message for each edge between two ranks, in each direction that the edge carries, and none
// between stages of one rank.
TEST_P(Conformance, SendsEachActivationAndGradientOverEachEdgeBetweenRanksOnce) {
  for_all_shapes([](const Shape&, const Program& program) {
    std::int64_t activations = 0;
    std::int64_t gradients = 0;
    for (const StageEdge& edge : stage_edges(program)) {
      for (std::int32_t unit = 0; unit < program.unit_count(); ++unit) {
        if (program.placement.rank_of(edge.from, unit) == program.placement.rank_of(edge.to, unit)) continue;
        activations += edge.flows != EdgeFlows::gradient ? 1 : 0;
        gradients += edge.flows != EdgeFlows::activation ? 1 : 0;
      }
    }
    const auto lowered = lower(program);
    ASSERT_TRUE(lowered) << lowered.error();
    std::map<ActionKind, std::int64_t> count;
    for (const auto& list : lowered->ranks) {
      for (const Action& action : list) ++count[action.kind];
    }
    EXPECT_EQ(count[ActionKind::send_forward], activations);
    EXPECT_EQ(count[ActionKind::recv_forward], activations);
    EXPECT_EQ(count[ActionKind::send_backward], gradients);
    EXPECT_EQ(count[ActionKind::recv_backward], gradients);
  });
}

/// Returns how many weight versions of a stage the schedule stores, and the largest number of updates by
/// which they are old.
std::pair<std::int32_t, std::int32_t> claimed_versions(const ScheduleInfo& schedule, const Shape& shape,
                                                       std::int32_t stage) {
  if (schedule.name == "pipedream-2bw") return {2, 1};
  if (schedule.name != "1f1b-rr") return {1, 0};
  // If all stages have r replicas, the formula (N - 1 - replicas of earlier stages) / r also gives K - 1 - s.
  const bool synced = shape.weights == WeightPolicy::vertical_sync;
  const std::int32_t oldest = shape.stages - 1 - (synced ? 0 : stage);
  return {oldest + 1, oldest};
}

TEST_P(Conformance, KeepsAsManyVersionsOfItsWeightsAsItClaims) {
  for_all_shapes([](const Shape& shape, const Program& program) {
    const WeightVersions versions = weight_versions(program);
    for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
      const auto [kept, stale] = claimed_versions(GetParam(), shape, stage);
      const StageVersions& found = versions.stages[static_cast<std::size_t>(stage)];
      EXPECT_LE(found.kept, kept) << "stage " << stage;
      EXPECT_LE(found.forward.most, stale) << "stage " << stage;
      EXPECT_EQ(found.backward, found.forward) << "stage " << stage;
    }
  });
}

bool splits_backward(const Program& program) {
  return std::ranges::any_of(program.ranks, [](const std::vector<Action>& list) {
    return std::ranges::any_of(list, [](const Action& a) { return a.kind == ActionKind::backward_input; });
  });
}

/// Returns the time of one microbatch along the longest path through the stages and back.
Ns passage_ns(const Program& program, const CostTable& costs) {
  const StageNeighbours neighbours = stage_neighbours(program);
  const std::size_t stages = costs.stages.size();
  std::vector<Ns> forward(stages, 0);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    for (const std::int32_t before : neighbours.predecessors[stage])
      forward[stage] = std::max(forward[stage], forward[static_cast<std::size_t>(before)]);
    forward[stage] += costs.stages[stage].forward_ns;
  }
  std::vector<Ns> backward = forward;
  for (std::size_t stage = stages; stage-- > 0;) {
    for (const std::int32_t after : neighbours.gradient_givers[stage])
      backward[stage] = std::max(backward[stage], backward[static_cast<std::size_t>(after)]);
    const StageCost& cost = costs.stages[stage];
    backward[stage] += std::min(cost.backward_ns, cost.backward_input_ns + cost.backward_weight_ns);
  }
  return std::ranges::max(backward);
}

// The makespan is at least the work of each rank, and at least the time of one microbatch through all stages.
TEST_P(Conformance, TakesAtLeastTheLowerBounds) {
  for_all_shapes([](const Shape&, const Program& program) {
    const CostTable costs = unit_costs(program);
    const Experiment experiment =
        experiment_of(program, costs, uniform_links(program.rank_count(), kUnlimitedBandwidth, 0));
    const Timeline timeline = *critical_path(experiment);
    const Result result = summarize(timeline, {.program = experiment.program, .costs = costs});
    Ns passage = passage_ns(program, costs);
    // With split backwards, only the last W is on the path of a microbatch back to stage 0.
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

// Compares the formulas of schedules/rules/closed_forms.hpp with the simulator.

double simulated_bubble(const Program& program) {
  const Experiment experiment =
      experiment_of(program, unit_costs(program), uniform_links(program.rank_count(), 1e9, 0));
  return summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs})
      .bubble.idle_over_total;
}

std::vector<std::int32_t> chunk_counts(const ScheduleInfo& schedule) {
  for (const std::string_view option : schedule.options) {
    if (option == "virtual_stages" && schedule.chunks == 0) return {1, 2, 3, 4};
  }
  return {1};
}

TEST(ClosedForms, AreWhatTheSimulatorFindsWhereverTheyHold) {
  int schedules = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (find_closed_form(schedule.name) == nullptr) continue;
    ++schedules;
    int compared = 0;
    for (std::int32_t stages = 1; stages <= 8; ++stages) {
      for (std::int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
        for (const std::int32_t v : chunk_counts(schedule)) {
          const Shape shape = {.stages = stages, .microbatches = microbatches, .virtual_stages = v};
          const std::optional<double> formula = closed_form_bubble(schedule, shape);
          const auto program = generate(schedule.name, shape);
          if (!formula || !program) continue;
          EXPECT_NEAR(simulated_bubble(*program), *formula, 1e-12)
              << schedule.name << " K=" << stages << " M=" << microbatches << " v=" << v;
          ++compared;
        }
      }
    }
    EXPECT_GE(compared, 20) << schedule.name;
  }
  EXPECT_EQ(schedules, 21);
}

TEST(ClosedForms, OfCopiesAreThoseOfOnePipeline) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (find_closed_form(schedule.name) == nullptr) continue;
    const Shape copies = {.stages = 4, .microbatches = 24, .data_parallel = 3};
    const std::optional<double> formula = closed_form_bubble(schedule, copies);
    const auto program = generate(schedule.name, copies);
    if (!formula || !program) continue;
    EXPECT_NEAR(simulated_bubble(*program), *formula, 1e-12) << schedule.name;
  }
  EXPECT_DOUBLE_EQ(
      *closed_form_bubble(*find_schedule("1f1b"), {.stages = 4, .microbatches = 24, .data_parallel = 3}),
      3.0 / 11);
}

TEST(ClosedForms, OfSlicesDivideThePassOfOneFOneB) {
  const ScheduleInfo& schedule = *find_schedule("seq-1f1b");
  for (const std::int32_t slices : {2, 4}) {
    const Shape shape = {.stages = 4, .microbatches = 8, .slices = slices};
    EXPECT_DOUBLE_EQ(*closed_form_bubble(schedule, shape), (9.0 / slices) / (9.0 / slices + 24));
  }
}

TEST(ClosedForms, SayNothingOfWhatTheyLeaveOut) {
  const ScheduleInfo& gpipe = *find_schedule("gpipe");
  EXPECT_TRUE(closed_form_bubble(gpipe, {.stages = 4, .microbatches = 8}));
  EXPECT_FALSE(closed_form_bubble(gpipe, {.stages = 4, .microbatches = 8, .checkpoint = Checkpoint::always}));
  EXPECT_FALSE(closed_form_bubble(*find_schedule("1f1b-rr"), {.stages = 4, .microbatches = 8}));
  EXPECT_FALSE(closed_form_bubble(*find_schedule("zb-h2"), {.stages = 4, .microbatches = 6}));
}

}  // namespace
}  // namespace penstock
