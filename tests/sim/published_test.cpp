// Compares published drawings with start and end times, counted from 0: PipeDream (SOSP'19, Figures 2, 3, 4,
// 7 and 8) and the schedules of PyTorch. A backward takes twice as long as a forward. Links take no time
// unless a test states it. Figure 8 does not draw the gradient reduction among replicas.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/result/metrics.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/test_files.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

/// Returns for each rank a text such as "F0@0-1 B0@10-12 ...": forwards and backwards with their times in
/// units of `unit_ns`.
std::vector<std::string> drawn(const Experiment& experiment, Ns unit_ns) {
  std::vector<std::string> rows(static_cast<std::size_t>(experiment.program.rank_count()));
  const auto timeline = critical_path(experiment);
  for (const Span& span : timeline->spans) {
    if (span.action.kind != ActionKind::forward && span.action.kind != ActionKind::backward) continue;
    std::string& row = rows[static_cast<std::size_t>(span.rank)];
    row += fmt::format("{}{}{}@{}-{}", row.empty() ? "" : " ", letters(span.action.kind),
                       span.action.microbatch, span.start_ns / unit_ns, span.end_ns / unit_ns);
  }
  return rows;
}

constexpr Ns kUnit = 1'000'000;
const UniformTimes kPaper{.forward_ns = kUnit, .backward_ns = 2 * kUnit};
using Rows = std::vector<std::string>;

TEST(PipeDreamFigure, TwoNaiveModelParallelism) {
  const Experiment experiment = uniform_experiment("naive", {.stages = 4, .microbatches = 2}, kPaper);
  EXPECT_EQ(drawn(experiment, kUnit),
            (Rows{"F0@0-1 B0@10-12 F1@12-13 B1@22-24", "F0@1-2 B0@8-10 F1@13-14 B1@20-22",
                  "F0@2-3 B0@6-8 F1@14-15 B1@18-20", "F0@3-4 B0@4-6 F1@15-16 B1@16-18"}));
}

TEST(PipeDreamFigure, ThreeGPipe) {
  const Experiment experiment = uniform_experiment("gpipe", {.stages = 4, .microbatches = 4}, kPaper);
  EXPECT_EQ(drawn(experiment, kUnit), (Rows{"F0@0-1 F1@1-2 F2@2-3 F3@3-4 B0@13-15 B1@15-17 B2@17-19 B3@19-21",
                                            "F0@1-2 F1@2-3 F2@3-4 F3@4-5 B0@11-13 B1@13-15 B2@15-17 B3@17-19",
                                            "F0@2-3 F1@3-4 F2@4-5 F3@5-6 B0@9-11 B1@11-13 B2@13-15 B3@15-17",
                                            "F0@3-4 F1@4-5 F2@5-6 F3@6-7 B0@7-9 B1@9-11 B2@11-13 B3@13-15"}));
  const Result result =
      summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs});
  EXPECT_DOUBLE_EQ(result.bubble.idle_over_total, 3.0 / 7);
  EXPECT_DOUBLE_EQ(result.bubble.idle_over_ideal, 0.75);
  for (const RankReport& rank : result.ranks) {
    EXPECT_EQ(rank.idle_ns, 9 * kUnit);
    EXPECT_EQ(rank.peak_live_activations, 4);
  }
}

TEST(PipeDreamFigure, FourOneFOneB) {
  const Experiment experiment = uniform_experiment("1f1b-rr", {.stages = 4, .microbatches = 8}, kPaper);
  EXPECT_EQ(
      drawn(experiment, kUnit),
      (Rows{"F0@0-1 F1@1-2 F2@2-3 F3@3-4 B0@10-12 F4@12-13 B1@13-15 F5@15-16 B2@16-18 F6@18-19 B3@19-21 "
            "F7@21-22 B4@22-24 B5@25-27 B6@28-30 B7@31-33",
            "F0@1-2 F1@2-3 F2@3-4 B0@8-10 F3@10-11 B1@11-13 F4@13-14 B2@14-16 F5@16-17 B3@17-19 F6@19-20 "
            "B4@20-22 F7@22-23 B5@23-25 B6@26-28 B7@29-31",
            "F0@2-3 F1@3-4 B0@6-8 F2@8-9 B1@9-11 F3@11-12 B2@12-14 F4@14-15 B3@15-17 F5@17-18 B4@18-20 "
            "F6@20-21 B5@21-23 F7@23-24 B6@24-26 B7@27-29",
            "F0@3-4 B0@4-6 F1@6-7 B1@7-9 F2@9-10 B2@10-12 F3@12-13 B3@13-15 F4@15-16 B4@16-18 F5@18-19 "
            "B5@19-21 F6@21-22 B6@22-24 F7@24-25 B7@25-27"}));
  const Result result =
      summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs});
  for (const RankReport& rank : result.ranks) {
    EXPECT_EQ(rank.peak_live_activations, 4 - rank.rank);
    EXPECT_EQ(rank.weight_versions, 4 - rank.rank);
  }
}

