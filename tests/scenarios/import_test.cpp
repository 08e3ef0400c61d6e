// Tests that configurations of other programs become the scenarios that they mean. Each test shows the
// configuration and the keys that matter.

#include "scenarios/import/importers.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/import/settings.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/shape.hpp"
#include "tests/test_files.hpp"
#include "text/enum_words.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

ImportRequest request_of(std::string_view text, std::string name = "run") {
  return {.inputs = {{.name = std::move(name), .text = std::string(text)}}};
}

/// Returns the imported configuration. An error fails the test.
Imported imported(const ImportRequest& request) {
  return import_configuration(request)
      .map_error([](const std::string& error) {
        ADD_FAILURE() << error;
        return error;
      })
      .value_or(Imported{});
}

/// Returns the error of a configuration that cannot be imported.
std::string import_error(const ImportRequest& request) {
  const auto result = import_configuration(request);
  return result ? "imported:\n" + result->yaml : result.error();
}

/// Returns the scenario of a configuration. It must be one that Penstock reads.
Scenario scenario_of(const ImportRequest& request) {
  return parse_scenario(imported(request).yaml, "imported.yaml", "")
      .map_error([](const std::string& error) {
        ADD_FAILURE() << error;
        return error;
      })
      .value_or(Scenario{});
}

/// Returns the keys as lines.
std::vector<std::string> lines_of(const Imported& made) {
  std::vector<std::string> lines;
  for (const ImportedKey& key : made.keys)
    lines.push_back(fmt::format("{} {} -> {}: {}", key.key, key.value, to_text(key.fate), key.text));
  return lines;
}

/// Returns the scenario on H100s.
Scenario priced(ImportRequest request, std::int64_t devices) {
  request.device = "h100-sxm";
  request.devices = devices;
  return scenario_of(request);
}

const Workload& work_of(const Scenario& scenario) { return std::get<DeviceModel>(scenario.model).work; }

/// Returns the number of copies of the pipeline. An imported scenario does not state it, so that it follows
/// from the devices and the degrees, also if a flag changes a degree.
std::int64_t copies_of(const Scenario& scenario) {
  EXPECT_FALSE(std::get<DeviceModel>(scenario.model).copies);
  const auto experiment = prepare(scenario);
  EXPECT_TRUE(experiment) << experiment.error().message;
  if (!experiment || !scenario.batch.micro_batch_size) return 0;
  return static_cast<std::int64_t>(experiment->samples_per_microbatch) / *scenario.batch.micro_batch_size;
}

/// Returns the decision about a key and its text, such as "ignored: unknown".
std::string fate_of(const Imported& result, std::string_view key) {
  const auto found = std::ranges::find(result.keys, key, &ImportedKey::key);
  return found == result.keys.end() ? "absent" : std::string(to_text(found->fate)) + ": " + found->text;
}

// --- Megatron-LM ------------------------------------------------------------------------------------------

constexpr std::string_view kMegatronScript = R"(#!/bin/bash
# A comment with --num-layers 99
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-4}
TP=2
MODEL_ARGS=(
    --num-layers 22
    --hidden-size 4096   # width
    --ffn-hidden-size 11008
    --num-attention-heads 32
    --group-query-attention --num-query-groups 8
    --seq-length 4096
    #--seq-length 8192 \
    --swiglu --normalization RMSNorm --disable-bias-linear
    --position-embedding-type rope
    --untie-embeddings-and-output-weights
    --vocab-size 64000
)
if [[ "$TP" == "2" ]]; then
    EXTRA="--sequence-parallel --tp-comm-overlap"
else
    EXTRA="--lr 1"
fi
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py \
    ${MODEL_ARGS[@]} $EXTRA \
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size 4 \
    --decoder-first-pipeline-num-layers 4 --decoder-last-pipeline-num-layers 4 \
    --use-distributed-optimizer --overlap-grad-reduce \
    --micro-batch-size 1 --global-batch-size $((TP * 64)) \
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
    --lr 1.0e-5 --my-own-flag 3 --bf16
)";

TEST(MegatronImport, ReadsAScriptWithArraysVariablesAndConditions) {
  const ImportRequest request = request_of(kMegatronScript, "train.sh");
  ImportRequest on_device = request;
  on_device.device = "h100-sxm";
  const Scenario scenario = scenario_of(on_device);
  EXPECT_EQ(scenario.schedule, "1f1b");
  EXPECT_EQ(scenario.shape.stages, 4);
  EXPECT_EQ(work_of(scenario).parallel.tensor, 2);
  EXPECT_EQ(copies_of(scenario), 4);
  EXPECT_EQ(std::get<DeviceModel>(scenario.model).devices, 32);
  EXPECT_EQ(scenario.batch.micro_batch_size, 1);
  EXPECT_EQ(scenario.batch.global_batch_size, 128);
  EXPECT_THAT(std::get<DeviceModel>(scenario.model).split.counts, ElementsAre(4, 7, 7, 4));
  EXPECT_EQ(work_of(scenario).recompute, LayerRecompute::full);
  EXPECT_EQ(work_of(scenario).parallel.sharding, 1);
  EXPECT_TRUE(work_of(scenario).parallel.sequence_parallel);
  EXPECT_TRUE(work_of(scenario).parallel.tensor_overlap);
  EXPECT_EQ(work_of(scenario).model.kv_heads, 8);
  EXPECT_FALSE(work_of(scenario).model.layer_norm);
  EXPECT_EQ(work_of(scenario).sequence, 4096);
}

TEST(MegatronImport, ListsEveryKeyAsTakenOrIgnored) {
  const Imported result = imported(request_of(kMegatronScript));
  EXPECT_EQ(fate_of(result, "--num-layers"), "taken: model.transformer.layers");
  EXPECT_EQ(fate_of(result, "--nnodes"), "taken: cluster.nodes");
  EXPECT_EQ(fate_of(result, "--lr"), "ignored: concerns what is learned, not how long it takes");
  EXPECT_EQ(fate_of(result, "--my-own-flag"), "ignored: unknown");
  EXPECT_EQ(result.keys.size(), 31U);
}

TEST(MegatronImport, GivesLayersTimesWhereNoDeviceIsStated) {
  const Imported result = imported(request_of(kMegatronScript));
  EXPECT_THAT(result.yaml,
              HasSubstr("forward: [4 ms, 7 ms, 7 ms, 4 ms]\n    backward: [12 ms, 21 ms, 21 ms, 12 ms]"));
  EXPECT_THAT(result.yaml, HasSubstr("data_parallel: 4"));
  EXPECT_THAT(result.yaml, HasSubstr("microbatches: 128"));
  EXPECT_THAT(result.notes, testing::Contains(HasSubstr("the device is not stated: give --device NAME")));
}

TEST(MegatronImport, CutsLayersWithEmbeddingAndLossInTheirPlace) {
  const ImportRequest request = request_of(R"(MODEL_ARGS:
  --num-layers: 14
  --hidden-size: 1024
  --num-attention-heads: 16
  --seq-length: 2048
  --vocab-size: 32000
  --micro-batch-size: 2
  --global-batch-size: 64
  --pipeline-model-parallel-size: 4
  --num-layers-per-virtual-pipeline-stage: 2
  --account-for-embedding-in-pipeline-split: true
  --account-for-loss-in-pipeline-split: true
  --sequence-parallel: false
  --bf16: true
)");
  EXPECT_THAT(imported(request).yaml, HasSubstr("forward: [1 ms, 2 ms, 2 ms, 2 ms, 2 ms, 2 ms, 2 ms, 1 ms]"));
  const Scenario scenario = priced(request, 8);
  EXPECT_EQ(scenario.schedule, "interleaved");
  EXPECT_EQ(scenario.shape.virtual_stages, 2);
  EXPECT_EQ(copies_of(scenario), 2);
  EXPECT_EQ(std::get<DeviceModel>(scenario.model).split.rule, LayerSplit::Rule::ends_one_less);
}

TEST(MegatronImport, ReadsALayoutAndExperts) {
  const Scenario scenario = priced(
      request_of(
          "--num-layers 6 --hidden-size 2048 --num-attention-heads 16 --seq-length 4096 --vocab-size 32000 "
          "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 768 "
          "--moe-shared-expert-intermediate-size 1536 --moe-layer-freq ([0]*2+[1]*4) "
          "--expert-model-parallel-size 4 --moe-token-dispatcher-type flex --moe-enable-deepep "
          "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout \"Et|tt|tt|tL\" "
          "--micro-batch-size 1 --global-batch-size 16 --bf16"),
      8);
  EXPECT_EQ(scenario.shape.virtual_stages, 2);
  EXPECT_THAT(std::get<DeviceModel>(scenario.model).split.counts, ElementsAre(1, 2, 2, 1));
  const Workload& work = work_of(scenario);
  EXPECT_EQ(work.model.experts->count, 8);
  EXPECT_EQ(work.model.experts->inner, 768);
  EXPECT_EQ(work.model.experts->shared_inner, 1536);
  EXPECT_EQ(std::ranges::count_if(work.model.layers, &LayerKind::has_experts), 4);
  EXPECT_EQ(work.parallel.expert, 4);
  EXPECT_EQ(work.parallel.expert_dispatch, ExpertDispatch::deepep);
}

