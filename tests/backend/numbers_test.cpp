// Tests that every schedule computes the same numbers as one thread that trains without a schedule. The first
// part uses threads. The second part uses processes, so that payloads and times are sent over sockets.

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/process/process_execution.hpp"
#include "report/result/metrics.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/asked_schedule.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/backend/echo_module.hpp"
#include "tests/backend/execution.hpp"
#include "tests/backend/sequential_training.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

/// Returns these gradients for every rank that holds a stage.
std::vector<echo::Gradients> on_all_ranks(const Program& program, const echo::Gradients& gradients) {
  return {static_cast<std::size_t>(program.rank_count()), gradients};
}

bool is_chain(const Program& program) {
  Program chain = program;
  chain.edges.clear();
  return stage_edges(program) == stage_edges(chain);
}

void expect_exact(const Program& program, const std::vector<echo::Gradients>& expected,
                  const ChannelOptions& channels = {}, Bytes message_bytes = 0) {
  const EchoRun run = run_echo(program, channels, message_bytes);
  ASSERT_EQ(run.error, "") << to_text(program);
  EXPECT_EQ(difference(program, run.modules, expected), "") << to_text(program);
}

/// Runs two iterations of one shape. Returns false if the generator refuses the shape.
bool computes_what_one_thread_does(const ScheduleInfo& schedule, const Shape& shape) {
  const auto program = generate(schedule.name, shape);
  if (!program) return false;
  const Program complete = lowered(*program);
  expect_exact(complete, echo::gradients_of(complete));
  if (complete.update == UpdateRule::minibatch && is_chain(complete)) {
    const auto unsplit =
        echo::train_by_minibatch(complete.stage_count(), complete.unit_count(), complete.iterations);
    expect_exact(complete, on_all_ranks(complete, unsplit));
  }
  return true;
}

TEST(Numbers, CopiesOfEveryPipelineComputeTheGradientsOfTheUnsplitModel) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    Shape shape{.stages = 2, .microbatches = 8, .iterations = 2, .data_parallel = 2};
    shape.virtual_stages = chunks_to_try(schedule);
    if (schedule.name == "seq-1f1b") shape.slices = 2;
    SCOPED_TRACE(schedule.name);
    const bool has_own_replicas = copies_are_replicas(schedule);
    EXPECT_EQ(computes_what_one_thread_does(schedule, shape), !has_own_replicas);
  }
}

TEST(Numbers, EveryGeneratorComputesTheGradientsOfTheUnsplitModel) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    std::string ran;
    std::string refused;
    for (const std::int32_t stages : {1, 2, 4}) {
      for (const std::int32_t microbatches : {1, 2, 4, 8}) {
        for (const std::int32_t chunks : {1, 2, 4}) {
          if (chunks > 1 && !takes_chunks(schedule)) {
            continue;
          }
          const std::string name = " K" + std::to_string(stages) + "M" + std::to_string(microbatches) +
                                   (chunks == 1 ? "" : "v" + std::to_string(chunks));
          SCOPED_TRACE(std::string(schedule.name) + name);
          const bool accepted = computes_what_one_thread_does(
              schedule,
              {.stages = stages, .microbatches = microbatches, .virtual_stages = chunks, .iterations = 2});
          (accepted ? ran : refused) += name;
        }
      }
    }
    EXPECT_NE(ran, "") << schedule.name;
    std::cout << "  " << schedule.name << ": ran" << ran << "; refused" << refused << '\n';
  }
}

TEST(Numbers, RandomProgramsUnderRandomChannelsComputeWhatTheirListsSay) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    const Experiment experiment = random_experiment(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_exact(experiment.program, echo::gradients_of(experiment.program), experiment.channels, 6);
    if (HasFailure()) return;
  }
}

// --- versions of weights (PipeDream, SOSP'19, section 3.3) ----------------------------------------------

Program asynchronous(WeightPolicy weights) {
  return lowered(*generate("1f1b-rr", {.stages = 4, .microbatches = 12, .weights = weights}));
}

