// Tests that the command line for a launcher matches the prediction. If a test changes an assumption of the
// prediction, the command line must change, or the configuration must be refused.

#include "sim/choose/launchers.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/tune.hpp"
#include "sim/choose/tune_questions.hpp"
#include "sim/choose/tuning_space.hpp"
#include "tests/sim/tune_request.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A request, and the configuration for which arguments are written.
struct Asked {
  TuneRequest request;
  Configuration of;

  Workload& work() { return std::get<DeviceModel>(request.base.model).work; }
};

/// Returns a model with eight layers on 32 devices. All degrees are above 1, and both launchers support the
/// order of ranks.
Asked dense(Launcher launcher) {
  Asked asked{.request = tune_request(kTunedLlama, 64),
              .of = {.nodes = 4,
                     .tensor = 2,
                     .context = 2,
                     .data = 2,
                     .stages = 4,
                     .virtual_stages = 2,
                     .schedule = "interleaved",
                     .microbatches = 32,
                     .sharding = 1}};
  asked.request.launcher = launcher;
  return asked;
}

/// Returns a model with experts and a configuration for it.
Asked with_experts(Launcher launcher) {
  Asked asked{
      .request = tune_request(kTunedMixtral, 64),
      .of = {
          .nodes = 1, .tensor = 2, .expert = 2, .data = 2, .stages = 2, .microbatches = 32, .sharding = 1}};
  asked.request.launcher = launcher;
  return asked;
}

/// Returns the reason why the configuration cannot be launched, or the command line for it.
std::string launched(Asked asked) {
  Workload work = asked.work();
  work.parallel.gather = asked.request.base.shape.gather;
  set_choices(work, asked.of);
  const Launcher launcher = *asked.request.launcher;
  const std::string lacks =
      beyond_launcher(launcher, {.request = asked.request, .of = asked.of, .work = work});
  return lacks.empty() ? launch_arguments(launcher, asked.request, asked.of) : "cannot: " + lacks;
}

std::string launched_with(Asked asked, const std::function<void(Asked&)>& change) {
  change(asked);
  return launched(std::move(asked));
}

/// A change of one assumption of the prediction to another value.
struct Flip {
  std::string name;
  std::function<void(Asked&)> flip;
};

std::vector<Flip> flips_of_degrees() {
  return {{"tensor", [](Asked& a) { a.of.tensor = 4; }},
          {"sequence parallelism", [](Asked& a) { a.work().parallel.sequence_parallel = false; }},
          {"tensor overlap", [](Asked& a) { a.work().parallel.tensor_overlap = false; }},
          {"data", [](Asked& a) { a.of.data = 1; }},
          {"order", [](Asked& a) { a.of.order = PlacementOrder::tp_cp_ep_pp_dp; }},
          {"data overlap", [](Asked& a) { a.work().parallel.data_overlap = false; }},
          {"bucket size", [](Asked& a) { a.work().parallel.bucket_size = 1'000'000; }},
          {"sharding 0", [](Asked& a) { a.of.sharding = 0; }},
          {"sharding 2", [](Asked& a) { a.of.sharding = 2; }},
          {"sharding 3", [](Asked& a) { a.of.sharding = 3; }},
          {"stages", [](Asked& a) { a.of.stages = a.of.stages == 4 ? 2 : 3; }}};
}

std::vector<Flip> flips_of_training() {
  return {{"microbatch", [](Asked& a) { a.of.micro_batch_size = 2; }},
          {"sequence", [](Asked& a) { a.work().sequence = 8192; }},
          {"global batch", [](Asked& a) { a.request.global_batch_size = 128; }},
          {"selective recomputation", [](Asked& a) { a.of.recompute = LayerRecompute::selective; }},
          {"recomputed norms", [](Asked& a) { a.of.recompute = LayerRecompute::norm; }},
          {"recomputed activations", [](Asked& a) { a.of.recompute = LayerRecompute::activation; }},
          {"recomputed feed-forward", [](Asked& a) { a.of.recompute = LayerRecompute::mlp; }},
          {"full recomputation", [](Asked& a) { a.of.recompute = LayerRecompute::full; }},
          {"gradients in 2 bytes", [](Asked& a) { a.work().gradient_bytes = 2; }},
          {"momentum", [](Asked& a) { a.work().optimizer_bytes = 8; }},
          {"plain descent", [](Asked& a) { a.work().optimizer_bytes = 4; }},
          {"fp8", [](Asked& a) { a.work().precision = GemmPrecision::fp8; }},
          {"fp4", [](Asked& a) { a.work().precision = GemmPrecision::fp4; }},
          {"deferred head", [](Asked& a) { a.work().deferred_head = true; }},
          {"multi-token prediction", [](Asked& a) { a.work().model.multi_token = 1; }},
          {"checkpoints of the schedule",
           [](Asked& a) { a.request.base.shape.checkpoint = Checkpoint::always; }}};
}

