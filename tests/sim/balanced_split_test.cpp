// Tests the balanced layer split (layer_split: balanced). Compares it with lists of layers that were written
// by hand, with the other rules, and with the engines.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/priced_scenario.hpp"
#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/pricing/chain_costs.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

Scenario scenario_from(const std::string& text) {
  auto scenario = parse_scenario(text, "test.yaml", source_path("tests/scenarios/configs"));
  EXPECT_TRUE(scenario) << scenario.error() << "\n" << text;
  return *std::move(scenario);
}

Result run(const std::string& text) {
  SimulateOptions options;
  options.steady = SteadyState::skip;
  auto result = simulate_scenario(scenario_from(text), options);
  EXPECT_TRUE(result) << result.error().message << "\n" << text;
  return *std::move(result);
}

double seconds(const std::string& text) { return static_cast<double>(run(text).makespan_ns) * 1e-9; }

std::vector<std::int64_t> layers_of(const std::string& text) {
  const auto prices = price_on_devices(scenario_from(text));
  EXPECT_TRUE(prices) << prices.error();
  return prices->layers;
}

Bytes fullest_bytes(const Result& result) {
  Bytes peak = 0;
  for (const RankReport& rank : result.ranks) peak = std::max(peak, rank.memory.peak_bytes);
  return peak;
}

/// Returns a scenario with 40 equal layers and a head for 50 257 words.
std::string forty_layers(std::string_view schedule,
                         std::string_view devices = "{device: a100-sxm, nodes: 2}") {
  return fmt::format(
      "model: {{transformer: {{layers: 40, hidden: 5120, heads: 40, sequence: 2048, vocabulary: 50257}}}}\n"
      "cluster: {}\n"
      "schedule: {}\n"
      "training: {{micro_batch_size: 1, global_batch_size: 128, action_overhead: 0}}\n",
      devices, schedule);
}

/// Returns a scenario with 32 layers and a head that takes nearly as long as two layers.
std::string heavy_head(std::string_view split) {
  return fmt::format(
      "model: {{transformer: {{layers: 32, hidden: 4096, heads: 32, kv_heads: 8, sequence: 8192, vocabulary: "
      "128256, feed_forward: 14336, gated: true}}}}\n"
      "cluster: {{device: h100-sxm}}\n"
      "schedule: {{name: 1f1b, stages: 8, layer_split: {}}}\n"
      "training: {{micro_batch_size: 1, global_batch_size: 64, recompute: full}}\n",
      split);
}

TEST(BalancedSplit, LayersThatDoNotDivideAreBalancedByThemselves) {
  const Result result = run(forty_layers("{name: 1f1b, stages: 16}"));
  // Each stage has 2 or 3 layers. The list 2 2 .. 3 3 takes 9.62 s, 3 3 .. 2 2 takes 7.954 s, and 3 2 3 2 ..
  // takes 7.850 s.
  EXPECT_LE(static_cast<double>(result.makespan_ns) * 1e-9, 7.850);
  const std::vector<std::int64_t> layers = layers_of(forty_layers("{name: 1f1b, stages: 16}"));
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 40);
  EXPECT_THAT(result.notes,
              testing::Contains(
                  fmt::format("40 layers do not divide over 16 stages, and are balanced by price; by stage: "
                              "[{}]",
                              fmt::join(layers, ", "))));
  // If the user states the list of the note, the run is the same.
  EXPECT_EQ(
      run(forty_layers(fmt::format("{{name: 1f1b, stages: 16, layer_split: [{}]}}", fmt::join(layers, ", "))))
          .makespan_ns,
      result.makespan_ns);
}

