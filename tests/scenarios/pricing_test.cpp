// Tests the prices of layers on devices. They are compared with counts by hand. Other tests check how figures
// change with degrees, sequences and precision.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/collectives.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "tests/scenarios/device_workload.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr double kGibibyte = 1 << 30;

Term layer_total(const Workload& work) {
  return total_of(layer_terms(work, kernels_of(work), work.model.layers.back()));
}

/// Returns the sum of the forward seconds of all terms of a kind.
double forward_of(const Workload& work, TermKind kind) {
  double sum = 0;
  for (const Term& term : layer_terms(work, kernels_of(work), work.model.layers.back()))
    sum += term.kind == kind ? term.forward : 0;
  return sum;
}

// --- by hand ----------------------------------------------------------------------------------------------

// Llama 3.1 70B with one sequence of 4096 tokens on one device stores 8h + 4ad + 4gd + 4a + 6f bytes a token.
TEST(LayerMemory, KeptBytesByHand) {
  const Workload work = workload_on("h100", "llama-3.1-70b", 4096);
  EXPECT_NEAR(kept_bytes(work, {}) / kGibibyte, 1.0479, 1e-4);
}

// GPT-3 has 10 h around both parts, 8 h of attention, and 4 f. These are 34 h bytes a token, as in the paper
// for f = 4 h.
TEST(LayerMemory, AGptsBlockKeepsWhatItsWidthsSay) {
  Workload work = workload_on("h100", "gpt3-175b", 2048);
  constexpr double kTokensByHidden = 2048.0 * 12288;
  EXPECT_DOUBLE_EQ(kept_bytes(work, {}), 34 * kTokensByHidden);
  work.recompute = LayerRecompute::mlp;
  EXPECT_DOUBLE_EQ(kept_bytes(work, {}), (34 - 8) * kTokensByHidden);
  work.recompute = LayerRecompute::activation;
  EXPECT_DOUBLE_EQ(kept_bytes(work, {}), (34 - 8) * kTokensByHidden);
  work.recompute = LayerRecompute::norm;
  EXPECT_DOUBLE_EQ(kept_bytes(work, {}), (34 - 4) * kTokensByHidden);
  work.recompute = LayerRecompute::none;
  work.model.feed_forward *= 2;
  EXPECT_DOUBLE_EQ(kept_bytes(work, {}), (34 + 16) * kTokensByHidden);
  work.model.kv_heads = 1;
  EXPECT_NEAR(kept_bytes(work, {}), (34 + 16 - 4.0 * 95 / 96) * kTokensByHidden, 1);
}

// Korthikanti et al., table 2, for one device: 34 h + 5 a s bytes a token. Selective recomputation saves the
// scores, and I releases them (Qi et al., table 1).
TEST(LayerMemory, UnfusedAttentionStoresScores) {
  Workload work = workload_on("a100", "gpt3-175b", 2048);
  const double fused = kept_bytes(work, {});
  const double fused_transient = layer_transient_bytes(work, {});
  EXPECT_EQ(released_by_input(work, {}), 0);
  work.framework = Framework::megatron_2021;
  const double scores = 2048.0 * 96 * 2048;
  EXPECT_DOUBLE_EQ(kept_bytes(work, {}), 2048.0 * (34 * 12288 + 5 * 96 * 2048));
  EXPECT_DOUBLE_EQ(released_by_input(work, {}), 5 * scores);
  EXPECT_DOUBLE_EQ(layer_transient_bytes(work, {}), fused_transient + 4 * scores);
  EXPECT_EQ(recomputed_bytes(work, {}), 0);
  work.recompute = LayerRecompute::selective;
  EXPECT_DOUBLE_EQ(kept_bytes(work, {}), fused);
  EXPECT_EQ(released_by_input(work, {}), 0);
  EXPECT_EQ(recomputed_bytes(work, {}), 0) << "W reads no scores";
  EXPECT_DOUBLE_EQ(layer_transient_bytes(work, {}), fused_transient + 9 * scores);
  work.recompute = LayerRecompute::full;
  EXPECT_DOUBLE_EQ(kept_bytes(work, {}), 2.0 * 2048 * 12288);
  EXPECT_DOUBLE_EQ(recomputed_bytes(work, {}), fused - kept_bytes(work, {}));
  work.parallel.tensor = 8;
  work.recompute = LayerRecompute::none;
  EXPECT_DOUBLE_EQ(kept_bytes(work, {}), 2048.0 * (34 * 12288 + 5 * 96 * 2048) / 8);
}

// The logits have 2 bytes. An unfused loss stores them in 2 and 4 bytes, with their exponentials. PyTorch
// stores logarithms and two gradients.
TEST(LayerMemory, AnUnfusedLossHoldsLogitsInFourBytes) {
  Workload work = workload_on("h100", "llama-3.1-8b", 8192);
  const double fused = head_transient_bytes(work);
  const double logits = 8192.0 * 128256;
  work.framework = Framework::megatron_2021;
  EXPECT_DOUBLE_EQ(head_transient_bytes(work), fused + 8 * logits);
  work.framework = Framework::torchtitan;
  EXPECT_DOUBLE_EQ(head_transient_bytes(work), fused + 10 * logits);
}

TEST(LayerMemory, BetweenIAndWRecomputationSavesNothing) {
  for (const char* model : {"llama-3.1-70b", "gpt3-175b", "mixtral-8x7b"}) {
    Workload work = workload_on("h100", model, 4096);
    const LayerKind& kind = work.model.layers.back();
    const double whole = kept_bytes(work, kind);
    EXPECT_EQ(recomputed_bytes(work, kind), 0);
    for (const LayerRecompute recompute :
         {LayerRecompute::selective, LayerRecompute::norm, LayerRecompute::activation, LayerRecompute::mlp,
          LayerRecompute::full}) {
      work.recompute = recompute;
      EXPECT_DOUBLE_EQ(kept_bytes(work, kind) + recomputed_bytes(work, kind), whole)
          << model << " " << to_text(recompute);
    }
  }
}

TEST(LayerMemory, PlaceholdersOfGradientsByHand) {
  const Workload llama70 = workload_on("h100", "llama-3.1-70b", 4096);
  EXPECT_NEAR(placeholder_bytes(weight_shapes(llama70, {})) / kGibibyte, 1.594, 1e-3);
  const Workload llama405 = workload_on("h100", "llama-3.1-405b", 4096);
  EXPECT_NEAR(placeholder_bytes(weight_shapes(llama405, {})) / kGibibyte, 5.94, 1e-2);
}

TEST(LayerMemory, OneDeviceHoldsAllParametersOfAnUnsharedModel) {
  Workload work = workload_on("h100", "llama-3.1-8b", 4096);
  double sum = embedding_device_parameters(work).total() + head_device_parameters(work, false).total();
  for (const LayerKind& kind : work.model.layers) sum += layer_device_parameters(work, kind).total();
  EXPECT_EQ(std::llround(sum), 8030261248);
}

// The model has LayerNorms with biases, and parts outside the layers that only some families have.
TEST(LayerMemory, OneDeviceHoldsWhatTheEndsOfAModelHaveBesideTheirMatrices) {
  Workload work;
  work.model = {.hidden = 64,
                .heads = 4,
                .kv_heads = 4,
                .head_dim = 16,
                .feed_forward = 256,
                .vocabulary = 128,
                .layer_norm = true,
                .head_bias = true,
                .embedding_norm = true,
                .layers = {LayerKind{}}};
  const double all = embedding_device_parameters(work).total() + layer_device_parameters(work, {}).total() +
                     head_device_parameters(work, false).total();
  EXPECT_EQ(all, static_cast<double>(parameters(work.model)));
  EXPECT_EQ(multi_token_device_parameters(work).total(),
            static_cast<double>(multi_token_parameters(work.model)));
}

TEST(LayerMemory, SharesOfAllDevicesHoldEveryExpertOnce) {
  Workload work = workload_on("h100", "mixtral-8x7b", 4096);
  const LayerKind kind = work.model.layers.front();
  const double whole = layer_device_parameters(work, kind).expert;
  work.parallel.expert = 8;
  EXPECT_EQ(layer_device_parameters(work, kind).expert, whole / 8);
}

// A norm after each part stores its input, 2 h. Norms of queries and keys store 2 (a + g) d. If both parts
// share one norm, its input and output are stored once.
TEST(LayerMemory, KeepsWhatTheConfigurationsNormsRead) {
  Workload work = workload_on("h100", "llama-3.1-70b", 4096);
  const double two = kept_bytes(work, {});
  const double hidden_bytes = 4096.0 * 8192 * 2;
  work.model.norms_per_layer = 4;
  EXPECT_DOUBLE_EQ(kept_bytes(work, {}), two + 2 * hidden_bytes);
  work.recompute = LayerRecompute::norm;
  EXPECT_DOUBLE_EQ(kept_bytes(work, {}), two) << "what the two in front of the parts give";
  work.recompute = LayerRecompute::none;
  work.model.norms_per_layer = 1;
  EXPECT_DOUBLE_EQ(kept_bytes(work, {}), two - 2 * hidden_bytes);
  work.model.norms_per_layer = 2;
  work.model.query_key_norm = true;
  EXPECT_DOUBLE_EQ(kept_bytes(work, {}), two + 4096.0 * 2 * (64 + 8) * 128);
}

