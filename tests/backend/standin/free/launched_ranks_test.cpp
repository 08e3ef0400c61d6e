// Tests ranks that a launcher has started. The launcher's environment variables state the number of each
// rank. Here the ranks are children of the test. They use a coordinator over TCP, LibTorch's store on the
// next port, and the loopback interface.

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/nccl/nccl_run.hpp"
#include "backend/nccl/rendezvous.hpp"
#include "schedules/check/flat_program.hpp"
#include "tests/backend/process_fixture.hpp"
#include "tests/backend/standin/free/calls.hpp"
#include "tests/backend/standin/free/random_mishap.hpp"
#include "tests/backend/standin/gpu_runs.hpp"
#include "tests/backend/standin/traced_modules.hpp"

namespace penstock {
namespace {

using standin::Mishap;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// Returns a port such that it and the next port are free. Rank 0 listens on both.
std::uint16_t free_port() {
  for (;;) {
    const HeldPort first;
    if (first.port() < 65535 && ListeningSocket::open("127.0.0.1", first.port() + 1)) return first.port();
  }
}

/// Sets the variables that torchrun sets, without the store of its agent.
void set_environment(std::int32_t rank, std::int32_t ranks, std::uint16_t port) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
}

/// Runs one rank and returns its error text.
std::string take_part(const Experiment& experiment, std::int32_t rank, std::uint16_t port,
                      milliseconds deadline) {
  set_environment(rank, experiment.program.rank_count(), port);
  const auto place =
      nccl_place([](const char* name) { return std::getenv(name); }, experiment.program.rank_count());
  if (!place) return place.error();
  const auto result = run_on_nccl(
      experiment, [](const FlatProgram&) { return LinkPace{}; },
      {.warmup = 1, .repeats = 1, .deadline = deadline}, traced(experiment), *place);
  if (!result) return result.error().message;
  return *result ? "has the result" : "ended well";
}

constexpr std::int32_t kRanks = 3;
constexpr seconds kMost(30);  // the time limit until all ranks have ended

/// Returns the error text of each rank, or "is still there".
std::vector<std::string> words_with(const Mishap& mishap, std::uint16_t port = free_port()) {
  const Experiment experiment = traced_experiment("1f1b", {.stages = kRanks, .microbatches = 6}, 2'000'000);
  standin::set_mishap(mishap);
  std::deque<RankProcess> ranks;
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] { return take_part(experiment, rank, port, deadline_with(mishap)); });
  }
  std::vector<std::string> words;
  for (RankProcess& rank : ranks) {
    const bool is_stopped = mishap.kind == Mishap::Kind::stopped && mishap.device == std::ssize(words);
    words.push_back(!is_stopped && rank.has_ended_within(kMost) ? rank.words() : "is still there");
  }
  standin::set_mishap({});
  return words;
}

TEST(StandInLaunchedRanks, TrainAsTheyMust) {
  EXPECT_THAT(words_with({}), ElementsAre("has the result", "ended well", "ended well"));
}

/// Runs one task of Slurm, which sees the GPUs that `visible` lists, and returns its error text.
std::string take_part_as_task(std::int32_t rank, std::int32_t ranks, std::uint16_t port,
                              const std::string& visible, std::int32_t ranks_per_gpu) {
  setenv("SLURM_PROCID", std::to_string(rank).c_str(), 1);
  setenv("SLURM_LOCALID", std::to_string(rank).c_str(), 1);
  setenv("SLURM_NTASKS", std::to_string(ranks).c_str(), 1);
  setenv("SLURM_STEP_TASKS_PER_NODE", std::to_string(ranks).c_str(), 1);
  setenv("CUDA_VISIBLE_DEVICES", visible.c_str(), 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  const auto place = nccl_place([](const char* name) { return std::getenv(name); }, ranks);
  if (!place) return place.error();
  const Experiment experiment = traced_experiment("1f1b", {.stages = ranks, .microbatches = 4}, 2'000'000);
  const auto result = run_on_nccl(
      experiment, [](const FlatProgram&) { return LinkPace{}; },
      {.warmup = 0, .repeats = 1, .deadline = seconds(20), .ranks_per_gpu = ranks_per_gpu},
      traced(experiment), *place);
  if (!result) return result.error().message;
  return *result ? "has the result" : "ended well";
}

/// Returns the error text of each task of Slurm. `visible` says which GPUs a task sees.
std::vector<std::string> words_of_tasks(std::int32_t ranks,
                                        const std::function<std::string(std::int32_t rank)>& visible,
                                        std::int32_t ranks_per_gpu = 1) {
  const std::uint16_t port = free_port();
  std::deque<RankProcess> tasks;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    tasks.emplace_back(
        [&, rank] { return take_part_as_task(rank, ranks, port, visible(rank), ranks_per_gpu); });
  }
  std::vector<std::string> words;
  for (RankProcess& task : tasks)
    words.push_back(task.has_ended_within(kMost) ? task.words() : "is still there");
  return words;
}

TEST(StandInTasksOfSlurm, TrainWithTheOneGpuThatEachSees) {
  EXPECT_THAT(words_of_tasks(3, [](std::int32_t rank) { return std::to_string(rank); }),
              ElementsAre("has the result", "ended well", "ended well"));
}

TEST(StandInTasksOfSlurm, AreRefusedIfAllSeeTheSameGpu) {
  const auto sentence =
      AllOf(HasSubstr("ranks 0, 1, 2 have the same GPU, GPU-"),
            HasSubstr("srun --gpus-per-task=1, or place several ranks on a GPU with --ranks-per-gpu 3"));
  EXPECT_THAT(words_of_tasks(3, [](std::int32_t) { return "0"; }), ElementsAre(sentence, sentence, sentence));
}

