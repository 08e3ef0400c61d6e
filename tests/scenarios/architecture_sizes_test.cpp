// `model.transformer` as an Architecture: the same models by their sizes as by their configurations, and what
// is wrong with sizes.

#include "scenarios/read/architecture_sizes.hpp"

#include <memory>
#include <optional>
#include <string>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "read_scenario.hpp"
#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/device_model.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

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

/// The same model but for its name.
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
