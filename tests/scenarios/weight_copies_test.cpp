// Tests copies of weights that divide optimizer state, gradients and weights: the bytes of each copy, and the
// time for which it waits.

#include "scenarios/pricing/collectives.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/read/load.hpp"
#include "tests/scenarios/device_workload.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

/// Returns Llama 3.1 8B on eight H100. Each device has a copy of the model.
Workload eight_copies(std::int32_t sharding) {
  Workload work = workload_on("h100", "llama-3.1-8b", 8192);
  work.parallel.data = 8;
  work.parallel.sharding = sharding;
  return work;
}

StagePrice whole_model(const Workload& work) {
  return price_stages(work, kernels_of(work), std::vector<std::int64_t>{32}, std::vector<std::int32_t>{0})
      .front();
}

const Term* term_named(const std::vector<Term>& terms, std::string_view name) {
  const auto found = std::ranges::find(terms, name, &Term::name);
  return found == terms.end() ? nullptr : &*found;
}

TEST(WeightCopies, HoldTheirPartFromEachStageOfZeroOn) {
  const double all = whole_model(eight_copies(0)).parameters.total();
  ASSERT_EQ(std::llround(all), 8030261248);
  const auto held = [](std::int32_t sharding) {
    const StagePrice price = whole_model(eight_copies(sharding));
    return std::vector<double>{price.optimizer_bytes, price.gradient_bytes, price.weight_bytes};
  };
  EXPECT_EQ(held(0), (std::vector<double>{12 * all, 4 * all, 2 * all}));
  EXPECT_EQ(held(1), (std::vector<double>{12 * all / 8, 4 * all, 2 * all}));
  EXPECT_EQ(held(2), (std::vector<double>{12 * all / 8, 4 * all / 8, 2 * all}));
  EXPECT_EQ(held(3), (std::vector<double>{12 * all / 8, 4 * all / 8, 2 * all / 8}));
}

TEST(WeightCopies, NeedTheLargestLayerWholeWhileItRuns) {
  const Workload work = eight_copies(3);
  const DeviceParameters layer = layer_device_parameters(work, work.model.layers.front());
  EXPECT_DOUBLE_EQ(whole_layer_bytes(work, layer), layer.total() * (4 + 2)) << "gradients and weights";
  EXPECT_DOUBLE_EQ(whole_weight_bytes(work, layer), layer.total() * 2);
  EXPECT_EQ(whole_weight_bytes(eight_copies(2), layer), 0);
  EXPECT_DOUBLE_EQ(whole_layer_bytes(eight_copies(2), layer), layer.total() * 4);
  EXPECT_EQ(whole_layer_bytes(eight_copies(1), layer), 0);
  EXPECT_GT(whole_model(eight_copies(2)).transient_bytes, whole_model(eight_copies(1)).transient_bytes);
}

/// Returns the bytes that the second of four layers needs while it runs, minus the bytes with sharding 2.
/// Each layer is a stage.
double gathered_beside(const std::vector<std::int32_t>& rank_of_stage) {
  const auto transient = [&](std::int32_t sharding) {
    Workload work = eight_copies(sharding);
    work.model.layers.resize(4);
    const std::vector<std::int64_t> layers = {1, 1, 1, 1};
    return price_stages(work, kernels_of(work), layers, rank_of_stage)[1].transient_bytes;
  };
  return transient(3) - transient(2);
}

// The next layer may belong to another stage of the rank, or it may be the embedding or the head.
TEST(WeightCopies, GatherNoNextLayerWhereARankHasOne) {
  const Workload work = eight_copies(3);
  const double weights = 2 * layer_device_parameters(work, work.model.layers.front()).total();
  EXPECT_NEAR(gathered_beside({0, 1, 2, 3}), weights, 1);
  EXPECT_NEAR(gathered_beside({0, 1, 1, 0}), 2 * weights, 1);
  EXPECT_NEAR(gathered_beside({0, 1, 2, 1}), 2 * weights, 1) << "which has the head as well";
}