// --- how figures move -------------------------------------------------------------------------------------

TEST(LayerTerms, TimeFallsWithTensorParallelism) {
  Workload work = workload_on("h100", "llama-3.1-70b", 8192);
  double before = layer_total(work).forward + layer_total(work).backward();
  for (const std::int32_t tensor : {2, 4, 8}) {
    work.parallel.tensor = tensor;
    const double now = layer_total(work).forward + layer_total(work).backward();
    EXPECT_LT(now, before) << tensor;
    EXPECT_GT(now, 0.49 * before) << tensor
                                  << ": but for the scatter of kernels no device is faster than alone";
    before = now;
  }
}

TEST(LayerTerms, TwiceTheSequenceDoublesProductsAndQuadruplesAttention) {
  const Workload once = workload_on("h100", "llama-3.1-70b", 4096);
  const Workload twice = workload_on("h100", "llama-3.1-70b", 8192);
  EXPECT_NEAR(forward_of(twice, TermKind::gemm) / forward_of(once, TermKind::gemm), 2, 0.1);
  // Attention has four times the operations, but a higher rate, because the rate increases with the sequence.
  const double attention = forward_of(twice, TermKind::attention) / forward_of(once, TermKind::attention);
  EXPECT_GT(attention, 3);
  EXPECT_LT(attention, 4.1);
}

TEST(LayerTerms, KeptBytesAreSharedOutUnderSequenceParallelism) {
  Workload work = workload_on("h100", "llama-3.1-70b", 8192);
  const double whole = kept_bytes(work, {});
  for (const std::int32_t tensor : {2, 4, 8}) {
    work.parallel.tensor = tensor;
    EXPECT_DOUBLE_EQ(kept_bytes(work, {}), whole / tensor);
  }
}

TEST(LayerTerms, EightBitsAreSlowerByNoMoreThanTheirCasts) {
  const Workload wide = workload_on("h100", "llama-3.1-70b", 8192);
  Workload narrow = wide;
  narrow.precision = GemmPrecision::fp8;
  const Term casts = [&] {
    std::vector<Term> of_kind;
    for (const Term& term : layer_terms(narrow, kernels_of(narrow), {}))
      if (term.kind == TermKind::cast) of_kind.push_back(term);
    return total_of(of_kind);
  }();
  EXPECT_LE(layer_total(narrow).forward, layer_total(wide).forward + casts.forward);
  EXPECT_LT(layer_total(narrow).forward, layer_total(wide).forward);
}

TEST(LayerTerms, OverlapHidesAllButOnePart) {
  Workload work = workload_on("h100", "llama-3.1-70b", 8192);
  work.parallel.tensor = 4;
  const double exposed = forward_of(work, TermKind::collective);
  work.parallel.tensor_overlap = false;
  EXPECT_NEAR(forward_of(work, TermKind::collective) / exposed, 4 * work.device.collectives, 1e-9);
}

TEST(LayerTerms, RecomputationIsInTheBackwardPassAlone) {
  Workload work = workload_on("h100", "llama-3.1-70b", 8192);
  const Term kept = layer_total(work);
  work.recompute = LayerRecompute::full;
  const Term again = layer_total(work);
  EXPECT_DOUBLE_EQ(again.forward, kept.forward);
  EXPECT_NEAR(again.backward(), kept.backward() + kept.forward, 1e-12);
  EXPECT_DOUBLE_EQ(kept_bytes(work, {}), 2.0 * 8192 * 8192);
  work.recompute = LayerRecompute::selective;  // a fused kernel stores no activations of the attention core
  EXPECT_DOUBLE_EQ(layer_total(work).backward(), kept.backward());
}

TEST(LayerTerms, WhatIsNotComputedAgainIsKept) {
  Workload experts = workload_on("h100", "mixtral-8x7b", 4096);
  Workload dense = workload_on("h100", "llama-3.1-8b", 4096);
  const LayerKind of_experts = experts.model.layers.front();
  const Term kept = layer_total(experts);
  const double bytes_of_experts = kept_bytes(experts, of_experts);
  const double bytes_of_dense = kept_bytes(dense, {});
  experts.recompute = LayerRecompute::mlp;
  dense.recompute = LayerRecompute::mlp;
  EXPECT_DOUBLE_EQ(layer_total(experts).backward(), kept.backward());
  EXPECT_DOUBLE_EQ(kept_bytes(experts, of_experts), bytes_of_experts);
  EXPECT_DOUBLE_EQ(bytes_of_dense - kept_bytes(dense, {}), 2.0 * 2 * 14336 * 4096);
}

TEST(Recompute, WordsAreMegatrons) {
  using enum RecomputedPart;
  EXPECT_EQ(parse_recompute("none").value(), LayerRecompute::none);
  EXPECT_EQ(parse_recompute("core_attn").value(), LayerRecompute::selective);
  EXPECT_EQ(parse_recompute("mla_up_proj+mlp").value(), (LayerRecompute{mlp, mla_up_proj}));
  EXPECT_EQ(parse_recompute("moe_act, layernorm").value(), (LayerRecompute{norm, moe_act}));
  EXPECT_EQ(to_text(LayerRecompute{mla_up_proj, mlp}), "mlp+mla_up_proj");
  EXPECT_EQ(to_text(LayerRecompute{}), "none");
  EXPECT_EQ(parse_recompute("moe full").error(),
            "expected full alone, got \"moe full\"; leave the other words out");
  EXPECT_EQ(parse_recompute("moe_acts").error(),
            "expected none, or some of selective, norm, activation, mlp, mla_up_proj, moe_act, "
            "shared_experts, moe, full, joined by +, got \"moe_acts\"");
  EXPECT_FALSE(parse_recompute(" "));
}

// The layer runs one sequence of DeepSeek-V3 on one device. It has 128 heads with queries and keys of width
// 192 and values of width 128.
TEST(Recompute, PartsOfALayerOfExperts) {
  using enum RecomputedPart;
  Workload work = workload_on("b200", "deepseek-v3", 4096);
  const LayerKind kind = work.model.layers.back();
  const auto saved = [&](LayerRecompute recompute) {
    Workload with = work;
    with.recompute = recompute;
    return kept_bytes(work, kind) - kept_bytes(with, kind);
  };
  EXPECT_DOUBLE_EQ(saved({mla_up_proj}), 4096.0 * 128 * (2 * 192 + 128) * 2);
  EXPECT_DOUBLE_EQ(saved({moe_act}), 4096.0 * 8 * 2048 * 2);
  EXPECT_DOUBLE_EQ(saved({shared_experts}), 4096.0 * 2048 * 3 * 2);
  EXPECT_GT(saved({moe}), saved({moe_act}) + saved({shared_experts}));
  EXPECT_DOUBLE_EQ(saved({moe, moe_act}), saved({moe}));
  EXPECT_DOUBLE_EQ(saved({moe_act, mla_up_proj}), saved({moe_act}) + saved({mla_up_proj}));
  const auto again_s = [&](LayerRecompute recompute) {
    work.recompute = recompute;
    const auto terms = layer_terms(work, kernels_of(work), kind);
    const auto found = std::ranges::find(terms, "recomputation", &Term::name);
    return found == terms.end() ? 0 : found->backward_input;
  };
  EXPECT_EQ(again_s({selective}), 0);
  EXPECT_GT(again_s({mla_up_proj}), 0);
  EXPECT_NEAR(again_s({mla_up_proj, moe_act}), again_s({mla_up_proj}) + again_s({moe_act}), 1e-12);
  EXPECT_GT(again_s({moe}), 10 * again_s({moe_act}));
  EXPECT_GT(again_s({full}), again_s({moe}) + again_s({mla_up_proj}));
}

const Term* term_of(const std::vector<Term>& terms, std::string_view name) {
  const auto found = std::ranges::find(terms, name, &Term::name);
  return found == terms.end() ? nullptr : &*found;
}

// Each score moves 13 bytes forward and 15 bytes backward, and both adds have a mask. The products compute
// all scores.
TEST(LayerTerms, UnfusedAttentionReadsAndWritesItsScores) {
  Workload work = workload_on("a100", "gpt3-175b", 2048);
  const std::vector<Term> fused = layer_terms(work, kernels_of(work), {});
  work.framework = Framework::megatron_2021;
  const std::vector<Term> unfused = layer_terms(work, kernels_of(work), {});
  const double bytes_a_second = work.device.memory_efficiency * work.device.memory_bytes_per_second;
  const double scores = 2048.0 * 96 * 2048;
  EXPECT_EQ(term_of(fused, "scores"), nullptr);
  EXPECT_DOUBLE_EQ(term_of(unfused, "scores")->forward, 13 * scores / bytes_a_second + 4e-6);
  EXPECT_DOUBLE_EQ(term_of(unfused, "scores")->backward_input, 15 * scores / bytes_a_second + 4e-6);
  EXPECT_EQ(term_of(unfused, "scores")->backward_weight, 0);
  EXPECT_DOUBLE_EQ(term_of(unfused, "attention")->backward(), 2 * term_of(unfused, "attention")->forward);
  EXPECT_GT(term_of(unfused, "attention")->forward, 4 * scores * 128 / work.device.bf16_flops_per_second);
  EXPECT_NEAR(term_of(unfused, "residual adds")->forward - term_of(fused, "residual adds")->forward,
              2 * 2048.0 * 12288 / bytes_a_second, 1e-12);
  work.recompute = LayerRecompute::selective;
  const std::vector<Term> again = layer_terms(work, kernels_of(work), {});
  EXPECT_DOUBLE_EQ(term_of(again, "recomputation")->backward_input,
                   term_of(unfused, "attention")->forward + term_of(unfused, "scores")->forward);
}

