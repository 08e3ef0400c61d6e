// Tests the rules of time: which events wait for which others, over links with durations, latencies and
// limited queues.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/threads/in_process_transport.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/network/message_costs.hpp"
#include "tests/backend/execution.hpp"
#include "tests/backend/watched_transport.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

constexpr Ns kMillisecond = 1'000'000;

/// Returns the timeline of a run with occupy modules over emulated links.
Timeline timed(const Experiment& experiment) {
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = experiment.channels, .iterations = experiment.program.iterations});
  WalkDurations durations = walk_durations(experiment, flat);
  const SteadyClock clock;
  InProcessTransport transport(flat, experiment.channels,
                               {.hold = std::move(durations.hold), .latency = std::move(durations.latency)},
                               clock);
  StageModules modules = occupy_modules(experiment.program, experiment.costs, clock, {});
  auto timeline = execute({.program = experiment.program,
                           .flat = flat,
                           .modules = modules,
                           .transport = transport,
                           .clock = clock});
  if (!timeline) throw std::runtime_error(timeline.error().message);
  return *std::move(timeline);
}

const Span& span_of(const Timeline& timeline, std::string_view action) {
  for (const Span& span : timeline.spans) {
    if (to_text(span.action) == action) return span;
  }
  throw std::runtime_error("no action " + std::string(action));
}

/// Checks the measured times against every wait of the rules. Returns the first rule that is broken, or an
/// empty text.
std::string broken_rule(const Experiment& experiment, const Timeline& timeline) {
  std::map<std::int32_t, Ns> computed_until;
  std::map<std::tuple<ActionKind, std::int32_t, std::int32_t, std::int32_t>, const Span*> recvs;
  const auto key = [](ActionKind kind, const Span& s) {
    return std::tuple{kind, s.rank, s.action.stage, s.action.microbatch};
  };
  for (const Span& span : timeline.spans) {
    if (is_recv(span.action.kind)) recvs[key(span.action.kind, span)] = &span;
  }
  bool in_pair = false;
  for (const Span& span : timeline.spans) {
    const std::string name = "rank " + std::to_string(span.rank) + " " + to_text(span.action);
    if (span.end_ns < span.start_ns) return name + " ends before it starts";
    if (!is_compute(span.action.kind)) continue;
    if (!in_pair && span.start_ns < computed_until[span.rank]) return name + " overlaps";
    in_pair = span.action.overlaps_next;
    computed_until[span.rank] = span.end_ns;
    const ActionKind awaited =
        span.action.kind == ActionKind::forward ? ActionKind::recv_forward : ActionKind::recv_backward;
    const bool waits = span.action.kind == ActionKind::forward || span.action.kind == ActionKind::backward ||
                       span.action.kind == ActionKind::backward_input;
    const auto recv = recvs.find(key(awaited, span));
    if (waits && recv != recvs.end() && span.start_ns < recv->second->end_ns) return name + " does not wait";
    const Ns stated =
        duration_ns(experiment.costs.stages[static_cast<std::size_t>(span.action.stage)], span.action.kind);
    const bool alone = !span.action.overlaps_next && !in_pair;
    if (alone && span.end_ns - span.start_ns < std::min<Ns>(stated, 1)) return name + " is too short";
  }
  return "";
}

TEST(ThreadRules, HoldForEveryGeneratorAndForRandomPrograms) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    const auto program =
        generate(schedule.name, {.stages = 2, .microbatches = 4, .virtual_stages = chunks_to_try(schedule)});
    SCOPED_TRACE(schedule.name);
    ASSERT_TRUE(program) << program.error();
    CostTable costs = free_costs(*program, 100);
    for (StageCost& cost : costs.stages) cost.forward_ns = cost.backward_ns = 20'000;
    const Experiment experiment = experiment_of(*program, costs, uniform_links(2, 1e9, 50'000));
    EXPECT_EQ(broken_rule(experiment, timed(experiment)), "");
  }
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Experiment experiment = random_experiment(seed);
    EXPECT_EQ(broken_rule(experiment, timed(experiment)), "");
  }
}

