// Compares all engines with the slow reference: all schedules on all small shapes with all channel models,
// and random programs. Then tests microbatches with different costs, and stages that do not form a chain. The
// last tests compare one pipeline with the makespans that four other tools print.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/reference_engine.hpp"

namespace penstock {
namespace {

/// Returns a description of the first span in which two timelines differ. Returns an empty text if they are
/// equal.
std::string difference(const Timeline& expected, const Timeline& actual) {
  if (expected.spans.size() != actual.spans.size()) return "different numbers of spans";
  for (std::size_t i = 0; i < expected.spans.size(); ++i) {
    const Span& e = expected.spans[i];
    const Span& a = actual.spans[i];
    if (e == a) continue;
    return "rank " + std::to_string(e.rank) + " " + to_text(e.action) + ": expected " +
           std::to_string(e.start_ns) + ".." + std::to_string(e.end_ns) + ", got " + to_text(a.action) + " " +
           std::to_string(a.start_ns) + ".." + std::to_string(a.end_ns);
  }
  return expected.makespan_ns == actual.makespan_ns ? "" : "different makespans";
}

void expect_agreement(const Experiment& experiment) {
  const ChannelOptions& channels = experiment.channels;
  SCOPED_TRACE(testing::Message() << to_text(channels.model) << blocking_suffix(channels.blocking)
                                  << " capacity " << channels.capacity << " eager " << channels.eager_bytes
                                  << (channels.launch_order ? " in launch order" : "") << "\n"
                                  << to_text(experiment.program));
  const Timeline expected = reference_engine(experiment);
  const auto fast = critical_path(experiment);
  ASSERT_TRUE(fast) << fast.error().message;
  EXPECT_EQ(difference(expected, *fast), "");
  if (links_are_shared(experiment)) return;
  const auto events = event_simulation(experiment);
  ASSERT_TRUE(events) << events.error().message;
  EXPECT_EQ(difference(expected, *events), "");
}

/// Returns an experiment with unequal stages, slow messages and small reductions.
Experiment uneven(const Program& program, const ChannelOptions& channels) {
  CostTable costs;
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    costs.stages.push_back({.forward_ns = 10 + 3 * (stage % 3),
                            .backward_ns = 21 + 2 * (stage % 2),
                            .backward_input_ns = 9 + stage % 3,
                            .backward_weight_ns = 11,
                            .recompute_ns = 10,
                            .step_ns = 2,
                            .gradients = 30});
  }
  for (const StageEdge& edge : stage_edges(program)) costs.edges.push_back({6 + edge.from, 4});
  Experiment experiment = experiment_of(program, costs, uniform_links(program.rank_count(), 1e9, 3));
  experiment.channels = channels;
  return experiment;
}

std::vector<Shape> small_shapes() {
  std::vector<Shape> shapes;
  for (const std::int32_t stages : {1, 2, 3}) {
    for (const std::int32_t microbatches : {1, 2, 4}) {
      for (const std::int32_t v : {1, 2}) {
        shapes.push_back(
            {.stages = stages, .microbatches = microbatches, .virtual_stages = v, .iterations = 2});
      }
    }
  }
  return shapes;
}

TEST(Engines, AgreeOnEveryGeneratorUnderEveryChannelModel) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const int before = compared;
    for (const Shape& shape : small_shapes()) {
      const auto program = generate(schedule.name, shape);
      if (!program) continue;
      for (const ChannelModel model : kChannelModels) {
        SCOPED_TRACE(testing::Message()
                     << schedule.name << " K=" << shape.stages << " M=" << shape.microbatches
                     << " v=" << shape.virtual_stages << " " << to_text(model));
        const Experiment experiment = uneven(*program, {.model = model});
        ASSERT_FALSE(find_hang(experiment.program, experiment.channels, experiment.costs));
        expect_agreement(experiment);
        ++compared;
      }
    }
    EXPECT_GT(compared, before) << schedule.name;
  }
}

