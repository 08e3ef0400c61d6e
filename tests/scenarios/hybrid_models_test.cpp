// Tests models with layers that are not attention followed by a feed-forward part. They have recurrences,
// indexers, layers of one part, or heads and widths that differ between layers. The totals of published
// models are those of their publishers. The totals of the small models were added up by hand from their
// matrices.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "tests/scenarios/device_workload.hpp"
#include "tests/test_files.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

ArchitecturePart hybrid_part(const std::string& name) {
  const auto part = load_architecture({.config = source_path("tests/scenarios/configs/" + name + ".json")});
  EXPECT_TRUE(part) << part.error();
  return part.value_or(ArchitecturePart{.architecture = {.layers = {{}}}});
}

tl::expected<ArchitecturePart, std::string> load_hybrid(const std::string& text,
                                                        std::vector<std::string> ignore = {}) {
  const ScratchFolder folder;
  return load_architecture(
      {.config = folder.write("config.json", text).string(), .ignore = std::move(ignore)});
}

/// Returns a configuration of width 64 with eight heads, 100 words and these keys.
std::string narrow_config(const std::string& keys) {
  return "{\"hidden_size\": 64, \"num_attention_heads\": 8, \"vocab_size\": 100, " + keys + "}";
}

Architecture narrow_model(const std::string& keys) {
  const auto part = load_hybrid(narrow_config(keys));
  EXPECT_TRUE(part) << part.error();
  return part ? part->architecture : Architecture{.layers = {{}}};
}

std::string narrow_refusal(const std::string& keys) {
  const auto part = load_hybrid(narrow_config(keys));
  return part ? "no error" : part.error();
}

/// Returns one letter for each layer. A means attention, R a recurrence, B both, and 0 neither. A small
/// letter (or -) means that there is no feed-forward part. An x is added for experts, and an s for a window.
std::string parts_picture(const Architecture& model) {
  std::string picture;
  for (const LayerKind& kind : model.layers) {
    const std::size_t mixers = (kind.has_attention ? 1 : 0) + (kind.has_recurrence ? 2 : 0);
    picture += kind.has_feed_forward ? "0ARB"[mixers] : "-arb"[mixers];
    if (kind.has_experts) picture += 'x';
    if (kind.window > 0) picture += 's';
  }
  return picture;
}

// --- published totals -----------------------------------------------------------------------------------

struct PublishedHybrid {
  std::string name;
  double billions;   ///< the number that the publisher prints
  double digit;      ///< the unit of the last printed digit
  std::int64_t sum;  ///< the sum of the shapes of all tensors
};

class HybridModel : public testing::TestWithParam<PublishedHybrid> {};

TEST_P(HybridModel, HasItsPublishedParameters) {
  const auto counted = static_cast<double>(parameters(hybrid_part(GetParam().name).architecture));
  EXPECT_NEAR(counted / 1e9, GetParam().billions, GetParam().digit / 2);
  EXPECT_EQ(parameters(hybrid_part(GetParam().name).architecture), GetParam().sum);
}