/// Returns an experiment with two stages. Rank 0 runs its forwards at once, and messages of 1 kB at 100 kB/s
/// take 10 ms:
///
///   rank 0   F0 F1 F2
///   link       |== F0 =======|== F1 =======|== F2 =======|      each is followed by a latency
///   rank 1                   F0            F1            F2
Experiment two_stages(Ns latency_ns) {
  const Program program = *generate("gpipe", {.stages = 2, .microbatches = 3});
  CostTable costs = free_costs(program, 1000);
  for (StageCost& cost : costs.stages) cost.forward_ns = cost.backward_ns = kMillisecond;
  return experiment_of(program, costs, uniform_links(2, 1e5, latency_ns));
}

TEST(ThreadLinks, ATransferHoldsItsChannelAndArrivesALatencyLater) {
  const Timeline timeline = timed(two_stages(20 * kMillisecond));
  const Span& first = span_of(timeline, "0SEND_F0");
  const Span& second = span_of(timeline, "0SEND_F1");
  EXPECT_GE(first.start_ns, span_of(timeline, "0F0").end_ns);
  EXPECT_EQ(first.end_ns - first.start_ns, 30 * kMillisecond);
  EXPECT_EQ(second.start_ns - first.start_ns, 10 * kMillisecond);
  EXPECT_GE(span_of(timeline, "1F0").start_ns, first.end_ns);
  EXPECT_EQ(span_of(timeline, "1RECV_F0").end_ns, first.end_ns);
}

TEST(ThreadLinks, WithRoomForOneTheNextTransferWaitsForTheConsumer) {
  Experiment experiment = two_stages(0);
  experiment.channels.capacity = 1;
  const Timeline timeline = timed(experiment);
  EXPECT_GE(span_of(timeline, "0SEND_F1").start_ns, span_of(timeline, "1F0").end_ns);
  experiment.channels.capacity = 0;
  const Timeline unlimited = timed(experiment);
  EXPECT_LT(span_of(unlimited, "0SEND_F1").start_ns, span_of(unlimited, "1F0").end_ns);
}

TEST(ThreadLinks, BlockingRanksWaitForEachTransfer) {
  Experiment experiment = two_stages(0);
  const Timeline ahead = timed(experiment);
  EXPECT_LT(span_of(ahead, "0F1").start_ns, span_of(ahead, "0SEND_F0").end_ns);
  experiment.channels.blocking = Blocking::each;
  ASSERT_FALSE(find_hang(experiment.program, experiment.channels, experiment.costs));
  const Timeline blocked = timed(experiment);
  EXPECT_GE(span_of(blocked, "0F1").start_ns, span_of(blocked, "0SEND_F0").end_ns);
}

// A transfer takes 10 ms and an F 1 ms. Rank 0 stands at the WAIT until the message of F0 has arrived.
TEST(ThreadLinks, ARankWaitsForItsMessageAtAWait) {
  Experiment experiment = two_stages(0);
  std::vector<Action>& list = experiment.program.ranks[0];
  ASSERT_EQ(to_text(list[1]), "0SEND_F0");
  list.insert(list.begin() + 2, {.kind = ActionKind::wait_send_forward, .stage = 0, .microbatch = 0});
  const Timeline timeline = timed(experiment);
  EXPECT_GE(span_of(timeline, "0WAIT_SEND_F0").start_ns, span_of(timeline, "0SEND_F0").end_ns);
  EXPECT_GE(span_of(timeline, "0F1").start_ns, span_of(timeline, "0WAIT_SEND_F0").end_ns);
  EXPECT_LT(span_of(timeline, "0F2").start_ns, span_of(timeline, "0SEND_F1").end_ns);
}