// FlashAttention-2 was measured at 333 T operations a second on H100, and the table has a faster kernel. A100
// has no faster kernel.
TEST(LayerTerms, AttentionIsThatOfTheFramework) {
  const auto forward_s = [](const char* device, Framework framework) {
    Workload work = workload_on(device, "llama-3.1-8b", 8192);
    work.framework = framework;
    return term_of(layer_terms(work, kernels_of(work), {}), "attention")->forward;
  };
  const double operations = 2.0 * 2 * 128 * 32 * 8192 * 8192 / 2;
  EXPECT_LT(forward_s("h100", Framework::megatron_te), operations / 400e12);
  EXPECT_NEAR(forward_s("h100", Framework::torchtitan), operations / 333e12, 1e-12);
  EXPECT_NEAR(forward_s("h100", Framework::llm_foundry), 1.8 * operations / 333e12, 1e-12);
  const double on_a100_s = forward_s("a100", Framework::megatron_te);
  EXPECT_DOUBLE_EQ(forward_s("a100", Framework::torchtitan), on_a100_s);
  EXPECT_DOUBLE_EQ(forward_s("a100", Framework::llm_foundry), 1.8 * on_a100_s);
}

// Megatron gathers 16 bits and, for weight gradients, once more. torchtitan gathers 8 bits and stores them.
TEST(LayerTerms, TensorCollectivesAreThoseOfTheFramework) {
  Workload work = workload_on("h100", "llama-3.1-70b", 8192);
  work.parallel.tensor = 8;
  work.precision = GemmPrecision::fp8;
  const auto term = [&](Framework framework) {
    work.framework = framework;
    return *term_of(layer_terms(work, kernels_of(work), {}), "tensor collectives");
  };
  const double bytes = 2 * 8192.0 * 8192;
  const auto seconds = [&](GroupOperation operation, double sent) {
    return 2 * group_seconds(work, kernels_of(work), DeviceGroup::tensor, operation, sent) / 8;
  };
  const double scatter_s = seconds(GroupOperation::reduce_scatter, bytes);
  const double gather_s = seconds(GroupOperation::all_gather, bytes);
  const double short_gather_s = seconds(GroupOperation::all_gather, bytes / 2);
  EXPECT_DOUBLE_EQ(term(Framework::megatron_te).forward, gather_s + scatter_s);
  EXPECT_DOUBLE_EQ(term(Framework::megatron_te).backward(), 2 * gather_s + scatter_s);
  EXPECT_DOUBLE_EQ(term(Framework::torchtitan).forward, short_gather_s + scatter_s);
  EXPECT_DOUBLE_EQ(term(Framework::torchtitan).backward(), short_gather_s + scatter_s);
}

// FSDP copies and converts each gradient, and no kernel of a product adds it to a sum.
TEST(LayerTerms, GradientsAreCopiedAsInTheFramework) {
  Workload work = workload_on("h100", "llama-3.1-8b", 8192);
  const double bytes_a_second = work.device.memory_efficiency * work.device.memory_bytes_per_second;
  const double weights = 4096.0 * 4096;
  const auto seconds = [&](Framework framework) {
    work.framework = framework;
    return term_of(layer_terms(work, kernels_of(work), {}), "projection accumulation")->backward_weight;
  };
  EXPECT_DOUBLE_EQ(seconds(Framework::megatron_te), 0.4 * 2 * 4 * weights / bytes_a_second);
  EXPECT_DOUBLE_EQ(seconds(Framework::torchtitan), 6 * weights / bytes_a_second);
  EXPECT_DOUBLE_EQ(seconds(Framework::llm_foundry), 10 * weights / bytes_a_second);
  EXPECT_DOUBLE_EQ(term_of(layer_terms(work, kernels_of(work), {}), "separate kernels")->backward(),
                   20 * 8192.0 * 4096 / bytes_a_second);
}

TEST(LayerTerms, TheLossIsThatOfTheFramework) {
  Workload work = workload_on("a100", "gpt3-175b", 2048);
  const double logits = 2048.0 * static_cast<double>(work.model.vocabulary);
  const double bytes_a_second = work.device.memory_efficiency * work.device.memory_bytes_per_second;
  const auto loss = [&](Framework framework) {
    work.framework = framework;
    return *term_of(head_terms(work, kernels_of(work)), "loss");
  };
  EXPECT_DOUBLE_EQ(loss(Framework::megatron_te).forward, 6 * logits / bytes_a_second + 2e-6);
  EXPECT_DOUBLE_EQ(loss(Framework::torchtitan).forward, 16 * logits / bytes_a_second + 2e-6);
  EXPECT_DOUBLE_EQ(loss(Framework::torchtitan).backward(), 22 * logits / bytes_a_second + 2e-6);
}

// The head's product has 16 bits in every run.
TEST(LayerTerms, ProductsAreSlowedByTheFactorOfTheirPrecision) {
  Workload work = workload_on("h100", "llama-3.1-70b", 8192);
  work.precision = GemmPrecision::fp8;
  const auto head_s = [&] { return head_terms(work, kernels_of(work)).front().forward; };
  const auto layer_s = [&] { return forward_of(work, TermKind::gemm); };
  const double usual_head_s = head_s();
  const double usual_layer_s = layer_s();
  work.device.sustained_fp8 *= 1.1;
  EXPECT_EQ(head_s(), usual_head_s);
  EXPECT_NEAR(layer_s(), 1.1 * usual_layer_s, 1e-9);
  work.device.sustained *= 1.1;
  EXPECT_NEAR(head_s(), 1.1 * usual_head_s, 1e-9);
  EXPECT_NEAR(layer_s(), 1.1 * usual_layer_s, 1e-9);
}

// A norm moves 4 bytes a value in the forward pass and 8 in the backward pass, and each kernel needs 2 us to
// launch. Gemma 2 and 3 have one more norm after each part. Qwen3, Gemma 3 and OLMo 2 have norms of queries
// and keys. Falcon and Cohere have one norm for both parts.
TEST(LayerTerms, NormsAreThoseOfTheConfiguration) {
  Workload work = workload_on("h100", "llama-3.1-70b", 4096);
  const double bytes_a_second = work.device.memory_efficiency * work.device.memory_bytes_per_second;
  const double hidden = 4096.0 * 8192;
  const auto terms_of = [&] { return layer_terms(work, kernels_of(work), {}); };
  const std::vector<Term> two = terms_of();
  EXPECT_DOUBLE_EQ(term_of(two, "norms")->forward, 2 * hidden * 4 / bytes_a_second + 4e-6);
  EXPECT_EQ(term_of(two, "norms behind"), nullptr);
  EXPECT_EQ(term_of(two, "norms of queries and keys"), nullptr);
  work.model.norms_per_layer = 1;
  EXPECT_DOUBLE_EQ(term_of(terms_of(), "norms")->forward, hidden * 4 / bytes_a_second + 2e-6);
  work.model.norms_per_layer = 4;
  EXPECT_DOUBLE_EQ(term_of(terms_of(), "norms")->forward, term_of(two, "norms")->forward);
  EXPECT_DOUBLE_EQ(term_of(terms_of(), "norms behind")->backward(), 2 * hidden * 8 / bytes_a_second + 4e-6);
  work.model.query_key_norm = true;
  EXPECT_DOUBLE_EQ(term_of(terms_of(), "norms of queries and keys")->forward,
                   4096.0 * (64 + 8) * 128 * 4 / bytes_a_second + 4e-6);
}

TEST(LayerTerms, LatentsHaveNormsOnEveryDevice) {
  Workload work = workload_on("h100", "deepseek-v2", 4096);
  const auto norms_s = [&] {
    return term_of(layer_terms(work, kernels_of(work), work.model.layers.back()), "norms of latents")
        ->forward;
  };
  const double alone = norms_s();
  const double bytes_a_second = work.device.memory_efficiency * work.device.memory_bytes_per_second;
  EXPECT_DOUBLE_EQ(alone, 4096.0 * (1536 + 512) * 4 / bytes_a_second + 4e-6);
  work.parallel.tensor = 4;
  EXPECT_DOUBLE_EQ(norms_s(), alone);
}

