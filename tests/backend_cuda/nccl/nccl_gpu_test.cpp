// What one GPU can show of NCCL, and, where there are two, a whole run.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include "backend/cuda/cuda_error.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/devices.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/occupy_family.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/nccl/communicator.hpp"
#include "backend/nccl/nccl_run.hpp"
#include "tests/backend_cuda/gpu.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

const WaitLimits kLimits{.stopped = {}, .deadline = std::chrono::seconds(30)};

// First, because it forks: this process must not have started CUDA before.
TEST(NcclGpu, ARunOnSeveralGpusHasEverySpan) {
  const auto count = cuda_device_count_by_child();
  if (!count || *count < 2) GTEST_SKIP() << (count ? "one GPU: NCCL takes one a rank" : count.error());
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
  EXPECT_THROW(Communicator({CommunicatorKind::edge, {0, 1}}, 0, new_unique_id(),
                            {.stopped = {}, .deadline = std::chrono::milliseconds(500)}),
               std::runtime_error);
}

}  // namespace
}  // namespace penstock