TEST(ThreadLinks, ACollectiveStartsWithItsLastMember) {
  Shape shape{.stages = 2, .microbatches = 6};
  shape.replicas = {2, 1};
  const Program program = *generate("1f1b-rr", shape);
  CostTable costs = free_costs(program);
  for (StageCost& cost : costs.stages) {
    cost.forward_ns = cost.backward_ns = kMillisecond;
    cost.gradients = 1000;
  }
  const Timeline timeline = timed(experiment_of(program, costs, uniform_links(3, 1e6, 0)));
  std::map<std::int32_t, std::vector<const Span*>> reductions;
  std::map<std::int32_t, std::vector<const Span*>> steps;
  for (const Span& span : timeline.spans) {
    if (span.action.kind == ActionKind::reduce_grad) reductions[span.rank].push_back(&span);
    if (span.action.kind == ActionKind::step) steps[span.rank].push_back(&span);
  }
  ASSERT_EQ(reductions[0].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(reductions[0][i]->start_ns, reductions[1][i]->start_ns);
    EXPECT_EQ(reductions[0][i]->end_ns - reductions[0][i]->start_ns, kMillisecond);
    EXPECT_GE(steps[0][i]->start_ns, reductions[0][i]->end_ns);
  }
}

/// rank 0:  F0 F2 B0 B2 REDUCE_GRAD STEP
/// rank 1:  F1 F3 B1 B3 REDUCE_GRAD STEP
TEST(ThreadRules, EachMemberOfACollectiveCollectsInItsOwnName) {
  const Program program =
      lowered(*generate("data-parallel", {.stages = 1, .microbatches = 4, .replicas = {2}}));
  const CostTable costs = free_costs(program);
  const FlatProgram flat = flatten(program, costs, {.channels = {}, .iterations = 1});
  const SteadyClock clock;
  InProcessTransport inner(flat, {}, {}, clock);
  WatchedTransport transport(inner);
  StageModules modules = occupy_modules(program, costs, clock, {});
  ASSERT_TRUE(execute(
      {.program = program, .flat = flat, .modules = modules, .transport = transport, .clock = clock}));
  std::vector<Collected> collected = transport.collected();
  std::ranges::sort(collected);
  ASSERT_EQ(collected.size(), 2U);
  EXPECT_EQ(collected[0].rank, 0);
  EXPECT_EQ(collected[1], (Collected{collected[0].message, 1}));
}

TEST(Occupy, APairTakesItsStatedTimeOnce) {
  const Program program = read_program(
      "penstock program 1\nschedule paired\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0F1 0B0 0B1 0STEP\nrank 1: 1F0 (1F1;1B0)OVERLAP_F_B 1B1 1STEP\n");
  CostTable costs = free_costs(program);
  costs.stages[1] = {.forward_ns = 30 * kMillisecond,
                     .backward_ns = 30 * kMillisecond,
                     .overlapped_pair_ns = 10 * kMillisecond};
  const Timeline timeline = timed(experiment_of(program, costs, uniform_links(2, kUnlimitedBandwidth, 0)));
  const Span& forward = span_of(timeline, "1F1");
  EXPECT_EQ(forward.start_ns, span_of(timeline, "1B0").start_ns);
  EXPECT_EQ(forward.end_ns, span_of(timeline, "1B0").end_ns);
  EXPECT_GE(forward.end_ns - forward.start_ns, 10 * kMillisecond);
}

TEST(Occupy, AScaledClockHoldsLongerAndReadsTheSame) {
  const SteadyClock slow(4);
  const auto begin = std::chrono::steady_clock::now();
  const Ns from = slow.now_ns();
  slow.hold_for(5 * kMillisecond, {});
  const Ns read = slow.now_ns() - from;
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
  EXPECT_GE(read, 5 * kMillisecond);
  EXPECT_LT(read, 15 * kMillisecond);
}

