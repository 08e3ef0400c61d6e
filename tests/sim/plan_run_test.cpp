// Tests the choice of the engine. A golden file contains the chosen engine for many runs, and the reasons
// against the others (PENSTOCK_UPDATE_GOLDENS=1 writes it). Also tests that each prediction prepares its
// scenario once, and that runs are refused that do not fit in memory. Tests of single engines compare their
// figures.

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

Scenario scenario_of(const std::string& text) {
  auto loaded = parse_scenario(text, "plan.yaml", source_path("scenarios/library"));
  EXPECT_TRUE(loaded) << loaded.error() << text;
  return loaded.value_or(Scenario{});
}

/// The outputs that a command requires.
struct Question {
  std::string_view name;
  SimulateOptions options;
};
const std::vector<Question> kQuestions = {
    {"figures", {.memory = {.samples = false}, .timeline = TimelineKept::none}},
    {"timeline", {.memory = {.samples = false}, .timeline = TimelineKept::all}},
    {"row",
     {.memory = {.samples = false}, .timeline = TimelineKept::none, .figures = WantedFigures::of_rows}}};

std::string plan_line(const std::string& what, const std::string& text, const Question& question,
                      Engine engine = Engine::automatic) {
  SimulateOptions options = question.options;
  options.engine = engine;
  const auto plan = planned(scenario_of(text), options);
  if (!plan) return fmt::format("{:<34} {:<9} {}\n", what, question.name, plan.error().message);
  std::string line = fmt::format("{:<34} {:<9} {:<7}", what, question.name, to_text(plan->engine));
  for (const RuledOutEngine& ruled_out : plan->ruled_out)
    line += fmt::format(" | {}: {}", to_text(ruled_out.engine), ruled_out.reason);
  return line + "\n";
}

/// Returns the table: first all schedules, then 1F1B with all properties that exclude an engine.
std::string plan_table() {
  std::string table;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const char* const chunks = takes_chunks(schedule) ? ", virtual_stages: 2" : "";
    const std::string text =
        fmt::format("schedule: {{name: {}, stages: 4, microbatches: 8{}}}", schedule.name, chunks);
    for (const Question& question : kQuestions)
      table += plan_line(std::string(schedule.name), text, question);
  }
  const std::string one = "schedule: {name: 1f1b, stages: 4, microbatches: 8";
  const std::string model =
      "model: {stages: {forward: 1 ms, backward: 2 ms, kept: 8 MB, activation: 1 MB}}\n";
  const std::vector<std::pair<std::string, std::string>> options = {
      {"blocking", one + ", blocking: true}"},
      {"a launch order", one + ", launch_order: true}"},
      {"a capacity", one + ", capacity: 2}"},
      {"eager messages", model + one + ", eager: 2 MB}"},
      {"iterations", one + "}\ntraining: {iterations: 2}"},
      {"recomputation", one + ", checkpoint: always}"},
      {"copies", one + ", data_parallel: 2}"},
      {"sharded copies", one + ", data_parallel: 2, sharding: 3}"},
      {"a barrier", one + ", barrier: true}"},
      {"weights with clones", model + one + "}\ntraining: {weight_versions: cloned}"},
      {"links in common",
       model + "schedule: {name: interleaved, stages: 4, microbatches: 8, virtual_stages: 2}\n"
               "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, intra_bandwidth: 8 "
               "GB/s, inter_bandwidth: 1 GB/s}"},
      {"2^33 actions", "schedule: {name: 1f1b, stages: 1024, microbatches: 4194304}"},
      {"2^33 actions, blocking",
       "schedule: {name: 1f1b, stages: 1024, microbatches: 4194304, blocking: true}"},
      {"a model on devices",
       "model: {huggingface: models/llama-3.1-8b.json, sequence: 4096}\ncluster: {device: h100-sxm}\n"
       "schedule: {name: 1f1b, stages: 4}\ntraining: {global_batch_size: 16}"},
  };
  for (const auto& [name, text] : options) {
    for (const Question& question : kQuestions) table += plan_line("1f1b, " + name, text, question);
  }
  // With this number of actions, lists are made only for a timeline.
  for (const Question& question : {kQuestions.front(), kQuestions.back()}) {
    table +=
        plan_line("1f1b, 2^25 actions", "schedule: {name: 1f1b, stages: 4, microbatches: 4194304}", question);
  }
  for (const Engine engine : {Engine::critical_path, Engine::event}) {
    for (const Question& question : kQuestions)
      table += plan_line(fmt::format("1f1b, --engine {}", to_text(engine)), one + "}", question, engine);
  }
  return table;
}

TEST(PlanRun, ChoosesTheEnginesOfTheTable) {
  const std::filesystem::path file = source_path("tests/sim/golden/engines.txt");
  const std::string actual = plan_table();
  if (std::getenv("PENSTOCK_UPDATE_GOLDENS") != nullptr) std::ofstream(file, std::ios::binary) << actual;
  std::stringstream expected;
  expected << std::ifstream(file, std::ios::binary).rdbuf();
  EXPECT_EQ(actual, expected.str());
}