TEST(StandInTasksOfSlurm, ShareTheGpusOfTheirHostWhereAskedTo) {
  const auto two = [](std::int32_t) { return "0,1"; };
  const auto sentence = HasSubstr("this host has 2 GPUs for 4 processes of the job");
  EXPECT_THAT(words_of_tasks(4, two), ElementsAre(sentence, sentence, sentence, sentence));
  EXPECT_THAT(words_of_tasks(4, two, 2),
              ElementsAre("has the result", "ended well", "ended well", "ended well"));
}

TEST(StandInLaunchedRanks, WhoIsKilledIsNamedToAll) {
  for (const auto& [call, nth] : {std::pair("ncclCommInitRankConfig", 2), {"ncclSend", 5}}) {
    const auto named =
        AllOf(StartsWith("rank 1: "), HasSubstr(": its process has closed the connection; rank "));
    EXPECT_THAT(words_with({Mishap::Kind::killed, 1, call, nth}), ElementsAre(named, "", named)) << call;
  }
}

TEST(StandInLaunchedRanks, WhatFailsIsToldToAll) {
  const auto named =
      StartsWith("rank 1: the start: communicator 1 -> 2 (rank 1, with rank 2): ncclSend: ncclSystemError");
  EXPECT_THAT(words_with({Mishap::Kind::fails, 1, "ncclSend", 1}), ElementsAre(named, named, named));
}

/// The store of a launcher, such as torchrun's, which the ranks use.
class AgentsStore {
 public:
  explicit AgentsStore(std::uint16_t port)
      : agent_([port] {
          auto socket = ListeningSocket::open("127.0.0.1", port).value();
          const Rendezvous host({.port = port, .socket = socket.release()}, {});
          for (;;) pause();
          return "";
        }) {
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  }
  AgentsStore(const AgentsStore&) = delete;
  AgentsStore& operator=(const AgentsStore&) = delete;
  ~AgentsStore() { unsetenv("TORCHELASTIC_USE_AGENT_STORE"); }

 private:
  RankProcess agent_;
};

TEST(StandInLaunchedRanks, MeetInTheStoreOfTheirLaunchersAgent) {
  const std::uint16_t port = free_port();
  const AgentsStore store(port);
  EXPECT_THAT(words_with({}, port), ElementsAre("has the result", "ended well", "ended well"));
  // The launcher's store still exists after rank 0 has ended.
  EXPECT_THAT(words_with({Mishap::Kind::killed, 0, "ncclGetUniqueId", 1}, port),
              ElementsAre("", HasSubstr("the coordinator has gone"), HasSubstr("the coordinator has gone")));
}

// NCCL may need 90 s to open a communicator. If a rank never joins, the requested deadline must apply
// instead.
TEST(StandInLaunchedRanks, TheDeadlineThatIsAskedForRulesBeforeTheyHaveJoined) {
  const Experiment experiment = traced_experiment("1f1b", {.stages = 2, .microbatches = 2}, 2'000'000);
  const auto words_alone = [&](std::int32_t rank, milliseconds deadline) {
    const std::uint16_t port = free_port();
    RankProcess alone([&] { return take_part(experiment, rank, port, deadline); });
    return alone.has_ended_within(kMost) ? alone.words() : "is still there";
  };
  EXPECT_EQ(words_alone(0, milliseconds(1500)),
            "rank 1: the start: waited 1.5 s for rank 1 to join; rank 0 waits for it there");
  EXPECT_THAT(words_alone(1, milliseconds(1500)),
              StartsWith("rank 1: the start: waited 1.5 s for rank 0 to join it: "));
  EXPECT_EQ(words_alone(0, milliseconds(50)),
            "rank 1: the start: waited 1 s for rank 1 to join; rank 0 waits for it there");
}

// Rank 0 runs the coordinator and the store.
TEST(StandInLaunchedRanks, TheOthersEndWhenRank0IsKilled) {
  for (const auto& [call, nth] :
       {std::pair("cudaStreamCreateWithPriority", 1), {"ncclGetUniqueId", 1}, {"ncclSend", 5}}) {
    EXPECT_THAT(words_with({Mishap::Kind::killed, 0, call, nth}),
                ElementsAre("", AllOf(StartsWith("rank 1: "), HasSubstr("the coordinator has gone")),
                            AllOf(StartsWith("rank 2: "), HasSubstr("the coordinator has gone"))))
        << call;
  }
}

TEST(StandInLaunchedRanks, TheOthersEndWhenRank0IsStopped) {
  for (const auto& [call, nth] :
       {std::pair("cudaStreamCreateWithPriority", 1), {"ncclGetUniqueId", 1}, {"ncclSend", 5}}) {
    EXPECT_THAT(words_with({Mishap::Kind::stopped, 0, call, nth}),
                ElementsAre("is still there", HasSubstr("the coordinator gave no sign of life for 1 s"),
                            HasSubstr("the coordinator gave no sign of life for 1 s")))
        << call;
  }
}

TEST(StandInRandomMishaps, OfLaunchedRanksLeaveNobodyBehind) {
  const std::uint32_t kills = kills_or(8);
  std::mt19937 random(5);
  for (std::uint32_t seed = 0; seed < kills; ++seed) {
    const Mishap mishap = random_mishap(random, kRanks);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, to_text(mishap)));
    const std::vector<std::string> words = words_with(mishap);
    for (std::int32_t rank = 0; rank < kRanks; ++rank) {
      if (rank == mishap.device) continue;
      EXPECT_THAT(words[static_cast<std::size_t>(rank)],
                  AnyOf("has the result", "ended well", StartsWith("rank ")));
    }
  }
}

}  // namespace
}  // namespace penstock
