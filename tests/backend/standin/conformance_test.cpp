// Runs every schedule over both GPU transports with traced modules. Tests that message contents are correct,
// and that there is no race, leak, hang or ignored error. While the clock runs, the host must not wait for
// the device or allocate memory. Times must be near the prediction.
//
// With PENSTOCK_STANDIN_SEEDS=100, the test runs longer. The first tests are the simplest ones.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check/channel_check.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/standin/gpu_runs.hpp"
#include "tests/backend/standin/traced_modules.hpp"
#include "tests/backend/standin/verdict.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using standin::controlled;
using standin::Verdict;

/// Returns the makespan in ns as text, or "failed: " and the error.
std::string makespan_of(const GpuRun& run) {
  return run.error.empty() ? fmt::format("{}", run.timeline.makespan_ns) : "failed: " + run.error;
}

Verdict over_copies(const Experiment& experiment, std::uint64_t seed) {
  return controlled({.seed = seed},
                    [&] { return makespan_of(run_over_copies(experiment, occupying(experiment), 2)); });
}

Verdict over_nccl(const Experiment& experiment, std::uint64_t seed) {
  return controlled({.seed = seed, .devices = experiment.program.rank_count()},
                    [&] { return makespan_of(run_over_nccl(experiment, occupying(experiment), 2)); });
}

void expect_good(const Verdict& verdict, Ns predicted) {
  SCOPED_TRACE(to_text(verdict));
  EXPECT_EQ(verdict.death, "");
  EXPECT_TRUE(verdict.defects.empty());
  ASSERT_EQ(verdict.answer.find_first_not_of("0123456789"), std::string::npos);
  EXPECT_NEAR(std::stod(verdict.answer) / static_cast<double>(predicted), 1, 0.01);
}

TEST(StandIn, OneFOneBRunsOverCopiesAndOverNccl) {
  const Experiment experiment = gpu_experiment("1f1b", 2, 4);
  const Ns predicted = makespan_ns(experiment);
  expect_good(over_copies(experiment, 1), predicted);
  expect_good(over_nccl(experiment, 1), predicted);
}

TEST(StandIn, OneSeedIsOneRunAndTwoSeedsAreTwo) {
  const Experiment experiment = gpu_experiment("1f1b", 2, 4);
  for (const auto& over : {over_copies, over_nccl}) {
    const Verdict first = over(experiment, 7);
    const Verdict again = over(experiment, 7);
    const Verdict other = over(experiment, 8);
    EXPECT_EQ(first.trace, again.trace);
    EXPECT_EQ(first.answer, again.answer);
    EXPECT_EQ(first.switches, again.switches);
    EXPECT_NE(first.trace, other.trace);
  }
}

// Tests of all schedules.
//

using standin::controlled;
using standin::Verdict;

constexpr Bytes kMessage = kTracedMessage;
constexpr std::chrono::seconds kDeadline(10);

std::uint64_t seed_count(std::uint64_t usual) {
  const char* asked = std::getenv("PENSTOCK_STANDIN_SEEDS");
  return asked == nullptr ? usual : std::strtoull(asked, nullptr, 10);
}

enum class Over : std::uint8_t { copies, nccl };

struct Case {
  std::string name;
  Experiment experiment;
};

Case case_of(const std::string& schedule, const Shape& shape) {
  return {.name = fmt::format("{} K={} M={}", schedule, shape.stages, shape.microbatches),
          .experiment = traced_experiment(schedule, shape, 5'000'000)};
}

Verdict run(const Case& one, Over over, std::uint64_t seed) {
  const int ranks = one.experiment.program.rank_count();
  return controlled({.seed = seed, .devices = over == Over::nccl ? ranks : 1}, [&] {
    const MakeCudaModules make = traced(one.experiment);
    const GpuRun done = over == Over::nccl ? run_over_nccl(one.experiment, make, 2, {.deadline = kDeadline})
                                           : run_over_copies(one.experiment, make, 2);
    return done.error.empty() ? fmt::format("{}", done.timeline.makespan_ns) : done.error;
  });
}