// DeepSeek-V2 has 128 heads with keys of width 192 and values of width 128. The ring sends the keys and
// values that attention reads, and not the latents. An all-to-all also sends queries and outputs.
TEST(LayerTerms, LatentAttentionsKeysAndValuesGoRoundInTheirOwnWidths) {
  Workload work = workload_on("h100", "deepseek-v2", 256);
  work.parallel.context = 16;
  work.device.network_bytes_per_second /= 8;  // with this rate, the ring takes longer than attention
  const auto exchanged_s = [&](std::string_view name) {
    return term_of(layer_terms(work, kernels_of(work), work.model.layers.back()), name)->forward;
  };
  const double latency_s = static_cast<double>(work.device.link_latency_ns) * 1e-9;
  const double attention_s = exchanged_s("attention");
  const double bytes = 2 * 16.0 * 128 * (192 + 128);
  const double card = work.device.link_bytes_per_second(false);
  // Eight of the sixteen devices are in a node. Of the sixteen steps, the last one sends nothing.
  EXPECT_NEAR(exchanged_s("keys round the ring"), 15 * (bytes / (8 * card) + latency_s - attention_s / 16),
              1e-12);
  work.parallel.context_exchange = ContextExchange::all_to_all;
  EXPECT_NEAR(exchanged_s("heads for tokens"), 2 * 16.0 * 2 * 128 * (192 + 128) * 8 / 16 / card + latency_s,
              1e-12);
}

// Device 1 of 2 holds the second and the third of four parts of a sequence:
//
//   step 1   queries 2 3 on keys 2 3, causal        step 2   queries 2 3 on keys 1 of the other device
//
// Each step has as many scores as causal attention on half of the sequence, and its kernel is as slow.
TEST(LayerTerms, ARingRunsAttentionInAsManyStepsAsItHasDevices) {
  for (const std::int32_t context : {2, 4, 8}) {
    Workload ring = workload_on("h100", "llama-3.1-8b", 8192);
    ring.parallel.context = context;
    const Workload part = workload_on("h100", "llama-3.1-8b", 8192 / context);
    const auto attention = [](const Workload& work) {
      return *term_of(layer_terms(work, kernels_of(work), {}), "attention");
    };
    EXPECT_DOUBLE_EQ(attention(ring).forward, context * attention(part).forward);
    EXPECT_DOUBLE_EQ(attention(ring).backward_input, context * attention(part).backward_input);
    const Workload whole = workload_on("h100", "llama-3.1-8b", 8192);
    EXPECT_GT(attention(ring).forward * context, attention(whole).forward) << "shorter kernels are slower";
  }
}

// A device has 4096 tokens, 32 heads of width 128 and 8 key heads, and the ring has 2 steps. In the forward
// pass, 4.5 bytes move for each value of the outputs, and 1 byte for each value of queries, keys and values.
// In the backward pass, 4.5 + 1 bytes move for queries, 2 for outputs, and 4.5 + 3 + 1 for keys and values.
TEST(LayerTerms, ARingCopiesAndMergesAroundItsSteps) {
  Workload work = workload_on("h100", "llama-3.1-8b", 8192);
  const auto around = [&] { return layer_terms(work, kernels_of(work), {}); };
  EXPECT_EQ(term_of(around(), "around ring steps"), nullptr);
  work.parallel.context = 2;
  const std::vector<Term> terms = around();
  const double bytes_a_second = work.device.memory_efficiency * work.device.memory_bytes_per_second;
  const double heads = 32 * 128;
  const double keys_and_values = 2 * 8 * 128;
  EXPECT_DOUBLE_EQ(term_of(terms, "around ring steps")->forward,
                   2 * 4096 * (4.5 * heads + heads + keys_and_values) / bytes_a_second + 2 * 3 * 2e-6);
  EXPECT_DOUBLE_EQ(term_of(terms, "around ring steps")->backward(),
                   2 * 4096 * (7.5 * heads + 8.5 * keys_and_values) / bytes_a_second + 2 * 5 * 2e-6);
  work.parallel.context_exchange = ContextExchange::all_to_all;
  EXPECT_EQ(term_of(around(), "around ring steps"), nullptr);
}

TEST(LayerTerms, AStepOfTheRingHidesAFastExchange) {
  Workload work = workload_on("h100", "llama-3.1-8b", 8192);
  work.parallel.context = 4;
  const auto exchange = [&] { return layer_terms(work, kernels_of(work), {}); };
  EXPECT_EQ(term_of(exchange(), "keys round the ring"), nullptr);
  work.device.nvlink_bytes_per_second /= 100;
  EXPECT_GT(term_of(exchange(), "keys round the ring")->forward, 0);
}

TEST(LayerTerms, TheHostIsNeverFasterThanItsFloor) {
  Workload work = workload_on("a100", "llama-3.1-8b", 256);
  work.host_layer_seconds = 3.6e-3;
  EXPECT_NEAR(layer_total(work).forward, 1.2e-3, 1e-12);
  EXPECT_NEAR(layer_total(work).backward(), 2.4e-3, 1e-12);
}

// --- where groups are -------------------------------------------------------------------------------------

// GB200 with tensor 4, context 2 and eight stages. If stages are adjacent, 64 of the 72 devices of an NVLink
// domain contain the whole pipeline, and copies communicate over the network. In the other order, copies are
// inside a domain, and stages communicate over the network.
TEST(Placement, DecidesWhatCrossesTheNetwork) {
  Parallel parallel{.tensor = 4, .context = 2, .data = 4, .order = PlacementOrder::tp_cp_ep_pp_dp};
  const DeviceType& gb200 = *find_device_type("gb200");
  EXPECT_TRUE(is_on_nvlink(parallel, 8, DeviceGroup::pipeline, gb200));
  EXPECT_FALSE(is_on_nvlink(parallel, 8, DeviceGroup::data, gb200));
  parallel.order = PlacementOrder::tp_cp_ep_dp_pp;
  EXPECT_FALSE(is_on_nvlink(parallel, 8, DeviceGroup::pipeline, gb200));
  EXPECT_TRUE(is_on_nvlink(parallel, 8, DeviceGroup::data, gb200));
  EXPECT_FALSE(is_on_nvlink(parallel, 8, DeviceGroup::pipeline, *find_device_type("h100")));
}

TEST(Placement, OfOneStageHasNoEdgeThatCrossesTheNetwork) {
  const Parallel parallel{.tensor = 2, .data = 8};
  const DeviceType& h100 = *find_device_type("h100");
  EXPECT_TRUE(is_on_nvlink(parallel, 1, DeviceGroup::pipeline, h100));
  EXPECT_FALSE(is_on_nvlink(parallel, 2, DeviceGroup::pipeline, h100));
}

// Llama 405B with tensor 8, eight stages, context 2 and four copies uses 512 devices, and each rank has 16
// devices.
TEST(Placement, CountsDevices) {
  const Parallel parallel{.tensor = 8, .context = 2, .data = 4};
  EXPECT_EQ(device_count(parallel, 8), 512);
  EXPECT_EQ(parallel.devices_per_rank(), 16);
}

TEST(Placement, ExpertsShareTheDevicesOfCopies) {
  Parallel parallel{.expert = 8, .data = 8, .order = PlacementOrder::tp_cp_ep_pp_dp};
  EXPECT_EQ(parallel.expert_copies(), 1);
  EXPECT_EQ(group_span(parallel, 1, DeviceGroup::expert), 8);
  EXPECT_EQ(group_span(parallel, 4, DeviceGroup::expert), 32);  // including the stages between copies
}

// Each NVLink domain has eight devices. Adjacent members fill whole domains. If stages are between copies, a
// domain contains only the devices of one rank, or of all copies that begin in this domain.
TEST(Placement, CountsTheDomainsAmongWhichExpertsAreSpread) {
  const DeviceType& h100 = *find_device_type("h100");
  const auto domains = [&](const Parallel& parallel, std::int32_t ranks) {
    return group_domains(parallel, ranks, DeviceGroup::expert, h100);
  };
  constexpr PlacementOrder kCopiesLast = PlacementOrder::tp_cp_ep_pp_dp;
  const Parallel one{.expert = 8, .data = 8, .order = kCopiesLast};
  EXPECT_EQ(domains(one, 1), 1);
  EXPECT_EQ(domains(one, 2), 2);
  EXPECT_EQ(domains(one, 4), 4);
  EXPECT_EQ(domains(one, 16), 8);
  const Parallel pairs{.tensor = 2, .expert = 8, .data = 4, .order = kCopiesLast};
  EXPECT_EQ(domains(pairs, 4), 4);
  const Parallel wide{.tensor = 8, .expert = 32, .data = 8, .order = kCopiesLast};
  EXPECT_EQ(domains(wide, 4), 4) << "each copy's part fills a domain";
  const Parallel nearer{.expert = 32, .data = 32, .order = PlacementOrder::tp_cp_ep_dp_pp};
  EXPECT_EQ(domains(nearer, 16), 4);
}

/// The position of a device in the pipeline and among its copies.
struct Coordinates {
  std::int64_t tensor = 0;
  std::int64_t context = 0;
  std::int64_t stage = 0;
  std::int64_t copy = 0;
};

/// Returns the device at these coordinates, counted one by one in the order of the placement.
std::int64_t device_at(const Parallel& parallel, std::int64_t ranks, const Coordinates& at) {
  std::int64_t device = 0;
  const bool stages_are_nearer = parallel.order == PlacementOrder::tp_cp_ep_pp_dp;
  const std::int64_t outer_count = stages_are_nearer ? parallel.data : ranks;
  const std::int64_t inner_count = stages_are_nearer ? ranks : parallel.data;
  for (std::int64_t outer = 0; outer < outer_count; ++outer) {
    for (std::int64_t inner = 0; inner < inner_count; ++inner) {
      for (std::int64_t context = 0; context < parallel.context; ++context) {
        for (std::int64_t tensor = 0; tensor < parallel.tensor; ++tensor, ++device) {
          const std::int64_t stage = stages_are_nearer ? inner : outer;
          const std::int64_t copy = stages_are_nearer ? outer : inner;
          if (tensor == at.tensor && context == at.context && stage == at.stage && copy == at.copy)
            return device;
        }
      }
    }
  }
  return -1;
}

