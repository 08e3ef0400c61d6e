// Tests scenarios that consist of several texts: parts in files, and --set. Also tests scenarios with many
// unknown keys.

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <string>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/model/model.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/scenarios/read_scenario.hpp"
#include "tests/test_files.hpp"
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

// If the user names a wrong file, the message does not quote the whole file, even if it is a single line.
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
      "memory, reserve, flops, host, price");
  EXPECT_EQ(refusal("cluster: uniform", {{"clutser.latency", "4us"}}),
            "--set clutser.latency: clutser: unknown key; did you mean cluster? Known: model, cluster, host, "
            "parallel, schedule, partition, training");
  EXPECT_EQ(refusal("cluster: uniform", {{"training.iterations", "none"}}),
            "--set training.iterations: expected a whole number from 1 to 2147483647, got \"none\"");
}

/// Returns the processor time in which a scenario with one known and `unknown_keys` unknown keys is refused.
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
  // Linear time would be ten times as long, and quadratic time nearly a hundred times.
  EXPECT_LT(time_of_refusing(40'000), 30 * time_of_refusing(4'000));
}

// The file has a model, a cluster that is the name of a preset, and a schedule that is a single word.
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

// Tests program files: their suffix in upper or lower case, and all dialects of PyTorch.

namespace fs = std::filesystem;

class ProgramFile : public testing::Test {
 protected:
  fs::path written(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }

  ScratchFolder folder_;
};

Program loaded(const fs::path& file, const std::vector<Override>& overrides = {}) {
  const auto scenario = load_scenario_or_program(file, overrides);
  EXPECT_TRUE(scenario) << scenario.error();
  return scenario && scenario->program ? *scenario->program : Program{};
}

TEST_F(ProgramFile, MayHaveItsSuffixInCapitals) {
  const Program program = *generate("zb-h1", {.stages = 2, .microbatches = 3});
  EXPECT_EQ(loaded(written("PLAN.PSCHED", to_text(program))), program);
  EXPECT_EQ(loaded(written("Plan.Csv", *to_pytorch_csv(program))).ranks, program.ranks);
  EXPECT_EQ(loaded(written("plan.yaml", "schedule: {program: PLAN.PSCHED}")), program);
  EXPECT_EQ(loaded(written("short.yaml", "schedule: PLAN.PSCHED")), program);
}

TEST_F(ProgramFile, MayBeginWithAByteOrderMark) {
  const std::string mark = "\xEF\xBB\xBF";
  const Program program = *generate("zb-h1", {.stages = 2, .microbatches = 3});
  EXPECT_EQ(loaded(written("plan.psched", mark + to_text(program))), program);
  EXPECT_EQ(loaded(written("plan.csv", mark + *to_pytorch_csv(program))).ranks, program.ranks);
  EXPECT_EQ(loaded(written("plan.yaml", mark + "schedule: {program: plan.psched}")), program);
  EXPECT_EQ(loaded(written("plan.json", mark + R"({"schedule": {"program": "plan.psched"}})")), program);
}

TEST_F(ProgramFile, OfAnOverrideReplacesTheNameAndTheShapeOfTheFile) {
  const Program program = *generate("zb-h1", {.stages = 2, .microbatches = 3});
  const std::string file = written("plan.psched", to_text(program)).string();
  const fs::path scenario =
      written("own.yaml",
              "schedule: {name: interleaved, stages: 4, microbatches: 8, virtual_stages: 2, channel: rank}");
  const std::vector<Override> overrides = {{.key = "schedule.program", .value = file}};
  EXPECT_EQ(loaded(scenario, overrides), program);
  EXPECT_EQ(load_scenario(scenario, overrides)->channels.model, ChannelModel::rank);
  // The user states both, so one of them is wrong.
  const auto both =
      load_scenario(scenario, std::vector<Override>{{.key = "schedule.stages", .value = "4"},
                                                    {.key = "schedule.program", .value = file}});
  ASSERT_FALSE(both);
  EXPECT_NE(both.error().find("--set schedule.stages: does not go with"), std::string::npos) << both.error();
}

