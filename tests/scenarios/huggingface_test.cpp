// Tests how the keys of a configuration are read, and the messages about keys that no code reads. The
// configurations are as short as possible. architecture_test.cpp has the configurations of published models.

#include <unistd.h>

#include <ios>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/read/huggingface.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

/// Returns a configuration of eight layers with width 64 and eight heads, and with the additional `keys`.
std::string config_with(const std::string& keys) {
  return "{\"hidden_size\": 64, \"intermediate_size\": 96, \"num_attention_heads\": 8, "
         "\"num_hidden_layers\": 8, \"vocab_size\": 100" +
         (keys.empty() ? "" : ", " + keys) + "}";
}

tl::expected<ArchitecturePart, std::string> load(const std::string& text, ArchitectureRequest request = {}) {
  const ScratchFolder folder;
  request.config = folder.write("config.json", text).string();
  return load_architecture(request);
}

Architecture model_with(const std::string& keys) {
  const auto part = load(config_with(keys));
  EXPECT_TRUE(part) << part.error();
  return part ? part->architecture : Architecture{.layers = {{}}};
}

std::string refusal_of(const std::string& keys) {
  const auto part = load(config_with(keys));
  return part ? "no error" : part.error();
}

std::vector<std::string> notes_of(const std::string& keys) {
  const auto part = load(config_with(keys));
  EXPECT_TRUE(part) << part.error();
  return part ? part->notes : std::vector<std::string>{};
}

/// Returns one letter for each layer, such as "sd". Layers with a sliding window have s, and S if they have
/// experts. Layers with attention to all tokens have d, and E if they have experts.
std::string layers_of(const std::string& keys) {
  std::string picture;
  for (const LayerKind& kind : model_with(keys).layers) {
    const bool slides = kind.window > 0;
    picture += kind.has_experts ? (slides ? 'S' : 'E') : (slides ? 's' : 'd');
  }
  return picture;
}

// --- families -------------------------------------------------------------------------------------------

TEST(HuggingFaceFamily, IsFoundByItsTypeInAnySpelling) {
  EXPECT_EQ(find_family("gpt_oss"), find_family("GptOss"));
  EXPECT_EQ(find_family("qwen3_vl_moe_text"), find_family("qwen3"));
  EXPECT_EQ(find_family("something"), nullptr);
  EXPECT_TRUE(find_family("granitemoehybrid")->unpriced.empty());
  EXPECT_FALSE(find_family("jamba")->unpriced.empty());
  EXPECT_TRUE(find_family("nemotron")->unpriced.empty());
}

TEST(HuggingFaceFamily, IsToldByTheArchitectureWhereTheTypeIsNotKnown) {
  const std::string of_qwen = "\"architectures\": [\"Qwen3ForCausalLM\"]";
  EXPECT_TRUE(model_with(of_qwen).query_key_norm);
  EXPECT_TRUE(model_with("\"model_type\": \"my_own\", " + of_qwen).query_key_norm);
  EXPECT_FALSE(model_with("\"model_type\": \"llama\", " + of_qwen).query_key_norm);
}

TEST(HuggingFaceFamily, ThatIsNotKnownIsReadByItsKeysWithANote) {
  const std::string keys =
      "\"model_type\": \"my_own\", \"kv_lora_rank\": 16, \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, "
      "\"v_head_dim\": 8, \"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": "
      "32, \"topk_method\": \"noaux_tc\"";
  const Architecture model = model_with(keys);
  ASSERT_TRUE(model.latent && model.experts);
  EXPECT_EQ(model.latent->query_rank, 0);
  EXPECT_EQ(model.kv_heads, 8);
  EXPECT_TRUE(model.experts->router_bias);
  EXPECT_THAT(notes_of(keys), testing::ElementsAre(HasSubstr("the model type my_own is not known")));
}

TEST(HuggingFaceFamily, IsToldByKeysThatNoOtherFamilyHas) {
  const Architecture oss = model_with(
      "\"model_type\": \"my_own\", \"swiglu_limit\": 7.0, \"num_local_experts\": 4, "
      "\"num_experts_per_tok\": 2");
  EXPECT_TRUE(oss.attention_sinks && oss.experts->biases && oss.experts->router_bias);
  EXPECT_TRUE(model_with("\"max_window_layers\": 8, \"use_sliding_window\": false").query_key_value_bias);
  EXPECT_TRUE(
      model_with("\"max_window_layers\": 8, \"use_sliding_window\": false, \"head_dim\": 8").query_key_norm);
  EXPECT_EQ(model_with("\"attn_logit_softcapping\": 50.0, \"query_pre_attn_scalar\": 256, \"head_dim\": 8")
                .norms_per_layer,
            4);
  const auto gpt = load(
      R"({"n_embd": 64, "n_head": 8, "n_layer": 2, "n_positions": 32, "n_inner": null, "vocab_size": 100})");
  ASSERT_TRUE(gpt) << gpt.error();
  EXPECT_TRUE(is_plain_gpt(gpt->architecture));
}