TEST(Engines, AgreeWithBlockingCapacityAndEagerMessages) {
  for (const ChannelOptions& channels :
       {ChannelOptions{.blocking = Blocking::each}, ChannelOptions{.blocking = Blocking::batched},
        ChannelOptions{.capacity = 1}, ChannelOptions{.capacity = 2, .eager_bytes = 7},
        ChannelOptions{.model = ChannelModel::rank, .eager_bytes = 7}}) {
    for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1"}) {
      SCOPED_TRACE(testing::Message()
                   << name << " " << to_text(channels.model) << blocking_suffix(channels.blocking)
                   << " capacity " << channels.capacity << " eager " << channels.eager_bytes);
      const Experiment experiment = uneven(*generate(name, {.stages = 3, .microbatches = 4}), channels);
      if (find_hang(experiment.program, experiment.channels, experiment.costs)) continue;
      expect_agreement(experiment);
    }
  }
}

/// Returns true if the list has a SEND after a compute action that comes after the SEND's producer.
bool sends_late(const std::vector<Action>& list) {
  std::size_t newest = 0;  // position of the latest group of compute actions
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (is_compute(list[i].kind) && opens_group(list, i)) newest = i;
    if (!is_send(list[i].kind)) continue;
    const auto produces = [&](const Action& action) {
      return output_of(action.kind) == flow_of(list[i].kind) && action.stage == list[i].stage &&
             action.microbatch == list[i].microbatch;
    };
    if (std::none_of(list.begin() + static_cast<std::ptrdiff_t>(newest),
                     list.begin() + static_cast<std::ptrdiff_t>(group_end(list, newest)), produces)) {
      return true;
    }
  }
  return false;
}

// With PENSTOCK_PROGRAMS=20000, the test uses 20000 programs.
TEST(Engines, AgreeOnRandomPrograms) {
  const char* const given = std::getenv("PENSTOCK_PROGRAMS");
  const std::uint64_t programs = given == nullptr ? 3000 : std::stoul(given);
  std::uint64_t sending_late = 0;
  for (std::uint32_t seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Experiment experiment = random_experiment(seed);
    expect_agreement(experiment);
    if (HasFailure()) return;
    sending_late += std::ranges::any_of(experiment.program.ranks, sends_late) ? 1 : 0;
  }
  EXPECT_GT(sending_late, programs / 30);
}

// Every program posts its transfers in groups. Some would hang in this way, and are left out.
TEST(Engines, AgreeOnRandomProgramsWithGroupsOfTransfers) {
  const char* const given = std::getenv("PENSTOCK_PROGRAMS");
  const std::uint64_t programs = given == nullptr ? 1500 : std::stoul(given);
  std::uint64_t compared = 0;
  for (std::uint32_t seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Experiment experiment = random_experiment(seed);
    experiment.channels.blocking = Blocking::batched;
    if (find_hang(experiment.program, experiment.channels, experiment.costs)) continue;
    expect_agreement(experiment);
    if (HasFailure()) return;
    ++compared;
  }
  EXPECT_GT(compared, programs / 2);
}

// Lists state groups, and at some of them ranks do not wait. The other transfers are issued ahead, or ranks
// wait for them, too.
TEST(Engines, AgreeOnRandomProgramsWithStatedGroups) {
  const char* const given = std::getenv("PENSTOCK_PROGRAMS");
  const std::uint64_t programs = given == nullptr ? 1500 : std::stoul(given);
  std::uint64_t compared = 0;
  for (std::uint32_t seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Experiment experiment = random_experiment(seed);
    group_some(experiment.program, seed);
    if (seed % 2 == 0) wait_at_no(experiment.program, seed);
    if (find_hang(experiment.program, experiment.channels, experiment.costs)) continue;
    expect_agreement(experiment);
    if (HasFailure()) return;
    ++compared;
  }
  EXPECT_GT(compared, programs / 2);
}

// Operations of a rank start in the order of their launches. Half of the programs also have hosts that
// launch, and a third has WAITs.
TEST(Engines, AgreeOnRandomProgramsInLaunchOrder) {
  const char* const given = std::getenv("PENSTOCK_PROGRAMS");
  const std::uint64_t programs = given == nullptr ? 1500 : std::stoul(given);
  std::uint64_t compared = 0;
  std::uint64_t delayed = 0;
  for (std::uint32_t seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Experiment experiment = random_experiment(seed);
    if (experiment.channels.waits()) continue;
    if (seed % 3 == 0) add_waits(experiment.program, seed);
    if (seed % 2 == 0)
      experiment.costs.launch = {.overhead_ns = seed % 7, .most_ahead = static_cast<std::int32_t>(seed % 3)};
    const Timeline free = reference_engine(experiment);
    experiment.channels.launch_order = true;
    if (find_hang(experiment.program, experiment.channels, experiment.costs)) continue;
    expect_agreement(experiment);
    if (HasFailure()) return;
    ++compared;
    delayed += difference(free, *critical_path(experiment)).empty() ? 0 : 1;
  }
  EXPECT_GT(compared, programs / 2);
  EXPECT_GT(delayed, programs / 20);
}

