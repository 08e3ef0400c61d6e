// Tests the parameter counts of published models. They are computed from the models' configurations
// (configs/NAME.json, with the published sizes) and compared with published totals or with the sizes of
// checkpoints. Other tests compare models that differ in one property.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "tests/scenarios/read_scenario.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

/// Returns the path of a configuration in this folder or in the library.
std::string file_of(const std::string& name) {
  const std::string here = source_path("tests/scenarios/configs/" + name + ".json");
  return std::filesystem::exists(here) ? here : source_path("scenarios/library/models/" + name + ".json");
}

ArchitecturePart read(const std::string& name, std::vector<std::string> ignore = {}) {
  const auto part = load_architecture({.config = file_of(name), .ignore = std::move(ignore)});
  EXPECT_TRUE(part) << part.error();
  return part.value_or(ArchitecturePart{.architecture = {.layers = {{}}}});
}

// --- published totals -----------------------------------------------------------------------------------

struct Published {
  std::string name;
  std::int64_t parameters;
};

class PublishedModel : public testing::TestWithParam<Published> {};

TEST_P(PublishedModel, HasItsParameters) {
  // A note says that the count is without the part for images.
  const bool has_images = GetParam().name == "llama-4-scout" || GetParam().name == "gemma-3-4b";
  const ArchitecturePart part = read(GetParam().name);
  EXPECT_EQ(parameters(part.architecture), GetParam().parameters);
  EXPECT_EQ(part.notes.size(), has_images ? 1 : 0) << part.notes.back();
}