TEST(HuggingFaceFamily, WithoutATypeIsALlama) {
  const Architecture model = model_with("");
  EXPECT_TRUE(model.gated);
  EXPECT_FALSE(model.tied || model.layer_norm || model.query_key_value_bias);
  EXPECT_EQ(model.kv_heads, 8);
  EXPECT_EQ(model.head_dim, 8);
  EXPECT_TRUE(notes_of("").empty());
}

TEST(HuggingFaceFamily, HasBiasesThatItsKeysDoNotSpeakOf) {
  const Architecture qwen = model_with("\"model_type\": \"qwen2\"");
  EXPECT_TRUE(qwen.query_key_value_bias);
  EXPECT_FALSE(qwen.output_bias);
  const Architecture llama = model_with("\"model_type\": \"llama\", \"attention_bias\": true");
  EXPECT_TRUE(llama.query_key_value_bias && llama.output_bias);
  const Architecture glm = model_with("\"model_type\": \"glm4\", \"attention_bias\": true");
  EXPECT_TRUE(glm.query_key_value_bias);
  EXPECT_FALSE(glm.output_bias);
}

TEST(HuggingFaceFamily, OfSquaredRelusHasNoGate) {
  EXPECT_FALSE(model_with("\"model_type\": \"arcee\", \"hidden_act\": \"relu2\"").gated);
  EXPECT_TRUE(model_with("\"model_type\": \"gemma\", \"hidden_act\": \"gelu\"").gated);
}

TEST(HuggingFaceConfig, OfTextIsTheNestedOne) {
  const auto part = load("{\"model_type\": \"my_vl\", \"hidden_size\": 7, \"text_config\": " +
                         config_with("\"model_type\": \"qwen3_vl_text\", \"head_dim\": 16") +
                         ", \"tie_word_embeddings\": true, \"image_token_id\": 5}");
  ASSERT_TRUE(part) << part.error();
  EXPECT_EQ(part->architecture.hidden, 64);
  EXPECT_EQ(part->architecture.head_dim, 16);
  EXPECT_TRUE(part->architecture.query_key_norm && part->architecture.tied);
  EXPECT_TRUE(part->notes.empty());
}

// --- which layers ---------------------------------------------------------------------------------------

const std::string kExperts = "\"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32";

TEST(HuggingFaceLayers, HaveExpertsWhereTheirFamilySaysSo) {
  EXPECT_EQ(layers_of(kExperts), "EEEEEEEE");
  EXPECT_EQ(layers_of(kExperts + ", \"first_k_dense_replace\": 3"), "dddEEEEE");
  EXPECT_EQ(layers_of(kExperts + ", \"first_k_dense_replace\": 1, \"moe_layer_freq\": 2"), "ddEdEdEd");
  EXPECT_EQ(layers_of(kExperts + ", \"moe_layer_freq\": [0, 0, 1, 1, 0, 1, 1, 1]"), "ddEEdEEE");
  EXPECT_EQ(layers_of(kExperts + ", \"decoder_sparse_step\": 2"), "dEdEdEdE");
  EXPECT_EQ(layers_of(kExperts + ", \"decoder_sparse_step\": 1, \"mlp_only_layers\": [0, 7]"), "dEEEEEEd");
  EXPECT_EQ(layers_of(kExperts + ", \"interleave_moe_layer_step\": 4"), "dddEdddE");
  EXPECT_EQ(layers_of(kExperts + ", \"moe_layers\": [1, 2]"), "dEEddddd");
  EXPECT_EQ(layers_of(kExperts + ", \"moe_layer_start_index\": 2, \"moe_layer_end_index\": 5"), "ddEEEEdd");
}

TEST(HuggingFaceLayers, AreDenseWhereThereAreNoExperts) {
  EXPECT_EQ(layers_of("\"num_experts\": 0, \"moe_intermediate_size\": 32, \"decoder_sparse_step\": 1"),
            "dddddddd");
  EXPECT_EQ(layers_of("\"n_routed_experts\": null, \"first_k_dense_replace\": 1"), "dddddddd");
  EXPECT_FALSE(model_with(kExperts + ", \"first_k_dense_replace\": 8").experts);
}

