// Tests errors of NCCL, which also occur without a GPU. No child process may remain after an error.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/local_run.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/stream_modules.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/measured_run.hpp"
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

/// Returns true if this process has no child, neither running nor ended.
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
    communicator.wait_until_open();
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
         prepare_nccl_environment({.address = "127.0.0.1"});
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
  EXPECT_THAT(runs.error().message, testing::ContainsRegex("rank [0-9]: the start: cudaSetDevice: "));
  EXPECT_THAT(runs.error().message, testing::ContainsRegex("rank [0-9] waits for it there"));
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

// Tests NCCL on one GPU. If there are two GPUs, also tests a whole run.

const WaitLimits kLimits{.stopped = {}, .deadline = std::chrono::seconds(30)};

// This test is the first one, because it forks. This process must not have started CUDA before.
TEST(NcclGpu, ARunOnSeveralGpusHasEverySpan) {
  const auto count = cuda_device_count_by_child();
  if (!count || count->devices < 2)
    GTEST_SKIP() << (count ? "one GPU: NCCL takes one a rank" : count.error());
  const Experiment experiment = uniform_experiment("1f1b", {.stages = 2, .microbatches = 4},
                                                   {.forward_ns = 5'000'000, .backward_ns = 10'000'000});
  const auto result = run_on_nccl(
      experiment, [](const FlatProgram&) { return LinkPace{}; }, {.warmup = 1, .repeats = 3},
      [&](const std::vector<std::optional<CudaPlace>>& places) {
        return CudaModules{.family = std::make_unique<CudaOccupyFamily>(experiment, Jitter{}, 1, places)};
      },
      std::nullopt);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ((*result)->engine, "nccl");
  EXPECT_NEAR(static_cast<double>((*result)->makespan_ns) / static_cast<double>(makespan_ns(experiment)), 1,
              0.05);
}

TEST(NcclGpu, ARankSendsToItself) {
  PENSTOCK_NEEDS_GPU();
  use_device(0);
  Communicator self({CommunicatorKind::group, {0}}, 0, new_unique_id(), kLimits);
  self.wait_until_open();
  const CudaStream stream(0, CudaStream::Priority::high);
  constexpr std::int64_t kCount = 1000;
  const DeviceBuffer from(0, kCount * sizeof(double));
  const DeviceBuffer to(0, kCount * sizeof(double));
  launch_count_up(static_cast<double*>(from.data()), kCount, 7, stream.view().stream);
  self.complete(ncclGroupStart(), "ncclGroupStart", kLimits);
  const auto sent = ncclSend(from.data(), kCount, ncclFloat64, 0, self.handle(), stream.view().stream);
  EXPECT_TRUE(sent == ncclSuccess || sent == ncclInProgress);
  const auto received = ncclRecv(to.data(), kCount, ncclFloat64, 0, self.handle(), stream.view().stream);
  EXPECT_TRUE(received == ncclSuccess || received == ncclInProgress);
  self.complete(ncclGroupEnd(), "ncclGroupEnd", kLimits);
  wait_for(stream.view(), kLimits);
  std::vector<double> numbers(kCount);
  check_cuda(cudaMemcpy(numbers.data(), to.data(), kCount * sizeof(double), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], 7 + static_cast<double>(i));
  self.close(kLimits);
}

TEST(NcclGpu, AnAbortEndsACommunicatorWhosePeerNeverComes) {
  PENSTOCK_NEEDS_GPU();
  use_device(0);
  const Communicator alone({CommunicatorKind::edge, {0, 1}}, 0, new_unique_id(),
                           {.stopped = {}, .deadline = std::chrono::milliseconds(500)});
  EXPECT_THROW(alone.wait_until_open(), std::runtime_error);
}

}  // namespace
}  // namespace penstock
