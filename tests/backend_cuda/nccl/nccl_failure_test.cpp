// How NCCL fails, which a machine without a GPU shows, and that nothing is left behind.

#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/local_run.hpp"
#include "backend/cuda/occupy_family.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/nccl/communicator.hpp"
#include "backend/nccl/communicator_plan.hpp"
#include "backend/nccl/listening_socket.hpp"
#include "backend/nccl/nccl_run.hpp"
#include "backend/nccl/rendezvous.hpp"
#include "backend/nccl/session.hpp"
#include "backend/process/process_execution.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "tests/backend/execution.hpp"
#include "tests/backend_cuda/gpu.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

/// This process has no child, running or dead.
bool has_no_child() { return waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD; }

TEST(NcclFailure, AUniqueIdNeedsNoGpuAndIsUnique) {
  const std::string first = new_unique_id();
  EXPECT_EQ(first.size(), 128U);
  EXPECT_NE(first, new_unique_id());
}

TEST(NcclFailure, ACommunicatorThatCannotOpenNamesRankPeerCallAndCode) {
  PENSTOCK_NEEDS_NO_GPU();
  const auto begin = steady_clock::now();
  try {
    const Communicator communicator({CommunicatorKind::edge, {2, 5}}, 5, new_unique_id(),
                                    {.stopped = {}, .deadline = seconds(20)});
    FAIL() << "opened without a GPU";
  } catch (const NcclError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith(
                                  "communicator 2 -> 5 (rank 5, with rank 2): ncclCommInitRankConfig: nccl"));
    EXPECT_NE(error.code(), ncclSuccess);
    EXPECT_NE(error.code(), ncclInProgress);
  }
  EXPECT_LT(steady_clock::now() - begin, seconds(20));
}

TEST(NcclFailure, EveryRankEndsWithAnErrorThatNamesRankAndPeer) {
  PENSTOCK_NEEDS_NO_GPU();
  const Experiment experiment = uniform_experiment("1f1b", {.stages = 3, .microbatches = 4}, {});
  const FlatProgram flat = flatten(experiment.program, experiment.costs,
                                   {.channels = {}, .iterations = experiment.program.iterations});
  auto opened = ListeningSocket::open("127.0.0.1", 0);
  ASSERT_TRUE(opened) << opened.error();
  std::optional<ListeningSocket> socket = *std::move(opened);
  const OccupyFamily family(experiment, {});
  const auto begin = steady_clock::now();
  const auto runs = execute_in_processes(
      {.program = experiment.program,
       .flat = flat,
       .modules = [&](std::int32_t rank, const Clock& clock) { return family.modules(rank, clock); },
       .deadline = seconds(10),
       .patience = seconds(30),
       .transport = [&](std::int32_t rank, const std::function<bool()>& stopped) -> MakeRankTransport {
         prepare_nccl_environment("127.0.0.1");
         RendezvousPlace store{.port = socket->port()};
         if (rank == 0) store.socket = socket->release();
         socket.reset();
         const NcclSession session({.flat = flat,
                                    .costs = experiment.costs,
                                    .rank = rank,
                                    .device = 0,
                                    .store = store,
                                    .stopped = stopped,
                                    .deadline = seconds(10)});
         return {};
       },
       .forked = [&] { socket.reset(); }});
  ASSERT_FALSE(runs);
  EXPECT_THAT(runs.error().message, testing::HasSubstr("communicator 0 -> 1 (rank "));
  EXPECT_THAT(runs.error().message, testing::HasSubstr("ncclCommInitRankConfig"));
  EXPECT_GE(runs.error().rank, 0);
  EXPECT_EQ(runs.error().action, "the start");
  EXPECT_LT(steady_clock::now() - begin, seconds(30));
  EXPECT_TRUE(has_no_child());
}

TEST(NcclFailure, ARunWithoutGpusSaysThatAPartIsMissing) {
  PENSTOCK_NEEDS_NO_GPU();
  const Experiment experiment = uniform_experiment("1f1b", {.stages = 2, .microbatches = 4}, {});
  const auto result = run_on_nccl(
      experiment, [](const FlatProgram&) { return LinkPace{}; }, {},
      [&](const std::vector<std::optional<CudaPlace>>& places) {
        return CudaModules{.family = std::make_unique<CudaOccupyFamily>(experiment, Jitter{}, 1, places)};
      },
      std::nullopt);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::not_available);
  EXPECT_THAT(result.error().message, testing::StartsWith("nccl: no GPU can be used: "));
  EXPECT_TRUE(has_no_child());
}

}  // namespace
}  // namespace penstock