/// The difference from the prediction that launches and copies may cause: 1 % and 0.3 ms.
double tolerance(double predicted) { return 0.01 * predicted + 300'000; }

void expect_good(const Case& one, Over over, const Verdict& verdict, std::uint64_t seed) {
  SCOPED_TRACE(fmt::format("{} over {}, seed {}: {}", one.name, over == Over::nccl ? "nccl" : "copies", seed,
                           to_text(verdict)));
  EXPECT_EQ(verdict.death, "");
  EXPECT_TRUE(verdict.defects.empty());
  EXPECT_EQ(verdict.timed_waits, 0U);
  EXPECT_EQ(verdict.timed_allocations, 0U);
  ASSERT_EQ(verdict.answer.find_first_not_of("0123456789"), std::string::npos);
  const auto predicted = static_cast<double>(makespan_ns(one.experiment));
  EXPECT_NEAR(std::stod(verdict.answer), predicted, tolerance(predicted));
}

void expect_all_good(const Case& one, std::uint64_t seeds) {
  for (const Over over : {Over::copies, Over::nccl}) {
    if (over == Over::copies && one.experiment.program.rank_count() > 16) continue;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) expect_good(one, over, run(one, over, seed), seed);
  }
}

class StandInConformance : public testing::TestWithParam<std::string> {};

TEST_P(StandInConformance, EveryShapeTrainsAsItMust) {
  int trained = 0;
  for (const std::int32_t stages : {1, 2, 4}) {
    for (const std::int32_t microbatches : {1, 2, 4, 8}) {
      const Shape shape{.stages = stages,
                        .microbatches = microbatches,
                        .virtual_stages = chunks_to_try(*find_schedule(GetParam()))};
      if (!generate(GetParam(), shape)) continue;
      expect_all_good(case_of(GetParam(), shape), seed_count(3));
      ++trained;
    }
  }
  EXPECT_GT(trained, 0);
}

// With launch order, a RECV that is launched behind a SEND waits for that SEND's producer, and so does its
// sender. The prediction has the same rule.
TEST_P(StandInConformance, OverNcclRanksTakeAsLongAsPredictedWithAndWithoutLaunchOrder) {
  for (const std::int32_t stages : {4, 8}) {
    const Shape shape{.stages = stages,
                      .microbatches = 2 * stages,
                      .virtual_stages = chunks_to_try(*find_schedule(GetParam()))};
    if (const auto refused = generate(GetParam(), shape); !refused) FAIL() << refused.error();
    Case one = case_of(GetParam(), shape);
    // EveryShapeTrainsAsItMust runs four ranks without the order.
    if (stages > 4) expect_good(one, Over::nccl, run(one, Over::nccl, 1), 1);
    one.experiment.channels.launch_order = true;
    one.name += " in launch order";
    expect_good(one, Over::nccl, run(one, Over::nccl, 1), 1);
  }
}

/// Returns the case with groups of transfers: all between two actions of a rank, or those that the lists
/// state. Returns nothing if the schedule refuses the shape, or if it would hang.
std::optional<Case> grouped(const std::string& schedule, const Shape& shape, std::optional<Posting> stated) {
  const auto program = generate(schedule, shape);
  if (!program) return std::nullopt;
  Case one = case_of(schedule, shape);
  one.experiment.program = *lower(*program, {.blocking = Blocking::batched});
  if (stated) {
    one.experiment.program = group_transfers(one.experiment.program, *stated);
    one.name += fmt::format(" with groups: {}", to_text(*stated));
  } else {
    one.experiment.channels.blocking = Blocking::batched;
    one.name += " batched";
  }
  if (find_hang(one.experiment.program, one.experiment.channels, one.experiment.costs)) return std::nullopt;
  return one;
}

TEST_P(StandInConformance, GroupsOfTransfersTrainAsTheyMust) {
  int trained = 0;
  for (const std::int32_t stages : {2, 4}) {
    const Shape shape{.stages = stages,
                      .microbatches = 2 * stages,
                      .virtual_stages = chunks_to_try(*find_schedule(GetParam()))};
    const auto one = grouped(GetParam(), shape, std::nullopt);
    if (!one) continue;
    expect_all_good(*one, 1);
    ++trained;
  }
  EXPECT_GT(trained, 0);
}

