// Tests the command line on this machine. `penstock` starts `penstock-cuda`, which reports why it cannot run.

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/backend_cuda/gpu.hpp"

namespace penstock {
namespace {

struct Answer {
  std::string text;  // the text of stdout and stderr
  int status = -1;
};

Answer answer_of(const std::string& command) {
  Answer answer;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> piece{};
  while (const std::size_t got = fread(piece.data(), 1, piece.size(), pipe))
    answer.text.append(piece.data(), got);
  const int status = pclose(pipe);
  answer.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return answer;
}

/// The expected message. On a machine without NCCL, the executable is built without NCCL, and its message
/// says so.
#ifdef PENSTOCK_HAS_NCCL
constexpr const char* kWhyNotNccl = "no GPU can be used: cudaGetDeviceCount: cudaError";
#else
constexpr const char* kWhyNotNccl = "NCCL was not found when penstock-cuda was built";
#endif

constexpr const char* kShape = " run --schedule 1f1b --pp-size 2 --num-microbatches 4 --backend ";

TEST(GpuExecutable, WithoutAGpuEachBackendEndsWith77AndTheReason) {
  PENSTOCK_NEEDS_NO_GPU();
  for (const std::string executable : {PENSTOCK_EXECUTABLE, PENSTOCK_CUDA_EXECUTABLE}) {
    for (const std::string backend : {"cuda-local", "nccl"}) {
      const Answer answer = answer_of(executable + kShape + backend);
      EXPECT_EQ(answer.status, 77) << executable << " " << backend << ": " << answer.text;
      const std::string why =
          backend == "nccl" ? kWhyNotNccl : "no GPU can be used: cudaGetDeviceCount: cudaError";
      EXPECT_THAT(answer.text, testing::StartsWith("penstock: " + backend + ": " + why));
    }
  }
}

TEST(GpuExecutable, WithoutTwoGpusTheSelfTestSaysSo) {
  PENSTOCK_NEEDS_NO_GPU();
  const Answer answer = answer_of(PENSTOCK_EXECUTABLE + std::string(" selftest"));
  EXPECT_EQ(answer.status, 77);
  EXPECT_THAT(answer.text, testing::StartsWith("penstock: selftest: no GPU can be used: "));
}

TEST(GpuExecutable, ALaunchedRankSaysItToo) {
  PENSTOCK_NEEDS_NO_GPU();
  const Answer answer =
      answer_of(std::string("RANK=1 WORLD_SIZE=2 MASTER_PORT=4711 ") + PENSTOCK_EXECUTABLE + kShape + "nccl");
  EXPECT_EQ(answer.status, 77);
  EXPECT_THAT(answer.text, testing::StartsWith(std::string("penstock: nccl: ") + kWhyNotNccl));
}

TEST(GpuExecutable, ItHasEverySubcommandOfTheCore) {
  const std::string simulate = " simulate --schedule 1f1b --pp-size 2 --num-microbatches 4";
  const Answer core = answer_of(PENSTOCK_EXECUTABLE + simulate);
  const Answer cuda = answer_of(PENSTOCK_CUDA_EXECUTABLE + simulate);
  EXPECT_EQ(cuda.status, 0) << cuda.text;
  EXPECT_EQ(cuda.text, core.text);
}

TEST(GpuExecutable, WithAGpuARunIsMeasured) {
  PENSTOCK_NEEDS_GPU();
  const Answer answer = answer_of(std::string(PENSTOCK_EXECUTABLE) + kShape + "cuda-local --time-scale 3");
  EXPECT_EQ(answer.status, 0) << answer.text;
  EXPECT_THAT(answer.text, testing::HasSubstr("occupy kernels"));
}

}  // namespace
}  // namespace penstock