// Minibatch 5 of the paper, which has number 4 here, uses version max(0, k - (p - s + 1)) = 1, 2, 3, 4 on
// stages 1 to 4.
TEST(PipeDreamFigure, FourUsesANewerVersionOnEveryStage) {
  const Program program = *generate("1f1b-rr", {.stages = 4, .microbatches = 8});
  for (std::int32_t stage = 0; stage < 4; ++stage) {
    for (const Action& action : program.ranks[static_cast<std::size_t>(stage)]) {
      if (action.microbatch == 4) {
        EXPECT_EQ(action.weight_version, stage + 1) << to_text(action);
      }
    }
  }
}

TEST(PipeDreamFigure, FourRunsAMinibatchEveryThreeUnits) {
  const Experiment experiment = uniform_experiment("1f1b-rr", {.stages = 4, .microbatches = 64}, kPaper);
  EXPECT_EQ(steady_period(experiment, Engine::critical_path), (Period{3 * kUnit, 1}));
}

Experiment figure_eight(ReplicaSync sync, std::int32_t minibatches) {
  const Program program = *generate(
      "1f1b-rr", {.stages = 2, .microbatches = minibatches, .replicas = {2, 1}, .replica_sync = sync});
  const StageCost slow{.forward_ns = 2 * kUnit, .backward_ns = 2 * kUnit};
  const StageCost fast{.forward_ns = kUnit, .backward_ns = kUnit};
  return experiment_of(program, {.stages = {slow, fast}, .edges = {{}}},
                       uniform_links(3, kUnlimitedBandwidth, 0));
}

TEST(PipeDreamFigure, EightReplicatesTheInputStage) {
  EXPECT_EQ(
      drawn(figure_eight(ReplicaSync::off, 8), kUnit),
      (Rows{"F0@0-2 F2@2-4 B0@4-6 F4@6-8 B2@8-10 F6@10-12 B4@12-14 B6@16-18",
            "F1@0-2 F3@2-4 B1@6-8 F5@8-10 B3@10-12 F7@12-14 B5@14-16 B7@18-20",
            "F0@2-3 B0@3-4 F1@4-5 B1@5-6 F2@6-7 B2@7-8 F3@8-9 B3@9-10 F4@10-11 B4@11-12 F5@12-13 B5@13-14 "
            "F6@14-15 B6@15-16 F7@16-17 B7@17-18"}));
  EXPECT_EQ(steady_period(figure_eight(ReplicaSync::off, 64), Engine::critical_path), (Period{4 * kUnit, 2}));
}

TEST(PipeDreamFigure, EightWithAReductionAmongReplicasStartsTheThirdForwardLater) {
  const Rows rows = drawn(figure_eight(ReplicaSync::on, 8), kUnit);
  EXPECT_THAT(rows[0], testing::HasSubstr("F4@8-10")) << "both replicas' gradients are there at 8";
}

// The machine of PipeDream's figure 7 (SOSP'19): servers with fast links inside and a slow link between them.
// The cost of a boundary between two stages depends on its link. The tests compute it by hand.
//
//     server 0               server 1
//   gpu0 ==== gpu1 --------- gpu2 ==== gpu3      ==== 10 GB/s, ---- 1 GB/s

constexpr Ns kMicrosecond = 1000;
constexpr Ns kMillisecond = 1000 * kMicrosecond;

const std::string kTwoServers =
    "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, intra_bandwidth: 10 GB/s, "
    "inter_bandwidth: 1 GB/s}\n";

/// Returns the makespan if stage s is on the s-th of `devices`.
Ns makespan_on(const std::vector<std::int32_t>& devices, const std::string& text) {
  auto scenario = parse_scenario(text + kTwoServers, "s.yaml", ".");
  EXPECT_TRUE(scenario) << scenario.error();
  if (!scenario) return 0;
  std::get<TwoLevelCluster>(scenario->cluster.shape).device_order = devices;
  const auto result = simulate_scenario(*scenario, {});
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->makespan_ns : 0;
}

/// The boundary uses the fast link gpu0 = gpu1.
const std::vector<std::int32_t> kBesideEachOther = {0, 1, 2, 3};
/// The boundary uses the slow link gpu0 - gpu2.
const std::vector<std::int32_t> kOnTwoServers = {0, 2, 1, 3};

/// Returns a scenario with two stages, with 1 ms for F and 2 ms for B. The boundary has 3 MB, which take 300
/// us on a fast link and 3 ms on a slow one.
std::string two_stages(const std::string& schedule) {
  return "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, output: 3 MB}, "
         "{name: b, forward: 1 ms, backward: 2 ms}]}\npartition: [1]\nschedule: " +
         schedule + "\n";
}