TEST(WeightCopies, GatherAndScatterBesideALayerThatTakesLonger) {
  const Workload work = eight_copies(3);
  const LayerKind kind = work.model.layers.front();
  const std::vector<Term> terms = layer_terms(work, kernels_of(work), kind);
  // Over NVLink, the 218 M weights of a layer are gathered in less time than the layer computes 8192 tokens.
  ASSERT_NE(term_named(terms, "weights gathered"), nullptr);
  EXPECT_EQ(term_named(terms, "weights gathered")->forward, 0);
  EXPECT_EQ(term_named(terms, "gradients scattered")->backward_weight, 0);
  EXPECT_EQ(term_named(layer_terms(eight_copies(1), kernels_of(work), kind), "gradients scattered"), nullptr);
}

TEST(WeightCopies, ShowAllThatNothingHides) {
  Workload work = eight_copies(3);
  work.parallel.data_overlap = false;
  const LayerKind kind = work.model.layers.front();
  const DeviceParameters layer = layer_device_parameters(work, kind);
  const double gather_s = copies_seconds(work, kernels_of(work), GroupOperation::all_gather, layer, 2);
  const double scatter_s = copies_seconds(work, kernels_of(work), GroupOperation::reduce_scatter, layer, 4);
  const std::vector<Term> terms = layer_terms(work, kernels_of(work), kind);
  EXPECT_DOUBLE_EQ(term_named(terms, "weights gathered")->forward, gather_s);
  EXPECT_DOUBLE_EQ(term_named(terms, "weights gathered")->backward(), gather_s);
  EXPECT_DOUBLE_EQ(term_named(terms, "gradients scattered")->backward(), scatter_s);
}

// LLM Foundry begins the gather of the backward pass when the gradients of the layer before are complete.
TEST(WeightCopies, OfLlmFoundryWaitForTheGatherOfTheBackwardPass) {
  Workload work = eight_copies(3);
  work.framework = Framework::llm_foundry;
  const LayerKind kind = work.model.layers.front();
  const DeviceParameters layer = layer_device_parameters(work, kind);
  const std::vector<Term> terms = layer_terms(work, kernels_of(work), kind);
  EXPECT_EQ(term_named(terms, "weights gathered")->forward, 0);
  EXPECT_DOUBLE_EQ(term_named(terms, "weights gathered")->backward(),
                   copies_seconds(work, kernels_of(work), GroupOperation::all_gather, layer, 2));
}

TEST(WeightCopies, ShortMicrobatchesHideLessOverTheNetwork) {
  Workload work = workload_on("h100", "llama-3.1-8b", 512);
  work.parallel.data = 64;
  work.parallel.sharding = 3;
  const LayerKind kind = work.model.layers.front();
  const DeviceParameters layer = layer_device_parameters(work, kind);
  const double gather_s = copies_seconds(work, kernels_of(work), GroupOperation::all_gather, layer, 2);
  const std::vector<Term> terms = layer_terms(work, kernels_of(work), kind);
  const double forward_s = [&] {
    work.parallel.sharding = 1;
    return total_of(layer_terms(work, kernels_of(work), kind)).forward;
  }();
  ASSERT_GT(gather_s, forward_s);
  EXPECT_DOUBLE_EQ(term_named(terms, "weights gathered")->forward, gather_s - forward_s);
}

// With the same bytes on each device, four times as many devices wait for four times as many steps of the
// ring.
TEST(WeightCopies, WaitForARingThatGrowsWithThem) {
  const auto gather_s = [](std::int32_t data) {
    Workload work = workload_on("h100", "llama-3.1-8b", 512);
    work.parallel.data = data;
    work.parallel.sharding = 3;
    work.parallel.data_overlap = false;
    const LayerKind kind = work.model.layers.front();
    return term_named(layer_terms(work, kernels_of(work), kind), "weights gathered")->forward;
  };
  const double bytes_s = 2 * 218112000.0 / 320e9;
  EXPECT_NEAR(gather_s(128), bytes_s * 127 / 128 + 112 * 3.4e-6 + 15 * 14e-6, 1e-9);
  EXPECT_NEAR(gather_s(512), bytes_s * 511 / 512 + 448 * 3.4e-6 + 63 * 14e-6, 1e-9);
}

/// Returns the exposed reduction once a step, with all 32 layers on one rank.
double reduced_s(const Workload& work) {
  return longest_step(work, kernels_of(work), std::vector<StagePrice>{whole_model(work)},
                      std::vector<std::int32_t>{0})
      .reduction_s;
}