TEST(StandInGroups, ThoseThatListsStateTrainAsTheyMust) {
  for (const char* schedule : {"1f1b", "interleaved"}) {
    for (const Posting posting : {Posting::batched, Posting::megatron}) {
      const Shape shape{
          .stages = 4, .microbatches = 8, .virtual_stages = chunks_to_try(*find_schedule(schedule))};
      const auto one = grouped(schedule, shape, posting);
      ASSERT_TRUE(one) << schedule;
      expect_all_good(*one, seed_count(2));
    }
  }
}

// Replicas and shards add collectives between the transfers of a group, and iterations a barrier.
TEST(StandInGroups, CollectivesBetweenTheTransfersTrainAsTheyMust) {
  for (const Shape& shape : {Shape{.stages = 2, .microbatches = 4, .data_parallel = 2, .sharding = 3},
                             Shape{.stages = 2, .microbatches = 4, .iterations = 2, .data_parallel = 2}}) {
    const auto one = grouped("1f1b", shape, std::nullopt);
    ASSERT_TRUE(one);
    expect_all_good(*one, seed_count(2));
  }
}

TEST(StandInGroups, StatedGroupsAreRefusedInLaunchOrder) {
  auto one = grouped("1f1b", {.stages = 2, .microbatches = 4}, Posting::batched);
  ASSERT_TRUE(one);
  one->experiment.channels.launch_order = true;
  EXPECT_THAT(run(*one, Over::nccl, 1).answer,
              testing::StartsWith("nccl: --launch-order on does not go with groups of transfers"));
}

std::vector<std::string> all_schedules() {
  std::vector<std::string> names;
  for (const ScheduleInfo& info : schedule_table()) names.emplace_back(info.name);
  return names;
}

std::string name_of_test(const testing::TestParamInfo<std::string>& schedule) {
  std::string name = schedule.param;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Schedules, StandInConformance, testing::ValuesIn(all_schedules()), name_of_test);

TEST(StandInShapes, ReplicasShardsAndBucketsTrainAsTheyMust) {
  for (const Shape& shape : {Shape{.stages = 2, .microbatches = 4, .data_parallel = 2},
                             Shape{.stages = 2, .microbatches = 4, .iterations = 2, .data_parallel = 2},
                             Shape{.stages = 2, .microbatches = 4, .data_parallel = 2, .buckets = {2}},
                             Shape{.stages = 2, .microbatches = 4, .data_parallel = 2, .sharding = 1},
                             Shape{.stages = 2, .microbatches = 4, .data_parallel = 2, .sharding = 3}}) {
    if (const auto refused = generate("1f1b", shape); !refused) FAIL() << refused.error();
    expect_all_good(case_of("1f1b", shape), seed_count(3));
  }
}

// The order in which a rank launches operations depends only on its program and not on its peers, because
// layouts are known before.
TEST(StandInShapes, TheOrderOfLaunchesIsTheProgramsForEverySeed) {
  for (const Shape& shape : {Shape{.stages = 4, .microbatches = 8},
                             Shape{.stages = 2, .microbatches = 4, .data_parallel = 2, .sharding = 3}}) {
    const Case one = case_of("1f1b", shape);
    const Verdict first = run(one, Over::nccl, 1);
    EXPECT_NE(first.launch_order, 0U);
    for (std::uint64_t seed = 2; seed <= 6; ++seed) {
      const Verdict other = run(one, Over::nccl, seed);
      EXPECT_EQ(other.launch_order, first.launch_order) << seed;
      EXPECT_NE(other.trace, first.trace) << seed;
    }
  }
}

