// Ranks that a launcher started, told by its environment variables who they are: here children of the test,
// each with a meeting over TCP, LibTorch's store on the port behind it, and connections by the loopback
// interface.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/nccl/listening_socket.hpp"
#include "backend/nccl/nccl_run.hpp"
#include "schedules/check/flat_program.hpp"
#include "tests/backend/process_fixture.hpp"
#include "tests/backend/standin/free/calls.hpp"
#include "tests/backend/standin/gpu_runs.hpp"
#include "tests/backend/standin/traced_modules.hpp"

namespace penstock {
namespace {

using standin::Mishap;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// Rank 0 listens on it and on the next.
std::uint16_t free_port() {
  for (;;) {
    const HeldPort first;
    if (first.port() < 65535 && ListeningSocket::open("127.0.0.1", first.port() + 1)) return first.port();
  }
}

/// As torchrun starts them without an agent's store.
void set_environment(std::int32_t rank, std::int32_t ranks, std::uint16_t port) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
}

/// One rank's words.
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
constexpr seconds kLong(30);  // no rank is silent for so long
constexpr milliseconds kShort(1000);
constexpr seconds kMost(30);  // until all have ended

/// By rank: what each ends with, or "is still there".
std::vector<std::string> words_with(const Mishap& mishap, milliseconds deadline) {
  const Experiment experiment = traced_experiment("1f1b", {.stages = kRanks, .microbatches = 6}, 2'000'000);
  standin::set_mishap(mishap);
  const std::uint16_t port = free_port();
  std::deque<RankProcess> ranks;
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] { return take_part(experiment, rank, port, deadline); });
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
  EXPECT_THAT(words_with({}, kLong), ElementsAre("has the result", "ended well", "ended well"));
}

TEST(StandInLaunchedRanks, WhoIsKilledIsNamedToAll) {
  for (const auto& [call, nth] : {std::pair("ncclCommInitRankConfig", 2), {"ncclSend", 5}}) {
    const auto named =
        AllOf(StartsWith("rank 1: "), HasSubstr(": its process has closed the connection; rank "));
    EXPECT_THAT(words_with({Mishap::Kind::killed, 1, call, nth}, kLong), ElementsAre(named, "", named))
        << call;
  }
}

TEST(StandInLaunchedRanks, WhatFailsIsToldToAll) {
  const auto named =
      StartsWith("rank 1: the start: communicator 1 -> 2 (rank 1, with rank 2): ncclSend: ncclSystemError");
  EXPECT_THAT(words_with({Mishap::Kind::fails, 1, "ncclSend", 1}, kLong), ElementsAre(named, named, named));
}

// Rank 0 has the coordinator and the store.
TEST(StandInLaunchedRanks, TheOthersEndWhenRank0IsKilled) {
  for (const auto& [call, nth] :
       {std::pair("cudaStreamCreateWithPriority", 1), {"ncclGetUniqueId", 1}, {"ncclSend", 5}}) {
    EXPECT_THAT(words_with({Mishap::Kind::killed, 0, call, nth}, kLong),
                ElementsAre("", AllOf(StartsWith("rank 1: "), HasSubstr("the coordinator has gone")),
                            AllOf(StartsWith("rank 2: "), HasSubstr("the coordinator has gone"))))
        << call;
  }
}

TEST(StandInLaunchedRanks, TheOthersEndWhenRank0IsStopped) {
  for (const auto& [call, nth] :
       {std::pair("cudaStreamCreateWithPriority", 1), {"ncclGetUniqueId", 1}, {"ncclSend", 5}}) {
    EXPECT_THAT(words_with({Mishap::Kind::stopped, 0, call, nth}, kShort),
                ElementsAre("is still there", HasSubstr("the coordinator gave no sign of life for 1 s"),
                            HasSubstr("the coordinator gave no sign of life for 1 s")))
        << call;
  }
}

}  // namespace
}  // namespace penstock