// Some programs have groups of transfers as well, or launches that take time.
TEST(Engines, AgreeOnRandomProgramsWithWaits) {
  const char* const given = std::getenv("PENSTOCK_PROGRAMS");
  const std::uint64_t programs = given == nullptr ? 1500 : std::stoul(given);
  std::uint64_t compared = 0;
  for (std::uint32_t seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Experiment experiment = random_experiment(seed);
    if (seed % 3 == 0) group_some(experiment.program, seed);
    if (seed % 5 == 0)
      experiment.costs.launch = {.overhead_ns = seed % 7, .most_ahead = static_cast<std::int32_t>(seed % 4)};
    add_waits(experiment.program, seed);
    if (find_hang(experiment.program, experiment.channels, experiment.costs)) continue;
    expect_agreement(experiment);
    if (HasFailure()) return;
    ++compared;
  }
  EXPECT_GT(compared, programs / 2);
}

// Some programs also have WAITs, groups of transfers, launches that take time, or a launch order.
TEST(Engines, AgreeOnRandomProgramsThatOffload) {
  const char* const given = std::getenv("PENSTOCK_PROGRAMS");
  const std::uint64_t programs = given == nullptr ? 2000 : std::stoul(given);
  std::uint64_t compared = 0;
  std::uint64_t delayed = 0;
  for (std::uint32_t seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Experiment experiment = random_experiment(seed);
    if (seed % 3 == 0) group_some(experiment.program, seed);
    if (seed % 5 == 0)
      experiment.costs.launch = {.overhead_ns = seed % 7, .most_ahead = static_cast<std::int32_t>(seed % 4)};
    if (seed % 4 == 0) add_waits(experiment.program, seed);
    if (seed % 7 == 0) experiment.channels.blocking = Blocking::batched;
    experiment.channels.launch_order = seed % 6 == 2;
    const Program without = experiment.program;
    offload_some(experiment, seed);
    // Copies are no reason to refuse a program.
    EXPECT_EQ(validate(experiment.program).has_value(), validate(without).has_value());
    const bool hangs = find_hang(experiment.program, experiment.channels, experiment.costs).has_value();
    EXPECT_EQ(hangs, find_hang(without, experiment.channels, experiment.costs).has_value());
    if (hangs) continue;
    expect_agreement(experiment);
    if (HasFailure()) return;
    ++compared;
    Experiment plain = experiment;
    plain.program = without;
    delayed += makespan_ns(plain) != makespan_ns(experiment) ? 1 : 0;
  }
  EXPECT_GT(compared, programs / 2);
  EXPECT_GT(delayed, programs / 10);
}

// Each rank has one queue for activations. A message of 58 bytes goes from rank 2 to rank 1, and then one of
// 11 bytes from each of them to rank 0. Both are eager, so neither waits for the other.
//
//   rank 2   |0>1, 58 ns---------|0>2|          1 byte takes 1 ns
//   rank 1   |0>1, 58 ns---------|1>2|
//   rank 0   .....................|0>2|          at the same time as 1>2
TEST(Engines, EagerMessagesOfTwoSendersReachOneReceiverAtOneTime) {
  const auto program = parse_program(
      "penstock program 1\nschedule eager\nmicrobatches 1\nforward_only\nedges 0>1 0>2 1>2\n"
      "stage 0: rank 2\nstage 1: rank 1\nstage 2: rank 0\n"
      "rank 0: 2RECV_F0<0 2RECV_F0 2F0\n"
      "rank 1: 1RECV_F0 1F0 1SEND_F0\n"
      "rank 2: 0F0 0SEND_F0 0SEND_F0>2\n",
      "eager.psched");
  ASSERT_TRUE(program) << program.error();
  CostTable costs = uniform_costs(*program, {});
  costs.stages[2].forward_ns = 7;
  costs.edges = {{.activation = 58}, {.activation = 11}, {.activation = 11}};
  const Experiment experiment{.name = "eager",
                              .program = *program,
                              .costs = costs,
                              .cluster = uniform_links(3, 1e9, 0),
                              .channels = {.model = ChannelModel::direction, .eager_bytes = 46},
                              .notes = {}};
  expect_agreement(experiment);
  EXPECT_EQ(makespan_ns(experiment), 58 + 11 + 7);
}