TEST_F(ProgramFile, IsNotedWhenItHadToBeMended) {
  const auto scenario = load_scenario_or_program(written("dump.csv", "0F0,0B0\n1F1,1B0\n"));
  ASSERT_TRUE(scenario) << scenario.error();
  ASSERT_EQ(scenario->notes.size(), 1U);
  EXPECT_NE(scenario->notes.front().find("dump.csv:2: rank 1: its forwards are numbered 1 to 1"),
            std::string::npos)
      << scenario->notes.front();
}

TEST_F(ProgramFile, IsReadInTheDialectThatIsStated) {
  const Program program = *generate("zb-h1", {.stages = 2, .microbatches = 3});
  const fs::path old = written("old.csv", *to_pytorch_csv(program, CsvDialect::torch_2_5));
  EXPECT_EQ(loaded(old, {{.key = "schedule.dialect", .value = "torch-2.5"}}).ranks, program.ranks);
  EXPECT_EQ(loaded(written("old.yaml", "schedule: {program: old.csv, dialect: torch-2.5}")).ranks,
            program.ranks);
  const auto misread = load_scenario_or_program(old);
  ASSERT_FALSE(misread);
  EXPECT_NE(misread.error().find("`--dialect torch-2.5`"), std::string::npos) << misread.error();
}

// The reader follows the name. The error names the suffix that selects the right one.
TEST_F(ProgramFile, UnderAnotherNameSaysWhichNameItNeeds) {
  const auto refusal_of = [&](const std::string& name, const std::string& text) {
    return load_scenario_or_program(written(name, text)).error();
  };
  EXPECT_THAT(
      refusal_of("table.txt",
                 "         Rank 0  Rank 1\nStep 0   0F0            \nStep 1           1F0    \n"),
      testing::EndsWith("table.txt: expected a scenario, got the table of actions that "
                        "torch.distributed.pipelining prints, which is read from a file whose name ends "
                        "in .csv; rename the file, or give it on standard input (-)"));
  EXPECT_THAT(refusal_of("mine.txt", "penstock program 1\n"),
              testing::HasSubstr("got a program, which is read from a file whose name ends in .psched"));
}

TEST(StandardInputFile, HoldsAScenarioOrAProgram) {
  const Program program = *generate("zb-h1", {.stages = 2, .microbatches = 3});
  for (const std::string& text : {to_text(program), *to_pytorch_csv(program)}) {
    const StandardInputText input(text);
    EXPECT_EQ(loaded(fs::path("-")).ranks, program.ranks) << text;
  }
  for (const std::string text : {"schedule: {name: zb-h1, stages: 2, microbatches: 3}\n", "{}", ""}) {
    const StandardInputText input(text);
    const auto scenario = load_scenario_or_program("-");
    ASSERT_EQ(scenario.has_value(), !text.empty()) << text;
    if (scenario) {
      EXPECT_EQ(scenario->schedule, text == "{}" ? "" : "zb-h1");
    }
  }
}

TEST(StandardInputFile, IsNamedByADashInErrors) {
  const StandardInputText input("schedule:\n  stagse: 2\n");
  const auto scenario = load_scenario_or_program("-");
  ASSERT_FALSE(scenario);
  EXPECT_EQ(scenario.error().substr(0, 6), "-:2:3:") << scenario.error();
}

TEST(FileSuffix, StandsAtTheEnd) {
  EXPECT_TRUE(has_file_suffix("a.csv", ".csv"));
  EXPECT_TRUE(has_file_suffix("a.b.CSV", ".csv"));
  EXPECT_FALSE(has_file_suffix("csv", ".csv"));
  EXPECT_FALSE(has_file_suffix("a.csv.txt", ".csv"));
  EXPECT_TRUE(names_program("x/Y.PsCheD"));
  EXPECT_FALSE(names_program("plan.yaml"));
}

}  // namespace
}  // namespace penstock
