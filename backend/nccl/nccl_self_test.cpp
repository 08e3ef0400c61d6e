// Tests NCCL on this machine. On several GPUs, it runs 1F1B with kernels of 2 ms. The program's time without
// communication is known, so the additional time is the cost of NCCL. On one GPU, it makes the calls that a
// communicator of a single rank supports.

#include "backend/nccl/nccl_run.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <driver_types.h>
#include <fmt/format.h>
#include <nccl.h>
#include <tl/expected.hpp>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/local_run.hpp"
#include "backend/cuda/self_test.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/stream_modules.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/session.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr Ns kForward = 2'000'000;
constexpr Bytes kMessage = Bytes{1} << 20;

/// Returns the number of bytes that all ranks together must send in one run, according to the program's
/// lists.
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

/// Returns the makespan that the program would have if its links took no time.
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

// --- one GPU ----------------------------------------------------------------------------------------------

constexpr std::size_t kNumbers = std::size_t{2} << 20;  // 16 MiB of doubles
const WaitLimits kAloneLimits{.stopped = {}, .deadline = std::chrono::seconds(20)};

/// A communicator of one rank, with a stream and two buffers. The first buffer holds the numbers 1, 2, 3 and
/// so on.
struct Alone {
  explicit Alone(std::int32_t device)
      : stream(device, CudaStream::Priority::high),
        sent(device, kNumbers * sizeof(double)),
        received(device, kNumbers * sizeof(double)),
        communicator({.kind = CommunicatorKind::group, .ranks = {0}}, 0, new_unique_id(), kAloneLimits) {
    communicator.wait_until_open();
    launch_count_up(static_cast<double*>(sent.data()), kNumbers, 1, stream.view().stream);
    wait_for(stream.view(), kAloneLimits);
  }
  CudaStream stream;
  DeviceBuffer sent;
  DeviceBuffer received;
  Communicator communicator;
};

/// Measures the time of the NCCL operations that `give` enqueues on the stream. Then compares the received
/// data with the sent data.
DeviceCheck transferred(const Alone& alone, const std::function<void(const Alone&)>& give) {
  const PinnedMoments moments(2);
  const StreamView& stream = alone.stream.view();
  give(alone);  // the first call opens connections, so it is not measured
  wait_for(stream, kAloneLimits);
  check_cuda(cudaMemsetAsync(alone.received.data(), 0, alone.received.bytes(), stream.stream),
             "cudaMemsetAsync");
  launch_stamp(moments.slot(0), stream.stream);
  give(alone);
  launch_stamp(moments.slot(1), stream.stream);
  wait_for(stream, kAloneLimits);
  alone.communicator.check();
  std::vector<double> numbers(kNumbers);
  check_cuda(
      cudaMemcpy(numbers.data(), alone.received.data(), alone.received.bytes(), cudaMemcpyDeviceToHost),
      "cudaMemcpy");
  for (std::size_t i = 0; i < kNumbers; ++i) {
    if (numbers[i] == static_cast<double>(i) + 1) continue;
    return {.name = {},
            .found = fmt::format("number {} came as {}, was sent as {}", i, numbers[i], i + 1),
            .verdict = DeviceCheck::Verdict::wrong};
  }
  return {.name = {},
          .found = fmt::format("16 MiB in {}",
                               format_duration(static_cast<Ns>(moments.moment(1) - moments.moment(0))))};
}

void send_to_itself(const Alone& alone) {
  const ncclComm_t handle = alone.communicator.handle();
  const cudaStream_t stream = alone.stream.view().stream;
  static_cast<void>(ncclGroupStart());
  static_cast<void>(ncclSend(alone.sent.data(), kNumbers, ncclDouble, 0, handle, stream));
  static_cast<void>(ncclRecv(alone.received.data(), kNumbers, ncclDouble, 0, handle, stream));
  // If a call in the group has failed, ncclGroupEnd() also returns its error. So the results of the calls are
  // not needed.
  alone.communicator.complete(ncclGroupEnd(), "ncclGroupEnd", kAloneLimits);
}

void sum_alone(const Alone& alone) {
  alone.communicator.complete(ncclAllReduce(alone.sent.data(), alone.received.data(), kNumbers, ncclDouble,
                                            ncclSum, alone.communicator.handle(), alone.stream.view().stream),
                              "ncclAllReduce", kAloneLimits);
}

/// Tests that an abort of a communicator returns although one of its operations still waits for its stream.
DeviceCheck aborted(std::int32_t device) {
  constexpr Ns kHold = 200'000'000;
  Alone alone(device);
  launch_hold(static_cast<std::uint64_t>(kHold), alone.stream.view().stream);
  sum_alone(alone);
  const auto begin = std::chrono::steady_clock::now();
  alone.communicator.abort();
  const Ns taken = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  wait_for(alone.stream.view(), kAloneLimits);
  return {.name = {},
          .found = fmt::format("returned after {}, the operation waited behind a hold of {}",
                               format_duration(taken), format_duration(kHold))};
}

}  // namespace

std::vector<DeviceCheck> check_nccl_alone(std::int32_t device) {
  use_device(device);
  int version = 0;
  static_cast<void>(ncclGetVersion(&version));
  const std::string name = fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  return {checked(name + " message to itself", [&] { return transferred(Alone(device), send_to_itself); }),
          checked(name + " sum of one rank", [&] { return transferred(Alone(device), sum_alone); }),
          checked(name + " abort", [&] { return aborted(device); })};
}

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

tl::expected<std::string, UserError> nccl_self_test() {
  const auto missing = [](std::string why) { return user_error(ErrorKind::not_available, std::move(why)); };
  const auto devices = cuda_device_count_by_child();
  if (!devices) return missing(devices.error());
  if (devices->devices < 2) return missing("it needs two GPUs or more, this machine has one");
  const auto experiment = nccl_self_test_experiment(devices->devices);
  if (!experiment) return user_error(ErrorKind::run_failed, experiment.error());
  const auto result = run_on_nccl(
      *experiment, [](const FlatProgram&) { return LinkPace{}; }, {.warmup = 2, .repeats = 5},
      [&](const std::vector<std::optional<CudaPlace>>& places) -> tl::expected<CudaModules, std::string> {
        return CudaModules{.family = std::make_unique<CudaOccupyFamily>(*experiment, Jitter{}, 1, places)};
      },
      std::nullopt);
  if (!result) return tl::unexpected(result.error());
  const Bytes asked = asked_bytes(experiment->program);
  if (sent_bytes(**result) != asked) {
    return user_error(ErrorKind::run_failed, fmt::format("the ranks sent {} bytes and were asked to send {}",
                                                         sent_bytes(**result), asked));
  }
  return fmt::format("NCCL: 1f1b on {} took {}, {} without links\n", format_count(devices->devices, "rank"),
                     format_duration((*result)->makespan_ns), format_duration(ideal_ns(*experiment)));
}

}  // namespace penstock