/// The arguments of DeepSeek-V3 (arXiv 2412.19437, section 4.2) as a recipe of Megatron-LM has them: YAML
/// with the arguments under ARGS, beside the image and the environment.
constexpr std::string_view kLatentRecipe = R"(DEPENDENCIES:
  pytorch_base_image: image:26.03
  dockerfile: |
    ARG FROM_IMAGE_NAME=image:26.03
    FROM ${FROM_IMAGE_NAME} AS base
ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: '32'
ARGS:
  num_layers: 61
  hidden_size: 7168
  ffn_hidden_size: 18432
  num_attention_heads: 128
  kv_channels: 128
  normalization: RMSNorm
  swiglu: true
  disable_bias_linear: true
  untie_embeddings_and_output_weights: true
  position_embedding_type: rope
  tokenizer_type: HuggingFaceTokenizer
  tokenizer_model: somebody/DeepSeek-V3
  make_vocab_size_divisible_by: 3232
  multi_latent_attention: true
  q_lora_rank: 1536
  kv_lora_rank: 512
  qk_head_dim: 128
  qk_pos_emb_head_dim: 64
  v_head_dim: 128
  qk_layernorm: true
  num_experts: 256
  moe_layer_freq: ([0]*3+[1]*58)
  moe_ffn_hidden_size: 2048
  moe_shared_expert_intermediate_size: 2048
  moe_router_topk: 8
  moe_router_group_topk: 4
  moe_router_num_groups: 8
  seq_length: 4096
  pipeline_model_parallel_size: 4
  expert_model_parallel_size: 64
  pipeline_model_parallel_layout: Et*4|(tttt|)*14tL
  micro_batch_size: 1
  global_batch_size: 8192
  bf16: true
)";

TEST(MegatronImport, ReadsLatentAttentionAndGroupsOfExpertsOfARecipe) {
  const ImportRequest request = request_of(kLatentRecipe);
  const Scenario scenario = priced(request, 256);
  const Architecture& model = work_of(scenario).model;
  const auto library = load_architecture({.config = "deepseek-v3"});
  ASSERT_TRUE(library) << library.error();
  Architecture expected = library->architecture;
  expected.family = model.family;
  expected.multi_token = 0;               // the recipe above leaves it out
  expected.experts->router_bias = false;  // 58 x 256 values, which Megatron-LM holds in a buffer
  EXPECT_EQ(model.latent, expected.latent);
  EXPECT_EQ(model.experts, expected.experts);
  EXPECT_EQ(parameters(model), parameters(expected));
  EXPECT_EQ(fate_of(imported(request), "ARGS.kv_channels"),
            "ignored: latent attention has its own widths and norms");
}

TEST(MegatronImport, IgnoresTheSizesOfLatentAttentionAndExpertsThatAreOff) {
  const Imported result = imported(request_of(
      "--num-layers 8 --hidden-size 2048 --num-attention-heads 16 --seq-length 4096 --vocab-size 32000 "
      "--micro-batch-size 1 --global-batch-size 16 --kv-lora-rank 512 --moe-router-topk 2"));
  EXPECT_EQ(fate_of(result, "--kv-lora-rank"),
            "ignored: Megatron-LM reads it only with --multi-latent-attention");
  EXPECT_EQ(fate_of(result, "--moe-router-topk"), "ignored: num_experts is not stated");
}

TEST(MegatronImport, ReadsTheNamesOfItsOwnYamlFiles) {
  const Scenario scenario = priced(request_of(R"(language_model:
  num_layers: 24
  hidden_size: 1024
  num_attention_heads: 16
  add_bias_linear: False
  activation_func: swiglu
  num_moe_experts: 8
  moe_router_topk: 2
model_parallel:
  tensor_model_parallel_size: 1
micro_batch_size: 2
global_batch_size: 128
vocab_size: 32000
seq_length: 4096
)"),
                                   8);
  const Architecture& model = work_of(scenario).model;
  EXPECT_TRUE(model.gated);
  EXPECT_FALSE(model.output_bias);
  EXPECT_EQ(model.experts->count, 8);
}

TEST(MegatronImport, NamesThePairsThatHideTheExchangeOfExperts) {
  const Scenario scenario = priced(
      request_of(
          "--num-layers 8 --hidden-size 2048 --num-attention-heads 16 --seq-length 4096 --vocab-size 32000 "
          "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 768 --expert-model-parallel-size 4 "
          "--overlap-moe-expert-parallel-comm --delay-wgrad-compute --pipeline-model-parallel-size 2 "
          "--num-virtual-stages-per-pipeline-rank 2 --micro-batch-size 1 --global-batch-size 16 --bf16"),
      8);
  EXPECT_EQ(scenario.schedule, "ep-1f1b");
  EXPECT_EQ(scenario.shape.virtual_stages, 2);
}

TEST(MegatronImport, WaitsForMessagesWithoutTheirOverlap) {
  const std::string flags =
      "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --vocab-size 32000 "
      "--micro-batch-size 1 --global-batch-size 32 --pipeline-model-parallel-size 4 "
      "--no-overlap-p2p-communication";
  const std::string chunks = " --num-layers-per-virtual-pipeline-stage 4";
  EXPECT_EQ(priced(request_of(flags + chunks), 8).channels.blocking, Blocking::batched);
  EXPECT_EQ(fate_of(imported(request_of(flags + chunks)), "--no-overlap-p2p-communication"),
            "taken: schedule.blocking");
  EXPECT_EQ(priced(request_of(flags), 8).channels.blocking, Blocking::none);
  EXPECT_EQ(fate_of(imported(request_of(flags)), "--no-overlap-p2p-communication"),
            "ignored: Megatron-LM reads it only with several stages on each rank");
}

TEST(MegatronImport, RefusesWhatWouldBeWrongWithoutIt) {
  constexpr std::string_view kFlags =
      "--num-layers 10 --pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8 ";
  EXPECT_THAT(import_error(request_of(std::string(kFlags) + "--cpu-offloading")),
              HasSubstr("--cpu-offloading true: moves memory to the host, which has no price here"));
  EXPECT_THAT(import_error(request_of(std::string(kFlags) + "--mamba-num-heads 64")),
              HasSubstr("give --model config.json"));
  EXPECT_THAT(
      import_error(request_of("--num-layers 10 --pipeline-model-parallel-size 4 --micro-batch-size 1")),
      HasSubstr("Megatron-LM refuses it too: 10 layers do not divide into 4 x 1 stages"));
  EXPECT_THAT(
      import_error(request_of("LAYERS=$1\npretrain.py --num-layers $LAYERS --micro-batch-size 1")),
      HasSubstr("--num-layers ${1}: is an argument with which the script is called; write the number"));
  ImportRequest ignoring = request_of(std::string(kFlags) + "--cpu-offloading");
  ignoring.ignore = {"--cpu-offloading"};
  EXPECT_THAT(fate_of(imported(ignoring), "--cpu-offloading"), HasSubstr("ignored: left out by --ignore"));
}

TEST(MegatronImport, IgnoresAKeyByItsLastPart) {
  ImportRequest request = request_of("ARGS:\n  num_layers: 8\n  offload_modules: expert_fc1\n");
  EXPECT_THAT(import_error(request), HasSubstr("ARGS.offload_modules expert_fc1: moves memory to the host"));
  request.ignore = {"offload_modules"};
  EXPECT_THAT(fate_of(imported(request), "ARGS.offload_modules"), HasSubstr("ignored: left out by --ignore"));
}

TEST(MegatronImport, TakesTheVocabularyOfAKnownTokenizerAndPadsIt) {
  const std::string flags =
      "--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --micro-batch-size 1 "
      "--global-batch-size 8 --tensor-model-parallel-size 2 --bf16 ";
  EXPECT_EQ(work_of(priced(request_of(flags + "--merge-file merges.txt"), 8)).model.vocabulary, 50432);
  EXPECT_EQ(work_of(priced(request_of(flags + "--tokenizer-type Llama2Tokenizer"), 8)).model.vocabulary,
            32000);
}

TEST(MegatronImport, AsksForNumbersThatDoNotFit) {
  ImportRequest request = request_of(
      "--num-layers 8 --pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 8");
  request.devices = 6;
  EXPECT_THAT(import_error(request),
              HasSubstr("expected a number of devices that is a multiple of tensor 1 x "
                        "context 1 x stages 4 = 4, got 6"));
  request.devices = 12;
  EXPECT_THAT(import_error(request),
              HasSubstr("expected a global batch that is a multiple of microbatch 1 x copies 3, got 8"));
}

// --- the shell --------------------------------------------------------------------------------------------

TEST(MegatronImport, TakesTheConfigurationOfTheLibraryForItsName) {
  const std::string flags =
      "--tensor-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 8 --seq-length 2048 --bf16";
  for (const std::string name : {"gpt3-175b", "llama-3.1-8b", "mixtral-8x7b"}) {
    ImportRequest by_name = request_of(flags);
    by_name.model = name;
    ImportRequest by_file = by_name;
    by_file.model = source_path("scenarios/library/models/" + name + ".json");
    EXPECT_EQ(work_of(priced(by_name, 8)).model, work_of(priced(by_file, 8)).model) << name;
  }
  // Other names stand in a table of sizes.
  ImportRequest listed = request_of(flags);
  listed.model = "qwen3-8b";
  EXPECT_EQ(work_of(priced(listed, 8)).model.hidden, 4096);
}

TEST(MegatronImport, RefusesAScriptWithoutAnArgumentThatItTakes) {
  EXPECT_EQ(import_error(request_of("source CONFIG.sh\ntorchrun --nproc_per_node 8 pretrain.py --mine 3\n")),
            "run: no key of Megatron-LM's arguments is found, so there is nothing to predict: run: line 1: "
            "another file is not read: source CONFIG.sh");
}

