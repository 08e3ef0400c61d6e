// Tests that times are what they claim to be: scaled by --time-scale, read by the right device's timer, and
// measured around the right operations. Each mechanism is also broken on purpose, which must be found.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/local_run.hpp"
#include "backend/cuda/stream_modules.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/network/message_costs.hpp"
#include "tests/backend/standin/gpu_runs.hpp"
#include "tests/backend/standin/traced_modules.hpp"
#include "tests/backend/standin/verdict.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using standin::controlled;
using standin::Verdict;

constexpr double kScale = 2;
constexpr Ns kHold = 3'000'000;
constexpr Ns kLatency = 2'000'000;
constexpr Bytes kMebibyte = Bytes{1} << 20;

/// Returns 1F1B on two ranks, with links on which a message takes 3 ms and arrives 2 ms later.
Experiment with_slow_links() {
  Experiment experiment = gpu_experiment("1f1b", 2, 4, kMebibyte);
  experiment.cluster = uniform_links(2, 1e9 * kMebibyte / kHold, kLatency);
  return experiment;
}

/// Returns the makespan in ns of a run of the experiment with a time scale of 2 and emulated links, or its
/// error.
std::string scaled_run(const Experiment& experiment, const std::string& mutant) {
  return controlled({.mutant = mutant},
                    [&] {
                      const PaceOfLinks pace = [&](const FlatProgram& flat) {
                        WalkDurations durations = walk_durations(experiment, flat);
                        return LinkPace{.hold = durations.hold, .latency = durations.latency};
                      };
                      const MakeCudaModules make = [&](const std::vector<std::optional<CudaPlace>>& places) {
                        return CudaModules{.family = std::make_unique<CudaOccupyFamily>(experiment, Jitter{},
                                                                                        kScale, places)};
                      };
                      const auto result = run_on_cuda_local(
                          experiment, pace, {.warmup = 1, .repeats = 1, .time_scale = kScale}, make);
                      return result ? fmt::format("{}", (*result)->makespan_ns) : result.error().message;
                    })
      .answer;
}

/// Returns how far the scaled run is from the prediction, as a part of the prediction.
double error_of_scaled_run(const Experiment& experiment, const std::string& mutant) {
  const auto predicted = static_cast<double>(makespan_ns(experiment));
  const std::string measured = scaled_run(experiment, mutant);
  if (measured.find_first_not_of("0123456789") != std::string::npos) ADD_FAILURE() << measured;
  return std::abs(std::atof(measured.c_str()) / predicted - 1);
}

TEST(StandInTimes, ActionsLinksAndStampsAreScaled) {
  EXPECT_LT(error_of_scaled_run(with_slow_links(), ""), 0.01);
}

TEST(StandInTimes, TimesThatAreNotScaledAreFound) {
  for (const char* mutant :
       {"holds are not scaled", "links are not scaled", "the latency counts from the copy's start"}) {
    EXPECT_GT(error_of_scaled_run(with_slow_links(), mutant), 0.03) << mutant;
  }
  // Links that wait for a wrong stamp would wait for years, so this mutant has free links.
  const Experiment free = gpu_experiment("1f1b", 2, 4, kMebibyte);
  EXPECT_LT(error_of_scaled_run(free, ""), 0.01);
  EXPECT_GT(error_of_scaled_run(free, "stamps are not scaled"), 0.03);
}

/// Returns what is wrong with the times of the SENDs of a timeline, or "right". A SEND begins when its F has
/// ended, and takes at least 5 us on the stand-in.
std::string wrong_sends(const Timeline& timeline) {
  constexpr Ns kShortest = 5'000;
  constexpr Ns kLate = 200'000;
  for (const Span& send : timeline.spans) {
    if (send.action.kind != ActionKind::send_forward) continue;
    const auto made = std::ranges::find_if(timeline.spans, [&](const Span& other) {
      return other.action.kind == ActionKind::forward && other.rank == send.rank &&
             other.action.microbatch == send.action.microbatch;
    });
    const Ns after = send.start_ns - made->end_ns;
    if (after < -kShortest || after > kLate)
      return fmt::format("{} begins {} ns after its F", to_text(send.action), after);
    if (send.end_ns - send.start_ns < kShortest)
      return fmt::format("{} takes {} ns", to_text(send.action), send.end_ns - send.start_ns);
  }
  return "right";
}

std::string sends_of_run(bool over_nccl, const std::string& mutant) {
  return controlled({.devices = 2, .mutant = mutant},
                    [&] {
                      const Experiment experiment = gpu_experiment("1f1b", 2, 4, kMebibyte);
                      const GpuRun run = over_nccl ? run_over_nccl(experiment, occupying(experiment), 2)
                                                   : run_over_copies(experiment, occupying(experiment), 2);
                      return run.error.empty() ? wrong_sends(run.timeline) : run.error;
                    })
      .answer;
}

TEST(StandInTimes, MessagesHaveTheirSendersTimes) {
  for (const bool over_nccl : {false, true}) {
    EXPECT_EQ(sends_of_run(over_nccl, ""), "right");
    EXPECT_THAT(sends_of_run(over_nccl, "message times are read by the receiver's clock"),
                testing::HasSubstr(" ns after its F"));
  }
}

TEST(StandInTimes, AMessageEndsBehindItsOperation) {
  EXPECT_THAT(sends_of_run(true, "the end stamp stands before the operation"), testing::HasSubstr(" takes "));
}

/// Returns how far a run in launch order is from its prediction, as a part of the prediction.
double error_in_launch_order(const std::string& mutant) {
  Experiment experiment =
      traced_experiment("looped-bfs", {.stages = 4, .microbatches = 8, .virtual_stages = 2}, 5'000'000);
  experiment.channels.launch_order = true;
  const Verdict verdict = controlled({.devices = 4, .mutant = mutant}, [&] {
    const GpuRun run = run_over_nccl(experiment, occupying(experiment), 2);
    return run.error.empty() ? fmt::format("{}", run.timeline.makespan_ns) : run.error;
  });
  if (verdict.answer.find_first_not_of("0123456789") != std::string::npos) ADD_FAILURE() << to_text(verdict);
  return std::abs(std::atof(verdict.answer.c_str()) / static_cast<double>(makespan_ns(experiment)) - 1);
}

TEST(StandInTimes, ALaunchOrderThatIsNeverSetIsFound) {
  EXPECT_LT(error_in_launch_order(""), 0.01);
  EXPECT_GT(error_in_launch_order("the launch order is never set"), 0.03);
}

}  // namespace
}  // namespace penstock
