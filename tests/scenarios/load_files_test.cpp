// Scenarios that are more than one text: parts that are files, what --set edits before anything is read, and
// many keys that nobody knows.

#include "scenarios/read/load.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <variant>

#include "read_scenario.hpp"
#include "scenarios/model/device_model.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/source_path.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

TEST(Load, PartsMayBeFilesWhoseFileNamesAreTheirOwn) {
  const auto scenario = load_scenario(source_path("scenarios/library/vgg16-cluster-a.yaml"));
  ASSERT_TRUE(scenario) << scenario.error();
  EXPECT_EQ(std::get<LayerGraph>(scenario->model).layers.size(), 40U);
  EXPECT_EQ(scenario->batch.own_micro_batch_size, 128);
}

TEST(Load, AMissingScenarioIsCalledMissing) {
  EXPECT_EQ(load_scenario("nowhere.yaml").error(), "nowhere.yaml: the file does not exist");
}

// A file that was named by mistake is not read out, be it one line.
TEST(Load, OfAPartThatIsNoneAFewWordsAreShown) {
  const ScratchFolder folder;
  std::string line;
  for (int i = 0; i < 100'000; ++i) line += "secret ";
  folder.write("long.txt", line);
  const auto refused = load_scenario(folder.write("a.yaml", "model: long.txt\n"));
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().ends_with(
      "long.txt:1:1: model: expected a mapping, got \"secret secret secret secret secret secre...\""))
      << refused.error().substr(0, 300);
}