TEST(FastAndSlowLinks, AMinibatchWaitsForTheBoundaryOnceEachWay) {
  // The sequence is F, activation, F, B, gradient, B. So the makespan is the computation and twice the
  // boundary.
  const std::string text = two_stages("{name: naive, stages: 2, microbatches: 1}");
  const Ns compute = 6 * kMillisecond;
  EXPECT_EQ(makespan_on(kBesideEachOther, text), compute + 2 * 300 * kMicrosecond);
  EXPECT_EQ(makespan_on(kOnTwoServers, text), compute + 2 * 3 * kMillisecond);
}

TEST(FastAndSlowLinks, APipelineHidesTheFastBoundaryAndIsPacedByTheSlowOne) {
  // The schedule is GPipe with 8 microbatches. A transfer over the fast link is shorter than a forward, so it
  // delays the pipeline once in each direction: 8 + 1 forwards, 8 + 1 backwards. On the slow link, messages
  // follow each other without a pause:
  //   gpu0  F F F F F F F F                                                     B
  //   link    aaaaaaaa aaaaaaaa ... 8 times 3 ms        gggggggg ... 8 times 3 ms
  //   gpu2             F        F    ...        F B B B B B B B B
  const std::string text = two_stages("{name: gpipe, stages: 2, microbatches: 8}");
  constexpr Ns kForward = kMillisecond;
  constexpr Ns kBackward = 2 * kMillisecond;
  const Ns fast = makespan_on(kBesideEachOther, text);
  const Ns slow = makespan_on(kOnTwoServers, text);
  EXPECT_EQ(fast, (8 + 1) * (kForward + kBackward) + 2 * 300 * kMicrosecond);
  EXPECT_EQ(slow, 2 * (kForward + kBackward) + 2 * 8 * 3 * kMillisecond);
  EXPECT_EQ(slow - fast, 26'400 * kMicrosecond);
}

/// Returns a scenario with four equal layers in three stages on gpu0 = gpu1 - gpu2. Layer b has the large
/// output.
std::string four_layers(const std::string& cuts) {
  return "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, output: 1 MB}, "
         "{name: b, forward: 1 ms, backward: 2 ms, output: 4 MB}, "
         "{name: c, forward: 1 ms, backward: 2 ms, output: 1 MB}, {name: d, forward: 1 ms, backward: 2 "
         "ms}]}\n"
         "schedule: {name: naive, stages: 3, microbatches: 1}\npartition: " +
         cuts + "\n";
}

TEST(FastAndSlowLinks, ThePartitionSaysWhichTensorCrossesTheSlowLink) {
  //   a b = c - d    4 MB over the fast link (400 us), 1 MB over the slow one (1 ms)
  //   a = b - c d    1 MB over the fast link (100 us), 4 MB over the slow one (4 ms)
  // The outputs differ by 3 MB. On the slow link, each byte takes 1 ns instead of 0.1 ns, in each direction:
  // 2 * 3 MB * 0.9 ns.
  const Ns large_on_fast = makespan_on(kBesideEachOther, four_layers("[2, 3]"));
  const Ns large_on_slow = makespan_on(kBesideEachOther, four_layers("[1, 2]"));
  const Ns compute = 12 * kMillisecond;
  EXPECT_EQ(large_on_fast, compute + 2 * (400 * kMicrosecond + kMillisecond));
  EXPECT_EQ(large_on_slow, compute + 2 * (100 * kMicrosecond + 4 * kMillisecond));
  EXPECT_EQ(large_on_slow - large_on_fast, 2 * 3 * 900 * kMicrosecond);
}

// The schedules of torch.distributed.pipelining as CSV files. Tests read the files, compare simulated
// makespans and peaks in unit times with stated ones, write the files again, and generate the same programs.
// The files are PyTorch's own. A few lines of them are also in this file.

const std::filesystem::path kFolder = source_path("../shared/reference/pytorch");

std::string text_in(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns an experiment with F = I = W = 1, B = 2, and 3 for an overlapped pair.
Experiment in_unit_times(const Program& program) {
  const StageCost unit{.forward_ns = 1,
                       .backward_ns = 2,
                       .backward_input_ns = 1,
                       .backward_weight_ns = 1,
                       .overlapped_pair_ns = 3,
                       .kept = 1};
  return experiment_of(program, uniform_costs(program, unit),
                       uniform_links(program.rank_count(), kUnlimitedBandwidth, 0));
}

int transfers(const Program& program) {
  int count = 0;
  for (const auto& list : program.ranks)
    count += static_cast<int>(std::ranges::count_if(list, [](const Action& a) { return is_send(a.kind); }));
  return count;
}

class PyTorchFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFolder)) GTEST_SKIP() << "PyTorch's files are not beside this checkout";
    manifest_ = nlohmann::json::parse(text_in(kFolder / "manifest.json"));
  }
  nlohmann::json manifest_;
};