std::vector<Flip> flips_of_the_dense_one() {
  return {{"context", [](Asked& a) { a.of.context = 1; }},
          {"context exchange", [](Asked& a) { a.of.context_exchange = ContextExchange::all_to_all; }},
          {"virtual stages", [](Asked& a) { a.of.virtual_stages = 1; }},
          {"schedule", [](Asked& a) { a.of.schedule = "looped-bfs"; }},
          {"groups of microbatches", [](Asked& a) { a.request.base.shape.group_size = 8; }},
          {"layers of stages", [](Asked& a) {
             a.request.layer_splits[0] = {.rule = LayerSplit::Rule::listed,
                                          .counts = {2, 1, 1, 1, 1, 1, 1, 0}};
           }}};
}

constexpr std::array kLaunchers = {Launcher::megatron, Launcher::torchtitan};

void expect_told(const Asked& asked, const std::vector<Flip>& flips) {
  const std::string usual = launched(asked);
  ASSERT_THAT(usual, Not(HasSubstr("cannot:")));
  for (const Flip& flip : flips) {
    EXPECT_NE(launched_with(asked, flip.flip), usual)
        << to_text(*asked.request.launcher) << " is not told of another " << flip.name;
  }
}

TEST(Launchers, AreToldOfEveryAssumptionOfAPriceOrLackIt) {
  for (const Launcher launcher : kLaunchers) {
    for (const auto& flips : {flips_of_degrees(), flips_of_training()}) {
      expect_told(dense(launcher), flips);
      expect_told(with_experts(launcher), flips);
    }
    expect_told(dense(launcher), flips_of_the_dense_one());
    expect_told(
        with_experts(launcher),
        {{"experts", [](Asked& a) { a.of.expert = 1; }},
         {"DeepEP", [](Asked& a) { a.work().parallel.expert_dispatch = ExpertDispatch::deepep; }},
         {"Hybrid-EP", [](Asked& a) { a.work().parallel.expert_dispatch = ExpertDispatch::hybridep; }},
         {"dispatch in 8 bits", [](Asked& a) { a.work().parallel.fp8_dispatch = true; }},
         {"hidden exchanges", [](Asked& a) { a.work().parallel.expert_overlap = true; }},
         {"recomputed parts of experts",
          [](Asked& a) { a.of.recompute = {RecomputedPart::moe_act, RecomputedPart::norm}; }}});
  }
}

TEST(Launchers, NameMegatronsPairsOfPasses) {
  Asked asked = with_experts(Launcher::megatron);
  asked.of.schedule = "ep-1f1b";
  asked.of.virtual_stages = 2;
  EXPECT_THAT(launched(asked), HasSubstr("--overlap-moe-expert-parallel-comm --delay-wgrad-compute"));
  asked.of.recompute = LayerRecompute::full;
  EXPECT_THAT(launched(asked), HasSubstr("cannot: it hides the exchange of experts only without full"));
  Asked other = with_experts(Launcher::torchtitan);
  other.of.schedule = "ep-1f1b";
  EXPECT_THAT(launched(other), HasSubstr("take another --schedule than ep-1f1b"));
}

// If Parallel gets a new member, this test does not compile. A change of the new member must then be added to
// flips_of_degrees().
TEST(Launchers, AreAskedForEveryMemberOfTheDegrees) {
  const auto& [tensor, context, context_exchange, expert, expert_dispatch, fp8_dispatch, expert_overlap, data,
               order, sequence_parallel, tensor_overlap, data_overlap, sharding, gather, bucket_size] =
      Parallel{};
  EXPECT_EQ(expert_dispatch, ExpertDispatch::alltoall);
  EXPECT_FALSE(fp8_dispatch || expert_overlap);
  EXPECT_EQ(tensor + context + expert + data, 4);
  EXPECT_TRUE(sequence_parallel && tensor_overlap && data_overlap);
  EXPECT_EQ(sharding, 1);
  EXPECT_EQ(gather, Gather::microbatch);
  EXPECT_EQ(bucket_size, 40'000'000);
  EXPECT_EQ(context_exchange, ContextExchange::ring);
  EXPECT_EQ(order, PlacementOrder::tp_cp_ep_dp_pp);
}

