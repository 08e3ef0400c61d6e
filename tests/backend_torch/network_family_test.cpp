// Tests runs of a scenario's network. For every schedule, the memory of the modules must be the memory that
// is predicted from their bytes.

#include "backend/torch/networks.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/process_run.hpp"
#include "backend/threads/thread_run.hpp"
#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/memory/memory.hpp"

namespace penstock::nn {
namespace {

constexpr auto kSmallConvNet = "conv-net: {blocks: 4, width: 3, image: 6, classes: 4}";

tl::expected<Experiment, UserError> experiment_of(const std::string& network, const std::string& schedule,
                                                  const std::string& optimizer = "sgd") {
  const auto scenario =
      parse_scenario("model: {network: {" + network + "}}\nschedule: {" + schedule +
                         "}\ntraining: {micro_batch_size: 2, iterations: 2, optimizer: " + optimizer + "}\n",
                     "s.yaml", std::filesystem::path(), {});
  if (!scenario) throw std::runtime_error(scenario.error());
  return prepare(*scenario);
}

std::unique_ptr<ModuleFamily> family_of(const Experiment& experiment) {
  auto family = network_family(experiment);
  if (!family) throw std::runtime_error(family.error());
  return *std::move(family);
}

LinkPace free_links(const FlatProgram&) { return {}; }

const std::vector<MemoryCategory> kOwned = {MemoryCategory::weights, MemoryCategory::weight_versions,
                                            MemoryCategory::gradients, MemoryCategory::optimizer_state,
                                            MemoryCategory::activations};

bool computes(const Program& program, std::size_t rank) {
  return std::ranges::any_of(program.ranks[rank],
                             [](const Action& action) { return action.kind == ActionKind::forward; });
}

/// Compares the memory that the modules count with the memory that sim/ computes from the measured times.
void expect_predicted_memory(Experiment experiment, const std::string& what) {
  const auto family = family_of(experiment);
  const auto result = run_on_threads(experiment, free_links, {.warmup = 0, .repeats = 1}, *family);
  ASSERT_TRUE(result) << what << ": " << result.error().message;
  experiment.costs = with_stage_bytes(experiment.costs, experiment.program, family->bytes_of_stages());
  const std::vector<RankMemory> predicted = memory_of(result->timeline, experiment, {.samples = false});
  for (std::size_t rank = 0; rank < predicted.size(); ++rank) {
    for (const MemoryCategory category : kOwned) {
      const auto i = static_cast<std::size_t>(category);
      const Bytes measured = result->ranks[rank].memory.peaks[i];
      const std::string where =
          what + ", rank " + std::to_string(rank) + ", " + std::string(to_text(category));
      if (computes(experiment.program, rank)) {
        EXPECT_EQ(measured, predicted[rank].peaks[i]) << where;
      } else {
        // This rank only takes part in reductions. It gets their sums at each STEP, but the prediction counts
        // the sums from the start of the reductions.
        EXPECT_LE(measured, predicted[rank].peaks[i]) << where;
      }
    }
  }
}

TEST(MeasuredMemory, IsThePredictedOneForEverySchedule) {
  int ran = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (divides_output(extra_stages_of(schedule.name))) continue;  // a network runs on stages in a chain
    for (const auto& [stages, microbatches] : {std::pair{1, 2}, {2, 2}, {2, 4}, {4, 2}, {4, 8}}) {
      const std::string shape = "name: " + std::string(schedule.name) +
                                ", stages: " + std::to_string(stages) +
                                ", microbatches: " + std::to_string(microbatches);
      const auto experiment = experiment_of("mlp: {layers: 4, width: 5}", shape, "adam");
      if (!experiment || experiment->program.slices > 1) continue;  // the schedule does not accept this shape
      expect_predicted_memory(*experiment, shape);
      ++ran;
    }
  }
  EXPECT_GT(ran, 80);
}

TEST(MeasuredMemory, IsThePredictedOneOfShardedStages) {
  // A layer has 11 x 11 weights and 11 biases, which can be divided among 2, 3 and 4 ranks.
  for (const int sharding : {1, 2, 3}) {
    for (const int copies : {2, 3, 4}) {
      const std::string shape =
          "name: 1f1b, stages: 2, microbatches: 12, data_parallel: " + std::to_string(copies) +
          ", sharding: " + std::to_string(sharding);
      const auto experiment = experiment_of("mlp: {layers: 4, width: 11}", shape, "adam");
      ASSERT_TRUE(experiment) << experiment.error().message;
      expect_predicted_memory(*experiment, shape);
    }
  }
}

TEST(MeasuredMemory, CountsStashedVersions) {
  const auto experiment = experiment_of(kSmallConvNet, "name: 1f1b-rr, stages: 3, microbatches: 9");
  ASSERT_TRUE(experiment) << experiment.error().message;
  const auto family = family_of(*experiment);
  const auto result = run_on_threads(*experiment, free_links, {.warmup = 0, .repeats = 1}, *family);
  ASSERT_TRUE(result);
  const auto bytes = family->bytes_of_stages();
  const auto versions = static_cast<std::size_t>(MemoryCategory::weight_versions);
  EXPECT_EQ(result->ranks[0].memory.peaks[versions], 2 * bytes[0].weights);
  EXPECT_EQ(result->ranks[1].memory.peaks[versions], bytes[1].weights);
  EXPECT_EQ(result->ranks[2].memory.peaks[versions], 0);
}

TEST(MeasuredMemory, ComesBackFromProcesses) {
  const auto experiment = experiment_of(kSmallConvNet, "name: 1f1b, stages: 2, microbatches: 4");
  ASSERT_TRUE(experiment);
  const auto family = family_of(*experiment);
  const auto threads = run_on_threads(*experiment, free_links, {.warmup = 0, .repeats = 1}, *family);
  const auto processes = run_on_processes(*experiment, free_links, {.warmup = 0, .repeats = 1}, *family, {});
  ASSERT_TRUE(threads);
  ASSERT_TRUE(processes) << processes.error().message;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ((*processes)->ranks[rank].memory.peaks, threads->ranks[rank].memory.peaks);
    EXPECT_GT((*processes)->ranks[rank].memory.peak_bytes, 0);
  }
  // The notes contain the loss, so both runs have the same loss.
  EXPECT_EQ((*processes)->notes, threads->notes);
}