TEST(PlanRun, RefusesWhatTheBudgetCannotHold) {
  const auto experiment =
      prepare(scenario_of("schedule: {name: 1f1b, stages: 4, microbatches: 262144}"), ProgramForm::lists);
  ASSERT_TRUE(experiment);
  const Wanted wanted{.timeline = true};
  const auto plan = plan_run(*experiment, wanted, [] { return Bytes{1} << 40; });
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->engine, RunEngine::turns);
  EXPECT_GT(plan->bytes, 2e6 * 115);
  const auto refused = plan_run(*experiment, wanted, [] { return Bytes{1} << 20; });
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(),
              testing::StartsWith("2.1e+06 compute actions take at least 330.00 MiB of memory"));
  EXPECT_THAT(refused.error(), testing::EndsWith("or no timeline"));
}

TEST(PlanRun, PrintsWhatRunsAndWhyTheOthersDoNot) {
  const SimulateOptions options{.memory = {.samples = false}, .timeline = TimelineKept::none};
  const auto plan =
      planned(scenario_of("schedule: {name: 1f1b, stages: 4, microbatches: 8, capacity: 2}"), options);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan_text(*plan, wanted_by(options)),
            "stream  ruled out: channels of a capacity\n"
            "turns   ruled out: channels of a capacity\n"
            "tape    runs: at least 160 B a compute action and 120 B a message\n"
            "event   not needed: the one above stores less\n");
}

// --- one preparation -------------------------------------------------------------------------------------

/// Expects that each prediction prepares the scenario exactly once.
void expect_one_preparation(const Scenario& scenario) {
  for (const Question& question : kQuestions) {
    const std::int64_t before = preparations_so_far();
    static_cast<void>(simulate_scenario(scenario, question.options));
    EXPECT_EQ(preparations_so_far() - before, 1) << question.name;
  }
}

TEST(PlanRun, PreparesAScenarioOfTheLibraryOnce) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("scenarios/library"))) {
    if (entry.path().extension() != ".yaml") continue;
    SCOPED_TRACE(entry.path().filename().string());
    const auto scenario = load_scenario(entry.path().string());
    ASSERT_TRUE(scenario) << scenario.error();
    expect_one_preparation(*scenario);
    ++files;
  }
  EXPECT_GE(files, 11);
}

TEST(PlanRun, PreparesARandomScenarioOnce) {
  constexpr std::array kOptions = {"",
                                   ", data_parallel: 2",
                                   ", blocking: true",
                                   ", capacity: 1",
                                   ", checkpoint: always",
                                   ", barrier: true",
                                   ", channel: rank",
                                   ", launch_order: true"};
  constexpr std::array kClusters = {
      "", "cluster: {bandwidth: 1 GB/s, latency: 9 us}\n",
      "cluster: {preset: two-level, nodes: 4, devices_per_node: 4, intra_bandwidth: 8 GB/s, "
      "inter_bandwidth: 1 GB/s}\n"};
  constexpr std::array kModels = {
      "", "model: {stages: {forward: 3 ms, backward: 5 ms, kept: 6 MB, activation: 1 MB}}\n"};
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 draw(seed);
    const auto one_of = [&](const auto& all) { return all[draw() % all.size()]; };
    const ScheduleInfo& schedule = schedule_table()[seed % schedule_table().size()];
    const auto stages = 1 + draw() % 6;
    const std::string text =
        fmt::format("{}{}schedule: {{name: {}, stages: {}, microbatches: {}{}}}\n", one_of(kModels),
                    one_of(kClusters), schedule.name, stages, stages * (1 + draw() % 5), one_of(kOptions));
    SCOPED_TRACE(text);
    expect_one_preparation(scenario_of(text));
  }
}

// A run that does not fit in the machine's memory is refused before it starts.

using testing::Eq;
using testing::Optional;

SimulateOptions options_of(TimelineKept timeline, Engine engine = Engine::automatic) {
  SimulateOptions options;
  options.timeline = timeline;
  options.engine = engine;
  return options;
}

/// Returns the counts for 1F1B with many ranks, in which nearly every action has a transfer.
ActionCounts actions(double compute) { return {.compute = compute, .transfers = compute}; }

TEST(MemoryNeed, ARunThatFitsIsNotRefused) {
  EXPECT_EQ(memory_refusal(actions(1'000'000), options_of(TimelineKept::none), [] { return Bytes{1} << 30; }),
            std::nullopt);
  EXPECT_EQ(memory_refusal(ActionCounts{}, {}, [] { return Bytes{0}; }), std::nullopt);
}