// Otherwise the flags in the variable would be lost, or be read as the value of the flag before it.
TEST(Shell, RefusesAVariableThatMayHoldFlags) {
  const auto error_of = [](std::string_view flags) {
    return import_error(request_of(fmt::format("source CONFIG.sh\ntorchrun pretrain.py {}\n", flags)));
  };
  EXPECT_THAT(error_of("$ARGS --num-layers 8"),
              AllOf(HasSubstr("${ARGS} true: may hold flags"), HasSubstr("is not read: source CONFIG.sh")));
  EXPECT_THAT(
      error_of("--num-layers 8 --bf16 --sequence-parallel $MP"),
      HasSubstr("--sequence-parallel ${MP}: is followed by ${MP}, whose value the file does not state"));
  EXPECT_THAT(error_of("--num-layers 8 --split 99,1,0 $MP"), HasSubstr("${MP} true: may hold flags"));
  EXPECT_THAT(error_of("--num-layers 8 --${KIND}-layers 3"), HasSubstr("the name of this flag is not known"));
  // Scripts pass on their own arguments, and run without them.
  EXPECT_THAT(error_of("--num-layers 8 --data-path $DATA \"$@\""), HasSubstr("imported:"));
}

TEST(Shell, DecidesTestsThatAreJoinedInsideOfBrackets) {
  const auto stages_if = [](std::string_view condition) {
    return import_configuration(
               request_of(fmt::format(
                   "A=1\nB=2\nif {}; then\n  PP=4\nelse\n  PP=2\nfi\ntorchrun pretrain.py --num-layers 8 "
                   "--pipeline-model-parallel-size $PP\n",
                   condition)))
        .map([](const Imported& made) { return fate_of(made, "--pipeline-model-parallel-size") + made.yaml; })
        .value_or("");
  };
  EXPECT_THAT(stages_if("[[ $A == 1 && $B == 2 ]]"), HasSubstr("stages: 4"));
  EXPECT_THAT(stages_if("[[ $A == 1 && $B == 3 ]]"), HasSubstr("stages: 2"));
  EXPECT_THAT(stages_if("[[ $A == 0 || $B == 3 || -n $B ]]"), HasSubstr("stages: 4"));
  EXPECT_THAT(stages_if("[ $A -eq 1 ] && [ $B -eq 2 ]"), HasSubstr("stages: 4"));
  EXPECT_THAT(stages_if("! [ $A -eq 1 ]"), HasSubstr("stages: 2"));
  EXPECT_THAT(stages_if("test $A -eq 1 && true"), HasSubstr("stages: 4"));
  EXPECT_EQ(stages_if("[ $A -eq 1 ] && nvidia-smi"), "");
  EXPECT_EQ(stages_if("! nvidia-smi"), "");
}

TEST(Shell, CannotDecideWhetherACommandSucceeds) {
  EXPECT_THAT(
      import_error(request_of("if nvidia-smi; then\n  PP=4\nelse\n  PP=2\nfi\n"
                              "torchrun pretrain.py --num-layers 8 --pipeline-model-parallel-size $PP\n")),
      HasSubstr("the condition cannot be decided: nvidia-smi"));
}

TEST(ImportedLayers, AreThoseThatTheUserStates) {
  ImportRequest megatron = request_of(
      "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 --vocab-size 32000 "
      "--pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 8 --bf16");
  megatron.layers = 8;
  EXPECT_EQ(fate_of(imported(megatron), "--num-layers"), "ignored: the user states the number of layers");
  EXPECT_EQ(work_of(priced(megatron, 4)).model.layers.size(), 8U);
  megatron.layers.reset();
  megatron.stated = {{.key = "model.transformer.layers", .value = "12"}};
  const Scenario set = priced(megatron, 4);
  EXPECT_EQ(work_of(set).model.layers.size(), 12U);
  EXPECT_THAT(imported(megatron).yaml, HasSubstr("forward: [3 ms, 3 ms, 3 ms, 3 ms]"));
  ImportRequest torchtitan =
      request_of("[model]\nname = \"llama3\"\nflavor = \"70B\"\n[training]\nseq_len = 8192\n");
  torchtitan.layers = 8;
  EXPECT_EQ(work_of(priced(torchtitan, 8)).model.layers.size(), 8U);
}

TEST(ImportedModel, IsNotAskedForIgnoredKeysOfTheConfiguration) {
  ImportRequest request = request_of(
      "--pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8 --bf16 "
      "--seq-length 4096 --softmax-type learnable");
  request.model = "llama-3.1-8b";
  request.ignore = {"softmax_type"};
  EXPECT_EQ(priced(request, 2).shape.stages, 2);
  request.ignore = {"softmax_type", "no_such_key"};
  EXPECT_THAT(import_error(request), HasSubstr("expected a key of this file, got \"no_such_key\""));
  request.model.clear();
  EXPECT_THAT(import_error(request), HasSubstr("--ignore no_such_key: expected a key of this configuration"));
}

TEST(ImportedDevices, MustHoldTheExperts) {
  ImportRequest request = request_of(
      R"(model: {model_config: {hidden_size: 256, intermediate_size: 768, num_attention_heads: 4,
  num_hidden_layers: 12, vocab_size: 32000, moe_config: {num_experts: 8, top_k: 1}}}
parallelism: {dp: 1, pp: 2, tp: 1, expert_parallel_size: 2}
tokens: {micro_batch_size: 3, batch_accumulation_per_replica: 1, sequence_length: 4096}
)");
  EXPECT_THAT(
      import_error(request),
      HasSubstr("a multiple of the expert-parallel degree 2, got 1 (tensor 1 x context 1 x copies 1)"));
}

TEST(ImportError, EndsWithTheNotesThatMayExplainIt) {
  ImportRequest request = request_of(
      "[model]\nname = \"no_such_model\"\nflavor = \"70B\"\n[training]\nseq_len = 8192\nlocal_batch_size = "
      "1\n");
  request.device = "h100-sxm";
  EXPECT_THAT(import_error(request),
              HasSubstr("\n  note: the sizes of no_such_model 70B are not known here"));
}

TEST(MegatronImport, DoesNotAskForAModelThatIsStated) {
  ImportRequest request = request_of("--tensor-model-parallel-size 2 --micro-batch-size 1");
  request.model = "qwen2.5-7b";
  request.device = "h100-sxm";
  const std::string error = import_error(request);
  EXPECT_THAT(error, HasSubstr("the model's sequence is not stated"));
  EXPECT_THAT(error, HasSubstr("give --set model.transformer.sequence=N"));
  EXPECT_THAT(error, Not(HasSubstr("--model config.json")));
}

TEST(ImporterShapes, RefuseToolsWithoutAnImporterByName) {
  for (const std::string_view text :
       {"{\"pipe-parallel-size\": 4, \"num-layers\": 44, \"zero_optimization\": {}}",
        "model_parallel_size: 2\nnum_layers: 12\nnum_attention_heads: 12\n"}) {
    EXPECT_EQ(recognised_importer("neox.yml", text), "") << text;
    EXPECT_THAT(import_error(request_of(text)),
                AllOf(HasSubstr("GPT-NeoX's configuration, which has no importer"),
                      HasSubstr("pipe-parallel-size is --pipeline-model-parallel-size")));
  }
  ImportRequest nemo = request_of(R"(trainer: {devices: 8, num_nodes: 1, precision: bf16}
model: {optim: {name: distributed_fused_adam, sched: {name: CosineAnnealing}}, tensor_model_parallel_size: 2,
  num_layers: 8, hidden_size: 1024, num_attention_heads: 16,
  num_query_groups: 4, encoder_seq_length: 2048, normalization: rmsnorm, activation: fast-swiglu, bias: false,
  share_embeddings_and_output_weights: false, micro_batch_size: 1, global_batch_size: 8,
  activations_checkpoint_granularity: selective, activations_checkpoint_method: block,
  activations_checkpoint_num_layers: 0}
)");
  EXPECT_THAT(import_error(nemo), HasSubstr("the configuration of NeMo's launcher, which has no importer"));
  nemo.from = "megatron";
  nemo.stated = {{.key = "model.transformer.vocabulary", .value = "32000"}};
  const Scenario scenario = priced(nemo, 8);
  EXPECT_FALSE(work_of(scenario).model.layer_norm);
  EXPECT_TRUE(work_of(scenario).model.gated);
  EXPECT_FALSE(work_of(scenario).model.feed_forward_bias);
  EXPECT_FALSE(work_of(scenario).model.tied);
  EXPECT_EQ(work_of(scenario).model.kv_heads, 4);
  EXPECT_EQ(work_of(scenario).recompute, LayerRecompute::selective);
  EXPECT_EQ(work_of(scenario).parallel.sharding, 1);
}

/// Returns arguments of Megatron-LM that describe a small model, followed by `flags`.
ImportRequest small_megatron(std::string_view flags) {
  return request_of(
      fmt::format("--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
                  "--vocab-size 32000 --bf16 {}",
                  flags));
}