// The transferred bytes are the predicted bytes: each of n ranks receives 1/n of the gradients instead of
// all.
TEST(StandInShapes, AShardedReductionIsScattered) {
  const auto bytes_of = [](std::int32_t sharding, Gather gather = Gather::step) {
    const Shape shape{
        .stages = 2, .microbatches = 4, .data_parallel = 2, .sharding = sharding, .gather = gather};
    return run(case_of("1f1b", shape), Over::nccl, 1).timed_bytes;
  };
  auto whole = bytes_of(0);
  auto scattered = bytes_of(2);
  EXPECT_EQ(whole["ncclAllReduce"], 4U * kMessage);  // two stages with two ranks each
  EXPECT_EQ(whole["ncclReduceScatter"], 0U);
  EXPECT_EQ(scattered["ncclReduceScatter"], 4U * kMessage / 2);
  EXPECT_EQ(scattered["ncclAllReduce"], 0U);
  auto twice = bytes_of(2, Gather::microbatch);
  EXPECT_EQ(twice["ncclReduceScatter"], 2 * 4U * kMessage / 2) << "once for each of two microbatches";
}

// With three ranks, a part of 64 bytes is not a whole number of numbers. This also applies to the messages
// before the run.
TEST(StandInShapes, AnOddNumberOfShardsTrainsAsItMust) {
  for (const std::int32_t sharding : {2, 3}) {
    const Shape shape{.stages = 2, .microbatches = 6, .data_parallel = 3, .sharding = sharding};
    if (const auto refused = generate("1f1b", shape); !refused) FAIL() << refused.error();
    expect_all_good(case_of("1f1b", shape), seed_count(1));
  }
}

// Nothing comes back: no gradient is sent, and no STEP ends the iteration.
TEST(StandInShapes, ForwardPassesAloneCarryTheirActivations) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (!schedule.has_forward_half) continue;
    Shape shape{.stages = 4, .microbatches = 8, .virtual_stages = chunks_to_try(schedule)};
    shape.passes = Passes::forward;
    if (schedule.name == "seq-1f1b") shape.slices = 2;
    expect_all_good(case_of(std::string(schedule.name), shape), seed_count(1));
  }
}

/// Runs all ranks on one device, as --ranks-per-gpu does.
Verdict rehearse(const Case& one, std::uint64_t seed, bool notes = false) {
  const std::int32_t ranks = one.experiment.program.rank_count();
  return controlled({.seed = seed, .ranks_per_device = ranks}, [&] {
    const GpuRun done = run_over_nccl(one.experiment, traced(one.experiment), 2,
                                      {.deadline = kDeadline, .ranks_per_gpu = ranks});
    if (!done.error.empty()) return done.error;
    return notes ? fmt::format("{}", fmt::join(done.notes, "\n"))
                 : fmt::format("{}", done.timeline.makespan_ns);
  });
}

TEST(StandInRehearsal, RanksThatShareAGpuTrainAsTheyMust) {
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "interleaved"}) {
    for (const std::int32_t stages : {2, 4}) {
      const Case one = case_of(schedule, {.stages = stages,
                                          .microbatches = 2 * stages,
                                          .virtual_stages = chunks_to_try(*find_schedule(schedule))});
      for (std::uint64_t seed = 1; seed <= seed_count(2); ++seed)
        expect_good(one, Over::nccl, rehearse(one, seed), seed);
    }
  }
  const Case sharded = case_of("1f1b", {.stages = 2, .microbatches = 4, .data_parallel = 2, .sharding = 3});
  expect_good(sharded, Over::nccl, rehearse(sharded, 1), 1);
}

TEST(StandInRehearsal, TheResultSaysThatItIsOne) {
  const Case one = case_of("1f1b", {.stages = 2, .microbatches = 4});
  const std::string notes = rehearse(one, 1, true).answer;
  EXPECT_THAT(notes,
              testing::HasSubstr("NCCL 2.30.7: at most 2 CTAs for each communicator, launch order off"));
  EXPECT_THAT(notes, testing::HasSubstr("a rehearsal: 2 processes share each GPU"));
}

// GEMS sends one microbatch one way through the ranks: those of the other way have none.
TEST(StandInShapes, AReplicaWithoutAMicrobatchTakesPartInTheReduction) {
  const Shape shape{.stages = 2, .microbatches = 1};
  if (const auto refused = generate("gems", shape); !refused) FAIL() << refused.error();
  expect_all_good(case_of("gems", shape), seed_count(3));
}

}  // namespace
}  // namespace penstock