/// Returns the seconds of a collective with sharding 1, in which all exchanges belong to the step.
double of_shared_state_s(GroupOperation operation, double bytes) {
  const Workload work = eight_copies(1);
  return copies_seconds(work, kernels_of(work), operation, whole_model(work).parameters, bytes);
}

TEST(WeightCopies, ScatterGradientsOnceAMicrobatchAndNotOnceMoreInTheStep) {
  const auto alone_s = [](std::int32_t sharding) {
    Workload work = eight_copies(sharding);
    work.parallel.data_overlap = false;
    return reduced_s(work);
  };
  const double gather_s = of_shared_state_s(GroupOperation::all_gather, 2);
  EXPECT_DOUBLE_EQ(alone_s(0), of_shared_state_s(GroupOperation::all_reduce, 4));
  EXPECT_DOUBLE_EQ(alone_s(1), of_shared_state_s(GroupOperation::reduce_scatter, 4) + gather_s);
  EXPECT_DOUBLE_EQ(alone_s(2), gather_s) << "the weights that others have updated";
  EXPECT_NEAR(alone_s(3), 0, 1e-12) << "the next microbatch gathers them";
}

// Without overlap, one microbatch takes as long as with sharding 1. With overlap, it does not take less time.
// The embedding has no computation, so its exchanges are exposed.
TEST(WeightCopies, ShareOutMoreInNoLessTime) {
  for (const std::int32_t data : {8, 64}) {
    Workload work = eight_copies(1);
    work.parallel.data = data;
    const double usual_s = reduced_s(work);
    for (const std::int32_t sharding : {2, 3}) {
      work.parallel.sharding = sharding;
      const StagePrice price = whole_model(work);
      ASSERT_GT(price.shown.scattered_s, 0) << "the embedding, which takes no time to hide it";
      const double shown_s = price.shown.scattered_s + price.shown.gathered_s;
      EXPECT_GE(shown_s + reduced_s(work), usual_s - 1e-12) << data << " copies, sharding " << sharding;
      // Layers are larger than buckets, and each has a latency of its own.
      EXPECT_LE(reduced_s(work), usual_s + shown_s) << "what a microbatch shows is not counted again";
    }
  }
}

/// Returns the seconds of a step of one microbatch on one rank.
double step_s(const Workload& work) {
  const StagePrice price = whole_model(work);
  return price.forward_s + price.backward_input_s + price.backward_weight_s + reduced_s(work);
}

// In the backward pass the link gathers weights and reduces gradients one after the other, so the same
// computation cannot hide both.
TEST(WeightCopies, FasterProductsNeverMakeAStepLonger) {
  for (const std::int64_t sequence : {512, 1024, 2048, 4096}) {
    Workload work = eight_copies(3);
    work.sequence = sequence;
    work.parallel.data = 64;
    double slower_s = step_s(work);
    for (int i = 0; i < 10; ++i) {
      work.device.sustained *= 0.95;
      const double faster_s = step_s(work);
      EXPECT_LE(faster_s, slower_s + 1e-12) << sequence << " tokens, factor " << work.device.sustained;
      slower_s = faster_s;
    }
  }
}

// Each of the four devices of a tensor group stores all experts, because there is no expert parallelism.
TEST(WeightCopies, OfExpertsMayBeATensorGroups) {
  Workload work = workload_on("h100", "mixtral-8x7b", 4096);
  work.parallel.tensor = 4;
  work.parallel.sharding = 3;
  ASSERT_EQ(work.parallel.weight_copies(), 1);
  const LayerKind kind = work.model.layers.front();
  const DeviceParameters layer = layer_device_parameters(work, kind);
  const double gather_s = copies_seconds(work, kernels_of(work), GroupOperation::all_gather, layer, 2);
  ASSERT_GT(gather_s, 0);
  work.parallel.data_overlap = false;
  EXPECT_DOUBLE_EQ(term_named(layer_terms(work, kernels_of(work), kind), "weights gathered")->forward,
                   gather_s);
}

TEST(WeightCopies, OfOneAreAllThereIs) {
  Workload work = workload_on("h100", "llama-3.1-8b", 8192);
  const StagePrice alone = whole_model(work);
  work.parallel.sharding = 3;
  const StagePrice sharded = whole_model(work);
  EXPECT_EQ(sharded.weight_bytes, alone.weight_bytes);
  EXPECT_EQ(sharded.transient_bytes, alone.transient_bytes);
  EXPECT_EQ(sharded.forward_s, alone.forward_s);
}