INSTANTIATE_TEST_SUITE_P(
    Models, PublishedModel,
    testing::Values(Published{"gpt2", 124'439'808},  //
                    Published{"gpt3-175b", 174'615'846'912}, Published{"opt-6.7b", 6'658'473'984},
                    Published{"bloom", 176'247'271'424}, Published{"gpt-j-6b", 6'050'882'784},
                    Published{"gpt-neox-20b", 20'554'567'680}, Published{"falcon-7b", 6'921'720'704},
                    Published{"falcon-40b", 41'303'293'952}, Published{"starcoder", 15'517'456'384},
                    Published{"starcoder2-3b", 3'030'371'328}, Published{"phi-2", 2'779'683'840},
                    Published{"phi-3-mini", 3'821'079'552}, Published{"phi-3.5-moe", 41'873'153'344},
                    Published{"llama-7b", 6'738'415'616}, Published{"llama-2-70b", 68'976'648'192},
                    Published{"llama-3.1-8b", 8'030'261'248}, Published{"llama-3.1-70b", 70'553'706'496},
                    Published{"llama-3.1-405b", 405'853'388'800}, Published{"llama-3.2-1b", 1'235'814'400},
                    Published{"llama-3.2-3b", 3'212'749'824}, Published{"llama-4-maverick", 400'711'848'960},
                    Published{"llama-4-scout", 107'769'861'120}, Published{"mistral-7b", 7'241'732'096},
                    Published{"mistral-nemo", 12'247'782'400}, Published{"mixtral-8x7b", 46'702'792'704},
                    Published{"mixtral-8x22b", 140'620'634'112}, Published{"qwen2.5-0.5b", 494'032'768},
                    Published{"qwen2.5-7b", 7'615'616'512}, Published{"qwen1.5-moe-a2.7b", 14'315'784'192},
                    Published{"qwen3-8b", 8'190'735'360}, Published{"qwen3-30b-a3b", 30'532'122'624},
                    Published{"qwen3-235b-a22b", 235'093'634'560}, Published{"gpt-oss-20b", 20'914'757'184},
                    Published{"gpt-oss-120b", 116'829'156'672}, Published{"deepseek-moe-16b", 16'375'728'128},
                    Published{"deepseek-v2-lite", 15'706'484'224}, Published{"deepseek-v2", 235'741'434'880},
                    Published{"deepseek-v3", 671'026'419'200}, Published{"kimi-k2", 1'026'408'232'448},
                    Published{"gemma-7b", 8'537'680'896}, Published{"gemma-2-9b", 9'241'705'984},
                    Published{"gemma-3-1b", 999'885'952}, Published{"stablelm-2-1.6b", 1'644'515'328},
                    Published{"olmo-2-7b", 7'298'617'344}, Published{"olmoe-1b-7b", 6'919'161'856},
                    Published{"command-r", 34'980'831'232}, Published{"command-r-plus", 103'810'674'688},
                    Published{"glm-4-9b-0414", 9'400'279'040}, Published{"exaone-4-32b", 32'003'216'384},
                    Published{"seed-oss-36b", 36'151'104'512}, Published{"smollm3-3b", 3'075'098'624},
                    Published{"ernie-4.5-21b-a3b", 21'825'437'888}, Published{"dots.llm1", 142'774'381'696}),
    [](const auto& row) {
      std::string name = row.param.name;
      std::ranges::replace_if(name, [](char c) { return c == '-' || c == '.'; }, '_');
      return name;
    });

// The multi-token layer of the checkpoints of GLM-4.5 has its own embedding and head.
TEST(PublishedModel, WithAMultiTokenLayerHasThoseOfItsCheckpoint) {
  const auto checkpoint = [](const std::string& name) {
    const Architecture model = read(name).architecture;
    const std::int64_t copies = 2 * model.vocabulary * model.hidden;
    return parameters(model) + multi_token_parameters(model) + copies;
  };
  EXPECT_EQ(checkpoint("glm-4.5-air"), 110'468'824'832);
  EXPECT_EQ(checkpoint("glm-4.5"), 358'337'791'296) << "of which 14 400 are biases of routers";
}

TEST(MultiTokenLayer, OfDeepSeekV3Has11_6BillionAndIsInNoCount) {
  Architecture model = read("deepseek-v3").architecture;
  EXPECT_EQ(model.multi_token, 0) << "although the configuration speaks of one";
  const std::int64_t hidden = model.hidden;
  EXPECT_EQ(multi_token_parameters(model),
            layer_parameters(model, {.has_experts = true}) + 2 * hidden * hidden + 3 * hidden);
  EXPECT_NEAR(static_cast<double>(multi_token_parameters(model)), 11.6e9, 0.02e9);
  model.multi_token = 1;
  EXPECT_EQ(parameters(model), 671'026'419'200);
}

// --- hand counts ----------------------------------------------------------------------------------------

TEST(LayerParameters, OfLlamaAreThoseOfItsMatrices) {
  const Architecture model = read("llama-3.1-8b").architecture;
  const std::int64_t attention = 4096 * (32 + 2 * 8) * 128 + 32 * 128 * 4096;
  EXPECT_EQ(attention + 3 * 4096 * 14336 + 2 * 4096, 218'112'000);
  EXPECT_EQ(layer_parameters(model, {}), 218'112'000);
}

TEST(LayerParameters, OfAGptHaveAllBiases) {
  const Architecture model = read("gpt2").architecture;
  EXPECT_EQ(layer_parameters(model, {}), 12 * 768 * 768 + 13 * 768);
  EXPECT_EQ(embedding_parameters(model), (50257 + 1024) * 768);
  EXPECT_EQ(head_parameters(model), 2 * 768) << "tied: the last norm alone";
}

TEST(LayerParameters, OfLatentAttentionGoThroughTheRanks) {
  const Architecture model = read("deepseek-v2").architecture;
  const std::int64_t query = 5120 * 1536 + 1536 + 1536 * 128 * (128 + 64);
  const std::int64_t keys_and_values = 5120 * (512 + 64) + 512 + 512 * 128 * (128 + 128);
  const std::int64_t attention = query + keys_and_values + 128 * 128 * 5120;
  EXPECT_EQ(layer_parameters(model, {}), attention + 3 * 5120 * 12288 + 2 * 5120);
  EXPECT_EQ(layer_parameters(model, {.has_experts = true}),
            attention + 5120 * 160 + (160LL + 2) * 3 * 5120 * 1536 + 2 * 5120);
  EXPECT_EQ(expert_parameters(model, {.has_experts = true}), 160LL * 3 * 5120 * 1536);
  EXPECT_EQ(expert_parameters(model, {}), 0);
}

TEST(ActiveParameters, LeaveOutTheExpertsThatATokenDoesNotMeet) {
  EXPECT_EQ(active_parameters(read("mixtral-8x7b").architecture), 12'879'925'248);
  const Architecture dense = read("llama-3.1-70b").architecture;
  EXPECT_EQ(active_parameters(dense), parameters(dense));
}

// --- what must hold between models ----------------------------------------------------------------------

Architecture with_experts(std::int64_t count) {
  Architecture model = read("qwen3-30b-a3b").architecture;
  model.experts->count = count;
  return model;
}

TEST(Architecture, HasMoreExpertsWithTheSameActiveParametersButTheRouters) {
  const Architecture few = with_experts(128);
  const Architecture many = with_experts(256);
  EXPECT_EQ(active_parameters(many) - active_parameters(few), 48 * 2048 * 128);
  EXPECT_EQ(parameters(many) - parameters(few),
            48 * 2048 * 128 + 48 * expert_parameters(few, {.has_experts = true}));
}

TEST(Architecture, TiedHasTheEmbeddingLess) {
  Architecture model = read("qwen3-8b").architecture;
  const std::int64_t untied = parameters(model);
  model.tied = true;
  EXPECT_EQ(untied - parameters(model), model.vocabulary * model.hidden);
}

TEST(Architecture, IsTheSumOfItsParts) {
  for (const std::string name :
       {"gpt2", "llama-3.2-3b", "deepseek-v3", "gpt-oss-20b", "bloom", "phi-3.5-moe"}) {
    const Architecture model = read(name).architecture;
    std::int64_t sum = embedding_parameters(model) + head_parameters(model);
    for (const LayerKind& kind : model.layers) sum += layer_parameters(model, kind);
    EXPECT_EQ(parameters(model), sum) << name;
  }
}

TEST(Architecture, GroupsLayersInTheOrderInWhichTheirKindsAppear) {
  const std::vector<LayerGroup> of_gemma = {{.kind = {.window = 512}, .count = 22}, {.kind = {}, .count = 4}};
  EXPECT_EQ(layer_groups(read("gemma-3-1b").architecture), of_gemma);
  const std::vector<LayerGroup> of_deepseek = {{.kind = {}, .count = 3},
                                               {.kind = {.has_experts = true}, .count = 58}};
  EXPECT_EQ(layer_groups(read("deepseek-v3").architecture), of_deepseek);
}

TEST(Architecture, OfHugeSizesIsCountedToTheEndOfNumbers) {
  const std::int64_t huge = 1 << 24;
  Architecture model{.hidden = huge, .heads = huge, .kv_heads = huge, .head_dim = huge, .feed_forward = huge};
  model.layers.resize(1 << 16);
  EXPECT_EQ(parameters(model), std::numeric_limits<std::int64_t>::max());
}

// --- operations -----------------------------------------------------------------------------------------

TEST(AttentionScores, AreHalfOfAllOrTwiceTheWindow) {
  EXPECT_EQ(attention_scores({}, 1000), 500'000);
  EXPECT_EQ(attention_scores({.window = 100}, 1000), 100'000);
  EXPECT_EQ(attention_scores({.window = 500}, 1000), attention_scores({}, 1000));
}

TEST(FlopsPerSample, AreSixAWeightAndTokenAndAttention) {
  const Architecture model = read("llama-3.1-8b").architecture;
  const double matrices = 32.0 * (218'112'000 - 2 * 4096) + 128256.0 * 4096;
  const double attention = 32.0 * 2 * 32 * 128 * 8192.0 * 8192;
  EXPECT_DOUBLE_EQ(flops_per_sample(model, 8192), 6 * matrices * 8192 + 3 * attention);
}

TEST(FlopsPerSample, OfExpertsAreThoseThatATokenMeets) {
  const Architecture model = read("mixtral-8x7b").architecture;
  const double attention = 32.0 * 2 * 32 * 128 * 4096.0 * 4096;
  const double vectors = 32.0 * 2 * 4096 + 4096 + 32000.0 * 4096;  // norms, and the embedding
  EXPECT_DOUBLE_EQ(flops_per_sample(model, 4096), 6 * (12'879'925'248 - vectors) * 4096 + 3 * attention);
}

TEST(FlopsPerSample, OfLatentAttentionHaveTwoWidthsOfHeads) {
  Architecture model = read("deepseek-v2-lite").architecture;
  const double once = flops_per_sample(model, 1);
  const double scores = 16.0 * (128 + 64 + 128) * 27;
  EXPECT_DOUBLE_EQ(flops_per_sample(model, 1024) - 1024 * once, 3 * scores * (1024.0 * 1024 - 1024));
}

TEST(FlopsPerSample, CountMultiTokenLayersWhereTheyAreTrained) {
  Architecture model = read("deepseek-v3").architecture;
  const double without = flops_per_sample(model, 4096);
  model.multi_token = 1;
  const double one = flops_per_sample(model, 4096) - without;
  model.multi_token = 2;
  EXPECT_DOUBLE_EQ(flops_per_sample(model, 4096) - without, 2 * one);
  EXPECT_GT(one, 6 * 4096.0 * (129280.0 + 2 * 7168) * 7168) << "a head and a projection are in it";
}

// Tests `model.transformer` as an Architecture. Sizes and configurations must give the same models, and wrong
// sizes must give errors.

struct Answer {
  std::optional<ArchitecturePart> part;
  std::string problem;
};

Answer answer_to(const std::string& sizes) {
  const auto source =
      std::make_shared<const Source>(Source{.name = "s.yaml", .directory = {}, .override_key = ""});
  const auto node = parse_document("{" + sizes + "}", source);
  EXPECT_TRUE(node) << node.error();
  Problem problem;
  auto part = read_architecture_sizes(node.value_or(Node{}), problem);
  return {.part = std::move(part), .problem = problem.found() ? problem.message() : ""};
}

Architecture model_of(const std::string& sizes) {
  const Answer answer = answer_to(sizes);
  EXPECT_TRUE(answer.part) << answer.problem;
  return answer.part ? answer.part->architecture : Architecture{.layers = {{}}};
}

Architecture published(const std::string& file) {
  const auto part = load_architecture({.config = source_path(file)});
  EXPECT_TRUE(part) << part.error();
  return part ? part->architecture : Architecture{.layers = {{}}};
}

/// Returns the model with the family name "transformer".
Architecture renamed(Architecture model) {
  model.family = "transformer";
  return model;
}

const std::string kFourLayers = "layers: 4, hidden: 64, heads: 8, sequence: 32, vocabulary: 100";

TEST(ArchitectureSizes, AloneAreAGpt) {
  EXPECT_EQ(model_of("layers: 12, hidden: 768, heads: 12, sequence: 1024, vocabulary: 50257"),
            renamed(published("tests/scenarios/configs/gpt2.json")));
  EXPECT_TRUE(is_plain_gpt(model_of(kFourLayers)));
}

TEST(ArchitectureSizes, WithAGateAreALlama) {
  EXPECT_EQ(model_of("layers: 32, hidden: 4096, heads: 32, kv_heads: 8, feed_forward: 14336, gated: true, "
                     "sequence: 8192, vocabulary: 128256"),
            renamed(published("scenarios/library/models/llama-3.1-8b.json")));
}

TEST(ArchitectureSizes, WithExpertsAreAMixtral) {
  EXPECT_EQ(model_of("layers: 32, hidden: 4096, heads: 32, kv_heads: 8, feed_forward: 14336, gated: true, "
                     "experts: 8, experts_per_token: 2, sequence: 8192, vocabulary: 32000"),
            renamed(published("scenarios/library/models/mixtral-8x7b.json")));
}

TEST(ArchitectureSizes, SayEverythingOtherwise) {
  const Architecture model =
      model_of(kFourLayers +
               ", feed_forward: 96, head_dim: 16, tied: false, biases: false, norm: rms, positions: rotary, "
               "query_key_norm: true, experts: 6, experts_per_token: 2, expert_feed_forward: 24, "
               "shared_experts: 2, dense_layers: 1, window: 8, multi_token: 1");
  EXPECT_EQ(model.head_dim, 16);
  EXPECT_FALSE(model.gated || model.tied || model.layer_norm || model.output_bias);
  EXPECT_TRUE(model.query_key_norm);
  EXPECT_EQ(model.positions, 0);
  EXPECT_EQ(model.experts, (Experts{.count = 6, .per_token = 2, .inner = 24, .shared_inner = 48}));
  EXPECT_EQ(model.layers.front(), (LayerKind{.window = 8}));
  EXPECT_EQ(model.layers.back(), (LayerKind{.has_experts = true, .window = 8}));
  EXPECT_EQ(model.multi_token, 1);
}

TEST(ArchitectureSizes, HaveTheSequenceThatTheySay) { EXPECT_EQ(answer_to(kFourLayers).part->sequence, 32); }

TEST(ArchitectureSizes, ArePricedOnADeviceAsTheirConfigurationIs) {
  const auto on_device = [](const std::string& model) {
    const Scenario scenario = read_scenario(
        "model: {" + model + "}\ncluster: {device: h100-sxm, nodes: 1}\nschedule: {name: 1f1b, stages: 2}\n");
    const auto* priced = std::get_if<DeviceModel>(&scenario.model);
    EXPECT_NE(priced, nullptr);
    return priced != nullptr ? priced->work : Workload{};
  };
  Workload by_file =
      on_device("huggingface: parts/config_gated.json, sequence: 32, layers: 2, multi_token: 1");
  by_file.model = renamed(by_file.model);
  EXPECT_EQ(
      on_device("transformer: {layers: 2, hidden: 64, heads: 8, kv_heads: 2, feed_forward: 172, gated: true, "
                "vocabulary: 100, sequence: 32, multi_token: 1}"),
      by_file);
}

TEST(ArchitectureSizes, ThatAreWrongAreNamed) {
  using testing::HasSubstr;
  EXPECT_THAT(answer_to("layers: 4, heads: 8").problem,
              HasSubstr("model.transformer.hidden: expected a whole number"));
  EXPECT_THAT(answer_to(kFourLayers + ", kv_heads: 3").problem,
              HasSubstr("model.transformer.kv_heads: expected a number that divides heads, 8, got 3"));
  EXPECT_THAT(answer_to("layers: 4, hidden: 60, heads: 8, sequence: 32, vocabulary: 100").problem,
              HasSubstr("model.transformer.heads: expected a number that divides hidden, 60, or head_dim"));
  EXPECT_THAT(answer_to(kFourLayers + ", experts: 4").problem,
              HasSubstr("model.transformer.experts_per_token: expected a whole number, got nothing"));
  EXPECT_THAT(answer_to(kFourLayers + ", experts: 4, experts_per_token: 5").problem,
              HasSubstr("from 1 to 4, got \"5\""));
  EXPECT_THAT(answer_to(kFourLayers + ", shared_experts: 1").problem,
              HasSubstr("model.transformer.shared_experts: belongs to experts"));
  EXPECT_THAT(answer_to(kFourLayers + ", dense_layers: 5, experts: 2, experts_per_token: 1").problem,
              HasSubstr("dense_layers: expected a whole number from 0 to 4"));
  EXPECT_THAT(answer_to(kFourLayers + ", norm: batch").problem,
              HasSubstr("expected layer or rms, got \"batch\""));
  EXPECT_THAT(answer_to(kFourLayers + ", efficiency: 0.5").problem,
              HasSubstr("model.transformer.efficiency: belongs to a cluster that has no `device`"));
  EXPECT_THAT(
      answer_to("layers: 65536, hidden: 16777216, heads: 1, sequence: 1, vocabulary: 100, experts: 65536, "
                "experts_per_token: 1")
          .problem,
      HasSubstr("at most 2^58 parameters"));
}

}  // namespace
}  // namespace penstock
