// Tests the backend cuda-local: its errors without a GPU, and its measurements with one.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/local_run.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/stream_modules.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/transport.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/channel.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/backend/execution.hpp"
#include "tests/backend_cuda/gpu.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

LinkPace free_links(const FlatProgram&) { return {}; }

Experiment small_experiment(const std::string& schedule = "1f1b", std::int32_t stages = 2) {
  return uniform_experiment(schedule, {.stages = stages, .microbatches = 2 * stages},
                            {.forward_ns = 5'000'000, .backward_ns = 10'000'000});
}

MakeCudaModules occupying(const Experiment& experiment, double time_scale = 1) {
  return [&experiment, time_scale](const std::vector<std::optional<CudaPlace>>& places) {
    return CudaModules{.family =
                           std::make_unique<CudaOccupyFamily>(experiment, Jitter{}, time_scale, places)};
  };
}

tl::expected<std::optional<Result>, UserError> run(const Experiment& experiment,
                                                   const PaceOfLinks& pace = free_links,
                                                   const RunOptions& options = {}) {
  return run_on_cuda_local(experiment, pace, options, occupying(experiment));
}

// --- without a GPU ----------------------------------------------------------------------------------------

TEST(CudaLocal, WithoutAGpuItSaysThatAPartIsMissing) {
  PENSTOCK_NEEDS_NO_GPU();
  const auto result = run(small_experiment());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::not_available);
  EXPECT_THAT(result.error().message, testing::StartsWith("cuda-local: no GPU can be used: "));
}

TEST(CudaLocal, WhatCopiesOnStreamsCannotDoIsRefused) {
  const auto refusal_of = [](const ChannelOptions& channels) {
    Experiment experiment = small_experiment();
    experiment.channels = channels;
    const auto result = run(experiment);
    return !result && result.error().kind == ErrorKind::check_failed ? result.error().message : "accepted";
  };
  EXPECT_EQ(refusal_of({.blocking = Blocking::each}),
            "the cuda-streams transport has no blocking channels; leave that out, or take cpu-thread");
  EXPECT_EQ(
      refusal_of({.capacity = 2}),
      "the cuda-streams transport has no bounded channels (capacity); leave that out, or take cpu-thread");
  EXPECT_EQ(refusal_of({.eager_bytes = 64}),
            "the cuda-streams transport has no eager messages; leave that out, or take cpu-thread");
}

TEST(CudaLocal, TheTransportsDeclareDirectedChannelsWithoutBounds) {
  for (const char* name : {"cuda-streams", "nccl"}) {
    ASSERT_NE(find_transport(name), nullptr) << name;
    EXPECT_EQ(find_transport(name)->channels, ChannelOptions{.model = ChannelModel::directed}) << name;
  }
}

TEST(CudaLocal, ProcessesOnOneGpuShareItsHardwareQueues) {
  // The test begins before CUDA reads the variable or long after, so other tests do not see its values.
  constexpr const char* kVariable = "CUDA_DEVICE_MAX_CONNECTIONS";
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs
  const char* found = std::getenv(kVariable);
  const std::string before = found == nullptr ? "" : found;
  const auto asked = [&](std::int32_t processes) {
    ask_for_hardware_queues(processes);
    return std::string(std::getenv(kVariable));
  };
  for (const auto& [processes, queues] : {std::pair{1, "32"}, {2, "16"}, {4, "8"}, {64, "1"}}) {
    unsetenv(kVariable);
    EXPECT_EQ(asked(processes), queues);
  }
  setenv(kVariable, "5", 1);
  EXPECT_EQ(asked(4), "5") << "the user's value stays";
  if (before.empty()) {
    unsetenv(kVariable);
  } else {
    setenv(kVariable, before.c_str(), 1);
  }
  // NOLINTEND(concurrency-mt-unsafe)
}