// --- from a scenario's text -------------------------------------------------------------------------------

constexpr std::string_view kTwoStages = R"(
model: {huggingface: llama-3.1-8b.json, sequence: 8192}
cluster: {device: h100-sxm, nodes: 1}
schedule: {name: 1f1b, stages: 2}
training: {global_batch_size: 32}
)";

tl::expected<Experiment, std::string> experiment_with(const std::vector<Override>& overrides) {
  const auto scenario =
      parse_scenario(kTwoStages, "a.yaml", source_path("scenarios/library/models"), overrides);
  if (!scenario) return tl::unexpected(scenario.error());
  auto experiment = prepare(*scenario);
  if (!experiment) return tl::unexpected(experiment.error().message);
  return *std::move(experiment);
}

TEST(WeightCopies, AreAskedForByTheSchedulesSharding) {
  const auto sharded = [](const std::string& sharding) {
    return experiment_with({{.key = "schedule.sharding", .value = sharding}}).value();
  };
  const Experiment usual = experiment_with({}).value();
  EXPECT_EQ(sharded("1").costs, usual.costs) << "parallel.distributed_optimizer is on";
  const StageCost two = sharded("2").costs.stages.front();
  const StageCost three = sharded("3").costs.stages.front();
  EXPECT_EQ(two.weights, usual.costs.stages.front().weights);
  EXPECT_NEAR(static_cast<double>(two.gradients),
              static_cast<double>(usual.costs.stages.front().gradients) / 4, 1);
  EXPECT_NEAR(static_cast<double>(three.weights), static_cast<double>(two.weights) / 4, 1);
  EXPECT_EQ(sharded("3").program, usual.program) << "copies are priced, not simulated";
}

// As in PyTorch's FSDP inside a pipeline, only the optimizer state is divided between microbatches.
TEST(WeightCopies, TakeTheTimeAndMemoryOfSharding1WhereTheyGatherOnceAStep) {
  const Experiment usual = experiment_with({}).value();
  for (const std::string sharding : {"2", "3"}) {
    const auto gathered = [&](const std::string& when) {
      return experiment_with(
                 {{.key = "schedule.sharding", .value = sharding}, {.key = "parallel.gather", .value = when}})
          .value();
    };
    EXPECT_EQ(gathered("step").costs, usual.costs) << sharding;
    EXPECT_EQ(gathered("microbatch").costs,
              experiment_with({{.key = "schedule.sharding", .value = sharding}}).value().costs);
    EXPECT_NE(gathered("microbatch").costs, usual.costs);
  }
}

TEST(WeightCopies, KeepTheWholeOptimizerStateWhereTheScheduleSharesOutNothing) {
  const Experiment replicated =
      experiment_with({{.key = "parallel.distributed_optimizer", .value = "false"}}).value();
  const Experiment usual = experiment_with({}).value();
  for (const std::string word : {"none", "0"}) {
    const auto stated = experiment_with({{.key = "schedule.sharding", .value = word}});
    ASSERT_TRUE(stated) << stated.error();
    EXPECT_EQ(stated->costs, replicated.costs) << "sharding: " << word;
    EXPECT_EQ(stated->costs.stages.front().optimizer_state, 4 * usual.costs.stages.front().optimizer_state);
    EXPECT_EQ(experiment_with({{.key = "schedule.sharding", .value = word},
                               {.key = "parallel.distributed_optimizer", .value = "false"}})
                  .value()
                  .costs,
              replicated.costs);
  }
}

TEST(WeightCopies, CannotKeepAllAndSharedStateAtOnce) {
  EXPECT_EQ(experiment_with({{.key = "schedule.sharding", .value = "none"},
                             {.key = "parallel.distributed_optimizer", .value = "true"}})
                .error(),
            "a.yaml: schedule.sharding: none keeps the optimizer's state whole on every copy, which "
            "parallel.distributed_optimizer: true shares out; leave one of them out");
  EXPECT_EQ(experiment_with({{.key = "schedule.sharding", .value = "2"},
                             {.key = "parallel.distributed_optimizer", .value = "false"}})
                .error(),
            "a.yaml: schedule.sharding: 2 shares out the optimizer's state, which "
            "parallel.distributed_optimizer: false does not; leave one of them out");
}

}  // namespace
}  // namespace penstock
