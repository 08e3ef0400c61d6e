#include "backend/nccl/nccl_self_test.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/cuda/devices.hpp"
#include "backend/cuda/local_run.hpp"
#include "backend/cuda/occupy_family.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/in_process_transport.hpp"
#include "backend/measured_run.hpp"
#include "backend/nccl/nccl_run.hpp"
#include "backend/occupy_module.hpp"
#include "report/units.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/action.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/generators.hpp"
#include "schedules/lower.hpp"
#include "schedules/program.hpp"
#include "schedules/rendezvous_walk.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr Ns kForward = 2'000'000;
constexpr Bytes kMessage = Bytes{1} << 20;

CostTable costs_of(const Program& program) {
  const StageCost stage{.forward_ns = kForward,
                        .backward_ns = 2 * kForward,
                        .backward_input_ns = kForward,
                        .backward_weight_ns = kForward,
                        .recompute_ns = kForward};
  CostTable costs{.stages = {program.placement.stages.size(), stage}, .edges = {}};
  for (const StageEdge& edge : program.edges) {
    costs.edges.push_back({.edge = edge, .activation = kMessage, .gradient = kMessage});
  }
  return costs;
}

tl::expected<Experiment, std::string> small_experiment(std::int32_t ranks) {
  const auto program =
      generate("1f1b", {.stages = ranks, .microbatches = 2 * ranks}).and_then([](const Program& computed) {
        return lower(computed);
      });
  if (!program) return tl::unexpected(program.error());
  const auto cluster = uniform_cluster(
      {.devices = ranks, .bytes_per_second = kUnlimitedBandwidth, .latency_ns = 0, .memory_bytes = {}});
  if (!cluster) return tl::unexpected(cluster.error());
  return Experiment{.name = "selftest",
                    .program = *program,
                    .costs = costs_of(*program),
                    .cluster = *cluster,
                    .channels = {},
                    .notes = {}};
}

/// Of the same program on links that take no time.
Ns ideal_ns(const Experiment& experiment) {
  const FlatProgram flat = flatten(experiment.program, experiment.costs, {.channels = experiment.channels});
  WalkDurations durations;
  for (std::int32_t p = 0; p < flat.position_count(); ++p) {
    const auto at = static_cast<std::size_t>(p);
    const bool computes = flat.ops[at] == FlatOp::compute;
    const auto stage = static_cast<std::size_t>(flat.actions[at].stage);
    durations.compute.push_back(computes ? duration_ns(experiment.costs.stages[stage], flat.actions[at].kind)
                                         : 0);
  }
  const Walk walked = walk(flat, durations, experiment.channels);
  return *std::ranges::max_element(walked.end);
}

}  // namespace

tl::expected<std::string, RunError> nccl_self_test() {
  const auto missing = [](std::string why) {
    return tl::unexpected(RunError{.message = std::move(why), .fault = RunFault::unavailable});
  };
  const auto devices = cuda_device_count_by_child();
  if (!devices) return missing(devices.error());
  if (*devices < 2) return missing("it needs two GPUs or more, this machine has one");
  const auto experiment = small_experiment(*devices);
  if (!experiment) return tl::unexpected(RunError{.message = experiment.error()});
  const auto result = run_on_nccl(
      *experiment, [](const FlatProgram&) { return LinkPace{}; }, {.warmup = 2, .repeats = 5},
      [&](const std::vector<std::optional<CudaPlace>>& places) -> tl::expected<CudaModules, std::string> {
        return CudaModules{.family = std::make_unique<CudaOccupyFamily>(*experiment, Jitter{}, 1, places)};
      },
      std::nullopt);
  if (!result) return tl::unexpected(result.error());
  return fmt::format("NCCL: 1f1b on {} took {}, {} without links\n", format_count(*devices, "rank"),
                     format_duration((*result)->makespan_ns), format_duration(ideal_ns(*experiment)));
}

}  // namespace penstock
