// Tests that every scenario of the library can be loaded and prepared, and tests the properties of some of
// them. Also tests that every bad scenario in must_fail/ is refused with its exact message.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "tests/scenarios/library_model.hpp"
#include "tests/scenarios/read_scenario.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

const std::filesystem::path kLibrary = source_path("scenarios/library");

std::vector<std::string> library_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kLibrary)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

Scenario loaded(const std::string& name) {
  auto scenario = load_scenario(kLibrary / (name + ".yaml"));
  EXPECT_TRUE(scenario) << scenario.error();
  return scenario.value_or(Scenario{});
}

std::string test_name(std::string file) {
  std::ranges::replace(file, '-', '_');
  return file;
}

class Library : public testing::TestWithParam<std::string> {};

TEST_P(Library, CanBePrepared) {
  const Experiment experiment = prepared(loaded(GetParam()));
  EXPECT_GT(experiment.program.rank_count(), 1);
  EXPECT_GE(experiment.cluster.device_count(), experiment.program.rank_count());
}

TEST_P(Library, OpensWithAComment) {
  std::string first_line;
  std::ifstream stream(kLibrary / (GetParam() + ".yaml"));
  std::getline(stream, first_line);
  EXPECT_TRUE(first_line.starts_with("# ")) << first_line;
}

INSTANTIATE_TEST_SUITE_P(Files, Library, testing::ValuesIn(library_files()),
                         [](const auto& file) { return test_name(file.param); });

TEST(LibraryFiles, AreThese) {
  EXPECT_EQ(library_files(), (std::vector<std::string>{
                                 "chunked-prefill-h100", "deepspeed-zero-1",        "deepspeed-zero-2",
                                 "deepspeed-zero-3",     "flexflow-hybrid",         "gnmt-cluster-a",
                                 "gpipe-transformer-k2", "gpipe-transformer-k4",    "gpipe-transformer-k8",
                                 "horovod-ring",         "llama-70b-h100",          "pipedream-fig2-naive",
                                 "pipedream-fig3-gpipe", "pipedream-fig4-1f1b",     "pipedream-fig8-1f1b-rr",
                                 "pipeoffload-1f1b",     "tf-replicator-torus",     "vgg16-cluster-a",
                                 "vgg16-cluster-a-15-1", "vocabulary-parallel-a100"}));
}

TEST(LibraryModels, AreThePublishedProfilesLayerByLayer) {
  if (!reference_profile("vgg16")) GTEST_SKIP() << kNoReference;
  for (const auto& [scenario, profile] :
       std::map<std::string, std::string>{{"vgg16-cluster-a", "vgg16"}, {"gnmt-cluster-a", "gnmt"}}) {
    EXPECT_EQ(std::get<LayerGraph>(loaded(scenario).model), reference_profile(profile)) << scenario;
  }
}

TEST(LibraryModels, KeepTheBatchOfTheirProfile) {
  EXPECT_EQ(loaded("vgg16-cluster-a").batch.own_micro_batch_size, 128);
  EXPECT_EQ(loaded("gnmt-cluster-a").batch.own_micro_batch_size, 64);
}

TEST(LibraryVgg16, PutsTheFullyConnectedLayersOnOneWorkerOfSixteen) {
  const Experiment experiment = prepared(loaded("vgg16-cluster-a-15-1"));
  EXPECT_EQ(experiment.program.rank_count(), 16);
  EXPECT_EQ(experiment.costs.stages[1].weights, 411'058'176 + 67'125'248 + 16'388'000);
  EXPECT_EQ(experiment.costs.edges[0].activation, 12'845'056 / 2);
}

TEST(LibraryGnmt, HasAStraightPipelineWhoseLargestStageTakes25868Microseconds) {
  Ns largest = 0;
  for (const StageCost& stage : prepared(loaded("gnmt-cluster-a")).costs.stages) {
    largest = std::max(largest, stage.forward_ns + stage.backward_ns);
  }
  EXPECT_EQ(largest, 25'868'000);
}

TEST(LibraryGpipe, StagesAreEqualForEachK) {
  for (const std::int32_t stages : {2, 4, 8}) {
    const Experiment experiment = prepared(loaded("gpipe-transformer-k" + std::to_string(stages)));
    EXPECT_EQ(experiment.program.stage_count(), stages);
    for (const StageCost& stage : experiment.costs.stages) {
      EXPECT_EQ(stage.forward_ns, 48'000'000 / stages) << "one sequence of 1 ms a layer";
      EXPECT_EQ(stage.backward_ns, 96'000'000 / stages);
      EXPECT_EQ(stage.weights, 48 / stages * 12LL * 2048 * 2048 * 4);
    }
  }
}

// Tests bad scenarios. must_fail/NAME.expected has the exact message for must_fail/NAME.yaml. If the
// environment has PENSTOCK_UPDATE=1, this test writes these files instead. Check the differences before you
// commit them.

const std::filesystem::path kFolder = source_path("tests/scenarios/must_fail");

std::vector<std::string> bad_scenarios() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

/// Returns the error message for a scenario of the folder. File names in the message are relative to the
/// folder.
std::string message_of(const std::string& name) {
  const auto text = read_text_file(kFolder / (name + ".yaml"), name);
  EXPECT_TRUE(text) << text.error();
  const auto scenario = parse_scenario(text.value_or(""), name + ".yaml", kFolder);
  if (!scenario) return scenario.error() + "\n";
  const auto experiment = prepare(*scenario);
  return experiment ? "no error\n" : experiment.error().message + "\n";
}

class MustFail : public testing::TestWithParam<std::string> {};

TEST_P(MustFail, WithItsMessage) {
  const std::filesystem::path path = kFolder / (GetParam() + ".expected");
  const std::string message = message_of(GetParam());
  if (std::getenv("PENSTOCK_UPDATE") != nullptr) std::ofstream(path, std::ios::binary) << message;
  EXPECT_EQ(message, read_text_file(path, path.string()).value_or("no file " + path.string()));
}

INSTANTIATE_TEST_SUITE_P(Scenarios, MustFail, testing::ValuesIn(bad_scenarios()),
                         [](const auto& bad) { return bad.param; });

}  // namespace
}  // namespace penstock