TEST(MegatronImport, ReadsTheNamesOfItsFirstReleases) {
  const Scenario scenario = priced(small_megatron("--model-parallel-size 2 --batch-size 8"), 4);
  EXPECT_EQ(work_of(scenario).parallel.tensor, 2);
  EXPECT_EQ(scenario.batch.micro_batch_size, 8);
  EXPECT_EQ(scenario.batch.global_batch_size, 16);
  EXPECT_THAT(imported(small_megatron("--activations-checkpoint-method block "
                                      "--activations-checkpoint-num-layers 4 --micro-batch-size 1"))
                  .yaml,
              HasSubstr("backward"));
  ImportRequest block = small_megatron(
      "--activations-checkpoint-method block --activations-checkpoint-num-layers 4 --micro-batch-size 1");
  block.device = "h100-sxm";
  EXPECT_THAT(imported(block).yaml, HasSubstr("recompute: {method: block, num_layers: 4}"));
}

TEST(MegatronImport, RecomputesNoLayerInBlocksOfNone) {
  const std::string flags = "--recompute-granularity full --recompute-num-layers 0 --recompute-method ";
  EXPECT_EQ(work_of(priced(small_megatron(flags + "block"), 1)).recompute, LayerRecompute::none);
  EXPECT_THAT(import_error(small_megatron(flags + "uniform")),
              HasSubstr("--recompute-num-layers 0: expected a whole number from 1 on"));
}

TEST(MegatronImport, GivesTrueReasonsForKeysWithoutAPrice) {
  const Imported result = imported(small_megatron(
      "--cpu-offloading-num-layers 2 --attention-backend unfused --rope-fusion true --rope-theta 10000"));
  EXPECT_EQ(fate_of(result, "--cpu-offloading-num-layers"),
            "ignored: Megatron-LM reads it only with --cpu-offloading");
  EXPECT_THAT(fate_of(result, "--attention-backend"), HasSubstr("the prices are those of fused attention"));
  EXPECT_THAT(fate_of(result, "--rope-fusion"), HasSubstr("fused kernels"));
  EXPECT_THAT(fate_of(result, "--rope-theta"), HasSubstr("concerns what is learned"));
  EXPECT_THAT(import_error(small_megatron("--cpu-offloading --cpu-offloading-num-layers 2")),
              HasSubstr("moves memory to the host"));
}

TEST(MegatronImport, ReadsTheNamesOfMindSpeed) {
  const Scenario scenario = priced(
      small_megatron("--pipeline-model-parallel-size 2 --num-layer-list 3,5 --micro-batch-size 1 "
                     "--context-parallel-size 2 --context-parallel-algo ulysses_cp_algo --use-ascend-coc "
                     "--num-experts 16 --moe-router-topk 2 --moe-intermediate-size 512 --n-shared-experts 1 "
                     "--first-k-dense-replace 3 --moe-layer-freq 1 --n-group 4 --topk-group 2 "
                     "--multi-head-latent-attention --qk-rope-head-dim 64 --qk-nope-head-dim 128 "
                     "--q-lora-rank 256 --kv-lora-rank 128 --v-head-dim 128"),
      4);
  EXPECT_THAT(std::get<DeviceModel>(scenario.model).split.counts, ElementsAre(3, 5));
  EXPECT_TRUE(work_of(scenario).parallel.tensor_overlap);
  EXPECT_TRUE(work_of(scenario).model.latent);
  ImportRequest unlike = small_megatron("--pipeline-model-parallel-size 2 --num-layer-list 3,4");
  EXPECT_THAT(import_error(unlike), HasSubstr("expected 8 layers together, got 7"));
  EXPECT_THAT(import_error(small_megatron("--noop-layers 7 --schedules-method dualpipev --swap-optimizer")),
              AllOf(HasSubstr("leaves these layers empty"), HasSubstr("replaces the schedule"),
                    HasSubstr("moves memory to the host")));
}

TEST(MegatronImport, ReadsTheDivisionOfTheOptimizerByDeepSpeed) {
  const std::string flags = "--deepspeed --deepspeed_config ds.json --pipeline-model-parallel-size 2 ";
  EXPECT_EQ(work_of(priced(small_megatron(flags + "--zero-stage 1"), 4)).parallel.sharding, 1);
  EXPECT_THAT(import_error(small_megatron(flags)), HasSubstr("add --zero-stage N to the command"));
  EXPECT_THAT(import_error(small_megatron(flags + "--zero-stage 2")),
              HasSubstr("ZeRO-2 and ZeRO-3 do not go with a pipeline"));
}

TEST(MegatronImport, CutsTheStagesOfMegatronDeepSpeedByTheTypesOfLayers) {
  EXPECT_THAT(imported(small_megatron("--pipeline-model-parallel-size 5 --micro-batch-size 1 "
                                      "--pp-partition-method 'type:transformer|embedding'"))
                  .yaml,
              HasSubstr("forward: [1 ms, 2 ms, 2 ms, 2 ms, 1 ms]"));
}

TEST(MegatronImport, NamesUnknownKeysAndWhatTheyResemble) {
  const Imported result =
      imported(request_of("--num-layers 8 --tensor-modle-parallel-size 8 --my-own-flag 3"));
  EXPECT_EQ(fate_of(result, "--tensor-modle-parallel-size"),
            "ignored: unknown; did you mean tensor_model_parallel_size?");
  EXPECT_THAT(import_summary(result),
              HasSubstr("of which 2 are unknown: --tensor-modle-parallel-size (did you mean "
                        "tensor_model_parallel_size?), --my-own-flag"));
}

TEST(MegatronImport, RefusesADeviceForAModelOfUnknownSizes) {
  ImportRequest request =
      request_of("--num-layers 8 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --bf16");
  request.device = "h100-sxm";
  EXPECT_EQ(import_error(request),
            "run: the model's vocabulary is not stated, so nothing can be priced; give --model config.json, "
            "or --set "
            "model.transformer.vocabulary=N");
}

TEST(MegatronImport, TakesTheDevicesThatHoldItsExperts) {
  const Imported result = imported(request_of(
      "--num-layers 8 --num-experts 16 --expert-model-parallel-size 8 --tensor-model-parallel-size 2"));
  EXPECT_THAT(result.notes,
              testing::Contains(HasSubstr("the 4 copies that hold its experts are taken (devices: 8)")));
}

TEST(MegatronImport, SaysWhichKeysHaveNoPriceAndWhichHaveNoEffect) {
  const Imported result = imported(
      request_of("--num-layers 4 --hidden-size 256 --vocab-size 1000 --make-vocab-size-divisible-by 64 "
                 "--fp8-param-gather "
                 "--moe-expert-capacity-factor 1.2 --distributed-timeout-minutes 10"));
  EXPECT_EQ(fate_of(result, "--make-vocab-size-divisible-by"), "taken: model.transformer.vocabulary");
  for (const std::string key : {"--fp8-param-gather", "--moe-expert-capacity-factor"})
    EXPECT_EQ(fate_of(result, key), "ignored: has no price here");
  EXPECT_EQ(fate_of(result, "--distributed-timeout-minutes"),
            "ignored: does not change the time or the memory of a step");
}

TEST(ImporterNames, ReplaceTheShape) {
  ImportRequest request = request_of("{\"train_iters\": 5, \"micro_batch_size\": 2, \"seq_length\": 512}");
  EXPECT_THAT(import_error(request), HasSubstr("no importer knows these keys"));
  request.from = "megatron";
  EXPECT_EQ(fate_of(imported(request), "micro_batch_size"), "taken: training.micro_batch_size");
  request.from = "megatrom";
  EXPECT_THAT(import_error(request), HasSubstr("--from: expected one of megatron, torchtitan"));
  ImportRequest toml = request_of("[training]\nseq_len = 4096\n");
  toml.from = "deepspeed";
  EXPECT_THAT(import_error(toml), HasSubstr("got TOML, which only torchtitan has"));
}

TEST(Shell, BoundsTheValuesThatDouble) {
  for (const std::string twice : {"A=\"$A$A\"\n", "A=(\"${A[@]}\" \"${A[@]}\")\n", "A=${A:-x}${A:-x}\n"}) {
    std::string script = "A=\"--num-layers 40 \"\n";
    for (int i = 0; i < 40; ++i) script += twice;
    EXPECT_THAT(import_error(request_of(script + "torchrun pretrain.py $A\n")),
                HasSubstr("the values of variables insert more than 16 MiB"))
        << twice;
  }
}

TEST(Shell, NamesTheVariableThatACommandSets) {
  const std::string error = import_error(request_of(
      "PP=$(python3 -c \"print(4)\")\nTP=`nproc`\ntorchrun pretrain.py --num-layers 8 "
      "--pipeline-model-parallel-size $PP --tensor-model-parallel-size $TP --seq-length $(wc -l x)\n"));
  EXPECT_THAT(error,
              HasSubstr("depends on PP, whose value the file does not state; write the number in its place"));
  EXPECT_THAT(error, HasSubstr("depends on TP, whose value"));
  EXPECT_THAT(error, HasSubstr("--seq-length ${(wc -l x)}: is the output of a command"));
}

TEST(Shell, KeepsTheFlagsBesideTheOutputOfACommand) {
  const ShellCommand command =
      read_shell("A=\"--save run-$(date)\"\nA+=\" --num-layers 8\"\nB=$(nproc)\ntrain.py $A --n $B\n");
  EXPECT_THAT(command.words,
              ElementsAre("train.py", "--save", "run-${(date)}", "--num-layers", "8", "--n", "${B}"));
}

TEST(Shell, DividesQuotedTextsThatHoldSeveralFlags) {
  const ShellCommand command = read_shell(
      "ARGS=\"--num-layers 2 \\\n  --lr 1\"\nARGS+=\" --bf16\"\nrun_cmd=\"python train.py $ARGS\"\n"
      "srun sh -c \"${run_cmd}\"\n");
  EXPECT_THAT(command.words, ElementsAre("srun", "sh", "-c", "python", "train.py", "--num-layers", "2",
                                         "--lr", "1", "--bf16"));
}