TEST(Engines, AHangIsReportedByBoth) {
  // Each rank sends before it receives, and each pair of ranks has one queue.
  const auto program = parse_program(
      "penstock program 1\nschedule crossed\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1STEP\n",
      "crossed.psched");
  ASSERT_TRUE(program) << program.error();
  Experiment experiment = uneven(*program, {.model = ChannelModel::pair});
  EXPECT_FALSE(critical_path(experiment));
  EXPECT_FALSE(event_simulation(experiment));
  experiment.channels.model = ChannelModel::directed;
  expect_agreement(experiment);
}

// Microbatches with different costs: as in the slow reference, the duration of an action is that of its own
// microbatch. Memory and traffic count the bytes of the microbatches that are present.

/// Returns a text about the first action with different times in two timelines. Returns an empty text if
/// there is none.
std::string late_action(const Timeline& expected, const Timeline& actual) {
  for (std::size_t i = 0; i < expected.spans.size(); ++i) {
    if (expected.spans[i] == actual.spans.at(i)) continue;
    return to_text(expected.spans[i].action) + " ends at " + std::to_string(actual.spans[i].end_ns) +
           " instead of " + std::to_string(expected.spans[i].end_ns);
  }
  return "";
}

// With K = 2 and M = 3, the F of the microbatches take 1, 3 and 1, and the B twice as long. Rank 0 has to
// wait for the long microbatch 1.
//
//   rank 0  F0 F1 F1 F1 B0 B0 F2 .  .  .  .  .  B1 ...
//   rank 1  .  F0 B0 B0 F1 F1 F1 B1 B1 B1 B1 B1 B1 F2 B2 B2
TEST(MicrobatchCosts, EachActionTakesWhatItsOwnMicrobatchTakes) {
  const Program program = *generate("1f1b", {.stages = 2, .microbatches = 3});
  CostTable costs = uniform_costs(program, {});
  for (const Ns length : {1, 3, 1}) {
    const CostTable one = uniform_costs(program, {.forward_ns = length, .backward_ns = 2 * length});
    costs.microbatches.push_back({.stages = one.stages, .edges = one.edges});
  }
  const auto timeline =
      critical_path(experiment_of(program, costs, uniform_links(2, kUnlimitedBandwidth, 0)));
  ASSERT_TRUE(timeline);
  std::vector<Ns> ends;
  for (const Span& span : timeline->spans) {
    if (span.rank == 1 && is_compute(span.action.kind)) ends.push_back(span.end_ns);
  }
  EXPECT_EQ(ends, (std::vector<Ns>{2, 4, 7, 13, 14, 16, 16}));  // F0 B0 F1 B1 F2 B2 STEP
}

TEST(MicrobatchCosts, EnginesAgreeOnEveryGenerator) {
  std::vector<Shape> shapes;
  for (const std::int32_t stages : {1, 2, 3}) {
    for (const std::int32_t microbatches : {1, 2, 4}) {
      for (const std::int32_t v : {1, 2}) {
        shapes.push_back(
            {.stages = stages, .microbatches = microbatches, .virtual_stages = v, .iterations = 2});
      }
      shapes.push_back({.stages = stages, .microbatches = microbatches, .slices = 2});
      shapes.push_back({.stages = stages, .microbatches = microbatches, .data_parallel = 2});
    }
  }
  for (const ScheduleInfo& schedule : schedule_table()) {
    int compared = 0;
    for (const Shape& shape : shapes) {
      const auto program = generate(schedule.name, shape);
      if (!program) continue;
      // Either all microbatches have different costs, or the costs of the first half are repeated.
      for (const std::int32_t repetitions : {1, 2}) {
        if (program->microbatches % repetitions != 0) continue;
        const auto distinct = static_cast<std::size_t>(program->microbatches / repetitions);
        for (const ChannelOptions& channels : {ChannelOptions{}, ChannelOptions{.model = ChannelModel::rank},
                                               ChannelOptions{.eager_bytes = 5}}) {
          SCOPED_TRACE(testing::Message() << schedule.name << " K=" << shape.stages
                                          << " M=" << shape.microbatches << " " << to_text(channels.model));
          Experiment experiment = experiment_of(*program, differing_costs(*program, distinct),
                                                uniform_links(program->rank_count(), 1e9, 3));
          experiment.channels = channels;
          if (find_hang(experiment.program, channels, experiment.costs)) continue;
          const Timeline expected = reference_engine(experiment);
          EXPECT_EQ(late_action(expected, *critical_path(experiment)), "");
          if (!links_are_shared(experiment)) {
            EXPECT_EQ(late_action(expected, *event_simulation(experiment)), "");
          }
          ++compared;
        }
      }
    }
    EXPECT_GT(compared, 0) << schedule.name;
  }
}