TEST_F(PyTorchFiles, SimulateToTheStatedMakespansPeaksAndTransfers) {
  int cases = 0;
  for (const auto& test_case : manifest_.at("cases")) {
    const std::string name = test_case.at("name");
    for (const char* form : {".compute_only.csv", ".compute_comms.csv"}) {
      if (!std::filesystem::exists(kFolder / (name + form))) continue;
      SCOPED_TRACE(name + form);
      const auto program = parse_pytorch_csv(text_in(kFolder / (name + form)), name);
      ASSERT_TRUE(program) << program.error();
      const Experiment experiment = in_unit_times(*program);
      const Result result =
          summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs});
      EXPECT_EQ(static_cast<double>(result.makespan_ns),
                test_case.at("unit_makespan_F1_I1_W1_B2_FB3").get<double>());
      const auto peaks = test_case.at("peak_live_activations_per_rank").get<std::vector<std::int64_t>>();
      for (const RankReport& rank : result.ranks)
        EXPECT_EQ(rank.peak_live_activations, peaks.at(static_cast<std::size_t>(rank.rank)));
      EXPECT_EQ(transfers(experiment.program), test_case.at("p2p_transfers").get<int>());
      ++cases;
    }
  }
  EXPECT_GE(cases, 60);
}

/// Returns PyTorch's name of the schedule.
std::string schedule_of(const std::string& name) { return name.substr(0, name.find("_pp")); }

/// Removes blank cells. They mean idle slots, which a program does not have.
std::string without_blanks(const std::string& csv) {
  std::stringstream lines(csv);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    std::stringstream cells(line);
    std::string row;
    for (std::string cell; std::getline(cells, cell, ',');) {
      if (!cell.empty()) row += (row.empty() ? "" : ",") + cell;
    }
    result += row + "\n";
  }
  return result;
}

TEST_F(PyTorchFiles, AreMadeByOurGeneratorsLoweringAndShardingPasses) {
  int cases = 0;
  for (const auto& test_case : manifest_.at("cases")) {
    const std::string name = test_case.at("name");
    SCOPED_TRACE(name);
    const auto program = generate(schedule_of(name), {.stages = test_case.at("pp"),
                                                      .microbatches = test_case.at("microbatches"),
                                                      .virtual_stages = test_case.at("stages_per_rank")});
    ASSERT_TRUE(program) << program.error();
    EXPECT_EQ(without_blanks(text_in(kFolder / (name + ".compute_only.csv"))), to_pytorch_csv(*program));
    EXPECT_EQ(to_pytorch_csv(*lower(*program)), text_in(kFolder / (name + ".compute_comms.csv")));
    const auto sharded = lower(insert_reduce_grad(insert_unshard_reshard(*program)));
    ASSERT_TRUE(sharded) << sharded.error();
    EXPECT_EQ(to_pytorch_csv(*sharded), text_in(kFolder / (name + ".compute_comms_fsdp.csv")));
    ++cases;
  }
  EXPECT_EQ(cases, 38);
}

TEST(PyTorchForm, TheLoweringOfItsOwnUnitTestWithoutBlanks) {
  const auto program = parse_pytorch_csv("0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n", "unit.csv");
  ASSERT_TRUE(program) << program.error();
  EXPECT_EQ(to_pytorch_csv(*lower(*program)),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
}

TEST(PyTorchForm, Interleaved1F1BWithFullyShardedStagesAsPrintedInAnIssueOfIts) {
  // Source: pytorch/pytorch#172668, with two ranks, two chunks and two microbatches.
  const Program program = *generate("Interleaved1F1B", {.stages = 2, .microbatches = 2, .virtual_stages = 2});
  EXPECT_EQ(
      to_pytorch_csv(*lower(insert_reduce_grad(insert_unshard_reshard(program)))),
      "0UNSHARD,2UNSHARD,0F0,0SEND_F0,2RECV_F0,0F1,0SEND_F1,2RECV_F1,2F0,2SEND_F0,2F1,2SEND_F1,2RECV_B0,2B0,"
      "2SEND_B0,2RECV_B1,2B1,2SEND_B1,2REDUCE_GRAD,2RESHARD,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
      "1UNSHARD,3UNSHARD,1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3RECV_F1,3B0,3SEND_B0,"
      "1RECV_B0,3F1,3B1,3SEND_B1,1RECV_B1,3REDUCE_GRAD,3RESHARD,1B0,1SEND_B0,1B1,1SEND_B1,1REDUCE_GRAD,"
      "1RESHARD\n");
}

}  // namespace
}  // namespace penstock