INSTANTIATE_TEST_SUITE_P(Models, HybridModel,
                         testing::Values(PublishedHybrid{"qwen3.5-27b", 26.9, 0.1, 26'895'998'464},
                                         PublishedHybrid{"qwen3.5-397b-a17b", 396.3, 0.1, 396'346'350'336},
                                         PublishedHybrid{"qwen3-next-80b-a3b", 80, 1, 79'674'391'296},
                                         PublishedHybrid{"nemotron-3-nano-30b-a3b", 31.58, 0.01,
                                                         31'577'940'288},
                                         PublishedHybrid{"deepseek-v3.2", 671.9, 0.1, 671'877'944'064},
                                         PublishedHybrid{"glm-5", 743.9, 0.1, 743'911'218'432},
                                         PublishedHybrid{"mimo-v2-flash", 308.8, 0.1, 308'778'780'864},
                                         PublishedHybrid{"kimi-linear-48b-a3b", 49.12, 0.01, 49'122'681'728},
                                         PublishedHybrid{"minimax-text-01", 456, 1, 456'089'655'296},
                                         PublishedHybrid{"gemma-4-31b", 31, 1, 30'697'345'280},
                                         PublishedHybrid{"granite-4.0-h-small", 32, 1, 32'207'337'984}),
                         [](const auto& row) {
                           std::string name = row.param.name;
                           std::ranges::replace_if(name, [](char c) { return c == '-' || c == '.'; }, '_');
                           return name;
                         });

// One token uses three billion of Nemotron's 31.58 billion parameters, and 17 billion of Qwen's 396 billion.
TEST(HybridModel, UsesAsManyParametersForATokenAsItsNameSays) {
  EXPECT_NEAR(static_cast<double>(active_parameters(hybrid_part("nemotron-3-nano-30b-a3b").architecture)),
              3.6e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(active_parameters(hybrid_part("qwen3.5-397b-a17b").architecture)), 17e9,
              0.6e9);
  EXPECT_NEAR(static_cast<double>(active_parameters(hybrid_part("kimi-linear-48b-a3b").architecture)), 3.5e9,
              0.5e9);
}

// --- which layers have what -----------------------------------------------------------------------------

const std::string kMambaSizes =
    "\"mamba_num_heads\": 4, \"mamba_head_dim\": 16, \"ssm_state_size\": 8, \"n_groups\": 2, "
    "\"conv_kernel\": 4";
const std::string kDeltaSizes =
    "\"linear_num_value_heads\": 4, \"linear_num_key_heads\": 2, \"linear_key_head_dim\": 16, "
    "\"linear_value_head_dim\": 16";

TEST(HybridLayers, OfNemotronHaveOnePartEach) {
  const std::string nemotron = "\"model_type\": \"nemotron_h\", \"intermediate_size\": 96, " + kMambaSizes;
  EXPECT_EQ(parts_picture(
                narrow_model(nemotron + ", \"num_hidden_layers\": 4, \"hybrid_override_pattern\": \"M-M*\"")),
            "r0ra");
  const std::string experts =
      nemotron +
      ", \"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 8, "
      "\"layers_block_type\": [\"mamba\", \"moe\", \"attention\", \"mlp\"]";
  EXPECT_EQ(parts_picture(narrow_model(experts)), "r0xa0") << "their number follows from the list";
}

TEST(HybridLayers, OfQwenHaveAttentionInEveryFourth) {
  const std::string qwen =
      "\"model_type\": \"qwen3_next\", \"intermediate_size\": 96, \"num_hidden_layers\": 4, " + kDeltaSizes;
  EXPECT_EQ(parts_picture(narrow_model(qwen)), "RRRA");
  EXPECT_EQ(parts_picture(narrow_model(qwen + ", \"full_attention_interval\": 2")), "RARA");
}

TEST(HybridLayers, OfFalconHaveBothMixersSideBySide) {
  EXPECT_EQ(
      parts_picture(narrow_model("\"model_type\": \"falcon_h1\", \"intermediate_size\": 96, "
                                 "\"num_hidden_layers\": 2, \"mamba_n_heads\": 4, \"mamba_d_head\": 16, "
                                 "\"mamba_d_state\": 8, \"mamba_d_ssm\": 64, \"mamba_rms_norm\": false")),
      "BB");
}

TEST(HybridLayers, WithRecurrentSizesButNoListAreRefused) {
  EXPECT_THAT(
      narrow_refusal("\"model_type\": \"my_own\", \"intermediate_size\": 96, \"num_hidden_layers\": 4, " +
                     kMambaSizes),
      HasSubstr("mamba_num_heads (no key says which layers have it)"));
}

TEST(HybridLayers, OfAPatternOfAnotherLengthAreAnError) {
  EXPECT_THAT(
      narrow_refusal("\"model_type\": \"nemotron_h\", \"intermediate_size\": 96, \"num_hidden_layers\": 5, "
                     "\"hybrid_override_pattern\": \"M-M*\", " +
                     kMambaSizes),
      HasSubstr("hybrid_override_pattern: expected a list of the types of the 5 layers, got 4 of them"));
}

TEST(SearchedLayers, HaveTheSizesOfTheirBlocks) {
  const Architecture model = narrow_model(R"("model_type": "nemotron-nas", "num_hidden_layers": 3,
      "intermediate_size": null, "block_configs": [
        {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 6.0}},
        {"attention": {"no_op": true}, "ffn": {"intermediate_size": 32}},
        {"attention": {"replace_with_linear": true}, "ffn": {"no_op": true}}])");
  ASSERT_EQ(model.layers.size(), 3);
  // Queries and results have 8 heads of width 8, and keys and values have 2 heads. Two thirds of 6 x 64 are
  // 256.
  EXPECT_EQ(layer_parameters(model, model.layers[0]), 2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 256 + 2 * 64);
  EXPECT_EQ(layer_parameters(model, model.layers[1]), 3 * 64 * 32 + 64);
  EXPECT_EQ(layer_parameters(model, model.layers[2]), 64 * 64 + 64);
}

TEST(SearchedLayers, OfAnotherNumberThanTheModelsAreAnError) {
  EXPECT_THAT(
      narrow_refusal("\"num_hidden_layers\": 2, \"block_configs\": [{\"attention\": {\"no_op\": true}, "
                     "\"ffn\": {\"intermediate_size\": 32}}]"),
      HasSubstr("block_configs: expected one block for each of the 2 layers, got 1"));
}

TEST(HeadsByLayer, DifferBetweenLayersWithAWindowAndOthers) {
  const Architecture model = narrow_model(
      "\"num_hidden_layers\": 2, \"intermediate_size\": 96, \"head_dim\": 12, \"v_head_dim\": 8, "
      "\"num_key_value_heads\": 2, \"swa_num_key_value_heads\": 4, \"sliding_window\": 16, "
      "\"hybrid_layer_pattern\": [0, 1], \"add_swa_attention_sink_bias\": true");
  EXPECT_EQ(parts_picture(model), "AAs");
  const std::int64_t around = 3 * 64 * 96 + 2 * 64 + 64 * 8 * 12 + 8 * 8 * 64;
  EXPECT_EQ(layer_parameters(model, model.layers[0]), around + 64 * 2 * (12 + 8));
  EXPECT_EQ(layer_parameters(model, model.layers[1]), around + 64 * 4 * (12 + 8) + 8);
}

TEST(Indexers, AreInEachLayerOrInThoseThatAreListed) {
  const std::string latent =
      "\"num_hidden_layers\": 3, \"intermediate_size\": 96, \"kv_lora_rank\": 16, \"q_lora_rank\": 24, "
      "\"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, \"v_head_dim\": 8, \"index_n_heads\": 2, "
      "\"index_head_dim\": 4, \"index_topk\": 32";
  const Architecture all = narrow_model(latent);
  EXPECT_TRUE(std::ranges::all_of(all.layers, &LayerKind::has_indexer));
  EXPECT_EQ(all.layers.front().selected, 32);
  const Architecture some = narrow_model(latent + ", \"indexer_types\": [\"full\", \"shared\", \"full\"]");
  EXPECT_EQ(layer_parameters(all, all.layers[1]) - layer_parameters(some, some.layers[1]),
            24 * 2 * 4 + 64 * 4 + 64 * 2 + 2 * 4);
  EXPECT_EQ(some.layers[1].selected, 32) << "the layer attends to the keys of the layer before";
}

// --- notes ----------------------------------------------------------------------------------------------

TEST(PartsBesideTheText, AreNotCountedAndANoteSaysSo) {
  EXPECT_THAT(hybrid_part("qwen3.5-27b").notes,
              ElementsAre(HasSubstr("only the text model is counted and priced, without vision_config")));
}

TEST(IgnoredStructure, SaysHowFarTheCountMayBeOff) {
  const std::string keys =
      "\"num_hidden_layers\": 2, \"intermediate_size\": 96, \"layer_types\": [\"moonshine\", \"moonshine\"]";
  EXPECT_THAT(narrow_refusal(keys), HasSubstr("layer_types (moonshine)"));
  const auto part = load_hybrid(narrow_config(keys), {"layer_types"});
  ASSERT_TRUE(part) << part.error();
  // Two layers have 2 x 34 944 of 82 752 parameters.
  EXPECT_THAT(part->notes, ElementsAre(AllOf(HasSubstr("they have 84 % of the 0.08275 million parameters"),
                                             HasSubstr("may be off by that much or"))));
}

// --- prices ---------------------------------------------------------------------------------------------

Workload hybrid_workload(const std::string& name, std::int64_t sequence) {
  Workload work;
  work.model = hybrid_part(name).architecture;
  work.sequence = sequence;
  work.device = *find_device_type("h100");
  return work;
}

/// Returns the forward seconds of the layer's terms with this name, or 0 if it has none.
double hybrid_forward(const Workload& work, const LayerKind& kind, std::string_view name) {
  double sum = 0;
  for (const Term& term : layer_terms(work, kernels_of(work), kind))
    sum += term.name == name ? term.forward : 0;
  return sum;
}

double hybrid_seconds(const Workload& work, const LayerKind& kind) {
  const Term sum = total_of(layer_terms(work, kernels_of(work), kind));
  return sum.forward + sum.backward();
}

// A chunk has 64 tokens, and 32 heads with keys and values of width 128. Each of 16 key heads has three
// products of scores. The other operations are listed in recurrence_operations().
TEST(RecurrencePrice, HasTheOperationsOfItsChunks) {
  const RecurrentMixer recurrence = *hybrid_part("qwen3-next-80b-a3b").architecture.recurrence;
  const double scores = 3 * 2 * 64 * 128 * 16;
  const double values = 2 * 2 * 64 * 128 * 32;
  const double states = 6 * 128 * 128 * 32;
  EXPECT_DOUBLE_EQ(recurrence_operations(recurrence), scores + values + states + 64 * 64 * 32);
}

TEST(RecurrencePrice, GrowsWithTheSequenceWhereAttentionGrowsWithItsSquare) {
  const Workload once = hybrid_workload("qwen3-next-80b-a3b", 8192);
  const Workload twice = hybrid_workload("qwen3-next-80b-a3b", 16384);
  const LayerKind recurrent = once.model.layers[0];
  const LayerKind full = once.model.layers[3];
  EXPECT_NEAR(hybrid_forward(twice, recurrent, "recurrence") / hybrid_forward(once, recurrent, "recurrence"),
              2, 1e-9);
  EXPECT_GT(hybrid_forward(twice, full, "attention") / hybrid_forward(once, full, "attention"), 3)
      << "nearly 4, because longer sequences have better kernels";
  EXPECT_EQ(hybrid_forward(once, recurrent, "attention"), 0);
  EXPECT_EQ(hybrid_forward(once, full, "recurrence"), 0);
}

TEST(RecurrencePrice, IsSharedByTheDevicesOfATensorGroup) {
  Workload work = hybrid_workload("nemotron-3-nano-30b-a3b", 8192);
  const LayerKind mamba = work.model.layers[0];
  const double kept = kept_bytes(work, mamba);
  const double seconds = hybrid_forward(work, mamba, "recurrence");
  const double parameters = layer_device_parameters(work, mamba).total();
  work.parallel.tensor = 2;
  EXPECT_DOUBLE_EQ(kept_bytes(work, mamba), kept / 2);
  EXPECT_DOUBLE_EQ(hybrid_forward(work, mamba, "recurrence"), seconds / 2);
  EXPECT_NEAR(layer_device_parameters(work, mamba).total(), parameters / 2, 2688) << "all but the norm";
  work.parallel.tensor = 16;
  EXPECT_THAT(fault_of(work).value_or(""), HasSubstr("the recurrent key heads, 8, got 16"));
}

// For each token, Nemotron's Mamba layer stores 4 h bytes for the norm, the 10 304 columns of the projection,
// the result twice, and the step of each head.
TEST(RecurrencePrice, KeepsWhatItsKernelsRead) {
  const Workload work = hybrid_workload("nemotron-3-nano-30b-a3b", 4096);
  EXPECT_DOUBLE_EQ(kept_bytes(work, work.model.layers[0]),
                   4096.0 * (4 * 2688 + 2 * 10304 + 4 * 64 * 64 + 4 * 64));
}

TEST(LayersOfOnePart, HaveOneNormAndOneAdd) {
  const Workload work = hybrid_workload("nemotron-3-nano-30b-a3b", 4096);
  const Architecture& model = work.model;
  const LayerKind attention = model.layers[5];
  ASSERT_TRUE(attention.has_attention);
  EXPECT_EQ(layer_parameters(model, attention), 2688 * (32 + 2 * 2) * 128 + 32 * 128 * 2688 + 2688);
  EXPECT_EQ(hybrid_forward(work, attention, "fc1"), 0);
  LayerKind whole = attention;
  whole.has_feed_forward = true;
  EXPECT_NEAR(hybrid_forward(work, whole, "norms"), 2 * hybrid_forward(work, attention, "norms"), 1e-9);
  EXPECT_GT(hybrid_seconds(work, whole), hybrid_seconds(work, attention));
}

// Of 65 536 keys, 2048 are selected. Attention to these keys takes a fraction of the time of attention to all
// keys, although each score has more operations. With 2048 tokens, the same kernels run as without an
// indexer.
TEST(SelectedKeys, MakeLongSequencesCheaperAndShortOnesNot) {
  Workload work = hybrid_workload("deepseek-v3.2", 65536);
  const LayerKind sparse = work.model.layers.back();
  LayerKind dense = sparse;
  dense.has_indexer = false;
  dense.selected = 0;
  EXPECT_LT(hybrid_forward(work, sparse, "attention"), hybrid_forward(work, dense, "attention") / 3);
  EXPECT_LT(hybrid_seconds(work, sparse), hybrid_seconds(work, dense));
  work.sequence = 2048;
  EXPECT_EQ(hybrid_forward(work, sparse, "attention"), hybrid_forward(work, dense, "attention"));
  EXPECT_GT(hybrid_seconds(work, sparse), hybrid_seconds(work, dense)) << "by the indexer";
}

// A layer must take at least the time of its counted operations at the device's peak.
TEST(HybridPrice, IsNeverFasterThanThePeakAllows) {
  for (const char* name : {"qwen3.5-27b", "nemotron-3-nano-30b-a3b", "deepseek-v3.2", "mimo-v2-flash",
                           "kimi-linear-48b-a3b", "minimax-text-01", "granite-4.0-h-small"}) {
    const Workload work = hybrid_workload(name, 8192);
    double seconds = total_of(head_terms(work, kernels_of(work))).forward * 3;
    for (const LayerGroup& group : layer_groups(work.model))
      seconds += static_cast<double>(group.count) * hybrid_seconds(work, group.kind);
    const double least = flops_per_sample(work.model, work.sequence) / work.device.bf16_flops_per_second;
    EXPECT_GT(seconds, least) << name;
    EXPECT_LT(seconds, 10 * least) << name;
    EXPECT_FALSE(fault_of(work)) << name;
  }
}

}  // namespace
}  // namespace penstock