TEST(MicrobatchCosts, EqualOnesCostWhatOneCostForAllDoes) {
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "interleaved"}) {
    const Program program = *generate(name, {.stages = 4, .microbatches = 8});
    const StageCost stage{
        .forward_ns = 5, .backward_ns = 9, .backward_input_ns = 4, .backward_weight_ns = 5, .kept = 3};
    const CostTable alike = uniform_costs(program, stage, {.activation = 7, .gradient = 5});
    CostTable listed = alike;
    listed.microbatches.assign(8, {.stages = alike.stages, .edges = alike.edges});
    const Cluster cluster = uniform_links(4, 1e9, 2);
    EXPECT_EQ(*simulate(experiment_of(program, alike, cluster), {}),
              *simulate(experiment_of(program, listed, cluster), {}))
        << name;
  }
}

// GPipe holds the activations of all microbatches. With 1F1B, the last rank holds those of one at a time.
TEST(MicrobatchCosts, MemoryAndTrafficAreThoseOfTheMicrobatchesThatAreThere) {
  const auto result_of = [](const char* name) {
    const Program program = *generate(name, {.stages = 2, .microbatches = 3});
    CostTable costs = uniform_costs(program, {});
    for (const Bytes size : {100, 500, 200}) {
      const CostTable one = uniform_costs(program, {.forward_ns = 1, .backward_ns = 2, .kept = size},
                                          {.activation = size, .gradient = 1});
      costs.microbatches.push_back({.stages = one.stages, .edges = one.edges});
    }
    return *simulate(experiment_of(program, costs, uniform_links(2, kUnlimitedBandwidth, 0)), {});
  };
  const auto kept = [](const Result& result, std::size_t rank) {
    return result.ranks[rank].memory.peaks[static_cast<std::size_t>(MemoryCategory::activations)];
  };
  const Result gpipe = result_of("gpipe");
  EXPECT_EQ(kept(gpipe, 0), 800);
  EXPECT_EQ(kept(gpipe, 1), 800);
  EXPECT_EQ(gpipe.ranks[0].sent_bytes, 800);
  EXPECT_EQ(gpipe.ranks[1].sent_bytes, 3);
  const Result one_f_one_b = result_of("1f1b");
  EXPECT_EQ(kept(one_f_one_b, 0), 700);  // microbatches 1 and 2
  EXPECT_EQ(kept(one_f_one_b, 1), 500);
}

// Programs whose stages do not form a chain: a diamond, and a skip connection.

Program graph_program(const std::string& text) {
  const auto program = parse_program(text, "graph.psched");
  EXPECT_TRUE(program) << program.error();
  EXPECT_EQ(to_text(*program), text);
  EXPECT_TRUE(validate(*program)) << validate(*program).error();
  return *program;
}

CostTable costs_of(const Program& program) {
  return uniform_costs(program, {.forward_ns = 10, .backward_ns = 20}, {.activation = 5, .gradient = 5});
}

//        1 (10)
//   0 <          > 3        both branches run at the same time
//        2 (10)
TEST(StageGraph, TheBranchesOfADiamondRunAtTheSameTime) {
  const Program diamond = graph_program(
      "penstock program 1\nschedule diamond\nmicrobatches 1\nedges 0>1 0>2 1>3 2>3\n"
      "stage 0: rank 0\nstage 1: rank 1\nstage 2: rank 2\nstage 3: rank 3\n"
      "rank 0: 0F0 0B0 0STEP\nrank 1: 1F0 1B0 1STEP\nrank 2: 2F0 2B0 2STEP\nrank 3: 3F0 3B0 3STEP\n");
  const Experiment experiment =
      experiment_of(diamond, costs_of(diamond), uniform_links(4, kUnlimitedBandwidth, 1));
  EXPECT_EQ(makespan_ns(experiment), 3 * 30 + 4 * 1);
  EXPECT_EQ(*critical_path(experiment), reference_engine(experiment));
  EXPECT_EQ(to_text(lower(diamond)->ranks[0][1]), "0SEND_F0");
  EXPECT_EQ(to_text(lower(diamond)->ranks[0][2]), "0SEND_F0>2");
}