/// Returns the version that microbatch m uses on stage s, by w(t+1) = w(t) - gradient of f(w_1(t-n+1),
/// w_2(t-n+2), ..., w_n(t)). With n = 4 stages, counted from 0, 3 - s updates are still under way. The
/// version contains all earlier updates; it is 0 before the first update.
std::int32_t stashed(std::int32_t stage, std::int32_t microbatch) {
  return std::max(0, microbatch - 3 + stage);
}
std::int32_t of_input_stage(std::int32_t, std::int32_t microbatch) { return std::max(0, microbatch - 3); }
std::int32_t newest(std::int32_t, std::int32_t microbatch) { return microbatch; }

TEST(Numbers, WeightStashingUsesTheForwardsVersionInTheBackward) {
  const Program program = asynchronous(WeightPolicy::stash);
  expect_exact(program, on_all_ranks(program, echo::train_by_microbatch(4, 12, stashed, stashed)));
}

TEST(Numbers, VerticalSyncUsesTheInputStagesVersionEverywhere) {
  const Program program = asynchronous(WeightPolicy::vertical_sync);
  expect_exact(program,
               on_all_ranks(program, echo::train_by_microbatch(4, 12, of_input_stage, of_input_stage)));
}

TEST(Numbers, WithoutStashingTheGradientsAreOthers) {
  const Program program = asynchronous(WeightPolicy::latest);
  expect_exact(program, on_all_ranks(program, echo::train_by_microbatch(4, 12, stashed, newest)));
  const EchoRun run = run_echo(program);
  EXPECT_EQ(difference(program, run.modules,
                       on_all_ranks(program, echo::train_by_microbatch(4, 12, stashed, stashed))),
            "rank 0, stage 0: the gradient of step 1 differs");
}

TEST(Numbers, AVersionIsHeldUntilItsLastUseAndNoLonger) {
  for (const WeightPolicy weights :
       {WeightPolicy::stash, WeightPolicy::vertical_sync, WeightPolicy::latest}) {
    const Program program = asynchronous(weights);
    const EchoRun run = run_echo(program);
    const CostTable costs = free_costs(program);
    const Result result = summarize(run.timeline, {.program = program, .costs = costs});
    for (std::int32_t rank = 0; rank < 4; ++rank) {
      // A STEP makes the next version before the old version is dropped, so the module stores one version
      // more.
      const auto held = static_cast<std::int32_t>(echo_of(run.modules, rank, rank).most_versions());
      const std::int32_t counted = result.ranks[static_cast<std::size_t>(rank)].weight_versions;
      EXPECT_TRUE(held == counted || held == counted + 1) << rank << ": " << held << ", " << counted;
    }
  }
}

TEST(Numbers, ReplicasReduceTheirGradients) {
  for (const std::vector<std::int32_t>& replicas :
       {std::vector<std::int32_t>{2, 1}, {3, 1}, {3, 2}, {4, 2, 2}, {2, 2}}) {
    Shape shape{.stages = static_cast<std::int32_t>(replicas.size()), .microbatches = 24};
    shape.replicas = replicas;
    const auto generated = generate("1f1b-rr", shape);
    ASSERT_TRUE(generated) << generated.error();
    const Program program = lowered(*generated);
    expect_exact(program, echo::gradients_of(program));
    const EchoRun run = run_echo(program);
    for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
      const auto& ranks = program.placement.stages[static_cast<std::size_t>(stage)].ranks;
      for (const std::int32_t rank : ranks) {
        EXPECT_EQ(echo_of(run.modules, rank, stage).newest(),
                  echo_of(run.modules, ranks.front(), stage).newest());
      }
    }
  }
}

// One reduction a minibatch adds up what the replicas have, also if they have unequal numbers of
// microbatches.
TEST(Numbers, UnequalReplicasWithAFlushComputeTheGradientsOfTheUnsplitModel) {
  for (const char* name : {"gpipe", "1f1b", "zb-h1"}) {
    for (const std::vector<std::int32_t>& replicas :
         {std::vector<std::int32_t>{2, 1, 2}, {1, 3, 2}, {3, 1, 1}}) {
      for (const std::int32_t microbatches : {1, 2, 7, 12}) {
        SCOPED_TRACE(testing::Message() << name << ", M = " << microbatches);
        const Shape shape{.stages = 3, .microbatches = microbatches, .iterations = 2, .replicas = replicas};
        EXPECT_TRUE(computes_what_one_thread_does(*find_schedule(name), shape));
      }
    }
  }
}