TEST(Launchers, ExchangeAsOftenAsIsPriced) {
  for (const Launcher launcher : kLaunchers) {
    Asked asked = dense(launcher);
    asked.of = {.nodes = 1, .tensor = 2, .data = 4, .microbatches = 16, .sharding = 3};
    asked.request.layer_splits[0] = {};
    const std::string by_microbatch = launched(asked);
    EXPECT_THAT(by_microbatch, Not(HasSubstr("cannot:")));
    asked.request.base.shape.gather = Gather::step;
    EXPECT_THAT(launched(asked), HasSubstr("exchanges")) << by_microbatch;
  }
}

TEST(Launchers, TellMegatronOfTheOverlapsThatArePriced) {
  EXPECT_EQ(launched(dense(Launcher::megatron)),
            R"(# Megatron-LM core_v0.15.0, on 32 devices
# it starts only with CUDA_DEVICE_MAX_CONNECTIONS=1 in the environment
torchrun --nnodes 4 --nproc-per-node 8 pretrain_gpt.py \
  --tensor-model-parallel-size 2 \
  --sequence-parallel \
  --tp-comm-overlap \
  --context-parallel-size 2 --cp-comm-type p2p \
  --pipeline-model-parallel-size 4 \
  --num-virtual-stages-per-pipeline-rank 2 \
  --micro-batch-size 1 --global-batch-size 64 --seq-length 4096 \
  --use-distributed-optimizer \
  --overlap-grad-reduce \
  --overlap-param-gather \
  --bf16
)");
}

// In a pipeline, FSDP gathers weights once in each step, and gradients remain whole until the last
// microbatch.
TEST(Launchers, TellTorchtitanToShardWithoutReshardingInAPipeline) {
  EXPECT_EQ(launched(dense(Launcher::torchtitan)),
            R"(# torchtitan v0.2.1, on 32 devices
# penstock: training.framework=megatron-te
torchrun --nnodes 4 --nproc-per-node 8 -m torchtitan.train \
  --parallelism.tensor_parallel_degree 2 \
  --parallelism.enable_async_tensor_parallel --compile.enable \
  --parallelism.context_parallel_degree 2 --parallelism.context_parallel_rotate_method alltoall \
  --parallelism.pipeline_parallel_degree 4 \
  --parallelism.pipeline_parallel_schedule Interleaved1F1B \
  --parallelism.pipeline_parallel_microbatch_size 1 \
  --parallelism.pipeline_parallel_layers_per_stage 1 \
  --parallelism.pipeline_parallel_first_stage_less_layers 0 \
  --parallelism.pipeline_parallel_last_stage_less_layers 0 \
  --training.local_batch_size 32 --training.global_batch_size 64 --training.seq_len 4096 \
  --activation_checkpoint.mode none \
  --parallelism.data_parallel_replicate_degree 1 \
  --parallelism.data_parallel_shard_degree 2 \
  --parallelism.fsdp_reshard_after_forward never
)");
}

TEST(Launchers, TakeALayoutOrModulesForListedLayers) {
  const auto listed = [](Launcher launcher) {
    Asked asked = dense(launcher);
    asked.of.virtual_stages = 1;
    asked.of.schedule = "1f1b";
    asked.request.layer_splits[0] = {.rule = LayerSplit::Rule::listed, .counts = {1, 3, 3, 1}};
    return launched(asked);
  };
  EXPECT_THAT(listed(Launcher::megatron), HasSubstr("--pipeline-model-parallel-layout \"Et|t*3|t*3|tL\""));
  EXPECT_THAT(listed(Launcher::torchtitan),
              HasSubstr("--parallelism.module_fqns_per_model_part tok_embeddings,layers.0 "
                        "layers.1,layers.2,layers.3 layers.4,layers.5,layers.6 layers.7,norm,output "));
}

TEST(Launchers, PlaceChunksOfAFileOfActionsAsTheScheduleDoes) {
  const auto placed_as = [](std::string_view schedule, std::int32_t chunks) {
    Asked asked = dense(Launcher::torchtitan);
    asked.of.schedule = schedule;
    asked.of.virtual_stages = chunks;
    return launched(asked);
  };
  EXPECT_THAT(placed_as("zb-h1", 1), HasSubstr("schedule PipelineScheduleSingle \\\n"));
  EXPECT_THAT(placed_as("zb-v", 2), HasSubstr("schedule ZBVZeroBubble \\\n"));
  EXPECT_THAT(placed_as("zb-v", 2), HasSubstr("schedule_csv schedule.csv"));
  EXPECT_THAT(placed_as("zbv-zero-bubble", 2), Not(HasSubstr("schedule_csv")));
}

