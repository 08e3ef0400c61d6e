// Calls the product's run_on_...() functions on the stand-in. The code here is as short as possible, because
// these functions are tested. All runs except the last are warm-ups. Emulated links take no time, because the
// stand-in's copies already take time.

#include "tests/backend/standin/gpu_runs.hpp"
#include "schedules/check/user_error.hpp"
#include "tests/backend/execution.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "backend/cuda/stream_modules.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/nccl_run.hpp"
#include "report/result/result.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/cost_table.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

GpuRun gpu_run(const tl::expected<std::optional<Result>, UserError>& measured) {
  if (!measured) return {.error = measured.error().message, .timeline = {}};
  return {.error = "", .timeline = (*measured)->timeline, .notes = (*measured)->notes};
}

}  // namespace

GpuRun run_over_nccl(const Experiment& experiment, const MakeCudaModules& make, std::int32_t runs,
                     RunOptions options) {
  options.warmup = runs - 1;
  options.repeats = 1;
  return gpu_run(run_on_nccl(experiment, free_links, options, make, std::nullopt));
}

GpuRun run_over_copies(const Experiment& experiment, const MakeCudaModules& make, std::int32_t runs,
                       std::chrono::nanoseconds deadline) {
  return gpu_run(run_on_cuda_local(experiment, free_links,
                                   {.warmup = runs - 1, .repeats = 1, .deadline = deadline}, make));
}

MakeCudaModules occupying(const Experiment& experiment) {
  return [&experiment](const std::vector<std::optional<CudaPlace>>& places) {
    return CudaModules{.family = std::make_unique<CudaOccupyFamily>(experiment, Jitter{}, 1, places)};
  };
}

Experiment gpu_experiment(const std::string& schedule, std::int32_t stages, std::int32_t microbatches,
                          Bytes message_bytes) {
  Experiment experiment = uniform_experiment(schedule, {.stages = stages, .microbatches = microbatches},
                                             {.forward_ns = 5'000'000, .backward_ns = 10'000'000});
  for (EdgeCost& edge : experiment.costs.edges) {
    edge = {.activation = message_bytes, .gradient = message_bytes};
  }
  return experiment;
}

Experiment small_experiment() {
  Experiment made = uniform_experiment("1f1b", {.stages = 2, .microbatches = 2},
                                       {.forward_ns = 1'000'000, .backward_ns = 2'000'000});
  for (StageCost& stage : made.costs.stages) stage.gradients = stage.weights = 64;
  for (EdgeCost& edge : made.costs.edges) edge = {.activation = 64, .gradient = 64};
  return made;
}

}  // namespace penstock