TEST(Numbers, ReplicasThatDoNotReduceGoApart) {
  Shape shape{.stages = 2, .microbatches = 8};
  shape.replicas = {2, 1};
  shape.replica_sync = ReplicaSync::off;
  const Program program = lowered(*generate("1f1b-rr", shape));
  expect_exact(program, echo::gradients_of(program));
  const EchoRun run = run_echo(program);
  EXPECT_NE(echo_of(run.modules, 0, 0).newest(), echo_of(run.modules, 1, 0).newest());
}

// --- other properties of programs -----------------------------------------------------------------------

TEST(Numbers, RecomputationChangesNothing) {
  for (const char* name : {"gpipe", "1f1b"}) {
    for (const Checkpoint checkpoint : {Checkpoint::always, Checkpoint::except_last}) {
      for (const RecomputeTiming timing : {RecomputeTiming::early, RecomputeTiming::late}) {
        const Program program = lowered(
            *generate(name, {.stages = 4, .microbatches = 8, .checkpoint = checkpoint, .recompute = timing}));
        expect_exact(program, on_all_ranks(program, echo::train_by_minibatch(4, 8, 1)));
      }
    }
  }
}

TEST(Numbers, ADiamondAndASkipConnectionReachEveryStage) {
  for (const char* text :
       {"penstock program 1\nschedule diamond\nmicrobatches 2\niterations 3\nedges 0>1 0>2 1>3 2>3\n"
        "stage 0: rank 0\nstage 1: rank 1\nstage 2: rank 2\nstage 3: rank 3\n"
        "rank 0: 0F0 0F1 0B0 0B1 0STEP\nrank 1: 1F0 1F1 1B0 1B1 1STEP\n"
        "rank 2: 2F0 2F1 2I0 2I1 2W0 2W1 2STEP\nrank 3: 3F0 3B0 3F1 3B1 3STEP\n",
        "penstock program 1\nschedule skip\nmicrobatches 2\nedges 0>1 0>2 1>2\n"
        "stage 0: rank 0\nstage 1: rank 1\nstage 2: rank 0\n"
        "rank 0: 0F0 0F1 2F0 2B0 2F1 2B1 0B0 0B1 0STEP 2STEP\nrank 1: 1F0 1F1 1B0 1B1 1STEP\n"}) {
    const Program program = read_program(text);
    expect_exact(program, echo::gradients_of(program));
  }
}

TEST(Numbers, AnOverlappedPairComputesBothLeaves) {
  const Program program = read_program(
      "penstock program 1\nschedule paired\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0F1 0B0 0B1 0STEP\nrank 1: 1F0 (1F1;1B0)OVERLAP_F_B 1B1 1STEP\n");
  expect_exact(program, on_all_ranks(program, echo::train_by_minibatch(2, 2, 1)));
}

TEST(Numbers, SlicesOfAMicrobatchAreUnitsOfTheirOwn) {
  Shape shape{.stages = 4, .microbatches = 4};
  shape.slices = 2;
  const auto generated = generate("seq-1f1b", shape);
  ASSERT_TRUE(generated) << generated.error();
  const Program program = lowered(*generated);
  expect_exact(program, on_all_ranks(program, echo::train_by_minibatch(4, 8, 1)));
}

TEST(Numbers, ShardedStagesAreGatheredAroundTheirUse) {
  for (const std::int32_t sharding : {1, 2, 3}) {
    Shape shape{.stages = 3, .microbatches = 4, .iterations = 2};
    shape.replicas = {2};
    shape.sharding = sharding;
    const auto generated = generate("data-parallel", shape);
    ASSERT_TRUE(generated) << generated.error();
    const Program program = lowered(*generated);
    expect_exact(program, on_all_ranks(program, echo::train_by_minibatch(3, 4, 2)));
  }
}