TEST(HuggingFaceLayers, HaveWindowsWhereTheirFamilySaysSo) {
  const std::string window = "\"sliding_window\": 16";
  const auto of = [&](const std::string& type, const std::string& keys = "") {
    return layers_of("\"model_type\": \"" + type + "\", " + window + keys);
  };
  EXPECT_EQ(of("mistral"), "ssssssss");
  EXPECT_EQ(of("gemma2"), "sdsdsdsd");
  EXPECT_EQ(of("gemma3_text"), "sssssdss");
  EXPECT_EQ(of("gemma3_text", ", \"sliding_window_pattern\": 4"), "sssdsssd");
  EXPECT_EQ(of("exaone4", ", \"sliding_window_pattern\": \"LLG\""), "ssdssdss");
  EXPECT_EQ(of("qwen2"), "dddddddd");
  EXPECT_EQ(of("qwen2", ", \"use_sliding_window\": false, \"max_window_layers\": 4"), "dddddddd");
  EXPECT_EQ(of("qwen2", ", \"use_sliding_window\": true, \"max_window_layers\": 5"), "dddddsss");
  EXPECT_EQ(layers_of("\"model_type\": \"mistral\", \"sliding_window\": null"), "dddddddd");
}

TEST(HuggingFaceLayers, HaveTheTypesThatAreListed) {
  const std::string types =
      "\"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\", \"full_attention\", "
      "\"sliding_attention\", \"full_attention\", \"full_attention\", \"full_attention\"]";
  EXPECT_EQ(layers_of(types + ", \"sliding_window\": 16, " + kExperts), "ESEESEEE");
}

TEST(HuggingFaceLayers, InChunksSeeHalfOfOneOnAverage) {
  const std::string llama = "\"model_type\": \"llama4_text\", \"attention_chunk_size\": 64";
  EXPECT_EQ(layers_of(llama), "sssdsssd");
  EXPECT_EQ(layers_of(llama + ", \"no_rope_layers\": [1, 0, 1, 0, 1, 0, 1, 0]"), "sdsdsdsd");
  EXPECT_EQ(attention_scores(model_with(llama).layers.front(), 640), 10 * 64.0 * 64 / 2);
}

TEST(SharedExperts, HaveOneWidthOrOneForEach) {
  EXPECT_EQ(model_with(kExperts + ", \"n_shared_experts\": 2").experts->shared_inner, 64);
  EXPECT_EQ(model_with(kExperts + ", \"shared_expert_intermediate_size\": 80").experts->shared_inner, 80);
  EXPECT_EQ(model_with(kExperts + ", \"n_shared_experts\": 0").experts->shared_inner, 0);
  const Architecture qwen =
      model_with("\"model_type\": \"qwen2_moe\", \"shared_expert_intermediate_size\": 80, " + kExperts);
  EXPECT_TRUE(qwen.experts->shared_gate);
}

// --- keys that nobody reads -----------------------------------------------------------------------------

TEST(HuggingFaceKeys, WithoutPriceAreToldByTheirEndings) {
  for (const char* key :
       {"new_token_id", "some_dropout", "extra_eps", "rope_anything", "quantization_config"})
    EXPECT_TRUE(is_without_price(key)) << key;
  for (const char* key : {"mamba_d_state", "num_experts", "hidden_size"})
    EXPECT_FALSE(is_without_price(key)) << key;
}

TEST(HuggingFaceKeys, HintAtStructureByTheirWords) {
  for (const char* key : {"mamba_d_state", "ssm_state_size", "conv_kernel", "vision_config", "hybrid_pattern",
                          "index_n_heads", "linear_num_key_heads", "attn_output_gate", "extra_layers"})
    EXPECT_TRUE(hints_at_structure(key)) << key;
  for (const char* key : {"attention_method", "colour", "headline"})
    EXPECT_FALSE(hints_at_structure(key)) << key;
}

TEST(UnknownKey, ThatHintsAtStructureIsAnErrorThatNamesAll) {
  const std::string keys =
      "\"mamba_d_state\": 16, \"extra_expert_gate\": true, \"cross_attention_layers\": [1, 2]";
  EXPECT_THAT(refusal_of(keys), HasSubstr("structure that is not priced: mamba_d_state, extra_expert_gate, "
                                          "cross_attention_layers; "));
  EXPECT_THAT(refusal_of(keys),
              HasSubstr("--ignore mamba_d_state --ignore extra_expert_gate --ignore cross_attention_layers"));
  EXPECT_THAT(refusal_of(keys), HasSubstr(".json:1:"));
}

