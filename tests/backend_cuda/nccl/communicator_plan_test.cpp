// Which communicators a program needs, in which order.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/nccl/communicator_plan.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/execution.hpp"

namespace penstock {
namespace {

FlatProgram laid_out(const Program& program) {
  return flatten(program, free_costs(program), {.channels = {}, .iterations = program.iterations});
}

std::string plan_text(const FlatProgram& flat) {
  std::string text;
  for (const CommunicatorPlan& plan : communicators_of(flat))
    text += (text.empty() ? "" : "; ") + to_text(plan);
  return text;
}

FlatProgram generated(const std::string& name, const Shape& shape) {
  return laid_out(lowered(generate(name, shape).value()));
}

TEST(CommunicatorPlan, EveryDirectedPairHasOneInTheOrderOfFirstUse) {
  EXPECT_EQ(plan_text(generated("gpipe", {.stages = 3, .microbatches = 2})),
            "0 -> 1; 1 -> 2; 2 -> 1; 1 -> 0");
}

TEST(CommunicatorPlan, TheOrderIsByStepsIntoTheListsNotByRank) {
  const Program program = read_program(
      "penstock program 1\nschedule turned\nmicrobatches 1\nstage 0: rank 1\nstage 1: rank 0\n"
      "rank 0: 1RECV_F0 1F0 1B0 1SEND_B0 1STEP\n"
      "rank 1: 0F0 0SEND_F0 0RECV_B0 0B0 0STEP\n");
  EXPECT_EQ(plan_text(laid_out(program)), "1 -> 0; 0 -> 1");
}

TEST(CommunicatorPlan, AProgramOfOneRankNeedsNone) {
  EXPECT_EQ(plan_text(generated("gpipe", {.stages = 1, .microbatches = 4})), "");
}

TEST(CommunicatorPlan, RanksThatReduceTogetherShareAGroup) {
  const std::string text = plan_text(generated("dualpipe", {.stages = 4, .microbatches = 8}));
  EXPECT_NE(text.find("{0, 3}"), std::string::npos) << text;
  EXPECT_NE(text.find("{1, 2}"), std::string::npos) << text;
}

TEST(CommunicatorPlan, EveryMessageHasItsCommunicatorAndNoneIsThereForNothing) {
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "dualpipe", "1f1b-rr"}) {
    const FlatProgram flat = generated(name, {.stages = 4, .microbatches = 8});
    const auto plans = communicators_of(flat);
    std::set<CommunicatorPlan> planned(plans.begin(), plans.end());
    EXPECT_EQ(planned.size(), plans.size()) << name << ": one is there twice";
    std::set<CommunicatorPlan> used;
    for (const FlatMessage& message : flat.messages) used.insert(communicator_of(flat, message));
    EXPECT_EQ(planned, used) << name;
  }
}

/// Ranks that open their communicators in this order, each waiting for the other ranks of it, all get on.
TEST(CommunicatorPlan, NoRankWaitsInACircle) {
  for (const char* name : {"1f1b", "dualpipe", "v-half"}) {
    const FlatProgram flat = generated(name, {.stages = 4, .microbatches = 8});
    std::map<std::int32_t, std::vector<CommunicatorPlan>> lists;
    for (const CommunicatorPlan& plan : communicators_of(flat)) {
      for (const std::int32_t rank : plan.ranks) lists[rank].push_back(plan);
    }
    std::map<std::int32_t, std::size_t> stands;
    for (bool moved = true; std::exchange(moved, false);) {
      for (const CommunicatorPlan& plan : communicators_of(flat)) {
        bool all_are_there = true;
        for (const std::int32_t rank : plan.ranks) {
          all_are_there &= stands[rank] < lists[rank].size() && lists[rank][stands[rank]] == plan;
        }
        if (!all_are_there) continue;
        for (const std::int32_t rank : plan.ranks) ++stands[rank];
        moved = true;
      }
    }
    for (const auto& [rank, list] : lists) EXPECT_EQ(stands[rank], list.size()) << name << ", rank " << rank;
  }
}

}  // namespace
}  // namespace penstock