// --- the space --------------------------------------------------------------------------------------------

std::vector<Configuration> space_for(std::optional<Launcher> launcher) {
  TuneRequest request = tune_request(kTunedLlama, 16);
  request.launcher = launcher;
  return *tuning_space(request);
}

/// Returns the request with a list of layers instead of balanced layers, as a launcher gets it. The list is 1
/// 1 .. 1 with the remaining layers at the end. If there are more stages than layers, the stages at the ends
/// are empty.
TuneRequest with_some_layers(const TuneRequest& request, const Configuration& of) {
  const auto layers = static_cast<std::int64_t>(model_of(request).work.model.layers.size());
  const std::int64_t stages = std::int64_t{of.stages} * of.virtual_stages;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), 1);
  if (stages > layers) counts.front() = 0;
  counts.back() = layers - std::accumulate(counts.begin(), counts.end() - 1, std::int64_t{0});
  return with_layers(request, of, counts);
}

TEST(LaunchedSpace, IsWhatTheLauncherRunsOfTheWholeSpace) {
  const std::vector<Configuration> whole = space_for(std::nullopt);
  for (const Launcher launcher : kLaunchers) {
    Asked asked{.request = tune_request(kTunedLlama, 16), .of = {}};
    asked.request.launcher = launcher;
    std::vector<Configuration> expected;
    const TuneRequest request = asked.request;
    for (const Configuration& of : whole) {
      asked.of = of;
      asked.request = with_some_layers(request, of);
      if (!launched(asked).starts_with("cannot:")) expected.push_back(of);
    }
    EXPECT_EQ(space_for(launcher), expected);
    EXPECT_LT(expected.size(), whole.size());
    EXPECT_TRUE(std::ranges::any_of(expected, [](const Configuration& of) { return of.stages > 1; }));
  }
}

TEST(LaunchedSpace, HasTorchtitansShardedPipelines) {
  const std::vector<Configuration> space = space_for(Launcher::torchtitan);
  const auto count = [&](std::int32_t stages, std::int32_t sharding) {
    return std::ranges::count_if(space, [&](const Configuration& of) {
      return of.stages == stages && of.data > 1 && of.sharding == sharding;
    });
  };
  EXPECT_GT(count(2, 1), 0);
  EXPECT_EQ(count(2, 2) + count(2, 3), 0);
  EXPECT_EQ(count(1, 1), 0);
  EXPECT_GT(count(1, 3), 0);
}

TEST(LaunchedSpace, SaysWhatIsLackingWhereNothingIsLeft) {
  TuneRequest request = tune_request(kTunedLlama, 16);
  request.launcher = Launcher::megatron;
  request.choices.stages = {4};
  request.schedules = {"zb-v"};
  EXPECT_THAT(
      tuning_space(request).error(),
      HasSubstr("no configuration is left that megatron runs as it is priced (Megatron-LM core_v0.15.0); "
                "allow others:\n"));
  EXPECT_THAT(tuning_space(request).error(),
              HasSubstr("it has no schedule zb-v; take --schedule 1f1b,interleaved,ep-1f1b"));
}

TEST(TensorOverlapWorth, IsThatOfTheBestPlanWithAndWithoutIt) {
  TuneRequest request = tune_request(kTunedLlama, 16);
  request.launcher = Launcher::megatron;
  const auto report = tune(request, {.top = 1});
  ASSERT_TRUE(report) << report.error().message;
  const TunedConfiguration& best = report->candidates.front();
  ASSERT_GT(best.configuration.tensor, 1);
  const auto worth = tensor_overlap_worth(request, best);
  ASSERT_TRUE(worth && *worth);
  EXPECT_EQ((*worth)->same.configuration, best.configuration);
  EXPECT_GT((*worth)->same.step_ns, best.step_ns);
  EXPECT_LE((*worth)->best.step_ns, (*worth)->same.step_ns);
  TuneRequest without = request;
  std::get<DeviceModel>(without.base.model).work.parallel.tensor_overlap = false;
  EXPECT_EQ(simulated_configuration(without, best.configuration).makespan_ns, (*worth)->same.step_ns);
  EXPECT_FALSE(*tensor_overlap_worth(without, best));
}

}  // namespace
}  // namespace penstock
