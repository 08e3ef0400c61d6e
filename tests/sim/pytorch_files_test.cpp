// The schedules of torch.distributed.pipelining as CSV: read, simulated to the stated makespans and peaks in
// unit times, written back equal, and made again by our own generators and lowering. The files are PyTorch's
// own and are read where they stand; a few lines are carried over below.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/result/metrics.hpp"
#include "schedules/passes/fsdp.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/pytorch_csv.hpp"
#include "sim/engines/engines.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

const std::filesystem::path kFolder = source_path("../shared/reference/pytorch");

std::string text_in(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// F = I = W = 1, B = 2, an overlapped pair 3.
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

/// The schedule's own name, as PyTorch calls it.
std::string schedule_of(const std::string& name) { return name.substr(0, name.find("_pp")); }

/// Blank cells stand for idle slots, which a program does not have.
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
  // pytorch/pytorch#172668: two ranks, two chunks, two microbatches.
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