TEST(Transports, TheInProcessOneIsDeclaredDirectedUnlimitedAndWithoutEagerMessages) {
  ASSERT_NE(find_transport("In_Process"), nullptr);
  EXPECT_EQ(find_transport("in-process")->channels, ChannelOptions{});
  EXPECT_EQ(find_transport("carrier-pigeon"), nullptr);
}

// Tests how long occupy modules block their worker. The clock of these tests only records the durations.

/// A clock that always shows 0 and records the requested durations.
class WritingClock : public Clock {
 public:
  Ns now_ns() const override { return 0; }
  void hold_for(Ns duration_ns, const std::stop_token&) const override { held_.push_back(duration_ns); }
  std::chrono::steady_clock::time_point moment_of(Ns) const override { return {}; }

  const std::vector<Ns>& held() const { return held_; }

 private:
  mutable std::vector<Ns> held_;
};

const CostTable kCosts{.stages = {{.forward_ns = 1000,
                                   .backward_ns = 2000,
                                   .backward_input_ns = 700,
                                   .backward_weight_ns = 900}},
                       .edges = {}};

/// Returns the times for which F, B, I and W of `microbatches` microbatches block their worker.
std::vector<Ns> held(const Jitter& jitter, std::int32_t microbatches = 1) {
  const WritingClock clock;
  OccupyModule module(kCosts, clock, jitter);
  const std::stop_token never;
  for (std::int32_t m = 0; m < microbatches; ++m) {
    const auto call = [&](const Action& action) {
      return ComputeCall{.action = action, .group = std::span(&action, 1), .stop = never};
    };
    const Action forward{.kind = ActionKind::forward, .microbatch = m};
    const Action backward{.kind = ActionKind::backward, .microbatch = m};
    const Action input{.kind = ActionKind::backward_input, .microbatch = m};
    const Action weight{.kind = ActionKind::backward_weight, .microbatch = m};
    module.forward(call(forward), {});
    module.backward(call(backward), {});
    module.backward_input(call(input), {});
    module.backward_weight(call(weight));
  }
  return clock.held();
}

TEST(OccupyModule, HoldsEachActionForItsCost) {
  EXPECT_THAT(held({}), testing::ElementsAre(1000, 2000, 700, 900));
}

TEST(OccupyModule, JitterIsTheSameInEveryRepeatAndOtherForAnotherSeed) {
  const Jitter jitter{.fraction = 0.5, .seed = 1};
  EXPECT_EQ(held(jitter, 20), held(jitter, 20));
  EXPECT_NE(held(jitter, 20), held({.fraction = 0.5, .seed = 2}, 20));
}

TEST(OccupyModule, JitterStaysWithinItsFraction) {
  bool shorter = false;
  bool longer = false;
  const std::vector<Ns> durations = held({.fraction = 0.25, .seed = 3}, 50);
  for (std::size_t i = 0; i < durations.size(); i += 4) {
    EXPECT_GE(durations[i], 750);
    EXPECT_LE(durations[i], 1250);
    shorter |= durations[i] < 900;
    longer |= durations[i] > 1100;
  }
  EXPECT_TRUE(shorter && longer);
}

TEST(OccupyModule, APairIsHeldOnceForItsStatedTimeByItsFirstAction) {
  const WritingClock clock;
  CostTable costs = kCosts;
  costs.stages[0].overlapped_pair_ns = 2400;
  OccupyModule module(costs, clock, {});
  const std::stop_token never;
  const std::vector<Action> group = {{.kind = ActionKind::forward, .overlaps_next = true, .microbatch = 1},
                                     {.kind = ActionKind::backward, .microbatch = 0}};
  module.forward({.action = group[0], .group = group, .stop = never}, {});
  module.backward({.action = group[1], .group = group, .first_of_group = false, .stop = never}, {});
  EXPECT_THAT(clock.held(), testing::ElementsAre(2400));
}

}  // namespace
}  // namespace penstock
