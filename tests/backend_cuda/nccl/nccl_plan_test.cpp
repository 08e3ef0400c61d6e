// Tests parts of a run over NCCL that need no GPU: the order of the communicators, the position of a process
// in a launcher's job, and the messages of the self-test.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <tl/expected.hpp>

#include "backend/nccl/nccl_run.hpp"
#include "backend/nccl/session.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
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

/// Simulates ranks that open their communicators in this order. Each waits for the other members, and no rank
/// must wait for ever.
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

// Tests how the launcher's variables determine the position of a process.

tl::expected<std::optional<NcclPlace>, std::string> place_in(
    const std::map<std::string, std::string>& variables, std::int32_t ranks) {
  return nccl_place(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      ranks);
}

TEST(NcclPlace, WithoutALauncherThereIsNone) { EXPECT_EQ(place_in({}, 2)->has_value(), false); }

TEST(NcclPlace, TorchrunsAgentKeepsTheStoreAndNamesTheDevice) {
  const auto place = place_in({{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"MASTER_ADDR", "10.0.0.1"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"}},
                              8);
  ASSERT_TRUE(place && *place) << place.error();
  EXPECT_EQ((*place)->device, 1);
  EXPECT_EQ((*place)->process.rank, 5);
  EXPECT_EQ((*place)->process.coordinator.address, "10.0.0.1");
  EXPECT_EQ((*place)->process.coordinator.port, 29501) << "the store has MASTER_PORT";
  EXPECT_EQ((*place)->agent_store, 29500);
  EXPECT_EQ((*place)->store_prefix, "penstock/2/");
}

TEST(NcclPlace, OpenMpiAndSlurmNameTheDeviceToo) {
  const auto open_mpi = place_in({{"OMPI_COMM_WORLD_RANK", "3"},
                                  {"OMPI_COMM_WORLD_SIZE", "4"},
                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                  {"MASTER_PORT", "4000"}},
                                 4);
  ASSERT_TRUE(open_mpi && *open_mpi);
  EXPECT_EQ((*open_mpi)->device, 1);
  EXPECT_EQ((*open_mpi)->agent_store, std::nullopt);
  const auto slurm = place_in(
      {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "2"}, {"MASTER_PORT", "4000"}}, 4);
  ASSERT_TRUE(slurm && *slurm);
  EXPECT_EQ((*slurm)->device, 2);
  EXPECT_EQ((*slurm)->on_host, std::nullopt);
}

TEST(NcclPlace, TheLauncherSaysHowManyProcessesTheHostHas) {
  const auto on_host = [](const std::string& variable, const std::string& value) {
    return place_in({{"RANK", "0"}, {"WORLD_SIZE", "8"}, {"MASTER_PORT", "4000"}, {variable, value}}, 8)
        .value()
        ->on_host;
  };
  EXPECT_EQ(on_host("LOCAL_WORLD_SIZE", "4"), 4);
  EXPECT_EQ(on_host("OMPI_COMM_WORLD_LOCAL_SIZE", "2"), 2);
  EXPECT_EQ(on_host("SLURM_STEP_TASKS_PER_NODE", "8"), 8);
  EXPECT_EQ(on_host("SLURM_STEP_TASKS_PER_NODE", "4(x2)"), 4);
  EXPECT_EQ(on_host("SLURM_STEP_TASKS_PER_NODE", "5,3"), std::nullopt) << "hosts differ";
}

TEST(NcclPlace, WrongVariablesAreRefused) {
  EXPECT_EQ(place_in({{"RANK", "0"}, {"WORLD_SIZE", "3"}, {"MASTER_PORT", "4000"}}, 4).error(),
            "the launcher started 3 processes but the program has 4 ranks; start as many");
  EXPECT_EQ(
      place_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "x"}, {"MASTER_PORT", "4000"}}, 2).error(),
      "LOCAL_RANK: expected a number of 0 or more, got \"x\"");
  EXPECT_EQ(place_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1\n"}, {"MASTER_PORT", "4000"}}, 2)
                .error(),
            "LOCAL_RANK: expected a number of 0 or more, got \"1\\x0a\"");
}

// Tests the messages that `penstock selftest` sends over NCCL.

TEST(NcclSelfTest, EveryMessageHasAMebibyte) {
  const auto experiment = nccl_self_test_experiment(4);
  ASSERT_TRUE(experiment) << experiment.error();
  const EdgeNumbers edges(experiment->program);
  std::size_t sends = 0;
  for (const std::vector<Action>& list : experiment->program.ranks) {
    for (const Action& action : list) {
      if (!is_send(action.kind)) continue;
      ++sends;
      EXPECT_EQ(transfer_bytes(experiment->costs, edges, action), 1 << 20) << to_text(action);
    }
  }
  EXPECT_EQ(sends, 8U * 2U * 3U) << "of 8 microbatches F and B over 3 edges";
}

}  // namespace
}  // namespace penstock