/// Returns the output of the last stage for a unit, from the definition of the echo model.
echo::Number output_of_chain(std::int32_t stages, std::int32_t unit) {
  echo::Number x = echo::input(unit);
  echo::Number y = 0;
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    const echo::Weights weights = echo::first_weights(stage);
    y = weights.a * x + weights.b;
    x = echo::factor(0) * y;
  }
  return y;
}

TEST(Numbers, ForwardPassesAloneComputeTheOutputsOfTheUnsplitModel) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (!schedule.has_forward_half) continue;
    for (const Passes passes : {Passes::forward, Passes::forward_kv}) {
      SCOPED_TRACE(testing::Message() << schedule.name << " " << to_text(passes));
      Shape shape{.stages = 4, .microbatches = 8, .virtual_stages = chunks_to_try(schedule)};
      shape.passes = passes;
      if (schedule.name == "seq-1f1b") shape.slices = 2;
      const Program program = lowered(generate(schedule.name, shape).value());
      const EchoRun run = run_echo(program);
      ASSERT_EQ(run.error, "");
      const std::int32_t last = program.stage_count() - 1;
      const EchoModule& module = echo_of(run.modules, program.placement.rank_of(last, 0), last);
      ASSERT_EQ(std::ssize(module.outputs()), program.unit_count());
      for (const auto& [unit, output] : module.outputs())
        EXPECT_EQ(output, output_of_chain(program.stage_count(), unit)) << unit;
      EXPECT_TRUE(module.steps().empty());
      EXPECT_EQ(module.held(), 0U);
    }
  }
}

TEST(Numbers, BarriersSeparateIterations) {
  const Program program =
      lowered(*generate("1f1b", {.stages = 3, .microbatches = 4, .iterations = 3, .barrier = true}));
  const EchoRun run = run_echo(program);
  ASSERT_EQ(run.error, "");
  EXPECT_EQ(difference(program, run.modules, on_all_ranks(program, echo::train_by_minibatch(3, 4, 3))), "");
  Ns last_of_first = 0;
  Ns first_of_second = run.timeline.makespan_ns;
  for (const Span& span : run.timeline.spans) {
    if (!has_microbatch(span.action.kind) || !is_compute(span.action.kind)) continue;
    if (span.action.microbatch < 4) last_of_first = std::max(last_of_first, span.end_ns);
    if (span.action.microbatch >= 4) first_of_second = std::min(first_of_second, span.start_ns);
  }
  EXPECT_LE(last_of_first, first_of_second);
}

TEST(Numbers, StatedGroupsOfTransfersCarryThem) {
  for (const char* name : {"1f1b", "interleaved"}) {
    const Program program =
        *lower(*generate(name, {.stages = 4, .microbatches = 8}), {.blocking = Blocking::batched});
    for (const Posting posting : {Posting::batched, Posting::megatron}) {
      for (const Blocking blocking : {Blocking::none, Blocking::each}) {
        SCOPED_TRACE(testing::Message() << name << " " << to_text(posting) << " " << to_text(blocking));
        const auto expected = on_all_ranks(program, echo::train_by_minibatch(program.stage_count(), 8, 1));
        Program grouped = group_transfers(program, posting);
        expect_exact(grouped, expected, {.blocking = blocking}, 8);
        for (std::vector<Action>& list : grouped.ranks) {
          for (std::size_t i = 0; i < list.size(); ++i) list[i].no_wait = is_grouped_transfer(list, i);
        }
        expect_exact(grouped, expected, {.blocking = blocking}, 8);
      }
    }
  }
}

/// Adds a WAIT for each SEND behind the next compute action, and one for each REDUCE_GRAD directly behind it.
Program with_waits(Program program) {
  for (std::vector<Action>& list : program.ranks) {
    std::vector<Action> waiting;
    std::vector<Action> sent;
    for (const Action& action : list) {
      waiting.push_back(action);
      if (is_send(action.kind)) sent.push_back(action);
      if (action.kind == ActionKind::reduce_grad)
        waiting.push_back({.kind = ActionKind::wait_reduce_grad, .stage = action.stage});
      if (!is_compute(action.kind) || action.overlaps_next) continue;
      for (const Action& send : sent) {
        const bool forward = send.kind == ActionKind::send_forward;
        waiting.push_back({.kind = forward ? ActionKind::wait_send_forward : ActionKind::wait_send_backward,
                           .stage = send.stage,
                           .microbatch = send.microbatch});
      }
      sent.clear();
    }
    list = std::move(waiting);
  }
  return program;
}

