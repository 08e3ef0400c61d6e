// Tests different machines: one device that is divided into partitions, a device for each rank, too few SMs,
// an old driver.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/local_run.hpp"
#include "backend/cuda/stream_modules.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "tests/backend/standin/gpu_runs.hpp"
#include "tests/backend/standin/traced_modules.hpp"
#include "tests/backend/standin/verdict.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using standin::controlled;
using standin::Setting;
using standin::Verdict;

/// Returns the verdict of a run whose answer is the makespan in ns, or the error.
Verdict over_copies(const Experiment& experiment, const Setting& setting, const PaceOfLinks& pace = {}) {
  return controlled(setting, [&] {
    const auto result = run_on_cuda_local(
        experiment, pace ? pace : [](const FlatProgram&) { return LinkPace{}; }, {.warmup = 0, .repeats = 1},
        occupying(experiment));
    return result ? fmt::format("{}", (*result)->timeline.makespan_ns) : result.error().message;
  });
}

std::string answer_of(const Experiment& experiment, const Setting& setting) {
  const Verdict verdict = over_copies(experiment, setting);
  EXPECT_TRUE(verdict.defects.empty()) << to_text(verdict);
  return verdict.answer;
}

TEST(StandInDevices, PartitionsThatCannotBeUsedAreRefused) {
  const Experiment experiment = gpu_experiment("1f1b", 2, 2);
  EXPECT_THAT(
      answer_of(experiment, {.mutant = "partitions share SMs"}),
      testing::ContainsRegex("the partitions of stand-in share SMs: partitions 0 and 1 both ran on SM"));
  EXPECT_THAT(answer_of(experiment, {.mutant = "a partition is not granted"}),
              testing::HasSubstr("asked for 2 partitions of 64 SMs, the driver granted 1"));
  EXPECT_THAT(answer_of(experiment, {.mutant = "the driver is too old"}), testing::HasSubstr("cuda-local: "));
  EXPECT_THAT(answer_of(experiment, {.capability = 8}),
              testing::HasSubstr("device 0 (stand-in) has compute capability 8.0"));
  EXPECT_THAT(answer_of(gpu_experiment("gpipe", 64, 2), {}), testing::HasSubstr("64 workers do not fit"));
}

LinkPace slow(const FlatProgram& flat) {
  return {.hold = std::vector<Ns>(flat.messages.size(), 3'000'000),
          .latency = std::vector<Ns>(flat.messages.size(), 2'000'000)};
}

// The first F and the last B wait for the emulated link.
TEST(StandInDevices, EmulatedLinksTakeTheirTimeOrAreRefused) {
  const Experiment experiment = gpu_experiment("1f1b", 2, 4);
  const double fast = std::stod(over_copies(experiment, {}).answer);
  const double paced = std::stod(over_copies(experiment, {}, slow).answer);
  EXPECT_GE(paced, fast + 2 * 4'900'000);
  EXPECT_THAT(
      over_copies(experiment, {.sms = 128}, slow).answer,
      testing::HasSubstr("the cluster's links cannot be emulated: the workers' partitions leave no SMs"));
}

TEST(StandInDevices, JitterIsSaidInTheNotes) {
  const Experiment experiment = gpu_experiment("1f1b", 2, 2);
  const CudaOccupyFamily family(experiment, {.fraction = 0.1, .seed = 4}, 1, {});
  EXPECT_THAT(family.description(), testing::HasSubstr("which varies by 10.00 % either way (seed 4)"));
}

/// Runs a program with a device for each rank. Its messages have contents, which are checked.
Verdict between_devices(const Shape& shape, Setting setting) {
  const Experiment experiment = traced_experiment("1f1b", shape, 1'000'000);
  setting.devices = experiment.program.rank_count();
  return controlled(setting, [&] {
    const GpuRun done = run_over_copies(experiment, traced(experiment), 2);
    return done.error.empty() ? std::string("good") : done.error;
  });
}

// Each rank has a device. Devices are connected as peers, and the contributions of replicas are copied
// between devices.
TEST(StandInDevices, CopiesGoBetweenDevicesAsWell) {
  for (const Shape& shape :
       {Shape{.stages = 3, .microbatches = 4}, Shape{.stages = 2, .microbatches = 4, .data_parallel = 2},
        Shape{.stages = 2, .microbatches = 4, .data_parallel = 2, .sharding = 3}}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const Verdict verdict = between_devices(shape, {.seed = seed});
      EXPECT_EQ(verdict.answer, "good") << to_text(verdict);
      EXPECT_TRUE(verdict.defects.empty()) << to_text(verdict);
      EXPECT_EQ(verdict.timed_allocations, 0U) << to_text(verdict);
    }
  }
}

