// The short cut of the critical-path engine: where it holds, and that it then says what the full walk says.

#include "sim/engines/in_order_walk.hpp"

#include <cstdint>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "report/timeline/walk_timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/network/message_costs.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/random_experiment.hpp"

namespace penstock {
namespace {

Timeline full_walk(const Experiment& experiment) {
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = experiment.channels, .iterations = experiment.program.iterations});
  return timeline_of(flat, experiment.program.placement,
                     *walk(flat, walk_durations(experiment, flat), experiment.channels));
}

bool has_collectives(const Program& program) {
  for (const auto& list : program.ranks) {
    for (const Action& action : list) {
      if (is_collective(action.kind)) return true;
    }
  }
  return false;
}

/// Two ranks that exchange the activations of two microbatches.
Experiment two_ranks(const std::string& first, const std::string& second) {
  const auto program = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\nrank 0: " +
          first + "\nrank 1: " + second + "\n",
      "two-ranks.psched");
  EXPECT_TRUE(program) << program.error();
  return experiment_of(*program, unit_costs(*program), uniform_links(2, 1e9, 5));
}

constexpr const char* kFirst = "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP";

TEST(InOrderWalk, EqualsTheFullWalkOnEveryGenerator) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const std::int32_t stages : {1, 2, 4}) {
      for (const std::int32_t microbatches : {1, 2, 4, 8}) {
        const auto program = generate(schedule.name, {.stages = stages,
                                                      .microbatches = microbatches,
                                                      .virtual_stages = schedule.chunks ? 2 : 1,
                                                      .iterations = 2});
        if (!program) continue;
        SCOPED_TRACE(testing::Message() << schedule.name << " K=" << stages << " M=" << microbatches);
        const Experiment experiment =
            experiment_of(*program, unit_costs(*program), uniform_links(program->rank_count(), 1e9, 7));
        const std::optional<Timeline> timeline = in_order_walk(experiment);
        const bool barrier = program->barrier && program->iterations > 1;
        ASSERT_EQ(timeline.has_value(), !has_collectives(experiment.program) && !barrier);
        if (timeline) {
          EXPECT_EQ(*timeline, full_walk(experiment));
        }
      }
    }
  }
}

TEST(InOrderWalk, EqualsTheFullWalkOnRandomPrograms) {
  int compared = 0;
  for (std::uint32_t seed = 1; seed <= 6000; ++seed) {
    Experiment experiment = random_experiment(seed);
    experiment.channels = {};
    if (find_hang(experiment.program, experiment.channels, experiment.costs)) {
      EXPECT_FALSE(in_order_walk(experiment)) << "seed " << seed;
      continue;
    }
    const std::optional<Timeline> timeline = in_order_walk(experiment);
    if (!timeline) continue;
    ASSERT_EQ(*timeline, full_walk(experiment)) << "seed " << seed;
    ++compared;
  }
  EXPECT_GT(compared, 400);
}

TEST(InOrderWalk, LeavesAChannelThatItsEndsOrderDifferentlyToTheFullWalk) {
  const Experiment same = two_ranks(kFirst, "1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1STEP");
  EXPECT_TRUE(in_order_walk(same));
  const Experiment crossed = two_ranks(kFirst, "1RECV_F1 1RECV_F0 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1STEP");
  EXPECT_FALSE(in_order_walk(crossed));
  EXPECT_FALSE(critical_path(crossed)) << "rank 1 waits for 1RECV_F1 first, rank 0 sends 0SEND_F0 first";
}

TEST(InOrderWalk, LeavesAllOtherChannelsToTheFullWalk) {
  Experiment experiment = two_ranks(kFirst, "1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1STEP");
  for (const ChannelOptions& channels :
       {ChannelOptions{.model = ChannelModel::pair}, ChannelOptions{.model = ChannelModel::boundary},
        ChannelOptions{.blocking = true}, ChannelOptions{.capacity = 1}, ChannelOptions{.eager_bytes = 1}}) {
    experiment.channels = channels;
    EXPECT_FALSE(in_order_walk(experiment)) << to_text(channels.model);
  }
}

}  // namespace
}  // namespace penstock