/// Returns a program whose lists have WAITs, with two replicas of each stage under the given sharding.
Program waiting_program(std::int32_t sharding) {
  Shape shape{.stages = 2, .microbatches = 4, .iterations = 2};
  shape.replicas = {2};
  shape.sharding = sharding;
  const auto generated = generate("data-parallel", shape);
  EXPECT_TRUE(generated) << generated.error();
  Program program = with_waits(lowered(*generated));
  const auto valid = validate(program);
  EXPECT_TRUE(valid) << valid.error();
  return program;
}

TEST(Numbers, ListsWithWaitsComputeThem) {
  for (const char* name : {"1f1b", "interleaved", "zb-h1"}) {
    SCOPED_TRACE(name);
    const Program program = with_waits(*lower(*generate(name, {.stages = 4, .microbatches = 8})));
    expect_exact(program, on_all_ranks(program, echo::train_by_minibatch(program.stage_count(), 8, 1)));
  }
  for (const std::int32_t sharding : {0, 2}) {
    const Program program = waiting_program(sharding);
    expect_exact(program, on_all_ranks(program, echo::train_by_minibatch(2, 4, 2)));
  }
}

/// Returns a program in which all ranks but the last offload activations.
Program offloading_program(const char* schedule) {
  Shape shape{.stages = 3, .microbatches = 6, .iterations = 2};
  shape.virtual_stages = std::string(schedule) == "interleaved" ? 2 : 1;
  shape.offload = {1};
  const auto program = generate(schedule, shape);
  EXPECT_TRUE(program) << program.error();
  return lowered(*program);
}

TEST(Numbers, ListsThatOffloadComputeThem) {
  for (const char* name : {"1f1b", "interleaved"}) {
    SCOPED_TRACE(name);
    const Program program = offloading_program(name);
    const EchoRun run = run_echo(program);
    ASSERT_EQ(run.error, "");
    const auto expected = on_all_ranks(program, echo::train_by_minibatch(program.stage_count(), 6, 2));
    EXPECT_EQ(difference(program, run.modules, expected), "");
    EXPECT_GT(echo_of(run.modules, 0, 0).offloaded(), 0U);
  }
}

TEST(Numbers, EveryChannelModelCarriesThem) {
  int ran = 0;
  for (const ChannelModel model : kChannelModels) {
    for (const ChannelOptions& channels :
         {ChannelOptions{.model = model}, ChannelOptions{.model = model, .blocking = Blocking::each},
          ChannelOptions{.model = model, .blocking = Blocking::batched},
          ChannelOptions{.model = model, .capacity = 1}, ChannelOptions{.model = model, .eager_bytes = 64}}) {
      for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1"}) {
        const Program program = *lower(*generate(name, {.stages = 4, .microbatches = 8}), channels);
        if (find_hang(program, channels, free_costs(program, 8))) continue;
        SCOPED_TRACE(testing::Message()
                     << name << " " << to_text(model) << blocking_suffix(channels.blocking));
        expect_exact(program, on_all_ranks(program, echo::train_by_minibatch(program.stage_count(), 8, 1)),
                     channels, 8);
        ++ran;
      }
    }
  }
  EXPECT_GT(ran, 50);
}

// Tests that processes compute the same as threads. Payloads and times are sent over sockets.