// A kernel cannot read the memory of a device that is no peer. Copies then go through the host.
TEST(StandInDevices, DevicesThatAreNoPeersExchangeByCopiesAlone) {
  const Shape replicas{.stages = 2, .microbatches = 4, .data_parallel = 2};
  const Verdict good = between_devices(replicas, {.peers_reach = false});
  EXPECT_EQ(good.answer, "good") << to_text(good);
  EXPECT_TRUE(good.defects.empty()) << to_text(good);
  const Verdict in_place =
      between_devices(replicas, {.peers_reach = false, .mutant = "contributions are read in place"});
  EXPECT_THAT(to_text(in_place), testing::HasSubstr("without access to it as a peer"));
}

TEST(StandInDevices, PeersThatAreNotConnectedAreFound) {
  const Verdict verdict =
      between_devices({.stages = 2, .microbatches = 4}, {.mutant = "peers are never connected"});
  EXPECT_THAT(to_text(verdict),
              testing::ContainsRegex("cudaMemcpyAsync of device . uses memory of device . without access"));
}

std::string sm_of_a_link_and_a_worker(const std::string& mutant) {
  return controlled({.mutant = mutant},
                    [] {
                      const auto workers = CudaWorkers::create(4);
                      if (!workers) return workers.error();
                      const CudaStream link = workers->link_stream(0);
                      std::vector<std::vector<std::uint32_t>> sms = {sms_of_stream(link.view())};
                      for (std::int32_t worker = 0; worker < 4; ++worker)
                        sms.push_back(sms_of_stream(workers->place(worker).stream));
                      return shared_sm(sms);
                    })
      .answer;
}

TEST(StandInDevices, LinksRunOnSmsOfTheirOwn) {
  EXPECT_EQ(sm_of_a_link_and_a_worker(""), "");
  EXPECT_THAT(sm_of_a_link_and_a_worker("links share SMs"), testing::HasSubstr("both ran on SM"));
}

// Tests that each call of a bound module happens while its worker's stream is the current one.

/// The worker whose stream is current in the library, or kNobody.
constexpr std::int32_t kNobody = -1;
std::int32_t current = kNobody;

/// A module that records the worker whose stream is current at each call.
class Witness : public StageModule {
 public:
  explicit Witness(std::vector<std::int32_t>& seen) : seen_(seen) {}
  std::vector<Payload> forward(const ComputeCall&, std::vector<Payload> inputs) override {
    note();
    return inputs;
  }
  std::vector<Payload> backward(const ComputeCall&, std::vector<Payload> gradients) override {
    note();
    return gradients;
  }
  std::vector<Payload> backward_input(const ComputeCall&, std::vector<Payload> gradients) override {
    note();
    return gradients;
  }
  void backward_weight(const ComputeCall&) override { note(); }
  void recompute(const ComputeCall&) override { note(); }
  void step(const ComputeCall&) override { note(); }
  void drop_version(std::int32_t) override { note(); }
  Payload contribution(ActionKind) override {
    note();
    return nullptr;
  }
  void accept(ActionKind, std::span<const SharedPayload>) override { note(); }
  void reshard() override { note(); }

 private:
  void note() { seen_.push_back(current); }
  std::vector<std::int32_t>& seen_;
};

void call_all(StageModule& module) {
  const Action action{};
  const ComputeCall call{
      .action = action, .group = std::span(&action, 1), .first_of_group = true, .stop = {}};
  module.forward(call, {});
  module.backward(call, {});
  module.backward_input(call, {});
  module.backward_weight(call);
  module.recompute(call);
  module.step(call);
  module.drop_version(0);
  module.contribution(ActionKind::reduce_grad);
  module.accept(ActionKind::reduce_grad, {});
  module.reshard();
}

TEST(StandInStreamBoundModule, EachCallIsInsideTheStreamOfItsWorker) {
  const auto verdict = standin::controlled({.devices = 2}, [] {
    const std::vector<CudaWorkers> workers = [] {
      std::vector<CudaWorkers> made;
      for (const std::int32_t device : {0, 1}) made.push_back(CudaWorkers::whole_device(device));
      return made;
    }();
    std::vector<std::int32_t> seen;
    StageModules modules(2);
    modules[0].resize(1);
    modules[1].push_back(std::make_unique<Witness>(seen));
    modules =
        bound_to_streams(std::move(modules), {std::nullopt, workers[1].place(0)}, [](const CudaPlace& place) {
          current = place.stream.device;
          return std::shared_ptr<void>(&current, [](void*) { current = kNobody; });
        });
    const bool leaves_out = modules[0][0] == nullptr;
    call_all(*modules[1][0]);
    const bool is_inside = seen == std::vector<std::int32_t>(10, 1);
    return std::string(leaves_out && is_inside && current == kNobody ? "good" : "bad");
  });
  EXPECT_EQ(verdict.answer, "good") << to_text(verdict);
}

}  // namespace
}  // namespace penstock
