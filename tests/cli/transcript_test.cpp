// Runs commands as users do. Every file in tests/cli/transcripts is a test: its commands run in the source
// directory and must print what the file shows. If PENSTOCK_UPDATE_GOLDENS=1 is set, the files are rewritten
// instead. The later tests run the examples of --help, and all steps from a network to a comparison.

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/transcript.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

const fs::path kDirectory = fs::path(source_path()) / "tests" / "cli" / "transcripts";

std::vector<fs::path> transcripts() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kDirectory)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

/// Returns the file's name for a test. Characters that a test's name cannot have become _.
std::string test_name(const testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.stem().string();
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class Transcript : public testing::TestWithParam<fs::path> {};

TEST_P(Transcript, SaysWhatTheCommandPrints) {
  const std::vector<TranscriptStep> expected = read_transcript(GetParam());
  ASSERT_FALSE(expected.empty()) << GetParam() << " holds no command";
  std::vector<TranscriptStep> actual = expected;
  for (TranscriptStep& step : actual) step.outcome = outcome_of(step.command, source_path());
  if (std::getenv("PENSTOCK_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(GetParam()) << to_text(actual);
    GTEST_SKIP() << "written anew: " << GetParam();
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(actual[i].outcome, expected[i].outcome) << "$ " << expected[i].command;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Transcript, testing::ValuesIn(transcripts()), test_name);

// The examples in --help must work unchanged in the source directory.

namespace fs = std::filesystem;

/// A folder that has the library's scenarios and in which files can be written.
class HelpExamples : public testing::TestWithParam<const char*> {
 protected:
  HelpExamples() {
    fs::create_directory_symlink(fs::path(source_path()) / "scenarios", folder_.path() / "scenarios");
    fs::create_directories(folder_.path() / "tests/sim");
    fs::create_directory_symlink(source_path("tests/sim/logs"), folder_.path() / "tests/sim/logs");
  }

  /// Returns the lines under "Examples:". Each line ends before a pipe into another program.
  std::vector<std::string> examples() const {
    std::istringstream help(outcome_of(std::string("penstock ") + GetParam() + " --help", folder_.path()));
    std::vector<std::string> commands;
    bool inside = false;
    for (std::string line; std::getline(help, line);) {
      inside |= line.starts_with("Examples:");
      if (inside && line.starts_with("  penstock")) commands.push_back(line.substr(2, line.find(" | ") - 2));
    }
    return commands;
  }

  ScratchFolder folder_;
};

TEST_P(HelpExamples, AllWork) {
  const std::vector<std::string> commands = examples();
  EXPECT_FALSE(commands.empty());
  for (const std::string& command : commands) {
    EXPECT_THAT(outcome_of(command, folder_.path()), testing::Not(testing::HasSubstr("[exit")))
        << "$ " << command;
  }
}

// `run`, `calibrate` and `compare` are left out because their measurements take long. The examples of `diff`
// name files of the user.
INSTANTIATE_TEST_SUITE_P(OfCommand, HelpExamples,
                         testing::Values("", "simulate", "explain", "sweep", "show", "check", "convert",
                                         "plan", "model", "schedules", "reproduce", "fit", "largest"),
                         [](const auto& command) {
                           return *command.param == '\0' ? std::string("penstock")
                                                         : std::string(command.param);
                         });

// Runs all steps from a network to a comparison: profile, plan, simulate, run, compare. The run computes a
// real network. Its times are not checked, because the ranks share the cores of the test machine.

namespace fs = std::filesystem;
using nlohmann::json;

/// Runs commands in its own folder, which is removed after the test.
class WholeWay : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(fs::path(PENSTOCK_EXECUTABLE).parent_path() / "penstock-torch"))
      GTEST_SKIP() << "no penstock-torch: it was built without LibTorch";
  }
  json read(const std::string& file) const { return json::parse(std::ifstream(folder_.path() / file)); }
  /// Returns everything that the command prints, with errors and the exit code.
  std::string run(const std::string& arguments) const {
    return outcome_of("penstock " + arguments, folder_.path());
  }
  void expect_good(const std::string& arguments) const {
    const std::string outcome = run(arguments);
    EXPECT_EQ(outcome.find("[exit"), std::string::npos) << "$ penstock " << arguments << "\n" << outcome;
  }

  /// Profiles the network, plans it on three devices, and runs the later steps with the plan.
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
    // Nothing exceeds these bounds. The test only checks that the two results can be compared.
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

TEST_F(WholeWay, TakesAScenarioFromAPipeAlthoughAnotherExecutableRunsIt) {
  folder_.write("scenario.yaml",
                "model: {network: {mlp: {layers: 2, width: 4}}}\n"
                "schedule: {name: gpipe, stages: 2, microbatches: 2}\n");
  const std::string outcome = run("run - --warmup 0 --repeats 1 < scenario.yaml");
  EXPECT_NE(outcome.find("the network mlp"), std::string::npos) << outcome;
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