/// Returns the timelines of an echo run in processes. Each process checks its payloads. Throws if the run
/// fails.
std::vector<Timeline> run_in_processes(const Program& program, std::int32_t runs = 1, LinkPace pace = {},
                                       const ChannelOptions& channels = {}) {
  const FlatProgram flat =
      flatten(program, free_costs(program), {.channels = channels, .iterations = program.iterations});
  const auto expected = echo::gradients_of(program);
  const EchoCodec codec;
  auto executed =
      execute_in_processes({.program = program,
                            .flat = flat,
                            .modules = [&](std::int32_t, const Clock&) { return echo_modules(program); },
                            .pace = std::move(pace),
                            .codec = &codec,
                            .runs = runs,
                            .deadline = std::chrono::seconds(20),
                            .finished =
                                [&](std::int32_t rank, const StageModules& modules) {
                                  const std::string found =
                                      difference_on_rank(program, modules, expected, rank);
                                  if (!found.empty()) throw std::runtime_error(found);
                                  return RankAccount{};
                                }});
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  if (!executed) throw std::runtime_error(executed.error().message + "\n" + to_text(program));
  std::vector<Timeline> timelines;
  for (ExecutedRun& run : *executed) timelines.push_back(std::move(run.timeline));
  return timelines;
}

/// Checks that all spans are present, and that each span except transfers and collectives starts after the
/// previous one of its rank.
void expect_complete(const Program& program, const Timeline& timeline) {
  std::size_t actions = 0;
  for (const auto& list : program.ranks)
    actions += list.size() * static_cast<std::size_t>(program.iterations);
  EXPECT_EQ(timeline.spans.size(), actions);
  Ns first = timeline.makespan_ns;
  Ns last = 0;
  for (const Span& span : timeline.spans) {
    EXPECT_LE(span.start_ns, span.end_ns);
    first = std::min(first, span.start_ns);
    last = std::max(last, span.end_ns);
  }
  EXPECT_EQ(first, 0);
  EXPECT_EQ(last, timeline.makespan_ns);
}

/// Runs two iterations of one shape. Returns false if the generator refuses the shape.
bool computes_what_threads_do(const ScheduleInfo& schedule, const Shape& shape) {
  const auto program = generate(schedule.name, shape);
  if (!program) return false;
  const Program complete = lowered(*program);
  expect_complete(complete, run_in_processes(complete).at(0));
  return true;
}

TEST(ProcessNumbers, EveryGeneratorComputesTheGradientsOfTheUnsplitModel) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    const bool has_chunks = takes_chunks(schedule);
    std::string ran;
    std::string refused;
    for (const std::int32_t stages : {1, 2, 4}) {
      for (const std::int32_t microbatches : {1, 2, 4, 8}) {
        for (const std::int32_t chunks : {1, 2}) {
          if (chunks > 1 && !has_chunks) continue;
          const std::string name = " K" + std::to_string(stages) + "M" + std::to_string(microbatches) +
                                   (chunks == 1 ? "" : "v" + std::to_string(chunks));
          SCOPED_TRACE(std::string(schedule.name) + name);
          const bool accepted = computes_what_threads_do(
              schedule,
              {.stages = stages, .microbatches = microbatches, .virtual_stages = chunks, .iterations = 2});
          (accepted ? ran : refused) += name;
        }
      }
    }
    EXPECT_NE(ran, "") << schedule.name;
    std::cout << "  " << schedule.name << ": ran" << ran << "; refused" << refused << '\n';
  }
}

/// Checks that each transfer starts after the compute actions before it and ends before those after it, on
/// both of its ranks. The spans of a rank are in list order.
void expect_waited_for(const Timeline& timeline) {
  Ns computed = 0;  // the end of the rank's latest compute action
  Ns arrived = 0;   // the end of the latest transfer behind it
  std::int32_t rank = -1;
  for (const Span& span : timeline.spans) {
    if (span.rank != std::exchange(rank, span.rank)) computed = arrived = 0;
    if (is_transfer(span.action.kind)) {
      EXPECT_GE(span.start_ns, computed) << to_text(span.action);
      arrived = std::max(arrived, span.end_ns);
    } else if (is_compute(span.action.kind)) {
      EXPECT_GE(span.start_ns, arrived) << to_text(span.action);
      computed = span.end_ns;
    }
  }
}

