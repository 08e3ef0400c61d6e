// kFkB: what groups are, and what they are for.

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

Program generated(const std::string& schedule, const Shape& shape) {
  const auto program = generate(schedule, shape);
  EXPECT_TRUE(program) << program.error();
  return program.value_or(Program{});
}

/// Units of 1 ms; F takes 1, B 2, each message `latency`.
double time_of(const std::string& schedule, const Shape& shape, double latency) {
  const Program program = generated(schedule, shape);
  const auto latency_ns = static_cast<Ns>(latency * 1e6);
  const Experiment experiment = experiment_of(
      program, unit_costs(program), uniform_links(program.rank_count(), kUnlimitedBandwidth, latency_ns));
  return static_cast<double>(critical_path(experiment)->makespan_ns) / 1e6;
}

TEST(KFkB, IsOneFOneBWithGroupsOfOneAndGPipeWithOneGroup) {
  for (std::int32_t stages = 1; stages <= 5; ++stages) {
    for (std::int32_t microbatches = 1; microbatches <= 9; ++microbatches) {
      const Shape plain = {.stages = stages, .microbatches = microbatches};
      Shape ones = plain;
      ones.group_size = 1;
      Shape all = plain;
      all.group_size = microbatches;
      EXPECT_EQ(generated("kfkb", ones).ranks, generated("1f1b", plain).ranks);
      EXPECT_EQ(generated("kfkb", all).ranks, generated("gpipe", plain).ranks);
    }
  }
}

TEST(KFkB, ALastGroupMayBeSmaller) {
  const Program program = generated("kfkb", {.stages = 2, .microbatches = 5, .group_size = 2});
  std::string last;
  for (const Action& action : program.ranks[1]) last += to_text(action) + ' ';
  EXPECT_EQ(last, "1F0 1F1 1B0 1B1 1F2 1F3 1B2 1B3 1F4 1B4 1STEP ");
}

TEST(KFkB, RecomputesMicrobatchByMicrobatch) {
  const Program program =
      generated("kfkb", {.stages = 1, .microbatches = 2, .checkpoint = Checkpoint::always});
  std::string list;
  for (const Action& action : program.ranks[0]) list += to_text(action) + ' ';
  EXPECT_EQ(list, "0F0 0F1 0R0 0B0 0R1 0B1 0STEP ");
}

// 1F1B's steady state waits for links at every microbatch. Groups hide all but the way there and back, at the
// price of k times the activations; slower links need larger ones.
TEST(KFkB, HidesTheLatencyOfLinksThatOneFOneBWaitsFor) {
  const Shape twos = {.stages = 4, .microbatches = 16};
  Shape fours = twos;
  fours.group_size = 4;
  EXPECT_EQ(time_of("kfkb", twos, 0), 57);
  EXPECT_EQ(time_of("kfkb", twos, 0.5), 57 + 6 * 0.5);
  EXPECT_GT(time_of("1f1b", twos, 0.5), 57 + 6 * 0.5);
  EXPECT_GT(time_of("kfkb", twos, 2), time_of("kfkb", fours, 2));
}

}  // namespace
}  // namespace penstock