TEST(MemoryNeed, ARefusalNamesWhatIsNeededAndWhatThereIs) {
  EXPECT_THAT(
      memory_refusal(actions(1 << 22), options_of(TimelineKept::none), [] { return Bytes{1} << 30; }),
      Optional(Eq("4.19e+06 compute actions take at least 1.09 GiB of memory, and 1.00 GiB are within "
                  "reach: take fewer stages, microbatches or iterations")));
  EXPECT_THAT(
      memory_refusal(actions(1 << 22), options_of(TimelineKept::all, Engine::event),
                     [] { return Bytes{1} << 30; }),
      Optional(Eq("4.19e+06 compute actions take at least 4.10 GiB of memory, and 1.00 GiB are within "
                  "reach: take fewer stages, microbatches or iterations, or no timeline")));
}

TEST(MemoryNeed, OneRankTellsNobody) {
  const auto counts = [](std::string_view stages) {
    const auto scenario = parse_scenario(
        fmt::format("schedule: {{name: 1f1b, stages: {}, microbatches: 64}}", stages), "test.yaml", ".");
    return action_counts(*scenario);
  };
  EXPECT_EQ(counts("1").compute, 128);
  EXPECT_EQ(counts("1").transfers, 0);
  EXPECT_EQ(counts("4").compute, 512);
  EXPECT_EQ(counts("4").transfers, 256);
}

TEST(MemoryNeed, RanksThatHaveAllStagesTellNobody) {
  const auto scenario =
      parse_scenario("schedule: {name: ddp, stages: 4, microbatches: 64}", "test.yaml", ".");
  EXPECT_EQ(action_counts(*scenario).compute, 512);
  EXPECT_EQ(action_counts(*scenario).transfers, 0);
}

Scenario scenario_in(std::string_view folder, std::string_view text) {
  return parse_scenario(text, "test.yaml", source_path(std::string(folder))).value();
}

// Each of the two copies gets 64 of the 128 samples.
TEST(MemoryNeed, OfAModelOnDevicesOneCopyCounts) {
  const Scenario scenario = scenario_in("scenarios/library/models",
                                        "model: {huggingface: llama-3.1-8b.json, sequence: 4096}\n"
                                        "cluster: {device: h100-sxm}\nparallel: {data: 2}\n"
                                        "schedule: {name: 1f1b, stages: 4}\n"
                                        "training: {global_batch_size: 128}\n");
  EXPECT_EQ(action_counts(scenario).compute, 4 * 64 * 2);
  EXPECT_EQ(action_counts(scenario).transfers, 256);
}

TEST(MemoryNeed, OfFittedCostsOneCopyCounts) {
  const Scenario scenario = scenario_in(
      "scenarios/library",
      "model: {fitted: runs/vtrain_costs.json, hidden: 1024, heads: 16, layers: 8, sequence: 1024}\n"
      "parallel: {data: 2}\nschedule: {name: 1f1b, stages: 4}\ntraining: {global_batch_size: 128}\n");
  EXPECT_EQ(action_counts(scenario).compute, 4 * 64 * 2);
}

TEST(MemoryNeed, AProgramIsCountedByItsLists) {
  Scenario scenario = scenario_in(".", "{}");
  scenario.program = *generate("1f1b", {.stages = 4, .microbatches = 16});
  EXPECT_EQ(action_counts(scenario).compute, 4 * (16 * 2 + 1)) << "STEPs, too";
  EXPECT_EQ(action_counts(scenario).transfers, 66);
  scenario.program->iterations = 10;
  EXPECT_EQ(action_counts(scenario).compute, 10 * 4 * (16 * 2 + 1));
}

// A zb-v program with this number of actions has no loops and fits on no machine. It must be refused before
// any list is made.
TEST(MemoryNeed, OfAHugeBatchOnDevicesIsKnownBeforeTheRun) {
  const Scenario scenario = scenario_in("scenarios/library/models",
                                        "model: {huggingface: llama-3.1-8b.json, sequence: 4096}\n"
                                        "cluster: {device: h100-sxm}\n"
                                        "schedule: {name: zb-v, stages: 4}\n"
                                        "training: {micro_batch_size: 1, global_batch_size: 400000000}\n");
  for (const WantedFigures figures : {WantedFigures::all, WantedFigures::of_rows}) {
    SimulateOptions options;
    options.timeline = TimelineKept::none;
    options.figures = figures;
    const auto result = simulate_scenario(scenario, options);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, testing::StartsWith("3.2e+09 compute actions take at least "));
  }
  SimulateOptions with_timeline;
  with_timeline.timeline = TimelineKept::all;
  EXPECT_THAT(simulate_scenario(scenario, with_timeline).error().message,
              testing::StartsWith("a timeline of 3.2e+09 compute actions is too long"));
}

TEST(MemoryNeed, WhatCannotBePreparedIsNotCounted) {
  const Scenario scenario = scenario_in("scenarios/library/models",
                                        "model: {huggingface: llama-3.1-8b.json, sequence: 4096}\n"
                                        "cluster: {device: h100-sxm}\nparallel: {data: 3}\n"
                                        "schedule: {name: 1f1b, stages: 4}\n"
                                        "training: {global_batch_size: 128}\n");
  EXPECT_EQ(action_counts(scenario).compute, 0);
}

}  // namespace
}  // namespace penstock