/// Returns a list of all devices of the group that contains device 0.
std::vector<std::int64_t> first_group(const Parallel& parallel, std::int32_t ranks, DeviceGroup group) {
  std::vector<std::int64_t> devices;
  std::int64_t number = 0;  // within tensor x context x copies, which experts divide
  for (std::int64_t copy = 0; copy < parallel.data; ++copy) {
    for (std::int64_t context = 0; context < parallel.context; ++context) {
      for (std::int64_t tensor = 0; tensor < parallel.tensor; ++tensor, ++number) {
        const bool is_member = group == DeviceGroup::tensor    ? context == 0 && copy == 0
                               : group == DeviceGroup::context ? tensor == 0 && copy == 0
                               : group == DeviceGroup::data    ? tensor == 0
                               : group == DeviceGroup::expert  ? number < parallel.expert
                                                               : number % parallel.expert == 0;
        if (is_member)
          devices.push_back(device_at(parallel, ranks, {.tensor = tensor, .context = context, .copy = copy}));
      }
    }
  }
  return devices;
}

/// Returns the rate of a group that crosses domains. It counts the members in each domain one by one.
double slow_rate(const std::vector<std::int64_t>& devices, const DeviceType& device) {
  std::map<std::int64_t, double> members;  // by domain
  for (const std::int64_t one : devices) ++members[one / device.nvlink_devices];
  const double nvlink = device.nvlink_bytes_per_second * device.nvlink_efficiency;
  if (members.size() == 1) return nvlink;
  double sum = 0;
  for (const auto& [domain, count] : members) sum += count;
  const double cards = sum / static_cast<double>(members.size());
  return std::min(cards * device.network_bytes_per_second * device.network_efficiency, nvlink);
}

// Eight copies of a weight in a node of H100 have eight network cards of 40 GB/s. Together these have 320
// GB/s, and NVLink has 337.5 GB/s.
TEST(Placement, AGroupUsesTheNetworkCardsOfAllItsMembersInADomain) {
  const DeviceType& h100 = *find_device_type("h100");
  const auto rate = [&](const Parallel& parallel, std::int32_t ranks) {
    return group_bytes_per_second(parallel, ranks, DeviceGroup::data, h100);
  };
  EXPECT_DOUBLE_EQ(rate({.data = 8}, 1), 337.5e9);
  EXPECT_DOUBLE_EQ(rate({.data = 16}, 1), 320e9);
  EXPECT_DOUBLE_EQ(rate({.tensor = 2, .data = 16}, 1), 160e9);
  EXPECT_DOUBLE_EQ(rate({.tensor = 8, .data = 16}, 1), 40e9);
  EXPECT_DOUBLE_EQ(rate({.tensor = 4, .context = 2, .data = 16}, 1), 80e9) << "context has copies as well";
  const Parallel pipeline{.data = 16, .order = PlacementOrder::tp_cp_ep_pp_dp};
  EXPECT_DOUBLE_EQ(rate(pipeline, 4), 80e9) << "stages lie between copies";
  DeviceType fast = h100;
  fast.network_bytes_per_second *= 2;
  EXPECT_DOUBLE_EQ(group_bytes_per_second({.data = 16}, 1, DeviceGroup::data, fast), 337.5e9)
      << "NVLink passes the data on";
}