TEST(StageGraph, ASkipConnectionGoesFromRankToRank) {
  const Program skip = graph_program(
      "penstock program 1\nschedule skip\nmicrobatches 2\nedges 0>1 0>2 1>2\n"
      "stage 0: rank 0\nstage 1: rank 1\nstage 2: rank 2\n"
      "rank 0: 0F0 0F1 0B0 0B1 0STEP\nrank 1: 1F0 1F1 1B0 1B1 1STEP\nrank 2: 2F0 2B0 2F1 2B1 2STEP\n");
  CostTable costs = costs_of(skip);
  costs.edges[1].activation = 100;  // edge 0>2 is slow: 100 ns
  const Experiment experiment = experiment_of(skip, costs, uniform_links(3, 1e9, 0));
  const Timeline timeline = *critical_path(experiment);
  EXPECT_EQ(timeline, reference_engine(experiment));
  for (const Span& span : timeline.spans) {
    if (span.rank == 2 && to_text(span.action) == "2F0") {
      EXPECT_EQ(span.start_ns, 110);
    }
  }
  EXPECT_EQ(to_text(*lower(skip)), to_text(*parse_program(to_text(*lower(skip)), "again")));
}

TEST(StageGraph, StagesOnOneRankPassTheirTensorsDirectly) {
  const Program folded = graph_program(
      "penstock program 1\nschedule folded\nmicrobatches 1\nedges 0>1 0>2 1>2\n"
      "stage 0: rank 0\nstage 1: rank 0\nstage 2: rank 1\n"
      "rank 0: 0F0 1F0 1B0 0B0 0STEP 1STEP\nrank 1: 2F0 2B0 2STEP\n");
  const Program lowered = *lower(folded);
  std::string sends;
  for (const auto& list : lowered.ranks) {
    for (const Action& action : list) {
      if (is_send(action.kind)) sends += to_text(action) + " ";
    }
  }
  EXPECT_EQ(sends, "0SEND_F0>2 1SEND_F0 2SEND_B0>0 2SEND_B0 ");
  EXPECT_TRUE(validate(lowered));
}

// Four independent tools simulated 1F1B and print the same makespans. F takes 1 ms, B takes 2 ms, and a
// transfer takes 316.5 us (16 MiB at 50 GiB/s with a latency of 4 us, one FIFO for each ordered pair of
// ranks).

Experiment shared_case(std::int32_t stages, std::int32_t microbatches) {
  const Program program = *generate("1f1b", {.stages = stages, .microbatches = microbatches});
  const CostTable costs = uniform_costs(program, {.forward_ns = 1'000'000, .backward_ns = 2'000'000},
                                        {.activation = 16 << 20, .gradient = 16 << 20});
  return experiment_of(program, costs, uniform_links(stages, 50.0 * (1 << 30), 4'000));
}

TEST(Agreement, OneFOneBWithTransfersTakesWhatFourOtherToolsPrint) {
  EXPECT_EQ(makespan_ns(shared_case(8, 32)), 138'522'000);
  EXPECT_EQ(makespan_ns(shared_case(16, 128)), 513'822'000);
  EXPECT_EQ(makespan_ns(shared_case(64, 512)), 2'083'278'000);
  EXPECT_EQ(makespan_ns(shared_case(16, 1024)), 3'733'542'000);
}

TEST(Agreement, TheEventEngineAgreesAsNothingIsShared) {
  const Experiment experiment = shared_case(16, 128);
  EXPECT_FALSE(links_are_shared(experiment));
  EXPECT_EQ(event_simulation(experiment)->makespan_ns, 513'822'000);
}

TEST(Agreement, OneQueuePerPairOfRanksIsSlower) {
  Experiment experiment = shared_case(8, 32);
  experiment.channels.model = ChannelModel::pair;
  EXPECT_NEAR(static_cast<double>(makespan_ns(experiment)), 140.4e6, 0.05e6);
}

}  // namespace
}  // namespace penstock