TEST(Shell, NamesWhatItCannotDecide) {
  const ShellCommand command =
      read_shell("if [ \"$(hostname)\" = a ]; then\n  N=4\nelse\n  N=8\nfi\ntrain.py --n $N --m ${M:-3}\n");
  EXPECT_THAT(command.words, ElementsAre("train.py", "--n", "${N}", "--m", "3"));
  EXPECT_THAT(command.notes, testing::Contains(HasSubstr("line 1: the condition cannot be decided")));
}

TEST(Shell, TakesTheBranchThatRuns) {
  const ShellCommand command = read_shell(
      "S=70b\nif [ $S = 8b ]; then L=32; elif [ $S = 70b ] && [ -z \"$UNSET\" ]; then L=80; else L=1; fi\n"
      "[ -n \"$UNSET\" ] && L=2\ntrain.py --num-layers $L\n");
  EXPECT_THAT(command.words, ElementsAre("train.py", "--num-layers", "80"));
}

TEST(Shell, ComputesComparisonsAndChoices) {
  const auto value_of = [](std::string_view sum) {
    return read_shell(fmt::format("TP=8\nrun --a $(( {} ))", sum)).words.back();
  };
  EXPECT_EQ(value_of("($TP > 1) ? 1 : 0"), "1");
  EXPECT_EQ(value_of("TP <= 4 ? 3 : TP == 8 ? 5 : 7"), "5");
  EXPECT_EQ(value_of("!(TP != 8) && TP * 2 - 1 >= 15 || 0"), "1");
  EXPECT_THAT(value_of("TP ? 1"), HasSubstr("${")) << "no second value";
  EXPECT_THAT(value_of("1000000000 * 1000000000 * 1000000000"), HasSubstr("${")) << "more than 64 bits";
}

TEST(Shell, LeavesOutTheOptionsOfABranchThatDoesNotRun) {
  EXPECT_THAT(read_shell("CK=none\nif [ $CK != none ]; then load=\"--load $CK\"; fi\nrun --a 1 $load").words,
              ElementsAre("run", "--a", "1"));
  EXPECT_THAT(read_shell("if [ $CK != $(pwd) ]; then load=\"--load 1\"; fi\nrun --a 1 $load").words,
              ElementsAre("run", "--a", "1", "${load}"));
}

TEST(Shell, ReadsTheLargestArrayOfAScriptWithoutACommand) {
  const ShellCommand command = read_shell("FEW=(--b 1)\nMODEL_ARGS=(\n  --a 1\n  --c 2\n)\n");
  EXPECT_THAT(command.words, ElementsAre("--a", "1", "--c", "2"));
  EXPECT_THAT(command.notes, ElementsAre("the script has no command with flags: MODEL_ARGS is read"));
}

TEST(Shell, CountsTheDevicesOfTasks) {
  const auto devices_of = [](std::string_view lines) {
    return imported(request_of(fmt::format("#!/bin/bash\n{}\nsrun python pretrain_gpt.py --num-layers 8 "
                                           "--micro-batch-size 1",
                                           lines)))
        .yaml;
  };
  EXPECT_THAT(devices_of("#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-task=8"),
              HasSubstr("data_parallel: 32"));
  EXPECT_THAT(devices_of("#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus=16"),
              HasSubstr("data_parallel: 16"));
  EXPECT_THAT(devices_of("#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=1"), HasSubstr("data_parallel: 32"));
  const Imported unknown = imported(request_of(
      "torchrun --nproc_per_node $(count) --nnodes 2 pretrain_gpt.py --num-layers 8 --micro-batch-size 1"));
  EXPECT_EQ(fate_of(unknown, "--nproc_per_node"),
            "ignored: is the output of a command, which is not run; write the number in its place");
}

TEST(Shell, ReadsTheResourcesOfABatchSystem) {
  const Imported result = imported(request_of(
      "#!/bin/bash\n#SBATCH -p luna -t 00:30:00 --nodes=4 --ntasks-per-node=8\n"
      "options=\" \\\n  --num-layers 8 \\\n  --pipeline-model-parallel-size 4 \\\n  --micro-batch-size 1 "
      "--global-batch-size 32 --fp16 \"\nsrun -l sh -c \"python pretrain_gpt.py $@ ${options}\"\n"));
  EXPECT_THAT(result.yaml, HasSubstr("data_parallel: 8"));
  EXPECT_EQ(fate_of(result, "#SBATCH --nodes"), "taken: cluster.nodes");
  EXPECT_EQ(fate_of(result, "#SBATCH -p"), "ignored: concerns the batch system");
}

// --- torchtitan -------------------------------------------------------------------------------------------

constexpr std::string_view kToml = R"([model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 16
seq_len = 8192
[parallelism]
data_parallel_shard_degree = 2
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "Interleaved1F1B"
pipeline_parallel_microbatch_size = 1
pipeline_parallel_layers_per_stage = 3
[activation_checkpoint]
mode = "none"
)";