TEST(BalancedSplit, WhoAsksForEvenIsToldWhatDivides) {
  const auto refused =
      simulate_scenario(scenario_from(forty_layers("{name: 1f1b, stages: 16, layer_split: even}")), {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              testing::HasSubstr("40 layers do not divide over 16 stages (layer_split: even); "));
  const auto too_many = simulate_scenario(
      scenario_from(forty_layers("{name: interleaved, stages: 16, virtual_stages: 3}")), {});
  ASSERT_FALSE(too_many);
  EXPECT_THAT(too_many.error().message, testing::HasSubstr("40 layers are too few for 48 stages"));
}

TEST(BalancedSplit, ExpertsAndDenseLayersAreWeighedByTheirPrices) {
  const std::string text =
      "model: {transformer: {layers: 92, hidden: 5120, heads: 96, kv_heads: 8, head_dim: 128, sequence: "
      "4096, "
      "vocabulary: 151552, feed_forward: 12288, gated: true, query_key_norm: true, experts: 160, "
      "experts_per_token: 8, expert_feed_forward: 1536, shared_experts: 1, dense_layers: 3}}\n"
      "cluster: {device: h100-sxm, nodes: 64}\n"
      "parallel: {tensor: 8, expert: 16}\n"
      "schedule: {name: 1f1b, stages: 8}\n"
      "training: {micro_batch_size: 1, global_batch_size: 1024, recompute: full}\n";
  // The list 12 12 12 12 11 11 11 11 takes 16.147 s, and 11 11 11 11 12 12 12 12 takes 16.776 s.
  EXPECT_LE(seconds(text), 16.147);
}

TEST(BalancedSplit, AHeadIsWeighedToo) {
  // An even split takes 12.135 s, and the list 5 4 4 4 4 4 4 3 takes 10.802 s.
  EXPECT_LE(seconds(heavy_head("balanced")), 10.8024);
}

TEST(BalancedSplit, IsNeverSlowerThanRulesThatDivide) {
  for (const std::string_view schedule : {"1f1b", "gpipe", "zb-h1", "interleaved", "hanayo", "dualpipe-v"}) {
    for (const std::int32_t layers : {16, 14}) {
      const bool has_chunks = schedule == "interleaved" || schedule == "hanayo";
      const auto text = [&](std::string_view split) {
        return fmt::format(
            "model: {{huggingface: llama-3.2-1b.json, sequence: 4096, layers: {}}}\n"
            "cluster: {{device: h100-sxm}}\n"
            "schedule: {{name: {}, stages: 4, layer_split: {}{}}}\n"
            "training: {{micro_batch_size: 1, global_batch_size: 32}}\n",
            layers, schedule, split, has_chunks ? ", virtual_stages: 2" : "");
      };
      const std::string_view rule = layers == 16 ? "even" : "ends-one-less";
      EXPECT_LE(run(text("balanced")).makespan_ns, run(text(rule)).makespan_ns) << schedule << " " << layers;
    }
  }
}

TEST(BalancedSplit, EachScheduleCanHaveBalancedLayers) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (schedule.extra_stages == ExtraStages::encoder) continue;  // a model on named devices has no encoder
    const auto text = [&](std::string_view split) {
      return fmt::format(
          "model: {{huggingface: llama-3.2-1b.json, sequence: 4096, layers: 16}}\n"
          "cluster: {{device: h100-sxm}}\n"
          "schedule: {{name: {}, stages: 4, microbatches: 16, layer_split: {}}}\n"
          "training: {{micro_batch_size: 1}}\n",
          schedule.name, split);
    };
    const auto balanced = simulate_scenario(scenario_from(text("balanced")), {});
    ASSERT_TRUE(balanced) << schedule.name << ": " << balanced.error().message;
    const auto even = simulate_scenario(scenario_from(text("even")), {});
    // The layers of these stages, without the embedding and the head, are level already.
    if (!even || schedule.extra_stages != ExtraStages::none) continue;
    // All ranks of data-parallel have all layers. Only its reductions depend on the split, and they are not
    // part of the search.
    if (schedule.name == "data-parallel") continue;
    // A rule that knows only some of the ranks of a stage may be slower than an even split.
    EXPECT_LE(balanced->makespan_ns, even->makespan_ns) << schedule.name;
  }
}

TEST(BalancedSplit, AGroupOfUnlikeDevicesCanReplicateItsStages) {
  const auto text = [](std::string_view schedule) {
    return fmt::format(
        "model: {{huggingface: llama-3.2-1b.json, sequence: 4096, layers: 16}}\n"
        "cluster: {{groups: [{{device: h100-sxm, nodes: 1}}, {{device: a100-sxm, nodes: 1}}]}}\n"
        "parallel: {{tensor: 4}}\n"
        "schedule: {{name: {}, stages: 4}}\n"
        "training: {{micro_batch_size: 1, global_batch_size: 16}}\n",
        schedule);
  };
  for (const std::string_view schedule : {"chimera", "dualpipe", "gems", "data-parallel"}) {
    const std::vector<std::int64_t> layers = layers_of(text(schedule));
    EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 16) << schedule;
  }
}

TEST(BalancedSplit, FitsTheMemoryWhereAnyListDoes) {
  // With 1F1B, the first rank holds the most microbatches. If memory is sufficient, the first ranks have the
  // larger stages.
  const auto text = [](std::string_view memory) {
    return forty_layers("{name: 1f1b, stages: 16, layer_split: balanced}",
                        fmt::format("{{device: a100-sxm, nodes: 2, memory: {}}}", memory));
  };
  const Result roomy = run(text("80 GiB"));
  const Bytes peak = fullest_bytes(roomy);
  // With two layers, the first ranks hold 27 GiB, and with three layers 37 GiB.
  const Result narrow = run(text("30 GiB"));
  EXPECT_GT(peak, Bytes{30} << 30);
  EXPECT_LE(fullest_bytes(narrow), Bytes{30} << 30);
  EXPECT_GT(narrow.makespan_ns, roomy.makespan_ns);
  // If no list fits, the fastest list is used.
  EXPECT_EQ(run(text("1 GiB")).makespan_ns, roomy.makespan_ns);
}