TEST(StageBytes, OfATwoStageMlpAreThoseOfItsFormula) {
  const auto experiment =
      experiment_of("mlp: {layers: 1, width: 5}", "name: gpipe, stages: 2, microbatches: 1", "adam");
  ASSERT_TRUE(experiment);
  const auto bytes = family_of(*experiment)->bytes_of_stages();
  ASSERT_EQ(bytes.size(), 2);
  // Stage 0 has Linear and GELU, and both store their inputs. Two samples of five values with four bytes are
  // 40 bytes.
  EXPECT_EQ(bytes[0], (StageBytes{.input = 40,
                                  .activation = 40,
                                  .gradient = 0,
                                  .kept = 80,
                                  .released_by_input = 0,
                                  .weights = 120,
                                  .gradients = 120,
                                  .optimizer_state = 240}));
  EXPECT_EQ(bytes[1].gradient, 40);
  EXPECT_EQ(bytes[1].weights, 120);
}

TEST(NetworkFamily, PayloadsOfManyChunksTravelAndNoLongerOnes) {
  // Two replicas exchange the gradients of a Linear(300, 300), which are 361200 bytes.
  const auto experiment =
      experiment_of("mlp: {layers: 1, width: 300}", "name: data-parallel, stages: 2, microbatches: 2");
  ASSERT_TRUE(experiment) << experiment.error().message;
  const auto family = family_of(*experiment);
  EXPECT_GE(family->most_payload_bytes(), 361'200);
  EXPECT_LE(family->most_payload_bytes(), 2 * 361'200 + 1000);
  const auto ran = run_on_processes(*experiment, free_links, {.warmup = 0, .repeats = 1}, *family, {});
  EXPECT_TRUE(ran) << ran.error().message;
}

TEST(NetworkFamily, SaysWhatDoesNotFitTheProgram) {
  const auto error_of = [](const std::string& network, const std::string& rest) {
    const auto scenario = parse_scenario("model: {network: " + network + rest +
                                             "}\nschedule: {name: gpipe, stages: 2, microbatches: "
                                             "2}\npartition: [1]\ntraining: {micro_batch_size: 2}\n",
                                         "s.yaml", std::filesystem::path(), {});
    if (!scenario) return scenario.error();
    const auto experiment = prepare(*scenario);
    if (!experiment) return experiment.error().message;
    const auto family = network_family(*experiment);
    return family ? std::string("accepted") : family.error();
  };
  const std::string two =
      ", layers: [{name: Linear-0, forward: 1 ms, backward: 1 ms}, {name: GELU-1, forward: 1 ms, "
      "backward: 1 ms}]";
  EXPECT_EQ(error_of("{mlp: {layers: 1}}", two),
            "s.yaml:1:18: model.network: the model lacks the network's layer \"Linear-2\"; profile the "
            "network again, or correct its sizes");
  EXPECT_EQ(
      error_of("conv-net", two),
      "s.yaml:1:18: model.network: the model has a layer \"Linear-0\", the network conv-net with these sizes "
      "has not; its layers go from Conv2d-0 to Linear-9. Profile it again, or correct the sizes");
  EXPECT_EQ(error_of("mlp", ", stages: {forward: 1 ms, backward: 1 ms, edges: [[0, 1]]}"), "accepted");
}

}  // namespace
}  // namespace penstock::nn