TEST(LoadOverride, ReplacesAndAddsBeforeReading) {
  const Scenario scenario =
      read_scenario("cluster: {latency: 1 us}\nmodel: {stages: {forward: [1 ms, 2 ms], backward: 1 ms}}",
                    {{"cluster.latency", "4us"},
                     {"model.stages.forward.1", "7 ms"},
                     {"schedule.name", "gpipe"},
                     {"model.stages.kept", "[1 B, 2 B]"}});
  EXPECT_EQ(std::get<UniformCluster>(scenario.cluster.shape).latency_ns, 4'000);
  EXPECT_EQ(std::get<StageFigures>(scenario.model).forward.of(1, 0), 7'000'000);
  EXPECT_EQ(std::get<StageFigures>(scenario.model).kept.of(1, 0), 2);
  EXPECT_EQ(scenario.schedule, "gpipe");
}

TEST(LoadOverride, ReachesIntoWordsAndFiles) {
  const Scenario scenario = read_scenario("cluster: uniform\nschedule: gpipe",
                                          {{"cluster.latency", "4us"}, {"schedule.stages", "6"}});
  EXPECT_EQ(std::get<UniformCluster>(scenario.cluster.shape).latency_ns, 4'000);
  EXPECT_EQ(scenario.shape.stages, 6);
  EXPECT_EQ(
      std::get<TwoLevelCluster>(read_scenario("cluster: uniform", {{"cluster", "dgx-h100"}}).cluster.shape),
      find_preset("dgx-h100")->shape);
}

TEST(LoadOverride, LeavesTheFilesOwnMicrobatch) {
  const std::string text =
      "model: {stages: {forward: 1 ms, backward: 1 ms}}\ntraining: {micro_batch_size: 4}";
  const Scenario scenario = read_scenario(text, {{"training.micro_batch_size", "8"}});
  EXPECT_EQ(scenario.batch.own_micro_batch_size, 4);
  EXPECT_EQ(scenario.batch.micro_batch_size, 8);
}

TEST(LoadOverride, NamesTheFlagAsThePlace) {
  EXPECT_EQ(
      refusal("cluster: uniform", {{"cluster.latancy", "4us"}}),
      "--set cluster.latancy: unknown key; did you mean latency? Known: preset, devices, bandwidth, latency, "
      "memory, reserve, flops, price");
  EXPECT_EQ(refusal("cluster: uniform", {{"clutser.latency", "4us"}}),
            "--set clutser.latency: clutser: unknown key; did you mean cluster? Known: model, cluster, host, "
            "parallel, schedule, partition, training");
  EXPECT_EQ(refusal("cluster: uniform", {{"training.iterations", "none"}}),
            "--set training.iterations: expected a whole number from 1 to 2147483647, got \"none\"");
}

/// Processor time of refusing a scenario with so many unknown keys beside a known one.
std::clock_t time_of_refusing(int unknown_keys) {
  std::string text = "cluster: uniform\n";
  for (int i = 0; i < unknown_keys; ++i) text += "key" + std::to_string(i) + ": 1\n";
  const std::clock_t begin = std::clock();
  const std::string message = refusal(text);
  const std::clock_t taken = std::clock() - begin;
  EXPECT_TRUE(message.ends_with("\nand " + std::to_string(unknown_keys - 8) + " more")) << message;
  return taken;
}

TEST(LoadScenario, TakesTimeInProportionToTheKeysThatItRefuses) {
  // Ten times as long in proportion; in proportion to the square it is near a hundred times.
  EXPECT_LT(time_of_refusing(40'000), 30 * time_of_refusing(4'000));
}

// The file has a model, a cluster that is a preset's name, and a schedule that is a word.
const std::string kSeveral = "parts/several.yaml";

TEST(LoadParts, AFileOfSeveralPartsGivesEachByItsName) {
  const Scenario scenario = read_scenario("model: " + kSeveral + "\ncluster: " + kSeveral +
                                          "\nschedule: " + kSeveral + "\ntraining: {global_batch_size: 6}\n");
  EXPECT_EQ(std::get<StageFigures>(scenario.model).forward.of(0, 0), 3'000'000);
  EXPECT_EQ(scenario.batch.own_micro_batch_size, 3);
  EXPECT_EQ(scenario.cluster.name, "dgx-h100");
  EXPECT_EQ(scenario.schedule, "gpipe");
}

TEST(LoadParts, AnEditedScenarioNamesItsFilesWhole) {
  const ScratchFolder scratch;
  for (const std::string form : {"profile", "fitted", "huggingface"}) {
    scratch.write("s.yaml", "model: {" + form + ": deep/model.txt}\nschedule: a.psched\n");
    const auto text = edited_scenario(scratch.path() / "s.yaml", {});
    ASSERT_TRUE(text) << text.error();
    EXPECT_NE(text->find((scratch.path() / "deep/model.txt").string()), std::string::npos) << *text;
    EXPECT_NE(text->find((scratch.path() / "a.psched").string()), std::string::npos) << *text;
  }
}

TEST(LoadParts, DegreesOfParallelismMayStandInAFile) {
  const Scenario scenario = read_scenario(
      "model: {huggingface: ../../../scenarios/library/models/llama-3.1-8b.json, sequence: 8192}\n"
      "cluster: {device: h100-sxm, nodes: 1}\nparallel: parts/degrees.yaml\n"
      "schedule: {name: 1f1b, stages: 1, microbatches: 4}\n");
  const auto& degrees = std::get<DeviceModel>(scenario.model).work.parallel;
  EXPECT_EQ(degrees.tensor, 8);
  EXPECT_FALSE(degrees.data_overlap);
}

TEST(LoadParts, AnOverrideTakesOnePartOfAFileOfSeveral) {
  const Scenario scenario =
      read_scenario("cluster: uniform\nschedule: {name: 1f1b, stages: 2, microbatches: 4}\n",
                    {{.key = "model", .value = source_path("tests/scenarios/must_fail/") + kSeveral}});
  EXPECT_EQ(std::get<StageFigures>(scenario.model).backward.of(0, 0), 5'000'000);
  EXPECT_EQ(scenario.cluster.name, "uniform");
  EXPECT_EQ(scenario.schedule, "1f1b");
}

}  // namespace
}  // namespace penstock