TEST(ProcessNumbers, GroupsOfTransfersStartTogetherAndAreWaitedFor) {
  const ChannelOptions batched{.blocking = Blocking::batched};
  int ran = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const Shape shape{.stages = 4, .microbatches = 8, .virtual_stages = takes_chunks(schedule) ? 2 : 1};
    const auto program = generate(schedule.name, shape);
    if (!program) continue;
    SCOPED_TRACE(schedule.name);
    const Program complete = *lower(*program, batched);
    const auto messages = flatten(complete, free_costs(complete), {.channels = batched}).messages.size();
    const LinkPace pace{.hold = std::vector<Ns>(messages, 200'000),
                        .latency = std::vector<Ns>(messages, 100'000)};
    const Timeline timeline = run_in_processes(complete, 1, pace, batched).at(0);
    expect_complete(complete, timeline);
    expect_waited_for(timeline);
    ++ran;
  }
  EXPECT_GT(ran, 10);
}

TEST(ProcessNumbers, StatedGroupsOfTransfersCarryThem) {
  const Program program =
      *lower(*generate("interleaved", {.stages = 4, .microbatches = 8}), {.blocking = Blocking::batched});
  for (const Posting posting : {Posting::batched, Posting::megatron}) {
    const Program grouped = group_transfers(program, posting);
    expect_complete(grouped, run_in_processes(grouped).at(0));
  }
}

// Each copy takes 0.2 ms. A B starts after the RELOAD of its microbatch, and a RELOAD after its OFFLOAD.
TEST(ProcessNumbers, ListsThatOffloadComputeThem) {
  const Program program = offloading_program("1f1b");
  const FlatProgram flat =
      flatten(program, free_costs(program), {.channels = {}, .iterations = program.iterations});
  LinkPace pace = {.hold = std::vector<Ns>(flat.messages.size(), 0),
                   .latency = std::vector<Ns>(flat.messages.size(), 0)};
  for (std::size_t id = 0; id < flat.messages.size(); ++id)
    pace.hold[id] = flat.is_host_copy(flat.messages[id]) ? 200'000 : 0;
  const Timeline timeline = run_in_processes(program, 1, pace).at(0);
  expect_complete(program, timeline);
  std::map<std::pair<std::int32_t, std::int32_t>, Ns> offloaded;
  std::map<std::pair<std::int32_t, std::int32_t>, Ns> reloaded;
  for (const Span& span : timeline.spans) {
    const std::pair of{span.action.stage, span.action.microbatch};
    if (is_host_copy(span.action.kind)) {
      EXPECT_EQ(span.end_ns - span.start_ns, 200'000);
    }
    if (span.action.kind == ActionKind::offload) offloaded[of] = span.end_ns;
    if (span.action.kind == ActionKind::reload) {
      EXPECT_GE(span.start_ns, offloaded.at(of));
      reloaded[of] = span.end_ns;
    }
    if (span.action.kind == ActionKind::backward && reloaded.contains(of)) {
      EXPECT_GE(span.start_ns, reloaded.at(of));
    }
  }
  EXPECT_EQ(offloaded.size(), reloaded.size());
  EXPECT_GT(reloaded.size(), 4U);
}

TEST(ProcessNumbers, OneRankIsOneProcess) {
  const Program program = lowered(*generate("gpipe", {.stages = 1, .microbatches = 3}));
  expect_complete(program, run_in_processes(program).at(0));
}

TEST(ProcessNumbers, ReplicasReduceTheirGradientsInOrder) {
  Shape shape{.stages = 3, .microbatches = 12};
  shape.replicas = {4, 2, 2};
  const Program program = lowered(*generate("1f1b-rr", shape));
  expect_complete(program, run_in_processes(program).at(0));
}

TEST(ProcessNumbers, ShardedStagesAreGatheredAroundTheirUse) {
  for (const std::int32_t sharding : {1, 3}) {
    Shape shape{.stages = 2, .microbatches = 6, .iterations = 2};
    shape.replicas = {3};
    shape.sharding = sharding;
    const Program program = lowered(*generate("data-parallel", shape));
    expect_complete(program, run_in_processes(program).at(0));
  }
}

// A message is under way for 20 ms.
TEST(ProcessNumbers, ListsWithWaitsComputeThemAndRanksWait) {
  const Program program = with_waits(lowered(*generate("1f1b", {.stages = 2, .microbatches = 4})));
  const FlatProgram flat = flatten(program, free_costs(program), {.channels = {}, .iterations = 1});
  const Timeline timeline =
      run_in_processes(program, 1, {.hold = {}, .latency = std::vector<Ns>(flat.messages.size(), 20'000'000)})
          .at(0);
  expect_complete(program, timeline);
  std::map<std::string, const Span*> spans;
  for (const Span& span : timeline.spans) spans[to_text(span.action)] = &span;
  EXPECT_GE(spans.at("0WAIT_SEND_F0")->start_ns, spans.at("0SEND_F0")->end_ns);
  EXPECT_GE(spans.at("0SEND_F0")->end_ns - spans.at("0SEND_F0")->start_ns, 20'000'000);
  for (const std::int32_t sharding : {0, 2}) {
    const Program reducing = waiting_program(sharding);
    expect_complete(reducing, run_in_processes(reducing).at(0));
  }
}

TEST(ProcessNumbers, BarriersSeparateIterationsAndRunsFollowEachOther) {
  const Program program =
      lowered(*generate("1f1b", {.stages = 3, .microbatches = 4, .iterations = 3, .barrier = true}));
  const auto timelines = run_in_processes(program, 3);
  ASSERT_EQ(timelines.size(), 3);
  for (const Timeline& timeline : timelines) {
    Ns last_of_first = 0;
    Ns first_of_second = timeline.makespan_ns;
    for (const Span& span : timeline.spans) {
      if (!has_microbatch(span.action.kind) || !is_compute(span.action.kind)) continue;
      if (span.action.microbatch < 4) last_of_first = std::max(last_of_first, span.end_ns);
      if (span.action.microbatch >= 4) first_of_second = std::min(first_of_second, span.start_ns);
    }
    EXPECT_LE(last_of_first, first_of_second);
  }
}

TEST(ProcessNumbers, EmulatedLinksHoldTheirQueueAndDelayArrival) {
  constexpr Ns kHold = 3'000'000;
  constexpr Ns kLatency = 5'000'000;
  const Program program = lowered(*generate("gpipe", {.stages = 2, .microbatches = 4}));
  const auto messages = static_cast<std::size_t>(2 * 4);
  const Timeline timeline = run_in_processes(program, 1,
                                             {.hold = std::vector<Ns>(messages, kHold),
                                              .latency = std::vector<Ns>(messages, kLatency)})
                                .at(0);
  std::vector<Ns> starts;
  for (const Span& span : timeline.spans) {
    if (is_transfer(span.action.kind)) {
      EXPECT_EQ(span.end_ns - span.start_ns, kHold + kLatency);
    }
    if (span.action.kind == ActionKind::send_forward) starts.push_back(span.start_ns);
    if (span.action.kind != ActionKind::forward || span.rank != 1) continue;
    const auto recv = std::ranges::find_if(timeline.spans, [&](const Span& other) {
      return other.action.kind == ActionKind::recv_forward &&
             other.action.microbatch == span.action.microbatch;
    });
    EXPECT_GE(span.start_ns, recv->end_ns);
  }
  ASSERT_EQ(starts.size(), 4);
  for (std::size_t i = 1; i < starts.size(); ++i) EXPECT_GE(starts[i] - starts[i - 1], kHold);
}

TEST(ProcessNumbers, ACheckThatFailsInAProcessIsTheRunsError) {
  const Program program = lowered(*generate("1f1b", {.stages = 2, .microbatches = 4}));
  const FlatProgram flat = flatten(program, free_costs(program), {.channels = {}, .iterations = 1});
  const EchoCodec codec;
  const auto timelines =
      execute_in_processes({.program = program,
                            .flat = flat,
                            .modules = [&](std::int32_t, const Clock&) { return echo_modules(program); },
                            .codec = &codec,
                            .finished =
                                [](std::int32_t rank, const StageModules&) {
                                  if (rank == 1) throw std::runtime_error("the numbers differ");
                                  return RankAccount{};
                                }});
  ASSERT_FALSE(timelines);
  // On a busy machine, rank 0 may not have ended yet, and then waits for rank 1.
  EXPECT_THAT(timelines.error().message,
              testing::StartsWith("rank 1: the end of its list: the numbers differ"));
}

}  // namespace
}  // namespace penstock
