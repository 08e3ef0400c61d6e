// From a network to a comparison, as a user goes: profile, plan, simulate, run, compare. What is run is real
// mathematics; its times are not held to anything, as the ranks share the test machine's cores.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/transcript.hpp"
#include "tests/scratch_folder.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A folder of its own, gone with the test.
class WholeWay : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(fs::path(PENSTOCK_EXECUTABLE).parent_path() / "penstock-torch"))
      GTEST_SKIP() << "no penstock-torch: it was built without LibTorch";
  }
  json read(const std::string& file) const { return json::parse(std::ifstream(folder_.path() / file)); }
  /// What the command prints, errors and exit code included.
  std::string run(const std::string& arguments) const {
    return outcome_of("penstock " + arguments, folder_.path());
  }
  void expect_good(const std::string& arguments) const {
    const std::string outcome = run(arguments);
    EXPECT_EQ(outcome.find("[exit"), std::string::npos) << "$ penstock " << arguments << "\n" << outcome;
  }

  /// Profiles the network, plans it on three devices, and takes the plan through all the rest.
  void go(const std::string& network, const std::string& plan_flags) const {
    expect_good("profile " + network +
                " --size width=4 --size image=12 --micro-batch-size 4 --repeats 5 -o graph.txt");
    folder_.write("scenario.yaml",
                  "model: {profile: graph.txt, batch: 4, network: {" + network +
                      ": {width: 4, image: 12}}}\n"
                      "cluster: {preset: uniform, devices: 3, bandwidth: 10 GB/s, latency: 2 us}\n"
                      "training: {micro_batch_size: 4, optimizer: momentum}\n");
    expect_good("plan scenario.yaml " + plan_flags + " -o plan.yaml");
    expect_good("simulate plan.yaml --timeline -o predicted.json --quiet");
    expect_good("run plan.yaml --timeline --warmup 1 --repeats 1 -o measured.json --quiet");
    // Bounds that nothing exceeds: what counts is that the two can be compared.
    expect_good("compare predicted.json measured.json --tolerance 1000 --bubble-tolerance 1");
    const json predicted = read("predicted.json");
    const json measured = read("measured.json");
    EXPECT_TRUE(predicted["kind"].get<std::string>() == "predicted");
    EXPECT_TRUE(measured["kind"].get<std::string>() == "measured");
    EXPECT_EQ(measured["program"]["digest"], predicted["program"]["digest"]) << "not the same program";
    EXPECT_EQ(measured["timeline"].size(), predicted["timeline"].size());
    for (const json& rank : measured["ranks"]) EXPECT_GT(rank["peak_bytes"].get<std::int64_t>(), 0);
  }

  ScratchFolder folder_;
};

TEST_F(WholeWay, OfAConvolutionalNetwork) { go("conv-net", ""); }

TEST_F(WholeWay, OfABranchingNetworkInAStraightPipeline) {
  go("branch-net", "--straight");
  EXPECT_EQ(read("measured.json")["program"]["stages"].get<int>(), 3);
}

TEST_F(WholeWay, EndsWhereTheScenarioIsNotOfTheNetwork) {
  expect_good("profile conv-net --size width=4 --size image=12 --repeats 1 -o graph.txt");
  folder_.write("scenario.yaml",
                "model: {profile: graph.txt, network: {conv-net: {blocks: 3}}, batch: 1}\n"
                "schedule: {name: gpipe, stages: 1, microbatches: 1}\n");
  EXPECT_EQ(
      run("run scenario.yaml"),
      "! penstock: scenario.yaml:1:38: model.network: the model has a layer \"Conv2d-6\", the "
      "network conv-net "
      "with these sizes has not; its layers go from Conv2d-0 to Linear-7. Profile it again, or correct the "
      "sizes\n"
      "[exit 2]\n");
}

}  // namespace
}  // namespace penstock