std::string with(std::string text, std::string_view from, std::string_view to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(TorchtitanImport, CutsLayersAsTorchtitanDoes) {
  const Imported unpriced = imported(request_of(kToml));
  EXPECT_THAT(unpriced.yaml,
              HasSubstr("forward: [2 ms, 3 ms, 3 ms, 3 ms, 3 ms, 3 ms, 3 ms, 3 ms, 3 ms, 3 ms, 2 ms, 1 ms]"));
  EXPECT_THAT(unpriced.yaml, HasSubstr("virtual_stages: 3"));
  const Scenario scenario = priced(request_of(kToml), 8);
  EXPECT_EQ(scenario.schedule, "interleaved");
  EXPECT_EQ(scenario.shape.virtual_stages, 3);
  EXPECT_EQ(scenario.shape.gather, Gather::step);
  EXPECT_EQ(scenario.shape.sharding, 3);
  EXPECT_EQ(scenario.batch.global_batch_size, 32);
  EXPECT_EQ(work_of(scenario).framework, Framework::torchtitan);
  EXPECT_EQ(work_of(scenario).model.vocabulary, 128256);
}

TEST(TorchtitanImport, RefusesStagesThatTorchtitanRefusesInTheSameWordsForFlags) {
  const std::string refusal =
      "torchtitan refuses it too: 32 layers, 2 for the embedding and the head, and 4 a stage make 9 stages; "
      "9 "
      "stages are no multiple of the 4 ranks";
  EXPECT_THAT(import_error(request_of(with(std::string(kToml), "per_stage = 3", "per_stage = 4"))),
              HasSubstr(refusal));
  EXPECT_THAT(import_error(request_of("--model.name llama3 --model.flavor 8B "
                                      "--parallelism.pipeline_parallel_degree 4 "
                                      "--parallelism.pipeline_parallel_schedule Interleaved1F1B "
                                      "--parallelism.pipeline_parallel_layers_per_stage 4")),
              HasSubstr(refusal));
}

TEST(TorchtitanImport, ReportsASyntaxErrorWithItsLine) {
  EXPECT_THAT(import_error(request_of("[model]\nname = \n", "a.toml")), HasSubstr("a.toml:2:"));
}

// --- others -----------------------------------------------------------------------------------------------

TEST(TorchtitanImport, TakesAModelOfTheLibrary) {
  const ImportRequest request = request_of(
      "[model]\nname = \"deepseek_v3\"\nflavor = \"671B\"\n[training]\nlocal_batch_size = 1\nseq_len = "
      "4096\n[activation_checkpoint]\nmode = \"none\"\n[parallelism]\nexpert_parallel_degree = 8\n");
  EXPECT_EQ(fate_of(imported(request), "model.flavor"), "taken: model.huggingface");
  EXPECT_EQ(work_of(priced(request, 512)).model.hidden, 7168);
  const ImportRequest named = request_of(
      "[model]\nname = \"gpt_oss\"\nflavor = \"20b\"\n[training]\nlocal_batch_size = 1\nseq_len = 4096\n"
      "[activation_checkpoint]\nmode = \"none\"\n");
  EXPECT_EQ(fate_of(imported(named), "model.flavor"), "taken: model.huggingface");
  EXPECT_EQ(work_of(priced(named, 8)).model.hidden, 2880);
  const Imported unknown = imported(
      request_of("[model]\nname = \"deepseek_v3\"\nflavor = \"debugmodel\"\n[training]\nseq_len = 4096\n"));
  EXPECT_EQ(fate_of(unknown, "model.flavor"),
            "ignored: the sizes of this model are not known here; give --model config.json");
}

TEST(TorchtitanImport, MultipliesMatricesInThePrecisionOfItsConverters) {
  const auto precision_of = [](std::string_view lines) {
    ImportRequest request = request_of(fmt::format(
        "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[optimizer]\nstate_dtype = \"bfloat16\"\n{}\n", lines));
    request.stated = {{.key = "model.transformer.sequence", .value = "8192"}};
    return work_of(priced(request, 8)).precision;
  };
  EXPECT_EQ(precision_of("[compile]\nenable = true"), GemmPrecision::bf16);
  EXPECT_EQ(precision_of("[float8]\nenable_float8_linear = true"), GemmPrecision::fp8);
  EXPECT_EQ(precision_of("[training]\nenable_float8_linear = true"), GemmPrecision::fp8);
  EXPECT_EQ(precision_of("[training]\nenable_float8_linear = false"), GemmPrecision::bf16);
  const auto converted = [](std::string_view list) {
    return imported(
        request_of(fmt::format("[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = {}\n"
                               "[training]\nlocal_batch_size = 1\nseq_len = 8192\n",
                               list)));
  };
  EXPECT_EQ(fate_of(converted("[\"quantize.grouped_mm.mx\", \"quantize.linear.mx\"]"), "model.converters"),
            "taken: training.precision");
  EXPECT_THAT(import_error(request_of("[training]\nseq_len = 8192\nmixed_precision_param = \"float32\"\n")),
              HasSubstr("matrix products in 32 bits have no price here"));
}

TEST(TorchtitanImport, ReadsTheNamesOf2024) {
  const Scenario scenario = priced(request_of(R"([model]
name = "llama3"
flavor = "70B"
[training]
batch_size = 8
seq_len = 8192
data_parallel_degree = 2
tensor_parallel_degree = 8
[experimental]
pipeline_parallel_degree = 2
pipeline_parallel_microbatches = 4
)"),
                                   32);
  EXPECT_EQ(copies_of(scenario), 2);
  EXPECT_EQ(scenario.batch.micro_batch_size, 2);
  EXPECT_EQ(scenario.batch.global_batch_size, 16);
  const std::string_view flags =
      "train.py --training.batch_size 8 --training.seq_len 4096 --experimental.pipeline_parallel_degree 2 "
      "--model.name llama3 --model.flavor 8B --job.config_file x.toml";
  const Imported result =
      imported(request_of(fmt::format("torchrun --nproc_per_node 8 {}", flags), "run.sh"));
  EXPECT_EQ(result.importer, "torchtitan's settings");
  EXPECT_THAT(result.yaml, HasSubstr("microbatches: 8")) << "as many as stages, in each of four copies";
  EXPECT_THAT(result.notes, testing::Contains(HasSubstr("penstock import x.toml run.sh")));
}

TEST(TorchtitanImport, ReducesGradientsInTheStatedPrecision) {
  const std::string file =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[activation_checkpoint]\nmode = \"none\"\n"
      "[training]\nlocal_batch_size = 1\nseq_len = 8192\ndtype = \"bfloat16\"\n";
  EXPECT_EQ(work_of(priced(request_of(file), 8)).gradient_bytes, 4);
  EXPECT_THAT(fate_of(imported(request_of(file)), "training.dtype"),
              HasSubstr("memory may be predicted too large"));
  EXPECT_EQ(work_of(priced(request_of(file + "mixed_precision_reduce = \"bfloat16\"\n"), 8)).gradient_bytes,
            2);
}

TEST(DeepSpeedImport, TakesTheOptimizerAndTheDivisionOfSequences) {
  ImportRequest request = request_of(
      R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "sequence_parallel_size": 2,
          "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}}})");
  request.model = "llama-3.1-8b";
  request.stated = {{.key = "model.transformer.sequence", .value = "4096"}};
  EXPECT_THAT(imported(request).yaml, Not(HasSubstr("context: 2"))) << "without a device nothing is priced";
  const Scenario scenario = priced(request, 8);
  EXPECT_EQ(work_of(scenario).parallel.context, 2);
  EXPECT_EQ(copies_of(scenario), 4);
  EXPECT_EQ(scenario.optimizer, Optimizer::momentum);
  EXPECT_EQ(work_of(scenario).gradient_bytes, 4);
}

TEST(DeepSpeedImport, ExchangesGradientsInTheStatedPrecision) {
  ImportRequest request =
      request_of(R"({"train_batch_size": 8, "bf16": {"enabled": true}, "communication_data_type": "fp16"})");
  request.model = "llama-3.1-8b";
  request.stated = {{.key = "model.transformer.sequence", .value = "4096"}};
  EXPECT_EQ(work_of(priced(request, 8)).gradient_bytes, 2);
}

TEST(DeepSpeedImport, RefusesCompressedValuesAndGroupsOfShards) {
  const auto zero = [](std::string_view keys) {
    return request_of(
        fmt::format(R"({{"train_batch_size": 8, "zero_optimization": {{"stage": 3, {}}}}})", keys));
  };
  EXPECT_THAT(import_error(zero(R"("zero_quantized_gradients": true, "zero_hpz_partition_size": 8)")),
              AllOf(HasSubstr("sends compressed values"), HasSubstr("among a part of the devices")));
  EXPECT_THAT(import_error(zero(R"("mics_shard_size": 4)")), HasSubstr("among a part of the devices"));
  const Imported off = imported(
      zero(R"("zero_quantized_weights": false, "mics_shard_size": -1, "zero_hpz_partition_size": 1)"));
  EXPECT_EQ(fate_of(off, "zero_optimization.mics_shard_size"), "ignored: switched off");
  EXPECT_THAT(off.notes, testing::Contains(HasSubstr("DeepSpeed's own default is 32 bits")));
  ImportRequest summed = request_of(
      R"({"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "bf16"}})");
  summed.model = "llama-3.1-8b";
  summed.stated = {{.key = "model.transformer.sequence", .value = "4096"}};
  EXPECT_EQ(work_of(priced(summed, 8)).gradient_bytes, 2);
}

TEST(UnpricedImport, RecomputesInThreeOfATimeWhereTheLayersAreNotKnown) {
  const auto yaml_of = [](std::string_view text) { return imported(request_of(text)).yaml; };
  EXPECT_THAT(yaml_of(R"({"train_batch_size": 8, "gradient_accumulation_steps": 8,
                         "pipeline": {"stages": 2, "activation_checkpoint_interval": 1}})"),
              HasSubstr("forward: 1000000 ns\n    backward: 3000000 ns\n"));
  EXPECT_THAT(yaml_of("--pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8 "
                      "--recompute-granularity full --num-virtual-stages-per-pipeline-rank 2"),
              HasSubstr("forward: 500000 ns\n    backward: 1500000 ns\n"));
}

TEST(DeepSpeedImport, FindsTheCopiesFromTheBatches) {
  const Imported result = imported(request_of(
      R"({"train_batch_size": 96, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 24,
          "zero_optimization": {"stage": 1}, "pipeline": {"stages": 4}, "steps_per_print": 10})"));
  EXPECT_THAT(result.yaml, HasSubstr("stages: 4"));
  EXPECT_THAT(result.yaml, HasSubstr("data_parallel: 2"));
  EXPECT_THAT(result.yaml, HasSubstr("microbatches: 48"));
  EXPECT_THAT(result.yaml, HasSubstr("sharding: 1"));
  EXPECT_EQ(fate_of(result, "steps_per_print"), "ignored: concerns logs, checkpoints and measurements");
  EXPECT_THAT(import_error(request_of(R"({"train_batch_size": 8, "zero_optimization": {"stage": 3,
                                          "offload_param": {"device": "cpu"}}})")),
              HasSubstr("zero_optimization.offload_param.device cpu: moves memory to the host"));
}

TEST(NanotronImport, CutsBlocksByTheirWeights) {
  const Scenario scenario = priced(
      request_of(
          R"(model: {model_config: {hidden_size: 2048, intermediate_size: 5632, num_attention_heads: 16,
  num_hidden_layers: 22, num_key_value_heads: 4, vocab_size: 50304, tie_word_embeddings: false}}
parallelism: {dp: 2, pp: 4, tp: 2, pp_engine: 1f1b, tp_mode: REDUCE_SCATTER}
tokens: {micro_batch_size: 2, batch_accumulation_per_replica: 8, sequence_length: 4096}
optimizer: {zero_stage: 1}
)"),
      16);
  EXPECT_THAT(std::get<DeviceModel>(scenario.model).split.counts, ElementsAre(7, 6, 6, 3));
  EXPECT_EQ(scenario.batch.global_batch_size, 32);
  EXPECT_EQ(work_of(scenario).parallel.tensor, 2);
  EXPECT_TRUE(work_of(scenario).parallel.sequence_parallel);
  EXPECT_EQ(work_of(scenario).parallel.sharding, 1);
}

TEST(NanotronImport, ReadsTheSharedExpert) {
  const auto run = [](std::string_view experts, std::string_view dtype) {
    return request_of(fmt::format(
        R"(model: {{dtype: {}, model_config: {{hidden_size: 256, intermediate_size: 768, num_attention_heads: 4,
  num_hidden_layers: 12, vocab_size: 32000, moe_config: {{num_experts: 8, top_k: 1, {}}}}}}}
parallelism: {{dp: 2, pp: 1, tp: 1}}
tokens: {{micro_batch_size: 3, batch_accumulation_per_replica: 1, sequence_length: 4096}}
)",
        dtype, experts));
  };
  const auto yaml_of = [&](std::string_view experts) {
    ImportRequest request = run(experts, "bfloat16");
    request.device = "h100-sxm";
    return imported(request).yaml;
  };
  EXPECT_THAT(yaml_of("enable_shared_expert: true"), HasSubstr("shared_experts: 1"));
  EXPECT_THAT(yaml_of("enable_shared_expert: true, moe_intermediate_size: 1408, "
                      "shared_expert_intermediate_size: 5632"),
              HasSubstr("shared_experts: 4"));
  EXPECT_THAT(yaml_of("enable_shared_expert: false, shared_expert_intermediate_size: 5632"),
              Not(HasSubstr("shared_experts")));
  EXPECT_THAT(
      import_error(run("enable_shared_expert: true, shared_expert_intermediate_size: 1000", "bfloat16")),
      HasSubstr("expected a multiple of the width of an expert, 768"));
  EXPECT_THAT(import_error(run("enable_shared_expert: false", "float32")),
              HasSubstr("model.dtype float32: matrix products in 32 bits have no price here"));
}