TEST(CudaOccupyFamily, RanksWithoutAPlaceGetNoModules) {
  const Experiment experiment = small_experiment("1f1b", 2);
  const CudaPlace place{.stream = {}, .sms = 64, .whole = false};
  const CudaOccupyFamily family(experiment, {}, 1, {std::nullopt, place});
  const StageModules modules = family.modules(1, SteadyClock());
  EXPECT_EQ(modules[0][0], nullptr);
  EXPECT_NE(modules[1][1], nullptr);
  EXPECT_EQ(modules[1][0], nullptr);
}

// --- with one ---------------------------------------------------------------------------------------------

TEST(CudaLocal, PartitionsAreApartAndAsLargeAsGranted) {
  PENSTOCK_NEEDS_GPU();
  for (const std::int32_t count : {2, 4, 8}) {
    const auto workers = CudaWorkers::create(count);
    ASSERT_TRUE(workers) << workers.error();
    std::set<std::uint32_t> all;
    for (std::int32_t worker = 0; worker < count; ++worker) {
      if (workers->place(worker).whole) continue;
      const auto sms = sms_of_stream(workers->place(worker).stream);
      EXPECT_EQ(sms.size(), static_cast<std::size_t>(workers->place(worker).sms));
      for (const std::uint32_t sm : sms) EXPECT_TRUE(all.insert(sm).second) << "SM " << sm << " twice";
    }
  }
}

TEST(CudaLocal, AnOccupyKernelHoldsItsPartitionForItsTime) {
  PENSTOCK_NEEDS_GPU();
  const auto workers = CudaWorkers::create(2);
  ASSERT_TRUE(workers) << workers.error();
  const PartitionClock clock(1, workers->place(0));
  const auto hold = [&](Ns duration) {
    clock.hold_for(duration, {});
    wait_for(workers->place(0).stream, {});
  };
  hold(1'000'000);
  for (const std::int64_t duration : {1'000'000, 5'000'000, 20'000'000}) {
    const auto begin = clock.now_ns();
    hold(duration);
    const auto held = clock.now_ns() - begin;
    EXPECT_GE(held, duration);
    EXPECT_LE(held, duration + 300'000);
  }
}

TEST(CudaLocal, EverySpanIsThereAndThePredictionIsNear) {
  PENSTOCK_NEEDS_GPU();
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    const Experiment experiment = small_experiment(schedule, 4);
    const auto result = run(experiment, free_links, {.warmup = 1, .repeats = 3});
    ASSERT_TRUE(result) << result.error().message;
    const auto predicted = simulate(experiment, {});
    ASSERT_TRUE(predicted);
    EXPECT_EQ((*result)->program, predicted->program);
    EXPECT_EQ((*result)->timeline.spans.size(), predicted->timeline.spans.size());
    EXPECT_NEAR(static_cast<double>((*result)->makespan_ns) / static_cast<double>(predicted->makespan_ns), 1,
                0.05)
        << schedule;
  }
}

TEST(CudaLocal, EmulatedLinksTakeTheirTime) {
  PENSTOCK_NEEDS_GPU();
  const Experiment experiment = small_experiment("1f1b", 2);
  const PaceOfLinks slow = [](const FlatProgram& flat) {
    return LinkPace{.hold = std::vector<Ns>(flat.messages.size(), 3'000'000),
                    .latency = std::vector<Ns>(flat.messages.size(), 2'000'000)};
  };
  const auto result = run(experiment, slow, {.warmup = 1, .repeats = 1});
  ASSERT_TRUE(result) << result.error().message;
  const auto fast = run(experiment, free_links, {.warmup = 1, .repeats = 1});
  ASSERT_TRUE(fast) << fast.error().message;
  EXPECT_GE((*result)->makespan_ns, (*fast)->makespan_ns + 2 * 4'000'000)
      << "the first F and the last B wait for it";
}

TEST(CudaLocal, MoreWorkersThanFitAreRefused) {
  PENSTOCK_NEEDS_GPU();
  const auto result = run(small_experiment("gpipe", 64));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::not_available);
  EXPECT_THAT(result.error().message, testing::HasSubstr("64 workers do not fit"));
}

}  // namespace
}  // namespace penstock