TEST(UnknownKey, ThatIsSwitchedOffIsNoStructure) {
  EXPECT_TRUE(notes_of("\"mamba_layers\": 0, \"vision_config\": null, \"use_cross_attention\": false, "
                       "\"adapter_list\": []")
                  .empty());
}

TEST(UnknownKey, OfAMappingIsAStructure) {
  EXPECT_THAT(refusal_of("\"ingredients\": {\"flour\": 500}"), HasSubstr("not priced: ingredients;"));
}

TEST(UnknownKey, OfAnotherKindIsNamedInANote) {
  EXPECT_TRUE(notes_of("\"brand_new_token_id\": 7, \"bos_token_id\": 1").empty());
  EXPECT_THAT(notes_of("\"colour\": \"red\""),
              testing::ElementsAre(HasSubstr("neither sizes nor work: colour")));
}

TEST(UnknownKey, ThatIsIgnoredIsPricedWithoutAndSaysSo) {
  const auto part = load(config_with("\"mamba_d_state\": 16"), {.ignore = {"mamba_d_state"}});
  ASSERT_TRUE(part) << part.error();
  EXPECT_EQ(part->architecture, model_with(""));
  EXPECT_EQ(part->ignored, std::vector<std::string>{"mamba_d_state"});
  EXPECT_THAT(part->notes, testing::ElementsAre(HasSubstr("as if it had no mamba_d_state (ignore)")));
}

TEST(UnpricedPart, IsNamedWhereverItStands) {
  EXPECT_THAT(refusal_of("\"model_type\": \"mamba2\""), HasSubstr("model_type (mamba2: state-space layers)"));
  EXPECT_THAT(refusal_of("\"is_encoder_decoder\": true"), HasSubstr("is_encoder_decoder (true)"));
  EXPECT_THAT(refusal_of("\"attn_type_list\": [1, 0, 1]"),
              HasSubstr("attn_type_list: expected one entry for each of the 8 layers, got 3"));
  EXPECT_EQ(refusal_of("\"attn_type_list\": [1, 1, 1]"), "no error");
  EXPECT_THAT(refusal_of("\"hidden_act\": \"xielu\""), HasSubstr("hidden_act (xielu)"));
  EXPECT_EQ(layer_parameters(model_with(""), {}) - layer_parameters(model_with("\"v_head_dim\": 4"), {}),
            2 * 64 * 8 * (8 - 4))
      << "values of half the width of keys";
}

TEST(DenseLayers, HaveAWidthOfTheirOwnWhereThereAreSome) {
  const auto load_without_width = [](const std::string& keys) {
    return load(
        "{\"hidden_size\": 64, \"num_attention_heads\": 8, \"num_hidden_layers\": 8, \"vocab_size\": 100, " +
        kExperts + keys + "}");
  };
  EXPECT_TRUE(load_without_width(""));
  EXPECT_THAT(load_without_width(", \"first_k_dense_replace\": 1").error(),
              HasSubstr("expected intermediate_size or n_inner, got nothing"));
}

// --- requests -------------------------------------------------------------------------------------------

TEST(ArchitectureRequest, KeepsTheFirstLayers) {
  const std::string text = config_with(kExperts + ", \"first_k_dense_replace\": 2");
  const auto first = load(text, {.layers = 3});
  const auto more = load(text, {.layers = 5});
  ASSERT_TRUE(first && more);
  EXPECT_EQ(first->architecture.layers, (std::vector<LayerKind>{{}, {}, {.has_experts = true}}));
  EXPECT_EQ(parameters(more->architecture) - parameters(first->architecture),
            2 * layer_parameters(first->architecture, {.has_experts = true}));
}

TEST(ArchitectureRequest, NamesTheFlagThatIsWrong) {
  const auto refusal = [](const ArchitectureRequest& request) {
    const auto part = load(config_with("\"model_type\": \"gpt2\", \"n_positions\": 32"), request);
    return part ? std::string("no error") : part.error();
  };
  EXPECT_EQ(refusal({.layers = 9}), "--layers: expected a whole number from 1 to 8, got \"9\"");
  EXPECT_EQ(refusal({.multi_token = -1}), "--multi-token: expected a whole number from 0 to 64, got \"-1\"");
  EXPECT_EQ(refusal({.sequence = 33}), "--sequence: expected a whole number from 1 to 32, got \"33\"");
  EXPECT_EQ(refusal({.layers = 8, .multi_token = 1, .sequence = 32}), "no error");
  EXPECT_EQ(load_architecture({.config = "nowhere.json"}).error(), "nowhere.json: the file does not exist");
}

}  // namespace
}  // namespace penstock