TEST(PrimusImport, TakesTheNamedModelAndItsOverrides) {
  const Scenario scenario = priced(request_of(R"(work_group: ${PRIMUS_TEAM:amd}
modules:
  pre_trainer:
    framework: megatron
    model: llama3.1_8B.yaml
    overrides:
      micro_batch_size: 2
      global_batch_size: 64
      seq_length: 8192
      pipeline_model_parallel_size: ${PP:2}
      use_distributed_optimizer: true
      recompute_granularity: null
)"),
                                   8);
  EXPECT_EQ(scenario.shape.stages, 2);
  EXPECT_EQ(copies_of(scenario), 4);
  EXPECT_EQ(work_of(scenario).model.hidden, 4096);
  EXPECT_EQ(work_of(scenario).recompute, LayerRecompute::none);
}

TEST(PrimusImport, TakesAModelOfTheLibrary) {
  const Scenario scenario = priced(request_of(R"(modules:
  pre_trainer:
    framework: megatron
    model: ${PRIMUS_MODEL:deepseek_v2_lite}.yaml
    overrides:
      micro_batch_size: 4
      global_batch_size: 640
      seq_length: ${PRIMUS_SEQ_LENGTH:4096}
)"),
                                   8);
  EXPECT_EQ(work_of(scenario).model.hidden, 2048);
  EXPECT_TRUE(work_of(scenario).model.latent);
}

TEST(PrimusImport, ReadsTorchtitansNamesAndListsItsOwnKeys) {
  const Imported result = imported(request_of(R"(modules:
  pre_trainer:
    framework: torchtitan
    model: llama3.1_70B.yaml
    overrides:
      training: {local_batch_size: 4, seq_len: 8192}
      activation_checkpoint: {mode: full}
)"));
  EXPECT_EQ(result.importer, "torchtitan's settings");
  EXPECT_EQ(fate_of(result, "modules.pre_trainer.model"), "taken: model.transformer");
  EXPECT_EQ(fate_of(result, "modules.pre_trainer.overrides.training.local_batch_size"),
            "taken: training.micro_batch_size");
}

TEST(PrimusImport, TakesThePrecisionOfTheNameAndOfItsBase) {
  const auto run = [](std::string_view framework, std::string_view model) {
    return request_of(fmt::format("modules: {{pre_trainer: {{framework: {}, model: {}, overrides: {{}}}}}}",
                                  framework, model));
  };
  const Imported torch = imported(run("torchtitan", "llama3.1_70B-fp8.yaml"));
  EXPECT_EQ(fate_of(torch, "model.converters"), "taken: training.precision");
  EXPECT_EQ(fate_of(torch, "modules.pre_trainer.model"), "taken: model.transformer and training.precision");
  const Imported megatron = imported(run("megatron", "llama3.1_8B.yaml"));
  EXPECT_THAT(megatron.notes, testing::Contains(HasSubstr("it is on, as in Primus' trainer_base.yaml")));
}

TEST(BridgeImport, KnowsRecipesByTheirNames) {
  const Scenario scenario = priced(request_of("", "llama3_70b_pretrain_config"), 64);
  EXPECT_EQ(scenario.schedule, "interleaved");
  EXPECT_EQ(scenario.shape.stages, 4);
  EXPECT_EQ(scenario.shape.virtual_stages, 5);
  EXPECT_EQ(work_of(scenario).parallel.context, 2);
  EXPECT_EQ(scenario.batch.global_batch_size, 512);
  const Imported renamed = imported(request_of("", "llama3_8b_pretrain_16gpu_h100_bf16_16k_config"));
  EXPECT_THAT(renamed.notes, Not(testing::Contains(HasSubstr("the number of devices is not stated"))));
  EXPECT_THAT(import_error(request_of("", "no_such_file")),
              HasSubstr("expected a file or a recipe of Megatron Bridge"));
}

TEST(BridgeImport, KnowsRecipesWithExperts) {
  const Scenario qwen = priced(request_of("", "qwen3_235b_a22b_pretrain_config"), 256);
  EXPECT_EQ(work_of(qwen).parallel.expert, 8);
  EXPECT_EQ(work_of(qwen).parallel.context, 2);
  EXPECT_EQ(qwen.shape.stages, 16);
  EXPECT_EQ(qwen.batch.global_batch_size, 32);
  EXPECT_EQ(std::get<DeviceModel>(qwen.model).split.rule, LayerSplit::Rule::ends_one_less);
  // The model is one of the library, with latent attention and a layer that predicts a second token.
  const Scenario deepseek = priced(request_of("", "deepseek_v3_pretrain_1024gpu_h100_bf16_config"), 1024);
  EXPECT_EQ(work_of(deepseek).parallel.expert, 64);
  EXPECT_EQ(std::get<DeviceModel>(deepseek.model).split.counts.front(), 4);
  EXPECT_EQ(std::get<DeviceModel>(deepseek.model).split.counts.back(), 1);
  EXPECT_EQ(deepseek.batch.global_batch_size, 4096);
  const Scenario small = priced(request_of("", "gpt_oss_20b_pretrain_16gpu_h100_bf16_config"), 16);
  EXPECT_EQ(work_of(small).parallel.expert, 4);
  EXPECT_EQ(small.shape.stages, 4);
}

TEST(BridgeImport, KnowsTheUnevenStagesOfGlmAndKimi) {
  const auto stages_of = [](const Scenario& scenario) {
    return std::get<DeviceModel>(scenario.model).split.counts;
  };
  const Scenario glm = priced(request_of("", "glm45_355b_pretrain_128gpu_h100_bf16_config"), 128);
  EXPECT_THAT(stages_of(glm), ElementsAre(10, 12, 12, 12, 12, 12, 12, 10));
  EXPECT_EQ(work_of(glm).model.multi_token, 1);
  const Scenario air = priced(request_of("", "glm45_air_106b_pretrain_config"), 32);
  EXPECT_THAT(stages_of(air), ElementsAre(11, 12, 12, 11));
  const Scenario kimi = priced(request_of("", "kimi_k2_pretrain_512gpu_h100_bf16_config"), 512);
  EXPECT_EQ(stages_of(kimi).front(), 4);
  EXPECT_EQ(stages_of(kimi).back(), 1);
  EXPECT_EQ(kimi.shape.stages, 16);
}

TEST(BridgeImport, ARecipeStatesWhereItsOptimizerDiffers) {
  const Imported kimi = imported(request_of("", "kimi_k2_pretrain_config"));
  EXPECT_EQ(fate_of(kimi, "ddp.use_distributed_optimizer"), "ignored: switched off");
  EXPECT_EQ(work_of(priced(request_of("", "kimi_k2_pretrain_config"), 512)).parallel.sharding, 1)
      << "dist_muon shards its states by itself";
  EXPECT_THAT(fate_of(kimi, "optimizer.optimizer"),
              HasSubstr("ignored: its state is priced as that of adam"));
}

TEST(BridgeImport, TheDevicesOfANameDecideBetweenVariants) {
  const Scenario eight = priced(request_of("", "qwen3_30b_a3b_pretrain_8gpu_h100_bf16_config"), 8);
  EXPECT_EQ(eight.shape.stages, 2);
  EXPECT_EQ(work_of(eight).recompute, LayerRecompute::full);
  const Scenario sixteen = priced(request_of("", "qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config"), 16);
  EXPECT_EQ(sixteen.shape.stages, 1);
  EXPECT_EQ(work_of(sixteen).parallel.expert, 16);
  EXPECT_EQ(work_of(sixteen).gradient_bytes, 2);
  EXPECT_THAT(import_error(request_of("", "qwen3_30b_a3b_pretrain_32gpu_h100_bf16_config")),
              HasSubstr("qwen3_30b_a3b"));
}

TEST(BridgeImport, EveryRecipeIsAScenario) {
  for (const std::string_view name : bridge_recipe_names()) {
    ImportRequest request = request_of("", fmt::format("{}_pretrain_config", name));
    request.device = "h100-sxm";
    const auto imported = import_configuration(request);
    ASSERT_TRUE(imported) << name << ": " << imported.error();
    EXPECT_TRUE(parse_scenario(imported->yaml, "imported", ".")) << imported->yaml;
  }
}

TEST(SimuMaxImport, JoinsTheFilesOfStrategyAndModel) {
  ImportRequest request;
  request.inputs = {
      {.name = "strategy.json",
       .text =
           R"({"seq_len": 4096, "micro_batch_size": 1, "micro_batch_num": 8, "world_size": 8, "tp_size": 1,
                   "pp_size": 2, "ep_size": 1, "interleaving_size": 1, "zero_state": 1, "enable_recompute": true,
                   "recompute_granularity": "full_block", "recompute_layer_num": 2})"},
      {.name = "model.json",
       .text = R"({"hidden_size": 4096, "head_num": 32, "kv_head_num": 8, "head_size": 128,
                   "intermediate_size": 14336, "layer_num": 33, "vocab_size": 128256, "use_swiglu": true})"}};
  const Scenario scenario = priced(request, 8);
  EXPECT_EQ(copies_of(scenario), 4);
  EXPECT_EQ(scenario.batch.global_batch_size, 32);
  EXPECT_THAT(std::get<DeviceModel>(scenario.model).split.counts, ElementsAre(17, 16));
  EXPECT_EQ(work_of(scenario).recomputed_layers.count, 2);
}

