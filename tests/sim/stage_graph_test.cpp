// Programs whose stages are no chain: a diamond and a skip connection.

#include <string>

#include <gtest/gtest.h>

#include "schedules/check/validate.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/reference_engine.hpp"

namespace penstock {
namespace {

Program graph_program(const std::string& text) {
  const auto program = parse_program(text, "graph.psched");
  EXPECT_TRUE(program) << program.error();
  EXPECT_EQ(to_text(*program), text);
  EXPECT_TRUE(validate(*program)) << validate(*program).error();
  return *program;
}

CostTable costs_of(const Program& program) {
  return uniform_costs(program, {.forward_ns = 10, .backward_ns = 20}, {.activation = 5, .gradient = 5});
}

//        1 (10)
//   0 <          > 3        both branches run at the same time
//        2 (10)
TEST(StageGraph, TheBranchesOfADiamondRunAtTheSameTime) {
  const Program diamond = graph_program(
      "penstock program 1\nschedule diamond\nmicrobatches 1\nedges 0>1 0>2 1>3 2>3\n"
      "stage 0: rank 0\nstage 1: rank 1\nstage 2: rank 2\nstage 3: rank 3\n"
      "rank 0: 0F0 0B0 0STEP\nrank 1: 1F0 1B0 1STEP\nrank 2: 2F0 2B0 2STEP\nrank 3: 3F0 3B0 3STEP\n");
  const Experiment experiment =
      experiment_of(diamond, costs_of(diamond), uniform_links(4, kUnlimitedBandwidth, 1));
  EXPECT_EQ(makespan_ns(experiment), 3 * 30 + 4 * 1);
  EXPECT_EQ(*critical_path(experiment), reference_engine(experiment));
  EXPECT_EQ(to_text(lower(diamond)->ranks[0][1]), "0SEND_F0");
  EXPECT_EQ(to_text(lower(diamond)->ranks[0][2]), "0SEND_F0>2");
}

TEST(StageGraph, ASkipConnectionGoesFromRankToRank) {
  const Program skip = graph_program(
      "penstock program 1\nschedule skip\nmicrobatches 2\nedges 0>1 0>2 1>2\n"
      "stage 0: rank 0\nstage 1: rank 1\nstage 2: rank 2\n"
      "rank 0: 0F0 0F1 0B0 0B1 0STEP\nrank 1: 1F0 1F1 1B0 1B1 1STEP\nrank 2: 2F0 2B0 2F1 2B1 2STEP\n");
  CostTable costs = costs_of(skip);
  costs.edges[1].activation = 100;  // 0>2 is the slow one: 100 ns
  const Experiment experiment = experiment_of(skip, costs, uniform_links(3, 1e9, 0));
  const Timeline timeline = *critical_path(experiment);
  EXPECT_EQ(timeline, reference_engine(experiment));
  for (const Span& span : timeline.spans) {
    if (span.rank == 2 && to_text(span.action) == "2F0") {
      EXPECT_EQ(span.start_ns, 110);
    }
  }
  EXPECT_EQ(to_text(*lower(skip)), to_text(*parse_program(to_text(*lower(skip)), "again")));
}

TEST(StageGraph, StagesOnOneRankPassTheirTensorsDirectly) {
  const Program folded = graph_program(
      "penstock program 1\nschedule folded\nmicrobatches 1\nedges 0>1 0>2 1>2\n"
      "stage 0: rank 0\nstage 1: rank 0\nstage 2: rank 1\n"
      "rank 0: 0F0 1F0 1B0 0B0 0STEP 1STEP\nrank 1: 2F0 2B0 2STEP\n");
  const Program lowered = *lower(folded);
  std::string sends;
  for (const auto& list : lowered.ranks) {
    for (const Action& action : list) {
      if (is_send(action.kind)) sends += to_text(action) + " ";
    }
  }
  EXPECT_EQ(sends, "0SEND_F0>2 1SEND_F0 2SEND_B0>0 2SEND_B0 ");
  EXPECT_TRUE(validate(lowered));
}

}  // namespace
}  // namespace penstock
