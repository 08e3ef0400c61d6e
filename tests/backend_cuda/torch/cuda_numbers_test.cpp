// Tests that cuda-local computes the same losses and gradients as the CPU, in double precision.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "backend/cuda/local_transport.hpp"
#include "backend/cuda/stream_modules.hpp"
#include "backend/cuda/stream_queue.hpp"
#include "backend/cuda/torch/cuda_network.hpp"
#include "backend/cuda/torch/device_tensor_codec.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/transport.hpp"
#include "backend/torch/networks.hpp"
#include "backend/torch/torch_stage.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/execution.hpp"
#include "tests/backend_cuda/gpu.hpp"
#include "tests/backend_torch/reference_training.hpp"
#include "tests/backend_torch/torch_run.hpp"

namespace penstock::nn {
namespace {

TransformerShape shape_for(const Program& program) {
  return {.tokens = 7, .positions = 4, .width = 8, .heads = 2, .blocks = program.stage_count()};
}

Training training_of(const Program& program, bool on_gpu) {
  const TransformerShape shape = shape_for(program);
  const auto placed = [on_gpu](const at::Tensor& tensor) { return on_gpu ? tensor.cuda() : tensor; };
  return {.inputs = [=](std::int32_t microbatch) { return placed(tokens_of(shape, microbatch)); },
          .targets = [=](std::int32_t microbatch) { return placed(targets_of(shape, microbatch)); },
          .optimizer = {.learning_rate = 0.1},
          .loss_scale = 0.25,
          .seed = 1,
          .observer = {}};
}

void take_losses(const StageModules& modules, TrainingRecord& record) {
  for (const auto& of_rank : modules) {
    for (const auto& module : of_rank) {
      if (module == nullptr) continue;
      const auto& bound = dynamic_cast<const StreamBoundModule&>(*module);
      record.losses.merge(dynamic_cast<const TorchStage&>(bound.module()).losses());
    }
  }
}

TorchRun run_on_gpu(const Program& program) {
  TorchRun run;
  std::mutex mutex;
  auto training = std::make_shared<Training>(training_of(program, true));
  training->observer = [&](const StepReport& step) {
    Tensors gradient;
    for (const at::Tensor& part : step.gradient) gradient.push_back(part.cpu());
    const std::scoped_lock lock(mutex);
    run.record.gradients[{step.rank, step.stage, step.version}] = std::move(gradient);
  };
  const auto workers = CudaWorkers::create(program.rank_count());
  if (!workers) return {.record = {}, .error = workers.error()};
  std::vector<std::optional<CudaPlace>> places;
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) places.emplace_back(workers->place(rank));
  const FlatProgram flat =
      flatten(program, free_costs(program), {.channels = local_channels(), .iterations = program.iterations});
  const SteadyClock clock;
  CudaLinks links(flat, *workers, free_costs(program));
  const DeviceTensorCodec codec;
  const auto definitions = even_stages(shape_for(program), program.stage_count(),
                                       {.seed = 11, .device = at::Device(at::kCUDA, 0)});
  StageModules modules =
      bound_to_streams(torch_modules(program, definitions, training), places, enter_stream);
  const LinkPace free_links;
  CudaLocalTransport transport({.flat = flat,
                                .pace = free_links,
                                .clock = clock,
                                .time_scale = 1,
                                .workers = *workers,
                                .links = links,
                                .codec = &codec});
  const auto queues = stream_queues(flat, *workers, clock, 1, no_launch_counts(flat.rank_count));
  std::vector<ComputeQueue*> of_ranks;
  for (const auto& queue : queues) of_ranks.push_back(queue.get());
  const auto timeline = execute({.program = program,
                                 .flat = flat,
                                 .modules = modules,
                                 .transport = transport,
                                 .clock = clock,
                                 .deadline = std::chrono::seconds(60),
                                 .queues = of_ranks});
  if (!timeline) run.error = timeline.error().message;
  if (timeline) take_losses(modules, run.record);
  return run;
}

void expect_cpu_numbers(const Program& program) {
  const TorchRun gpu = run_on_gpu(program);
  ASSERT_EQ(gpu.error, "");
  const TorchRun cpu =
      run_on_threads(program, even_stages(shape_for(program), program.stage_count(), {.seed = 11}),
                     training_of(program, false));
  ASSERT_EQ(cpu.error, "");
  EXPECT_TRUE(near(gpu.record, cpu.record));
}

TEST(CudaNumbers, LossesAndGradientsAreThoseOfTheCpu) {
  PENSTOCK_NEEDS_GPU();
  for (const char* name :
       {"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe-v", "1f1b-rr"}) {
    for (const std::int32_t ranks : {2, 4}) {
      const auto program = generate(name, {.stages = ranks, .microbatches = 2 * ranks});
      if (!program) continue;
      SCOPED_TRACE(std::string(name) + " on " + std::to_string(ranks) + " ranks");
      expect_cpu_numbers(complete(*program));
    }
  }
}

TEST(CudaNumbers, RanksThatShareAStageReduce) {
  PENSTOCK_NEEDS_GPU();
  const auto program = generate("dualpipe", {.stages = 4, .microbatches = 8});
  ASSERT_TRUE(program) << program.error();
  expect_cpu_numbers(complete(*program));
}

}  // namespace
}  // namespace penstock::nn
