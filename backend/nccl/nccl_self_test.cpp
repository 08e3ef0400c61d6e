// A pipeline that takes a known time: 1F1B of 2 ms kernels. What it takes beyond the walk of the same program
// on free links is what NCCL costs on this machine.

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
#include "backend/executor/link_pace.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/occupy_module.hpp"
#include "backend/nccl/nccl_run.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr Ns kForward = 2'000'000;
constexpr Bytes kMessage = Bytes{1} << 20;

/// What the ranks are to send in one run of the program, counted from its lists alone.
Bytes asked_bytes(const Program& program) {
  Bytes bytes = 0;
  for (const std::vector<Action>& list : program.ranks) {
    bytes +=
        kMessage * std::ranges::count_if(list, [](const Action& action) { return is_send(action.kind); });
  }
  return bytes;
}

Bytes sent_bytes(const Result& result) {
  Bytes bytes = 0;
  for (const RankReport& rank : result.ranks) bytes += rank.sent_bytes;
  return bytes;
}

/// Of the same program on links that take no time.
Ns ideal_ns(const Experiment& experiment) {
  const FlatProgram flat = flatten(experiment.program, experiment.costs, {.channels = experiment.channels});
  WalkDurations durations;
  for (std::int32_t p = 0; p < flat.position_count(); ++p) {
    const auto at = static_cast<std::size_t>(p);
    const bool computes = flat.ops[at] == FlatOp::compute;
    const Action& action = flat.actions[at];
    durations.compute.push_back(computes ? duration_ns(experiment.costs.stage_of(action), action.kind) : 0);
  }
  return last_end(walk(flat, durations, experiment.channels).value());
}

}  // namespace

tl::expected<Experiment, std::string> nccl_self_test_experiment(std::int32_t ranks) {
  const auto program =
      generate("1f1b", {.stages = ranks, .microbatches = 2 * ranks}).and_then([](const Program& computed) {
        return lower(computed);
      });
  if (!program) return tl::unexpected(program.error());
  const auto cluster = uniform_cluster(
      {.devices = ranks, .bytes_per_second = kUnlimitedBandwidth, .latency_ns = 0, .memory_bytes = {}});
  if (!cluster) return tl::unexpected(cluster.error());
  const StageCost stage{.forward_ns = kForward,
                        .backward_ns = 2 * kForward,
                        .backward_input_ns = kForward,
                        .backward_weight_ns = kForward,
                        .recompute_ns = kForward};
  return Experiment{.name = "selftest",
                    .program = *program,
                    .costs = uniform_costs(*program, stage, {.activation = kMessage, .gradient = kMessage}),
                    .cluster = *cluster,
                    .channels = {},
                    .notes = {}};
}

tl::expected<std::string, RunError> nccl_self_test() {
  const auto missing = [](std::string why) {
    return tl::unexpected(RunError{.message = std::move(why), .fault = RunFault::unavailable});
  };
  const auto devices = cuda_device_count_by_child();
  if (!devices) return missing(devices.error());
  if (*devices < 2) return missing("it needs two GPUs or more, this machine has one");
  const auto experiment = nccl_self_test_experiment(*devices);
  if (!experiment) return tl::unexpected(RunError{.message = experiment.error()});
  const auto result = run_on_nccl(
      *experiment, [](const FlatProgram&) { return LinkPace{}; }, {.warmup = 2, .repeats = 5},
      [&](const std::vector<std::optional<CudaPlace>>& places) -> tl::expected<CudaModules, std::string> {
        return CudaModules{.family = std::make_unique<CudaOccupyFamily>(*experiment, Jitter{}, 1, places)};
      },
      std::nullopt);
  if (!result) return tl::unexpected(result.error());
  const Bytes asked = asked_bytes(experiment->program);
  if (sent_bytes(**result) != asked) {
    return tl::unexpected(RunError{.message = fmt::format("the ranks sent {} bytes and were asked to send {}",
                                                          sent_bytes(**result), asked)});
  }
  return fmt::format("NCCL: 1f1b on {} took {}, {} without links\n", format_count(*devices, "rank"),
                     format_duration((*result)->makespan_ns), format_duration(ideal_ns(*experiment)));
}

}  // namespace penstock