TEST(SimuMaxImport, MayHaveNoDenseLayers) {
  ImportRequest request = request_of(
      R"({"seq_len": 4096, "micro_batch_size": 1, "micro_batch_num": 4, "world_size": 8, "tp_size": 1,
          "pp_size": 1, "ep_size": 8})",
      "strategy.json");
  request.inputs.push_back({.name = "model.json", .text = R"({"layer_num": 8, "hidden_size": 1024,
      "head_num": 16, "intermediate_size": 4096, "vocab_size": 32000, "expert_num": 8, "topk": 2,
      "dense_layers": 0})"});
  request.device = "h100-sxm";
  EXPECT_THAT(imported(request).yaml, HasSubstr("dense_layers: 0"));
}

TEST(SimuMaxImport, ReadsLatentAttentionAndSharedExperts) {
  ImportRequest request;
  request.inputs = {
      {.name = "strategy.json",
       .text =
           R"({"seq_len": 4096, "micro_batch_size": 1, "micro_batch_num": 8, "world_size": 8, "tp_size": 1,
                   "pp_size": 2, "ep_size": 4, "moe_dispatcher_policy": "all2all", "zero_state": 1})"},
      {.name = "model.json",
       .text = R"({"attention_type": "mla", "hidden_size": 2048, "head_num": 16, "kv_head_num": 16,
                   "head_size": 128, "intermediate_size": 10944, "moe_ffn_hidden_size": 1408,
                   "moe_shared_expert_intermediate_size": 2816, "layer_num": 27, "dense_layers": 1,
                   "expert_num": 64, "topk": 6, "v_head_dim": 128, "qk_head_dim": 128,
                   "qk_pos_emb_head_dim": 64, "kv_lora_rank": 512, "vocab_size": 102400, "use_swiglu": true})"}};
  const Scenario scenario = priced(request, 8);
  const Architecture& model = work_of(scenario).model;
  const auto library = load_architecture({.config = "deepseek-v2-lite"});
  ASSERT_TRUE(library) << library.error();
  EXPECT_EQ(model.latent, library->architecture.latent);
  EXPECT_EQ(parameters(model), parameters(library->architecture));
}

TEST(CalculonImport, JoinsTheFilesOfExecutionAndApplication) {
  ImportRequest request;
  request.inputs = {
      {.name = "execution.json",
       .text = R"({"num_procs": 64, "tensor_par": 8, "pipeline_par": 8, "data_par": 1, "batch_size": 64,
                   "microbatch_size": 1, "activation_recompute": "attn_only", "pipeline_interleaving": 3,
                   "optimizer_sharding": false, "tensor_par_comm_type": "rs_ag", "tensor_par_overlap": "none",
                   "data_par_overlap": false, "weight_offload": false, "training": true})"},
      {.name = "gpt3.json",
       .text =
           R"({"hidden": 12288, "feedforward": 49152, "seq_size": 2048, "attn_heads": 96, "attn_size": 128,
                   "num_blocks": 96})"}};
  const Scenario scenario = priced(request, 64);
  EXPECT_EQ(scenario.schedule, "interleaved");
  EXPECT_EQ(scenario.shape.virtual_stages, 3);
  EXPECT_EQ(work_of(scenario).recompute, LayerRecompute::selective);
  EXPECT_EQ(work_of(scenario).parallel.sharding, 0);
  EXPECT_FALSE(work_of(scenario).parallel.tensor_overlap);
}

TEST(RecognisedImporter, KnowsConfigurationsByTheirShapeAndNoScenario) {
  EXPECT_EQ(recognised_importer("a", kMegatronScript), "Megatron-LM's arguments");
  EXPECT_EQ(recognised_importer("a", "--num-layers: 3\n"), "Megatron-LM's arguments");
  EXPECT_EQ(recognised_importer("a", kToml), "torchtitan's settings");
  EXPECT_EQ(recognised_importer("a", "--parallelism.pipeline_parallel_degree 4"), "torchtitan's settings");
  EXPECT_EQ(recognised_importer("a", R"({"zero_optimization": {"stage": 1}})"), "DeepSpeed's configuration");
  EXPECT_EQ(recognised_importer("a", "model: {stages: {forward: 1 ms}}\nschedule: 1f1b\n"), "");
  EXPECT_EQ(recognised_importer("a", R"({"architectures": ["Llama"], "num_layers": 3, "hidden_size": 1,
                                         "num_attention_heads": 1})"),
            "");
}

// Files of machines.

ImportRequest machine_request(const std::string& name) {
  const std::string file = source_path("tests/scenarios/machines/" + name);
  return request_of(read_text_file(file, file).value_or(""), file);
}

TEST(MachineImport, WritesTheClusterThatTheFileDescribes) {
  for (const char* name : {"dump.xml", "bare.xml", "classes.xml", "matrix.txt", "mesh.txt", "network.yml"}) {
    SCOPED_TRACE(name);
    const ImportRequest request = machine_request(name);
    const auto stated =
        parse_scenario(fmt::format("cluster: {{machine: \"{}\"}}\n", request.inputs[0].name), "stated", "");
    ASSERT_TRUE(stated) << stated.error();
    const Imported made = imported(request);
    const Scenario written = scenario_of(request);
    EXPECT_EQ(std::get<Cluster>(written.cluster.shape), std::get<Cluster>(stated->cluster.shape));
    EXPECT_EQ(made.notes, stated->cluster.notes);
    EXPECT_TRUE(
        std::ranges::none_of(made.keys, [](const ImportedKey& key) { return key.text == "unknown"; }));
  }
}

TEST(MachineImport, ListsWhatItTookFromTheFile) {
  EXPECT_THAT(
      lines_of(imported(machine_request("matrix.txt"))),
      ElementsAre(
          "GPU 4 -> taken: cluster.devices",
          "network cards NIC0, NIC1 -> taken: cluster.switches, between servers",
          "NODE in 2 cells -> taken: cluster.links", "NV12 in 6 cells -> taken: cluster.links",
          "PXB in 6 cells -> taken: cluster.links", "SYS in 16 cells -> taken: cluster.links",
          "CPU Affinity a column -> ignored: says which processor is near, which the cells say as well",
          "NUMA Affinity a column -> ignored: says which processor is near, which the cells say as well",
          "GPU NUMA ID a column -> ignored: says which processor is near, which the cells say as well"));
  const auto of_xml = lines_of(imported(machine_request("dump.xml")));
  EXPECT_THAT(of_xml, testing::Contains(HasSubstr("pci.link_width 16")));
  EXPECT_THAT(of_xml, testing::Contains(HasSubstr("net.latency 0.000000 -> ignored: ")));
  EXPECT_THAT(of_xml, testing::Contains(testing::EndsWith(
                          "ignored: concerns how NCCL uses the card, not how fast its link is")));
  // The only link of this file leads from a GPU to itself, so the cluster has no NVLink.
  const std::string alone =
      "<system><pci busid=\"1\"><gpu dev=\"0\" sm=\"80\"><nvlink target=\"1\" "
      "count=\"12\"/></gpu></pci></system>";
  EXPECT_THAT(lines_of(imported(request_of(alone, "alone.xml"))),
              testing::Contains("nvlink.count 12 -> ignored: belongs to links that have their own GPU as "
                                "target, which join no GPUs"));
  EXPECT_THAT(lines_of(imported(machine_request("network.yml"))),
              ElementsAre("topology Ring Switch -> taken: cluster.links.between",
                          "npus_count 3 2 -> taken: cluster.devices",
                          "bandwidth 200.0 50.0 -> taken: cluster.links.bandwidth",
                          "latency 500.0 1500.0 -> taken: cluster.links.latency"));
}

TEST(MachineImport, TakesKeysOfTheClusterBesideTheFile) {
  ImportRequest request = machine_request("matrix.txt");
  request.nodes = 2;
  request.stated = {{.key = "cluster.memory", .value = "80 GB"},
                    {.key = "cluster.network", .value = "25 GB/s"}};
  const Cluster cluster = std::get<Cluster>(scenario_of(request).cluster.shape);
  EXPECT_EQ(cluster.device_count(), 8);
  EXPECT_EQ(cluster.devices()[0].memory_bytes, 80'000'000'000);
  EXPECT_EQ(cluster.route(0, 4).bytes_per_second, 25e9);
}

TEST(MachineImport, RefusesWhatItCannotUse) {
  ImportRequest request = machine_request("matrix.txt");
  request.device = "h100-sxm";
  EXPECT_THAT(import_error(request), HasSubstr("--device does not go with the file of a machine"));
  request = machine_request("matrix.txt");
  request.stated = {{.key = "schedule.stages", .value = "4"}};
  EXPECT_THAT(import_error(request),
              HasSubstr("--set schedule.stages: expected a key of `cluster: {machine: FILE}`"));
  request.stated = {{.key = "cluster.nvlnk", .value = "4 GB/s"}};
  EXPECT_THAT(import_error(request), HasSubstr("did you mean nvlink?"));
  request = machine_request("network.yml");
  request.nodes = 2;
  EXPECT_THAT(import_error(request),
              HasSubstr("nodes: is of servers, and the file of ASTRA-sim has the whole network"));
  request = machine_request("matrix.txt");
  request.inputs.push_back(machine_request("network.yml").inputs[0]);
  EXPECT_THAT(import_error(request),
              HasSubstr("this is the matrix of nvidia-smi topo -m, which is imported alone"));
}

}  // namespace
}  // namespace penstock