TEST(Placement, RatesAreThoseOfDevicesThatAreCountedOneByOne) {
  int crossing = 0;
  for (const char* name : {"h100", "gb200"}) {
    const DeviceType& device = *find_device_type(name);
    for (const PlacementOrder order : {PlacementOrder::tp_cp_ep_pp_dp, PlacementOrder::tp_cp_ep_dp_pp}) {
      for (const std::int32_t tensor : {1, 2, 4, 8, 16}) {
        for (const std::int32_t context : {1, 2, 4}) {
          for (const std::int32_t expert : {1, 2, 8, 32}) {
            for (const std::int32_t ranks : {1, 2, 8}) {
              const Parallel parallel{
                  .tensor = tensor, .context = context, .expert = expert, .data = 32, .order = order};
              // If a copy is larger than a domain of 72 GB200, copies begin at different positions of a
              // domain.
              const std::int64_t copy = std::int64_t{tensor} * context * ranks;
              if (copy > device.nvlink_devices && copy % device.nvlink_devices != 0) continue;
              for (const DeviceGroup group : {DeviceGroup::tensor, DeviceGroup::context, DeviceGroup::data,
                                              DeviceGroup::expert, DeviceGroup::expert_copies}) {
                if (is_on_nvlink(parallel, ranks, group, device)) continue;
                const std::vector<std::int64_t> devices = first_group(parallel, ranks, group);
                ASSERT_EQ(std::ssize(devices), group_size(parallel, ranks, group));
                if (devices.back() < device.nvlink_devices) continue;  // only a later group crosses
                ++crossing;
                EXPECT_DOUBLE_EQ(group_bytes_per_second(parallel, ranks, group, device),
                                 slow_rate(devices, device))
                    << name << ' ' << to_text(order) << " tensor " << tensor << " context " << context
                    << " expert " << expert << " stages " << ranks << " group " << static_cast<int>(group);
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(crossing, 500);
}

// There are sixteen devices on two nodes. Half of each buffer leaves the node through the device's own
// network card.
TEST(Placement, AnAllToAllSendsOverEachDevicesOwnCard) {
  Workload work = workload_on("h100", "llama-3.1-8b", 8192);
  work.parallel.context = 16;
  const double latency_s = static_cast<double>(work.device.link_latency_ns) * 1e-9;
  EXPECT_DOUBLE_EQ(
      group_seconds(work, kernels_of(work), DeviceGroup::context, GroupOperation::all_to_all, 1e9),
      1e9 * 8 / 16 / 40e9 + latency_s);
}

// In a ring of sixteen devices on two nodes, one of the fifteen steps crosses the network.
TEST(Placement, ARingHasTheLatencyOfAllItsSteps) {
  Workload work = workload_on("h100", "llama-3.1-8b", 8192);
  work.parallel.context = 16;
  const auto seconds = [&](GroupOperation operation) {
    return group_seconds(work, kernels_of(work), DeviceGroup::context, operation, 1e9);
  };
  const double pass_s = 1e9 * 15 / 16 / 320e9 + 14 * 3.4e-6 + 14e-6;
  EXPECT_DOUBLE_EQ(seconds(GroupOperation::all_gather), pass_s);
  EXPECT_DOUBLE_EQ(seconds(GroupOperation::all_reduce), 2 * pass_s);
}

/// The share of the peak that the first product of a layer's experts reaches.
double experts_share(Workload work, std::int64_t samples) {
  work.micro_batch_size = samples;
  const Experts& experts = *work.model.experts;
  const double operations = 2 * work.tokens() * static_cast<double>(experts.per_token) *
                            static_cast<double>(2 * experts.inner * work.model.hidden);
  const auto terms = layer_terms(work, kernels_of(work), work.model.layers.back());
  return operations / term_of(terms, "experts fc1")->forward / peak_flops(work.device, work.precision);
}

// DeepSeek-V2 runs on 8 devices with 20 experts each. Each expert has 1 228.8 rows for each sample. The
// measured rates are 0.48 of 2250 TFLOP/s with 1 232 rows, and 0.49 with 2 460 rows.
TEST(GroupedProducts, TakeWhatAMachineMeasured) {
  Workload work = workload_on("b200", "deepseek-v2", 4096);
  work.parallel.expert = work.parallel.data = 8;
  EXPECT_NEAR(experts_share(work, 1), 0.48, 0.01);
  EXPECT_NEAR(experts_share(work, 2), 0.487, 0.01);
}

TEST(GroupedProducts, AreSlowForManySmallExpertsOnEveryDevice) {
  for (const char* device : {"a100", "h100", "b200", "gb300"}) {
    SCOPED_TRACE(device);
    Workload few = workload_on(device, "qwen3-30b-a3b", 4096);
    few.parallel.expert = few.parallel.data = 8;
    Workload many = few;
    many.parallel.expert = many.parallel.data = 1;
    EXPECT_GT(experts_share(few, 1), 1.2 * experts_share(many, 1)) << "2048 rows an expert, and 256";
  }
}

/// Returns the seconds of a DeepEP exchange in a layer of Mixtral. Each of eight copies has one of the
/// experts.
double exchange_s(std::int32_t ranks, PlacementOrder order) {
  Workload work = workload_on("h100", "mixtral-8x7b", 4096);
  work.parallel.expert = 8;
  work.parallel.data = 8;
  work.parallel.order = order;
  work.parallel.expert_dispatch = ExpertDispatch::deepep;
  work.ranks = ranks;
  return term_of(layer_terms(work, kernels_of(work), work.model.layers.front()), "dispatch")->forward;
}

// On average, a token's two experts are on 8 (1 - (7/8)^2) of eight nodes, and on 2 (1 - (1/2)^2) of two
// nodes. With n nodes, (n-1)/n of these messages leave the token's own node.
TEST(Placement, OfExpertsOverMoreNodesThanTheyNeedSendsMore) {
  const double on_two = exchange_s(2, PlacementOrder::tp_cp_ep_pp_dp);
  const double on_eight = exchange_s(8, PlacementOrder::tp_cp_ep_pp_dp);
  constexpr double kLatencySeconds = 5e-6;
  EXPECT_NEAR((on_eight - kLatencySeconds) / (on_two - kLatencySeconds),
              8 * (1 - 49.0 / 64) * 7 / 8 / (2 * (1 - 0.25) / 2), 1e-6);
  EXPECT_LT(exchange_s(8, PlacementOrder::tp_cp_ep_dp_pp), on_two) << "neighbours on one NVLink";
}

/// Returns the terms of a layer of Qwen3-30B with experts on 32 H100, which are four nodes.
std::vector<Term> qwen_terms(ExpertDispatch dispatch, bool in_8_bits = false) {
  Workload work = workload_on("h100", "qwen3-30b-a3b", 4096);
  work.parallel.expert = work.parallel.data = 32;
  work.parallel.expert_dispatch = dispatch;
  work.parallel.fp8_dispatch = in_8_bits;
  return layer_terms(work, kernels_of(work), work.model.layers.front());
}

// Each of a token's 8 rows leaves its node with probability 3/4. A token that is sent once leaves for
// 4 (1 - (3/4)^8) 3/4 nodes.
TEST(ExpertDispatch, SendsATokenOnceToEachNode) {
  const double row_s = 2.0 * 4096 * 2048 / 40e9;
  const double latency_s = 5e-6;
  constexpr double kDirectRate = 1.1;  // a token that is sent once goes at 44 GB/s
  const std::vector<Term> all = qwen_terms(ExpertDispatch::alltoall);
  EXPECT_NEAR(term_of(all, "dispatch")->forward, 8 * 0.75 * row_s + latency_s, 1e-9);
  const std::vector<Term> once = qwen_terms(ExpertDispatch::deepep);
  const double once_s = 4 * (1 - std::pow(0.75, 8)) * 0.75 * row_s / kDirectRate + latency_s;
  for (const char* name : {"dispatch", "combine"}) {
    EXPECT_NEAR(term_of(once, name)->forward, once_s, 1e-9);
    EXPECT_NEAR(term_of(once, name)->backward_input, once_s, 1e-9);
  }
  EXPECT_NEAR(term_of(qwen_terms(ExpertDispatch::hybridep), "combine")->forward, once_s, 1e-9);
}

// DeepSeek-V3 has eight groups of experts, and a token chooses four of them. With 32 devices, each of four
// nodes has two groups. Neither of them is chosen by 6/8 5/7 4/6 3/5 = 15/70 of the tokens, one by 40/70 and
// both by 15/70. Its eight experts then miss the node with the probability (3/4)^8 or (1/2)^8.
TEST(ExpertDispatch, SendsATokenOnlyToNodesOfItsGroups) {
  Workload work = workload_on("h100", "deepseek-v3", 4096);
  work.parallel.expert = work.parallel.data = 32;
  work.parallel.expert_dispatch = ExpertDispatch::deepep;
  const double reached = 40.0 / 70 * (1 - std::pow(0.75, 8)) + 15.0 / 70 * (1 - std::pow(0.5, 8));
  const auto terms = layer_terms(work, kernels_of(work), work.model.layers.back());
  EXPECT_NEAR(term_of(terms, "dispatch")->forward, 3 * reached * 2.0 * 4096 * 7168 / 44e9 + 5e-6, 1e-9);
}

TEST(ExpertDispatch, In8BitsHalvesOnlyTheWayToTheExperts) {
  const std::vector<Term> in_16 = qwen_terms(ExpertDispatch::deepep);
  const std::vector<Term> in_8 = qwen_terms(ExpertDispatch::deepep, true);
  constexpr double kLatencySeconds = 5e-6;
  EXPECT_NEAR(2 * (term_of(in_8, "dispatch")->forward - kLatencySeconds),
              term_of(in_16, "dispatch")->forward - kLatencySeconds, 1e-9);
  EXPECT_EQ(term_of(in_8, "dispatch")->backward_input, term_of(in_16, "dispatch")->backward_input);
  EXPECT_EQ(term_of(in_8, "combine")->forward, term_of(in_16, "combine")->forward);
}

// Eight devices are on one NVLink domain. The 8 experts of a token are on 8 (1 - (7/8)^8) = 5.25 devices on
// average. One eighth of these is the token's own device.
TEST(ExpertDispatch, SendsATokenOnceToEachDeviceOfANode) {
  Workload work = workload_on("h100", "qwen3-30b-a3b", 4096);
  work.parallel.expert = work.parallel.data = 8;
  work.parallel.expert_dispatch = ExpertDispatch::deepep;
  const auto terms = layer_terms(work, kernels_of(work), work.model.layers.front());
  EXPECT_NEAR(term_of(terms, "dispatch")->forward,
              8 * (1 - std::pow(7.0 / 8, 8)) * 7 / 8 * 2 * 4096 * 2048 / (0.75 * 450e9) + 5e-6, 1e-9);
}

// If a model has only layers of experts, its configuration may leave out the width of dense layers. The width
// is then 1.
TEST(WorkloadFaults, AWidthThatNoLayerHasDividesNothing) {
  Workload work = workload_on("h100", "mixtral-8x7b", 4096);
  work.model.feed_forward = 1;
  work.parallel.tensor = 2;
  EXPECT_EQ(fault_of(work), std::nullopt);
  work.model.layers.front().has_experts = false;
  EXPECT_EQ(fault_of(work),
            "parallel.tensor: expected a number that divides the feed-forward width, 1, got 2");
}

TEST(WorkloadFaults, ADeviceIsNoSlowerInFewerBits) {
  Workload work = workload_on("h100", "llama-3.1-70b", 4096);
  work.precision = GemmPrecision::fp8;
  EXPECT_EQ(fault_of(work), std::nullopt);
  work.device.fp8_flops_per_second = 500e12;
  EXPECT_EQ(fault_of(work),
            "cluster.fp8_flops: expected at least cluster.flops, 989.4 TFLOP/s, got 500 TFLOP/s; change one "
            "of them or take training.precision: bf16");
  work.precision = GemmPrecision::bf16;
  EXPECT_EQ(fault_of(work), std::nullopt) << "nobody asks for its 8 bits";
}

// --- the peak ---------------------------------------------------------------------------------------------

/// Returns the model's operations as a share of the operations that the device could run at its peak in the
/// same time. The whole model is on one rank.
double part_of_peak(const Workload& work, const KernelTables& kernels) {
  const std::vector<std::int64_t> layers = {static_cast<std::int64_t>(work.model.layers.size())};
  const StagePrice price = price_stages(work, kernels, layers, std::vector<std::int32_t>{0}).front();
  const double seconds = price.forward_s + price.backward_input_s + price.backward_weight_s;
  return flops_per_sample(work.model, work.sequence) / (seconds * peak_flops(work.device, work.precision));
}

// With a factor of 0.01, products would take a hundredth of the time of bursts.
TEST(Peak, NoFactorMakesADeviceFasterThanItIs) {
  for (const char* model : {"llama-3.1-70b", "mixtral-8x7b", "deepseek-v2"}) {
    for (const GemmPrecision precision : {GemmPrecision::bf16, GemmPrecision::fp8}) {
      SCOPED_TRACE(model);
      Workload work = workload_on("h100", model, 4096);
      work.precision = precision;
      const double usual = part_of_peak(work, kernels_of(work));
      work.device.*sustained_of(precision) = 0.01;
      work.unexplained_expert_seconds = 0;
      const double fastest = part_of_peak(work, kernels_of(work));
      EXPECT_GT(fastest, usual);
      EXPECT_LT(fastest, 1);
    }
  }
}

TEST(Peak, NorDoesATable) {
  const Workload work = workload_on("h100", "llama-3.1-8b", 4096);
  KernelTables tables = *built_in_kernels(work.device);
  ASSERT_TRUE(tables.read_gemms("dtype,m,n,k,us\nbf16,1024,1024,1024,0.001\n", {}));
  ASSERT_TRUE(
      tables.read_attention("dtype,head_dim,heads,kv_heads,batch,seq,us\nbf16,128,8,8,1,1024,1e-4\n"));
  EXPECT_LT(part_of_peak(work, tables), 1);
}

TEST(Peak, AStatedOneIsWhatProductsAreShortOf) {
  Workload work = workload_on("h100", "llama-3.1-8b", 4096);
  const double usual = part_of_peak(work, *stated_kernels(work.device));
  work.device.bf16_flops_per_second /= 1000;
  const auto stated = stated_kernels(work.device);
  const double of_slow = part_of_peak(work, *stated);
  EXPECT_GT(of_slow, usual) << "all but products and attention is as fast as before";
  EXPECT_LT(of_slow, 1);
}

// --- steps ------------------------------------------------------------------------------------------------

/// Returns the exposed seconds of a step, computed directly from the two formulas in stage_prices.cpp.
double slow_exposed_s(const Workload& work, double parameters, const ComputeSeconds& beside) {
  const double buckets = parameters / static_cast<double>(work.parallel.bucket_size);
  const auto ring = [&](GroupOperation operation, double bytes) {
    return copies_seconds(work, kernels_of(work), operation, {.dense = parameters}, bytes);
  };
  const double reduce_s = ring(GroupOperation::reduce_scatter, work.gradient_bytes);
  const double gather_s = ring(GroupOperation::all_gather, 2);
  double exposed_reduce_s = std::max(reduce_s / buckets, reduce_s - beside.backward_s);
  if (work.parallel.data > work.device.nvlink_devices)
    exposed_reduce_s += work.device.step_fraction * reduce_s;
  return std::min(exposed_reduce_s, reduce_s) + std::max(gather_s / buckets, gather_s - beside.forward_s);
}

double exposed_s(const Workload& work, const ComputeSeconds& beside) {
  return reduction_seconds(work, kernels_of(work), {.dense = 1e9}, beside, {});
}

Workload copies_of_70b(std::int32_t data) {
  Workload work = workload_on("h100", "llama-3.1-70b", 8192);
  work.parallel.data = data;
  return work;
}

// 1e9 parameters have 25 buckets of 40 million.
TEST(Step, ComputationHidesAllButOneBucket) {
  const Workload work = copies_of_70b(8);
  const double all_s = exposed_s(work, {});
  const ComputeSeconds plenty{.forward_s = 10, .backward_s = 20};
  EXPECT_NEAR(exposed_s(work, plenty), all_s / 25, 1e-12);
  Workload alone = work;
  alone.parallel.data_overlap = false;
  EXPECT_DOUBLE_EQ(exposed_s(alone, plenty), all_s);
  EXPECT_DOUBLE_EQ(exposed_s(alone, {}), all_s);
}

TEST(Step, AShortPassHidesAsLongAsItRuns) {
  const Workload work = copies_of_70b(8);
  const double all_s = exposed_s(work, {});
  EXPECT_NEAR(exposed_s(work, {.forward_s = 0.001, .backward_s = 0.003}), all_s - 0.004, 1e-12);
}

TEST(Step, ABucketOfEverythingHidesNothing) {
  Workload work = copies_of_70b(8);
  const double all_s = exposed_s(work, {});
  work.parallel.bucket_size = 2'000'000'000;
  EXPECT_DOUBLE_EQ(exposed_s(work, {.forward_s = 10, .backward_s = 20}), all_s);
}

TEST(Step, FollowsTheRulesOfBuckets) {
  for (const std::int32_t data : {2, 8, 16, 64}) {
    for (const std::int64_t bucket : {10'000'000, 40'000'000, 400'000'000}) {
      for (const double seconds : {0.0, 0.001, 0.01, 0.1}) {
        Workload work = copies_of_70b(data);
        work.parallel.bucket_size = bucket;
        const ComputeSeconds beside{.forward_s = seconds, .backward_s = 2 * seconds};
        EXPECT_NEAR(exposed_s(work, beside), slow_exposed_s(work, 1e9, beside), 1e-12)
            << data << " copies, buckets of " << bucket << ", " << seconds << " s";
      }
    }
  }
}

// The copies are on eight nodes. Over the network, a share of the reduction is exposed in addition to the
// last bucket, but never more than the whole reduction.
TEST(Step, OverTheNetworkExposesNoMoreThanAllOfTheReduction) {
  Workload work = copies_of_70b(64);
  work.device.nvlink_step_ns = work.device.network_step_ns = 0;
  const double all_s = exposed_s(work, {});
  const ComputeSeconds plenty{.forward_s = 10, .backward_s = 20};
  // Gradients have 4 bytes, and gathered weights have 2 bytes. So a third of all bytes belongs to weights.
  // For 64 copies, a bucket has 64 million of the 1e9 values.
  work.device.step_fraction = 0.3;
  EXPECT_NEAR(exposed_s(work, plenty) / all_s, (2 * (0.04 + 0.3) + 0.04) / 3, 1e-9);
  work.device.step_fraction = 1;
  EXPECT_NEAR(exposed_s(work, plenty) / all_s, (2 * 1 + 0.04) / 3, 1e-9);
}

// All buckets of a step have the latency of one collective. If layers have collectives of their own, each has
// it.
TEST(Step, EachLayerHasTheLatencyOfItsRing) {
  Workload work = copies_of_70b(512);
  const double pass_s = 448 * 3.4e-6 + 63 * 14e-6;
  const auto gather_s = [&](double collectives) {
    return copies_seconds(work, kernels_of(work), GroupOperation::all_gather, {.dense = 1e9}, 2, collectives);
  };
  EXPECT_NEAR(gather_s(1), 2e9 * 511 / 512 / 320e9 + pass_s, 1e-12);
  EXPECT_NEAR(gather_s(25) - gather_s(1), 24 * pass_s, 1e-12);
  const auto of_layers_s = [&](double layers) {
    return reduction_seconds(work, kernels_of(work), {.dense = 1e9}, {}, {.layers = layers});
  };
  EXPECT_DOUBLE_EQ(of_layers_s(5), of_layers_s(10));
  work.parallel.sharding = 3;
  EXPECT_NEAR(of_layers_s(10) - of_layers_s(5), 2 * 5 * pass_s, 1e-12) << "both exchanges";
}

/// Returns the longest reduction of ranks that store the layers of an 8B model.
double reduced_s(const Workload& work, const std::vector<std::int64_t>& layers,
                 const std::vector<std::int32_t>& rank_of_stage) {
  const auto stages = price_stages(work, kernels_of(work), layers, rank_of_stage);
  return longest_step(work, kernels_of(work), stages, rank_of_stage).reduction_s;
}

// The reduction of a rank overlaps with all its layers. The number of stages into which they are cut does not
// matter.
TEST(Step, ChunksHideNoMoreThanTheSameLayersInOneStage) {
  Workload work = workload_on("h100", "llama-3.1-8b", 8192);
  work.parallel.data = 64;
  EXPECT_NEAR(reduced_s(work, {32}, {0}), reduced_s(work, {8, 8, 8, 8}, {0, 0, 0, 0}), 1e-12);
}

// The last part of one of the ranks is the head, which takes longer than a layer.
TEST(Step, HidesTheReductionBehindAllButTheLastPart) {
  Workload work = workload_on("h100", "llama-3.1-8b", 1024);
  work.parallel.data = 64;
  const StagePrice all =
      price_stages(work, kernels_of(work), std::vector<std::int64_t>{32}, std::vector<std::int32_t>{0})
          .front();
  const Term head = total_of(head_terms(work, kernels_of(work)));
  const double forward_s = all.forward_s - head.forward;
  const double backward_s = all.backward_input_s + all.backward_weight_s - head.backward();
  EXPECT_NEAR(
      reduced_s(work, {32}, {0}),
      slow_exposed_s(work, all.parameters.total(), {.forward_s = forward_s, .backward_s = backward_s}), 1e-9);
}

TEST(Step, OneCopyReducesNothing) { EXPECT_EQ(exposed_s(copies_of_70b(1), {}), 0); }

// --- layers by price --------------------------------------------------------------------------------------

LayerTimes times_of(const std::vector<double>& layers, double embedding, double head) {
  LayerTimes times{.before = {0}, .embedding = embedding, .head = head};
  for (const double layer : layers) times.before.push_back(times.before.back() + layer);
  return times;
}

/// Returns the time of the longest stage for a list of layer counts.
double longest(const LayerTimes& times, const std::vector<std::int64_t>& counts) {
  std::vector<std::int32_t> own_rank(counts.size());
  std::iota(own_rank.begin(), own_rank.end(), 0);
  return std::ranges::max(rank_times(times, counts, own_rank));
}

/// Returns the time of the longest stage for the best list. It tries all lists.
double least_longest(const LayerTimes& times, std::size_t stages, std::vector<std::int64_t> begun = {}) {
  const auto all = static_cast<std::int64_t>(times.before.size()) - 1;
  const std::int64_t left = all - std::accumulate(begun.begin(), begun.end(), std::int64_t{0});
  if (begun.size() + 1 == stages) {
    begun.push_back(left);
    return longest(times, begun);
  }
  double best = std::numeric_limits<double>::infinity();
  for (std::int64_t count = begun.empty() ? 0 : 1; count <= left; ++count) {
    std::vector<std::int64_t> next = begun;
    next.push_back(count);
    best = std::min(best, least_longest(times, stages, next));
  }
  return best;
}

TEST(LevelLayers, LongerStagesComeFirstAndAreSpread) {
  const std::vector<std::int32_t> four = {0, 1, 2, 3};
  EXPECT_EQ(level_layers(times_of(std::vector<double>(6, 1.0), 0, 0), four, {}),
            (std::vector<std::int64_t>{2, 1, 2, 1}));
  // The head takes as long as one layer.
  EXPECT_EQ(level_layers(times_of(std::vector<double>(7, 1.0), 0, 1), four, {}),
            (std::vector<std::int64_t>{2, 2, 2, 1}));
  // There are three short dense layers and five long layers.
  EXPECT_EQ(level_layers(times_of({1, 1, 1, 3, 3, 3, 3, 3}, 0, 0), four, {}),
            (std::vector<std::int64_t>{4, 1, 2, 1}));
  EXPECT_EQ(level_layers(times_of({1, 1}, 0, 9), four, {}), (std::vector<std::int64_t>{0, 1, 1, 0}));
}

TEST(LevelLayers, OneStageHasAllLayers) {
  const std::vector<std::int32_t> one = {0};
  // Sums of such times are rounded, so the stage may take longer than the sum of its parts in another order.
  for (int layers = 1; layers < 100; ++layers) {
    const std::vector<double> times(static_cast<std::size_t>(layers), 0.1);
    for (const double end : {0.0, 0.03, 0.7, 1.1})
      EXPECT_EQ(level_layers(times_of(times, end / 3, end), one, {}), std::vector<std::int64_t>{layers})
          << end;
  }
}

TEST(LevelLayers, NoListHasAShorterLongestStage) {
  std::uint64_t state = 1;
  const auto draw = [&](std::uint64_t most) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33U) % (most + 1);
  };
  for (int i = 0; i < 200; ++i) {
    const std::size_t stages = 2 + draw(3);
    std::vector<double> layers(stages + draw(5));
    for (double& layer : layers) layer = 1 + static_cast<double>(draw(4));
    const LayerTimes times = times_of(layers, static_cast<double>(draw(2)), static_cast<double>(draw(6)));
    std::vector<std::int32_t> own_rank(stages);
    std::iota(own_rank.begin(), own_rank.end(), 0);
    const std::vector<std::int64_t> level = level_layers(times, own_rank, {});
    ASSERT_EQ(level.size(), stages);
    EXPECT_EQ(std::accumulate(level.begin(), level.end(), std::size_t{0}), layers.size());
    EXPECT_NEAR(longest(times, level), least_longest(times, stages), 1e-6) << i;
  }
}

TEST(LevelLayers, RanksOfSeveralStagesAreLevelAndBounded) {
  // There are ten equal layers and two stages for each rank. Each rank gets five layers, and one of its
  // stages has three.
  const std::vector<std::int32_t> interleaved = {0, 1, 0, 1};
  const LayerTimes ten = times_of(std::vector<double>(10, 1.0), 0, 0);
  const std::vector<std::int64_t> level = level_layers(ten, interleaved, {});
  EXPECT_EQ(level[0] + level[2], 5);
  EXPECT_EQ(level[1] + level[3], 5);
  // If one rank may have only two layers, the other rank gets the remaining layers.
  const std::vector<std::int64_t> bounded = level_layers(ten, interleaved, std::vector<std::int64_t>{2, 10});
  EXPECT_EQ(bounded[0] + bounded[2], 2);
  EXPECT_TRUE(level_layers(ten, interleaved, std::vector<std::int64_t>{2, 7}).empty());
}

// The layer of multi-token prediction moves to another stage, but its head stays with the loss. The edge
// between the two stages carries its result in addition to the model's.
TEST(StagePrice, OfMultiTokenPredictionIsOnItsOwnStage) {
  Workload work = workload_on("h100", "deepseek-v3", 4096);
  work.model.layers.resize(6);
  work.model.multi_token = 1;
  work.ranks = 4;
  const std::vector<std::int64_t> layers = {3, 3, 0, 0};
  const std::vector<std::int32_t> ranks = {0, 1, 2, 3};
  const auto together = price_stages(work, kernels_of(work), layers, ranks);
  work.predictions = {0, 0, 1, 0};
  const auto apart = price_stages(work, kernels_of(work), layers, ranks);
  EXPECT_EQ(together[2].forward_s, 0);
  EXPECT_NEAR(apart[2].forward_s + apart[3].forward_s, together[3].forward_s, 1e-12);
  EXPECT_NEAR(apart[3].forward_s, 2 * total_of(head_terms(work, kernels_of(work))).forward, 1e-12);
  EXPECT_EQ(apart[2].kept_bytes, together[3].kept_bytes);
  EXPECT_EQ(apart[2].parameters.total() + apart[3].parameters.total(), together[3].parameters.total());
  EXPECT_EQ(apart[2].edge_bytes, 2 * together[2].edge_bytes);
  EXPECT_EQ(apart[1].edge_bytes, together[1].edge_bytes);
}

// --- layouts ----------------------------------------------------------------------------------------------

std::vector<std::int64_t> layers_of(std::string_view rule, std::int64_t layers, std::int32_t stages) {
  return split_layers(parse_layer_split(rule).value(), layers, stages).value();
}

TEST(LayerSplit, Rules) {
  EXPECT_EQ(layers_of("even", 8, 4), (std::vector<std::int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(layers_of("ends-one-less", 6, 4), (std::vector<std::int64_t>{1, 2, 2, 1}));
  EXPECT_EQ(layers_of("ends-one-less", 126, 128).front(), 0);  // a stage with only the embedding
  EXPECT_EQ(layers_of("Et*3|(tt|)*2,|tmL", 8, 5), (std::vector<std::int64_t>{3, 2, 2, 0, 1}));
  EXPECT_EQ(layers_of("E|t*3 | (tt|)*2 L", 7, 5), (std::vector<std::int64_t>{0, 3, 2, 2, 0}));
}

// DeepSeek-V3 has 61 layers and one of multi-token prediction, on 32 or 16 stages.
TEST(LayerSplit, MayGiveMultiTokenPredictionAStageOfItsOwn) {
  const LayerSplit own = parse_layer_split("Et|(tt|)*30m|L").value();
  EXPECT_EQ(own.counts.size(), 33);
  EXPECT_EQ(prediction_count(own), 1);
  EXPECT_EQ(own.predictions[31], 1);
  const LayerSplit beside_layers = parse_layer_split("Et*3|(t*4|)*14,ttm|L").value();
  EXPECT_EQ(beside_layers.counts.back(), 0);
  EXPECT_EQ(beside_layers.predictions[15], 1);
  EXPECT_EQ(prediction_count(parse_layer_split("Et|tm*2L").value()), 2);
  const LayerSplit apart = parse_layer_split("E|(t|)*11m|m|m|L").value();
  EXPECT_EQ(std::vector<std::int64_t>(apart.predictions.end() - 4, apart.predictions.end()),
            (std::vector<std::int64_t>{1, 1, 1, 0}));
  for (const char* layout : {"Et*3|t*4|m|L", "Et|t*2mL", "E|t|t*3m*2|L", "Et|m|m*2L"}) {
    const LayerSplit split = parse_layer_split(layout).value();
    EXPECT_EQ(to_text(split), layout);
    EXPECT_EQ(parse_layer_split(to_text(split)).value(), split);
  }
}

TEST(LayerSplit, ThatMegatronCannotRunIsAnErrorWithItsReason) {
  EXPECT_EQ(
      parse_layer_split("Et|tL|tL").error(),
      "layout \"Et|tL|tL\": expected L once, at the end of the last stage, got it on the stages 1 and 2; "
      "one stage computes the loss, and all layers are before it");
  EXPECT_EQ(parse_layer_split("Et|tL|t").error(),
            "layout \"Et|tL|t\": expected L once, at the end of the last stage");
  EXPECT_EQ(
      parse_layer_split("E|(t|)*10m|m|m|LL|LL").error(),
      "layout \"E|(t|)*10m|m|m|LL|LL\": expected L once, at the end of the last stage, got it on the stages "
      "14 and 15; one stage computes the loss, and all layers are before it");
  EXPECT_EQ(
      parse_layer_split("Et|m|tL").error(),
      "layout \"Et|m|tL\": expected the multi-token-prediction layers (m) behind all layers (t), which they "
      "read, got them on stage 1 before a layer");
}

TEST(LayerSplit, WhatDoesNotDivideOrIsNoLayoutIsAnError) {
  EXPECT_EQ(split_layers(parse_layer_split("even").value(), 7, 4).error(),
            "7 layers do not divide over 4 stages (layer_split: even); choose other stages or virtual "
            "stages, take balanced, or list the layers of each stage");
  EXPECT_EQ(split_layers(parse_layer_split("even").value(), 94, 32).error(),
            "94 layers do not divide over 32 stages (layer_split: even); take ends-one-less, which divides "
            "(94 + 2 = 96), take balanced, or list the layers of each stage");
  EXPECT_EQ(split_layers(parse_layer_split("ends-one-less").value(), 8, 4).error(),
            "8 layers and the two ends do not divide over 4 stages (layer_split: ends-one-less); take even, "
            "which divides (8 = 2 x 4), take balanced, or list the layers of each stage");
  EXPECT_EQ(split_layers(parse_layer_split("Ett|tL").value(), 4, 2).error(),
            "layer_split lists 3 layers, the model has 4");
  EXPECT_EQ(parse_layer_split("Ett|t").error().substr(0, 30), "expected even, ends-one-less, ");
  EXPECT_EQ(parse_layer_split("E(tt|L").error(),
            "layout \"E(tt|L\", character 7: expected a closing bracket, got nothing");
  EXPECT_EQ(parse_layer_split("tE|L").error(),
            "layout \"tE|L\": expected E once, at the front of the first stage");
  EXPECT_EQ(parse_layer_split("E*99999999|L").error(),
            "layout \"E*99999999|L\", character 3: expected a number behind *, got \"99999999\"");
}

}  // namespace
}  // namespace penstock
