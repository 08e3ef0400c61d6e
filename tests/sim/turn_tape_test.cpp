// A tape that is written while ranks take turns says what the tape of the lowered lists says, to the
// nanosecond, of every action and message: for every generator and for random programs, under every channel
// model.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "report/timeline/timeline.hpp"
#include "report/timeline/walk_timeline.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"
#include "sim/engines/turn_tape.hpp"
#include "sim/engines/turn_timeline.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/random_experiment.hpp"

namespace penstock {
namespace {

/// The spans of compute actions, rank by rank in program order.
std::vector<Span> compute_spans(const std::vector<Span>& spans) {
  std::vector<Span> found;
  std::ranges::copy_if(spans, std::back_inserter(found),
                       [](const Span& span) { return is_compute(span.action.kind); });
  return found;
}

/// The same from a tape with collectives, by the positions of its origins.
std::vector<Span> compute_spans(const Program& program, const TurnTape& turns,
                                const std::vector<InstructionTimes>& times) {
  std::vector<Span> spans;
  std::vector<std::size_t> instruction_at;
  for (const auto& list : program.ranks) instruction_at.resize(instruction_at.size() + list.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (turns.tape.origins[i].position >= 0) instruction_at[index(turns.tape.origins[i].position)] = i;
  }
  std::size_t position = 0;
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    InstructionTimes at;
    const std::vector<Action>& list = program.ranks[index(rank)];
    for (std::size_t i = 0; i < list.size(); ++i, ++position) {
      if (!is_compute(list[i].kind)) continue;
      if (opens_group(list, i)) at = times[instruction_at[position]];
      spans.push_back({.rank = rank,
                       .action = list[i],
                       .replica = program.placement.replica_on(list[i].stage, rank),
                       .start_ns = at.start_ns,
                       .end_ns = at.end_ns});
    }
  }
  return spans;
}

/// Holds the tape of a compute program's turns against the run of its lowered lists; false where it has none.
bool agrees(const Program& compute, const CostTable& costs, ChannelModel model) {
  auto lowered = lower(compute);
  const std::optional<TurnTape> turns = compile_turns(compute, {.model = model}, microbatch_groups(costs));
  if (!lowered) {
    EXPECT_FALSE(turns);
    return false;
  }
  if (!turns) return false;
  Experiment experiment = experiment_of(*lowered, costs, uniform_links(compute.rank_count(), 1e9, 7));
  experiment.channels = {.model = model};
  const auto run = critical_path_run(experiment);
  EXPECT_TRUE(run.has_value()) << "what is placed does not hang";
  if (!run) return false;
  const Timeline expected = timeline_of(run->flat, compute.placement, run->times);

  const TapeCosts prices = tape_costs(turns->tape, experiment);
  EXPECT_EQ(makespan_ns(turns->tape, prices), expected.makespan_ns);
  const std::vector<InstructionTimes> times = instruction_times(turns->tape, prices);
  EXPECT_EQ(compute_spans(compute, *turns, times), compute_spans(expected.spans));
  const bool drops = std::ranges::any_of(compute.ranks, [](const std::vector<Action>& list) {
    return std::ranges::find(list, ActionKind::reshard, &Action::kind) != list.end();
  });
  if (turns->has_collectives || drops) return true;
  EXPECT_EQ(timeline_of_turns(compute, *turns, prices), expected);
  EXPECT_LE(turns->tape.size(), run->tape->tape.size()) << "a message starts when it is placed";
  EXPECT_EQ(turns->tape.both_ends, run->tape->tape.both_ends);
  return true;
}

TEST(TurnTape, EqualsTheTapeOfListsOnEveryGeneratorUnderEveryChannelModel) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const int before = compared;
    for (const std::int32_t stages : {1, 2, 3, 4}) {
      for (const std::int32_t microbatches : {1, 2, 4, 6, 8}) {
        const auto program = generate(
            schedule.name,
            {.stages = stages, .microbatches = microbatches, .virtual_stages = chunks_to_try(schedule)});
        if (!program) continue;
        for (const ChannelModel model : kChannelModels) {
          SCOPED_TRACE(testing::Message()
                       << schedule.name << " K=" << stages << " M=" << microbatches << " " << to_text(model));
          EXPECT_TRUE(agrees(*program, uneven_costs(*program, 17), model));
          ASSERT_FALSE(HasFailure());
          ++compared;
        }
      }
    }
    EXPECT_GT(compared, before) << schedule.name;
  }
  EXPECT_GT(compared, 1500);
}

TEST(TurnTape, EqualsTheTapeOfListsWhereMicrobatchesDiffer) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    const auto program =
        generate(schedule.name, {.stages = 4, .microbatches = 8, .virtual_stages = chunks_to_try(schedule)});
    SCOPED_TRACE(schedule.name);
    ASSERT_TRUE(program) << program.error();
    EXPECT_TRUE(agrees(*program, differing_costs(*program, index(program->microbatches) / 2),
                       ChannelModel::directed));
  }
}

TEST(TurnTape, EqualsTheTapeOfListsOnRandomPrograms) {
  int compared = 0;
  for (std::uint32_t seed = 1; seed <= 60'000; ++seed) {
    Program program = random_compute_program(seed, {});
    program.iterations = 1;
    if (!validate(program)) continue;
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << to_text(program));
    compared += agrees(program, uneven_costs(program, seed), kChannelModels[seed % kChannelModels.size()]);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(compared, 20'000);
}

TEST(TurnTape, AMessageRidesOnItsProducersInstruction) {
  const Program program = *generate("gpipe", {.stages = 2, .microbatches = 8});
  const std::optional<TurnTape> turns = compile_turns(program, {});
  ASSERT_TRUE(turns);
  EXPECT_EQ(turns->tape.size(), 2 * (8 + 8 + 1)) << "F, B and STEP alone: none for activations and gradients";
  EXPECT_EQ(turns->units.size(), 2 * 8);
  EXPECT_LT(turns->tape.register_count, 20) << "registers of messages are used again";
}

TEST(TurnTape, LeavesToListsWhatDoesNotFollowFromTurns) {
  Program program = *generate("1f1b", {.stages = 2, .microbatches = 4});
  EXPECT_TRUE(compile_turns(program, {}));
  EXPECT_FALSE(compile_turns(program, {.blocking = true}));
  EXPECT_FALSE(compile_turns(program, {.capacity = 1}));
  EXPECT_FALSE(compile_turns(program, {.eager_bytes = 5}));
  program.iterations = 2;
  EXPECT_FALSE(compile_turns(program, {}));
}

TEST(TurnTape, ThereIsNoneOfAnOrderThatCannotBeExecuted) {
  const auto program = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 1\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0B0 0F0 0STEP\nrank 1: 1F0 1B0 1STEP\n",
      "crossed.psched");
  ASSERT_TRUE(program);
  EXPECT_FALSE(compile_turns(*program, {}));
}

}  // namespace
}  // namespace penstock
