// Every ready-made scenario loads and can be prepared, and says what it claims.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "read_scenario.hpp"
#include "reference_profile.hpp"
#include "tests/source_path.hpp"

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
  EXPECT_EQ(
      library_files(),
      (std::vector<std::string>{
          "deepspeed-zero-1", "deepspeed-zero-2", "deepspeed-zero-3", "flexflow-hybrid", "gnmt-cluster-a",
          "gpipe-transformer-k2", "gpipe-transformer-k4", "gpipe-transformer-k8", "horovod-ring",
          "llama-70b-h100", "pipedream-fig2-naive", "pipedream-fig3-gpipe", "pipedream-fig4-1f1b",
          "pipedream-fig8-1f1b-rr", "tf-replicator-torus", "vgg16-cluster-a", "vgg16-cluster-a-15-1"}));
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

}  // namespace
}  // namespace penstock