TEST(BalancedSplit, ManyMicrobatchesAndProgramsOfLoopsHaveOneAnswer) {
  const auto layers = [](std::int32_t samples) {
    return layers_of(
        fmt::format("model: {{huggingface: llama-3.2-1b.json, sequence: 4096, layers: 15}}\n"
                    "cluster: {{device: h100-sxm}}\n"
                    "schedule: {{name: 1f1b, stages: 4}}\n"
                    "training: {{micro_batch_size: 1, global_batch_size: {}}}\n",
                    samples));
  };
  // With more than some thousand microbatches, only the busiest rank matters. It has 5 layers, because the
  // head is as long as 4 layers.
  EXPECT_EQ(layers(1 << 20), layers(1 << 21));
  EXPECT_EQ(std::ranges::max(layers(1 << 20)), 5);
}

TEST(ScheduleOutline, EachRankHasItsReplicasOfAllStages) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    const auto program =
        generate(schedule.name, {.stages = 4, .microbatches = 8, .virtual_stages = chunks_to_try(schedule)});
    ASSERT_TRUE(program) << schedule.name << ": " << program.error();
    const ScheduleOutline outline = outline_of(*program);
    ASSERT_EQ(std::ssize(outline.ranks), program->rank_count()) << schedule.name;
    for (std::int32_t rank = 0; rank < program->rank_count(); ++rank) {
      const RankOutline& outlined = outline.ranks[index(rank)];
      std::vector<std::int32_t> stages;
      for (std::int32_t stage = 0; stage < program->stage_count(); ++stage) {
        if (program->placement.replica_on(stage, rank) >= 0) stages.push_back(stage);
      }
      EXPECT_EQ(outlined.stages, stages) << schedule.name << ", rank " << rank;
      EXPECT_FALSE(outlined.moments.empty()) << schedule.name << ", rank " << rank;
      for (const HeldMoment& moment : outlined.moments)
        EXPECT_LT(moment.running, std::ssize(stages)) << schedule.name << ", rank " << rank;
    }
  }
}

TEST(ScheduleOutline, ACopyHoldsItsPartOfMoreMicrobatches) {
  const auto shorter = generate("gpipe", {.stages = 2, .microbatches = 4, .replicas = {2, 2}});
  ASSERT_TRUE(shorter) << shorter.error();
  const ScheduleOutline outline = outline_of_whole(outline_of(*shorter), 100);
  for (const RankOutline& rank : outline.ranks) EXPECT_EQ(rank.moments.front().live, std::vector{50});
}

TEST(OrderTimes, AreThoseOfTheEngines) {
  for (const std::string_view schedule :
       {"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "kfkb", "hanayo", "looped-bfs",
        "eager-1f1b", "chimera", "gems", "dualpipe-v", "zbv-zero-bubble", "interleaved-zero-bubble",
        "zb-v"}) {
    const bool has_chunks = schedule == "interleaved" || schedule == "hanayo" || schedule == "looped-bfs" ||
                            schedule == "interleaved-zero-bubble";
    // Collectives in the lists are ignored.
    const bool has_reductions = schedule == "chimera" || schedule == "gems";
    const std::string text = fmt::format(
        "model: {{huggingface: llama-3.2-1b.json, sequence: 8192, layers: 16}}\n"
        "cluster: {{device: h100-sxm, nvlink: 2 GB/s}}\n"
        "schedule: {{name: {}, stages: 4{}}}\n"
        "training: {{micro_batch_size: 1, global_batch_size: 16}}\n",
        schedule,
        has_chunks       ? ", virtual_stages: 2"
        : has_reductions ? ", replica_sync: false"
                         : "");
    const auto experiment = prepare(scenario_from(text), ProgramForm::lists);
    ASSERT_TRUE(experiment) << experiment.error().message;
    const auto prices = price_on_devices(scenario_from(text));
    ASSERT_TRUE(prices) << prices.error();
    const auto order = OrderTimes::of(experiment->program);
    ASSERT_TRUE(order) << schedule;
    EXPECT_EQ(order->makespan_ns(experiment->costs, links_between_stages(prices->work)),
              run(text).makespan_ns)
        << schedule;
  }
}

TEST(OrderTimes, RanksThatWaitForEachOtherHaveNone) {
  Program program;
  program.microbatches = 1;
  program.placement.stages = {{.ranks = {0}}, {.ranks = {1}}};
  const auto action = [](ActionKind kind, std::int32_t stage) {
    return Action{.kind = kind, .stage = stage, .microbatch = 0};
  };
  program.ranks = {{action(ActionKind::backward, 0), action(ActionKind::forward, 0)},
                   {action(ActionKind::forward, 1), action(ActionKind::backward, 1)}};
  EXPECT_FALSE(OrderTimes::of(program));
}

}  // namespace
}  // namespace penstock
