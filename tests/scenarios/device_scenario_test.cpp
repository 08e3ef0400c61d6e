// Tests transformers on named devices, from the text of a scenario to the experiment. Also tests the hints
// for unknown device names.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/quantities.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

constexpr std::string_view kLlama = R"(
model: {huggingface: llama-3.1-70b.json, sequence: 8192}
cluster: {device: h100-sxm, nodes: 8}
parallel: {tensor: 8}
schedule: {name: 1f1b, stages: 4}
training: {global_batch_size: 128}
)";

Experiment experiment_of(std::string_view text, const std::vector<Override>& overrides = {}) {
  const auto scenario = parse_scenario(text, "a.yaml", source_path("scenarios/library/models"), overrides);
  EXPECT_TRUE(scenario) << scenario.error();
  const auto experiment = prepare(scenario.value());
  EXPECT_TRUE(experiment) << experiment.error().message;
  return experiment.value();
}

std::string fault_of(std::string_view text, const std::vector<Override>& overrides) {
  const auto scenario = parse_scenario(text, "a.yaml", source_path("scenarios/library/models"), overrides);
  if (!scenario) return scenario.error();
  const auto experiment = prepare(*scenario);
  return experiment ? "no fault" : experiment.error().message;
}

// The 64 devices are 8 tensor x 4 stages x 2 copies. Each copy has 64 of the 128 samples, in microbatches of
// one sample.
TEST(DeviceScenario, CopiesFillTheClusterAndShareTheBatch) {
  const Experiment experiment = experiment_of(kLlama);
  EXPECT_EQ(experiment.program.rank_count(), 4);
  EXPECT_EQ(experiment.program.microbatches, 64);
  EXPECT_EQ(experiment.samples_per_microbatch, 2);
  ASSERT_TRUE(experiment.trained);
  EXPECT_EQ(experiment.trained->devices, 64);
  EXPECT_EQ(experiment.copies, 2);
  EXPECT_EQ(experiment.trained->parameters, 70553706496);
}

TEST(DeviceScenario, StagesAreEvenButForTheEnds) {
  const Experiment experiment = experiment_of(kLlama);
  const std::vector<StageCost>& stages = experiment.costs.stages;
  ASSERT_EQ(stages.size(), 4);
  EXPECT_EQ(stages[0].forward_ns, stages[1].forward_ns);
  EXPECT_EQ(stages[1].forward_ns, stages[2].forward_ns);
  EXPECT_GT(stages[3].forward_ns, stages[2].forward_ns) << "the head is behind the last layer";
  EXPECT_EQ(stages[1].backward_ns, stages[1].backward_input_ns + stages[1].backward_weight_ns - 100'000)
      << "I and W begin twice, with 0.1 ms each";
  // An edge carries 2 T h / t bytes.
  EXPECT_EQ(experiment.costs.edges.front().activation, 2 * 8192 * 8192 / 8);
  for (const StageCost& stage : stages) EXPECT_EQ(stage.step_ns, stages.front().step_ns) << "in lock-step";
}

// Evaluation and prefill have no gradients, no optimizer and no barrier for the norm of the gradients. The
// forward passes take as long as in training.
TEST(DeviceScenario, ForwardPassesAloneHaveNoGradientsAndNoUpdates) {
  const Experiment trained = experiment_of(kLlama);
  const Experiment forward = experiment_of(kLlama, {{.key = "schedule.forward_only", .value = "true"}});
  EXPECT_TRUE(is_forward_only(forward.program));
  EXPECT_FALSE(forward.program.barrier);
  EXPECT_TRUE(trained.program.barrier);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const StageCost& cost = forward.costs.stages[stage];
    const StageCost& before = trained.costs.stages[stage];
    EXPECT_EQ(cost.forward_ns, before.forward_ns);
    EXPECT_EQ(cost.weights, before.weights);
    EXPECT_EQ(cost.step_ns, 0);
    EXPECT_EQ(cost.gradients + cost.optimizer_state + cost.kept, 0);
    EXPECT_LT(cost.transient, before.kept / 10) << "one of twenty layers is held while it runs";
  }
  EXPECT_EQ(forward.costs.edges.front().activation, trained.costs.edges.front().activation);
  EXPECT_EQ(forward.costs.edges.front().gradient, 0);
  EXPECT_DOUBLE_EQ(forward.trained->flops_per_sample, trained.trained->flops_per_sample / 3);
  EXPECT_THAT(forward.notes, testing::Contains(testing::HasSubstr("priced for forward passes alone")));
  // The sizes are those of keys and values of 8 heads on 8 devices, in 20 layers. Each of 8192 tokens has 2 x
  // 128 values of 2 bytes.
  const Experiment prefill = experiment_of(kLlama, {{.key = "schedule.forward_only", .value = "kv"}});
  EXPECT_EQ(prefill.costs.stages[1].kept, 20LL * 2 * 128 * 2 * 8192);
}

TEST(DeviceScenario, AMicrobatchIsPricedNotScaled) {
  const Experiment one = experiment_of(kLlama);
  const Experiment two = experiment_of(kLlama, {{.key = "training.micro_batch_size", .value = "2"}});
  EXPECT_EQ(two.program.microbatches, 32);
  EXPECT_LT(two.costs.stages[0].forward_ns, 2 * one.costs.stages[0].forward_ns);
  EXPECT_EQ(two.costs.stages[0].kept, 2 * one.costs.stages[0].kept);
}

TEST(DeviceScenario, AConstantThatIsGivenReplacesTheDevices) {
  const Experiment sustained = experiment_of(kLlama);
  const Experiment burst = experiment_of(kLlama, {{.key = "cluster.sustained", .value = "1"}});
  EXPECT_LT(burst.costs.stages[0].forward_ns, sustained.costs.stages[0].forward_ns);
  const Experiment slow = experiment_of(kLlama, {{.key = "cluster.network", .value = "5 GB/s"}});
  EXPECT_EQ(slow.cluster.links().front().bytes_per_second, 0.8 * 5e9);
  EXPECT_EQ(sustained.cluster.links().front().bytes_per_second, 0.8 * 50e9);
}

// A stated peak rate or NVLink rate scales the times that were measured on the original device.
TEST(DeviceScenario, APeakOrALinkThatIsGivenReplacesTheDevices) {
  const auto forward_ns = [](const std::vector<Override>& overrides) {
    return static_cast<double>(experiment_of(kLlama, overrides).costs.stages[0].forward_ns);
  };
  const double usual = forward_ns({});
  EXPECT_GT(forward_ns({{.key = "cluster.flops", .value = "400 TFLOP/s"}}), 1.8 * usual);
  EXPECT_GT(forward_ns({{.key = "cluster.nvlink", .value = "1 MB/s"}}), 100 * usual);
  EXPECT_EQ(forward_ns({{.key = "cluster.flops", .value = "989.4 TFLOP/s"}}), usual);
  EXPECT_EQ(forward_ns({{.key = "cluster.fp8_flops", .value = "1200 TFLOP/s"}}), usual) << "trained in bf16";
  const std::vector<Override> in_fp8 = {{.key = "training.precision", .value = "fp8"}};
  std::vector<Override> slow_in_fp8 = in_fp8;
  slow_in_fp8.push_back({.key = "cluster.fp8_flops", .value = "1000 TFLOP/s"});
  EXPECT_GT(forward_ns(slow_in_fp8), 1.3 * forward_ns(in_fp8));
}

// Copies only add the time of their exchanges. If the reduction takes no time, four copies take as long as
// one.
TEST(DeviceScenario, CopiesThatReduceOnNothingAreAlike) {
  const std::vector<Override> one = {{.key = "cluster.nodes", .value = "4"},
                                     {.key = "training.global_batch_size", .value = "64"}};
  const Experiment alone = experiment_of(kLlama, one);
  const Experiment both = experiment_of(kLlama);
  EXPECT_EQ(alone.program, both.program);
  EXPECT_EQ(alone.costs.stages[0].forward_ns, both.costs.stages[0].forward_ns);
  EXPECT_LT(alone.costs.stages[0].step_ns, both.costs.stages[0].step_ns);
}

TEST(DeviceScenario, MessagesNameTheFlag) {
  EXPECT_EQ(fault_of(kLlama, {{.key = "cluster.device", .value = "h100-sxn", .flag = "--device"}}),
            "--device: expected one of a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300, gb300, a800, "
            "h800, h20, l40s, mi300x, mi325x, tpu-v5p, got \"h100-sxn\"; did you mean h100-sxm?");
}

TEST(DeviceScenario, RunsUnderEverySchedule) {
  for (const char* name :
       {"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe", "looped-bfs"}) {
    SCOPED_TRACE(name);
    std::vector<Override> overrides = {{.key = "schedule.name", .value = name}};
    if (std::string_view(name) == "interleaved" || std::string_view(name) == "looped-bfs")
      overrides.push_back({.key = "schedule.virtual_stages", .value = "2"});
    EXPECT_EQ(fault_of(kLlama, overrides), "no fault");
  }
}

constexpr std::string_view kPairedExperts = R"(
model: {huggingface: deepseek-v3.json, sequence: 4096, layers: 14}
cluster: {device: h100-sxm, nodes: 16}
parallel: {expert: 32, expert_dispatch: deepep}
schedule: {name: interleaved, stages: 4, virtual_stages: 2, microbatches: 16, layer_split: ends-one-less}
training: {precision: fp8, recompute: [mla_up_proj, mlp]}
)";

TEST(ExpertOverlap, PairsOfFAndBHideExchanges) {
  const Experiment plain = experiment_of(kPairedExperts);
  const Experiment paired =
      experiment_of(kPairedExperts, {{.key = "parallel.expert_overlap", .value = "true"}});
  EXPECT_EQ(plain.costs, paired.costs) << "only the program says what overlaps";
  const auto pairs_of = [](const Experiment& experiment) {
    return std::ranges::count_if(experiment.program.ranks[3], &Action::overlaps_next);
  };
  EXPECT_EQ(pairs_of(plain), 0);
  EXPECT_EQ(pairs_of(paired), 2 * 16 - 5) << "all forwards but four of a group, and one";
  const StageCost& middle = paired.costs.stages[3];
  EXPECT_GT(middle.pair_hidden_ns, 0);
  const std::array<Action, 2> pair = {{{.kind = ActionKind::forward, .stage = 3, .microbatch = 1},
                                       {.kind = ActionKind::backward, .stage = 3, .microbatch = 0}}};
  EXPECT_EQ(group_duration_ns(paired.costs, pair),
            middle.forward_ns + middle.backward_ns - middle.pair_hidden_ns);
}

TEST(ExpertOverlap, IsTheScheduleEp1f1b) {
  const Experiment keyed =
      experiment_of(kPairedExperts, {{.key = "parallel.expert_overlap", .value = "true"}});
  const Experiment named = experiment_of(kPairedExperts, {{.key = "schedule.name", .value = "ep-1f1b"}});
  EXPECT_EQ(named.program.ranks, keyed.program.ranks);
  EXPECT_EQ(named.costs, keyed.costs);
  for (const Experiment* of : {&named, &keyed})
    EXPECT_THAT(of->notes, testing::Contains(testing::HasSubstr("exchange beside another microbatch")));
  EXPECT_THAT(experiment_of(kPairedExperts).notes,
              testing::Contains(testing::HasSubstr("exchange not beside another microbatch")));
}

TEST(ExpertOverlap, IsRefusedWherePairsWouldWaitForThemselves) {
  const auto fault = [](const char* name, const char* chunks) {
    return fault_of(kPairedExperts, {{.key = "parallel.expert_overlap", .value = "true"},
                                     {.key = "schedule.name", .value = name},
                                     {.key = "schedule.virtual_stages", .value = chunks}});
  };
  EXPECT_EQ(fault("1f1b", "1"),
            "a.yaml: parallel.expert_overlap: 1f1b on 4 ranks has no pairs of F and B that can overlap; take "
            "ep-1f1b, interleaved, dualpipe, dualpipe-v, or 1f1b on one rank");
  EXPECT_EQ(fault("interleaved", "2"), "no fault");
}

TEST(ExpertOverlap, WordsAreChecked) {
  EXPECT_THAT(fault_of(kPairedExperts, {{.key = "parallel.expert_dispatch", .value = "deep"}}),
              testing::HasSubstr("expected alltoall or deepep or hybridep"));
  EXPECT_THAT(fault_of(kPairedExperts, {{.key = "training.recompute", .value = "mla"}}),
              testing::HasSubstr("expected none, or some of selective, norm"));
}

// For each microbatch, the backward pass of the last stage becomes shorter by the time by which its step
// becomes longer. The data from which the gradients are computed are stored until then.
TEST(DeviceScenario, TheHeadsWeightGradientMayWaitForTheEndOfTheStep) {
  const Experiment usual = experiment_of(kLlama);
  const Experiment deferred = experiment_of(kLlama, {{.key = "training.deferred_head", .value = "true"}});
  const StageCost& before = usual.costs.stages.back();
  const StageCost& after = deferred.costs.stages.back();
  const Ns saved = before.backward_ns - after.backward_ns;
  EXPECT_GT(saved, 1'000'000);
  EXPECT_NEAR(static_cast<double>(after.step_ns - before.step_ns),
              static_cast<double>(saved * usual.program.microbatches), 64);
  // The logits and the head's input on one device have 2 bytes for each value.
  constexpr Bytes kOfOne = Bytes{2} * 8192 * (128256 + 8192) / 8;
  EXPECT_EQ(after.transient - before.transient, kOfOne * usual.program.microbatches);
  for (std::size_t stage = 0; stage + 1 < usual.costs.stages.size(); ++stage)
    EXPECT_EQ(deferred.costs.stages[stage], usual.costs.stages[stage]);
}

// Each F, B, I and W begins with the overhead. B has it once, and I and W together have it twice.
TEST(DeviceScenario, EveryActionTakesTheStatedOverhead) {
  const Experiment usual = experiment_of(kLlama, {{.key = "training.action_overhead", .value = "0"}});
  const Experiment slow = experiment_of(kLlama, {{.key = "training.action_overhead", .value = "1 ms"},
                                                 {.key = "training.step_overhead", .value = "20 ms"}});
  for (std::size_t stage = 0; stage < usual.costs.stages.size(); ++stage) {
    const StageCost& before = usual.costs.stages[stage];
    const StageCost& after = slow.costs.stages[stage];
    EXPECT_EQ(after.forward_ns, before.forward_ns + 1'000'000);
    EXPECT_EQ(after.backward_ns, before.backward_ns + 1'000'000);
    EXPECT_EQ(after.backward_input_ns, before.backward_input_ns + 1'000'000);
    EXPECT_EQ(after.backward_weight_ns, before.backward_weight_ns + 1'000'000);
    EXPECT_EQ(after.step_ns, before.step_ns + 20'000'000);
    EXPECT_EQ(after.kept, before.kept);
  }
}

// Attention scores are stored only from F to I.
TEST(DeviceScenario, AFrameworkDecidesWhatIsStored) {
  const Experiment fused = experiment_of(kLlama);
  const Experiment unfused = experiment_of(kLlama, {{.key = "training.framework", .value = "megatron-2021"}});
  const StageCost& before = fused.costs.stages[1];
  const StageCost& after = unfused.costs.stages[1];
  constexpr Bytes kScores = Bytes{20} * 5 * 8192 * 64 * 8192 / 8;  // 20 layers, with 64 heads on 8 devices
  EXPECT_EQ(after.kept - before.kept, kScores);
  EXPECT_EQ(after.released_by_input, kScores);
  EXPECT_EQ(before.released_by_input, 0);
  EXPECT_GT(after.forward_ns, before.forward_ns);
}

TEST(DeviceScenario, AnUnknownFrameworkIsToldWhichArePriced) {
  const std::string fault = fault_of(kLlama, {{.key = "training.framework", .value = "megatron"}});
  EXPECT_THAT(fault, testing::HasSubstr("megatron-te"));
  EXPECT_THAT(fault, testing::HasSubstr("torchtitan"));
  EXPECT_THAT(fault, testing::HasSubstr("megatron-2021"));
  EXPECT_EQ(fault_of(kLlama, {{.key = "training.framework", .value = "megatron-2021"},
                              {.key = "parallel.context", .value = "2"}}),
            "a.yaml: parallel.context: megatron-2021 has no context parallelism, expected 1, got 2");
}

// The driver of an H100 reserves 361 MiB of 80 GiB. The allocator does not count 3 GiB, unless the scenario
// states another amount.
TEST(DeviceScenario, TheReserveHoldsWhatTheAllocatorDoesNotSee) {
  const auto reserved = [](const std::vector<Override>& overrides) {
    return experiment_of(kLlama, overrides).cluster.devices().front().reserved_bytes;
  };
  constexpr Bytes kGiB = Bytes{1} << 30;
  constexpr Bytes kDriver = Bytes{361} << 20;
  EXPECT_EQ(reserved({}), kDriver + 3 * kGiB);
  EXPECT_EQ(reserved({{.key = "cluster.device_overhead", .value = "6 GiB"}}), kDriver + 6 * kGiB);
  EXPECT_EQ(reserved({{.key = "cluster.device_overhead", .value = "6 GiB"},
                      {.key = "cluster.reserve", .value = "7 GiB"}}),
            7 * kGiB);
  EXPECT_THAT(fault_of(kLlama, {{.key = "cluster.device_overhead", .value = "8 GiB"},
                                {.key = "cluster.reserve", .value = "7 GiB"}}),
              testing::HasSubstr("expected at most cluster.reserve"));
}

// Tests the hints about unknown devices: the device that the user probably meant, a similar device, or how to
// describe another device.

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// --- recomputation of some layers
// ---------------------------------------------------------------------------

// Returns the costs of the second stage, which has 20 layers, with this recomputation.
StageCost middle_stage_with(const std::string& what) {
  return experiment_of(kLlama, {{.key = "training.recompute", .value = what}}).costs.stages[1];
}

// In a stage of 20 layers, r layers recompute their forward pass and store 2 T h / t bytes. The other layers
// store the same bytes as without recomputation.
TEST(PartialRecomputation, OfTheFirstLayersLiesBetweenNoneAndFull) {
  const StageCost none = middle_stage_with("none");
  const StageCost full = middle_stage_with("full");
  const StageCost half = middle_stage_with("{full: 10}");
  EXPECT_NEAR(static_cast<double>(half.backward_ns),
              static_cast<double>(none.backward_ns + full.backward_ns) / 2, 1);
  EXPECT_NEAR(static_cast<double>(half.kept), static_cast<double>(none.kept + full.kept) / 2, 1);
  EXPECT_EQ(half.forward_ns, none.forward_ns);
  EXPECT_EQ(half.transient, full.transient) << "one layer is computed again at a time";
  EXPECT_EQ(middle_stage_with("{block: 10}"), half);
  EXPECT_EQ(middle_stage_with("{full: 20}"), full);
  EXPECT_EQ(middle_stage_with("{full: 99}"), full) << "more than the stage has";
}

TEST(PartialRecomputation, OfListedLayersTouchesTheirStagesAlone) {
  const Experiment experiment =
      experiment_of(kLlama, {{.key = "training.recompute", .value = "{full: [20, 0, 21]}"}});
  const Experiment none = experiment_of(kLlama);
  const auto again_ns = [&](std::size_t stage) {
    return experiment.costs.stages[stage].backward_ns - none.costs.stages[stage].backward_ns;
  };
  EXPECT_GT(again_ns(0), 0);
  EXPECT_NEAR(static_cast<double>(again_ns(1)), 2.0 * static_cast<double>(again_ns(0)), 2);
  EXPECT_EQ(again_ns(2), 0);
  EXPECT_EQ(experiment.costs.stages[2].kept, none.costs.stages[2].kept);
}

// With groups of 4 layers, the stage stores 5 inputs instead of 20. The activations of 4 layers exist at the
// same time.
TEST(PartialRecomputation, OfGroupsStoresOneInputForEach) {
  const StageCost none = middle_stage_with("none");
  const StageCost full = middle_stage_with("full");
  const StageCost groups = middle_stage_with("{uniform: 4}");
  EXPECT_EQ(groups.backward_ns, full.backward_ns);
  EXPECT_EQ(groups.kept, full.kept / 4);
  const Bytes layer = none.kept / 20;
  EXPECT_EQ(groups.transient - full.transient, 3 * layer);
  EXPECT_EQ(groups.kept + groups.recomputed, none.kept);
  EXPECT_EQ(middle_stage_with("{uniform: 1}"), full);
}

TEST(PartialRecomputation, OfLayersThatTheModelLacksIsAnError) {
  const auto fault = [](const std::string& what) {
    return fault_of(kLlama, {{.key = "training.recompute", .value = what}});
  };
  EXPECT_THAT(fault("{full: [80]}"), HasSubstr("training.recompute: expected layers from 0 to 79, got 80"));
  EXPECT_THAT(fault("{full: 0}"), HasSubstr("training.recompute.full: expected a whole number from 1 to"));
  EXPECT_THAT(fault("{full: 1, uniform: 2}"), HasSubstr("expected one of full, block and uniform"));
  EXPECT_THAT(fault("{fully: 1}"), HasSubstr("did you mean full?"));
}

// --- sequences by microbatch
// --------------------------------------------------------------------------------

TEST(SequencesByMicrobatch, PriceEachMicrobatchAtItsOwn) {
  const std::vector<Override> lengths = {
      {.key = "training.sequence", .value = "{microbatches: [8192, 2048]}"}};
  const Experiment mixed = experiment_of(kLlama, lengths);
  const Experiment longest = experiment_of(kLlama);
  const Experiment shortest = experiment_of(kLlama, {{.key = "model.sequence", .value = "2048"}});
  ASSERT_EQ(mixed.costs.microbatches.size(), 2);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const StageCost& first = mixed.costs.microbatches[0].stages[stage];
    const StageCost& second = mixed.costs.microbatches[1].stages[stage];
    EXPECT_EQ(first.forward_ns, longest.costs.stages[stage].forward_ns);
    EXPECT_EQ(first.backward_ns, longest.costs.stages[stage].backward_ns);
    EXPECT_EQ(first.kept, longest.costs.stages[stage].kept);
    EXPECT_EQ(second.forward_ns, shortest.costs.stages[stage].forward_ns);
    EXPECT_EQ(second.backward_weight_ns, shortest.costs.stages[stage].backward_weight_ns);
    EXPECT_EQ(second.transient, shortest.costs.stages[stage].transient);
  }
  EXPECT_EQ(mixed.costs.microbatches[1].edges.front(), shortest.costs.edges.front());
  EXPECT_EQ(mixed.costs.stages[0].step_ns, shortest.costs.stages[0].step_ns)
      << "the last microbatch is short";
  EXPECT_EQ(mixed.trained->tokens_per_sample, (8192 + 2048) / 2);
  EXPECT_NEAR(mixed.trained->flops_per_sample,
              (longest.trained->flops_per_sample + shortest.trained->flops_per_sample) / 2, 1e6);
}

TEST(SequencesByMicrobatch, MayStandInTheModel) {
  const std::string text = R"(
model: {huggingface: llama-3.1-70b.json, sequence: {microbatches: [8192, 2048]}}
cluster: {device: h100-sxm, nodes: 8}
parallel: {tensor: 8}
schedule: {name: 1f1b, stages: 4}
training: {global_batch_size: 128}
)";
  const Experiment in_training =
      experiment_of(kLlama, {{.key = "training.sequence", .value = "{microbatches: [8192, 2048]}"}});
  EXPECT_EQ(experiment_of(text).costs, in_training.costs);
}

TEST(SequencesByMicrobatch, MustEachDivideAndBeGivenInAList) {
  const auto fault = [](const std::string& value) {
    return fault_of(kLlama, {{.key = "training.sequence", .value = value}});
  };
  EXPECT_THAT(fault("{microbatches: [8192, 2049]}"), HasSubstr("got 8 (tokens 0 to 2049)"));
  EXPECT_THAT(fault("{microbatches: 8192}"), HasSubstr("expected {microbatches: [..]}"));
  EXPECT_THAT(fault("{microbatches: [8192, 0]}"), HasSubstr("expected a whole number from 1 to"));
}

// --- groups of unlike devices ----------------------------------------------------------------------------

/// Returns Llama 3.1 8B on four stages of eight devices each, with this cluster.
std::string on_groups(const std::string& cluster, const std::string& parallel = "{tensor: 8}") {
  return "model: {huggingface: llama-3.1-8b.json, sequence: 4096}\ncluster: " + cluster +
         "\nparallel: " + parallel +
         "\nschedule: {name: 1f1b, stages: 4}\ntraining: {global_batch_size: 16}\n";
}

TEST(DeviceGroups, OfOneKindCostWhatOneGroupCosts) {
  const Experiment one = experiment_of(on_groups("{device: h100-sxm, nodes: 4}"), {});
  const Experiment two =
      experiment_of(on_groups("{groups: [{device: h100-sxm, nodes: 1}, {device: h100-sxm, nodes: 3}]}"), {});
  // The number of layers is divisible, so the balanced split differs from an even split only because of the
  // head.
  const Experiment even =
      experiment_of(on_groups("{groups: [{device: h100-sxm, nodes: 1}, {device: h100-sxm, nodes: 3}]}"),
                    {{.key = "schedule.layer_split", .value = "even"}});
  EXPECT_EQ(even.costs, one.costs);
  EXPECT_EQ(two.trained, one.trained);
}

TEST(DeviceGroups, ASlowerGroupHasFewerLayers) {
  const Experiment mixed =
      experiment_of(on_groups("{groups: [{device: h100-sxm, nodes: 2}, {device: a100-sxm, nodes: 2}]}"), {});
  const std::vector<StageCost>& stages = mixed.costs.stages;
  // An H100 computes more than twice as fast as an A100, so it has more than twice the weights.
  EXPECT_GT(stages[1].weights, 1.8 * static_cast<double>(stages[2].weights));
  const Ns longest = std::ranges::max(stages, {}, &StageCost::forward_ns).forward_ns;
  EXPECT_THAT(mixed.notes, testing::Contains(HasSubstr("16 x h100-sxm + 16 x a100-sxm: tensor 8")));
  EXPECT_THAT(mixed.notes,
              testing::Contains(HasSubstr("balanced by the prices of each kind of device; by stage: [")));
  // A stage of the slow group takes longer than one of the fast group if both have equally many layers.
  const Experiment even =
      experiment_of(on_groups("{groups: [{device: h100-sxm, nodes: 2}, {device: a100-sxm, nodes: 2}]}"),
                    {{.key = "schedule.layer_split", .value = "even"}});
  EXPECT_GT(even.costs.stages[2].forward_ns, 1.8 * static_cast<double>(even.costs.stages[1].forward_ns));
  EXPECT_GT(std::ranges::max(even.costs.stages, {}, &StageCost::forward_ns).forward_ns,
            1.3 * static_cast<double>(longest));
}

TEST(DeviceGroups, AReversedOrderIsThatOfAReversedList) {
  const std::string two = "{device: h100-sxm, nodes: 2}, {device: a100-sxm, nodes: 1, reserve: 2 GiB}";
  const std::string back = "{device: a100-sxm, nodes: 1, reserve: 2 GiB}, {device: h100-sxm, nodes: 2}";
  const std::string parallel = "{tensor: 8, data: 1}";
  const auto on = [&](const std::string& cluster) {
    return experiment_of(on_groups(cluster, parallel), {{.key = "schedule.stages", .value = "3"}});
  };
  const Experiment reversed = on("{groups: [" + two + "], group_order: reversed}");
  const Experiment listed = on("{groups: [" + back + "]}");
  EXPECT_EQ(reversed.costs, listed.costs);
  EXPECT_EQ(reversed.notes, listed.notes);
  EXPECT_TRUE(reversed.cluster == listed.cluster);
  EXPECT_NE(reversed.costs, on("{groups: [" + two + "], group_order: stated}").costs);
  EXPECT_THAT(fault_of(on_groups("{groups: [" + two + "], group_order: backwards}"), {}),
              HasSubstr("cluster.group_order: expected stated or reversed"));
}

TEST(DeviceGroups, RanksOfDifferentGroupsSendOverTheSlowerNetwork) {
  const Experiment mixed =
      experiment_of(on_groups("{groups: [{device: h100-sxm, nodes: 2}, {device: a100-sxm, nodes: 2}]}"), {});
  EXPECT_EQ(mixed.cluster.route(1, 2).bytes_per_second,
            find_device_type("a100")->link_bytes_per_second(false));
  EXPECT_EQ(mixed.cluster.route(0, 1).bytes_per_second,
            find_device_type("h100")->link_bytes_per_second(false));
  EXPECT_EQ(mixed.cluster.devices()[3].name, "a100-sxm.3");
}

TEST(DeviceGroups, AStageLiesOnOneKindOfDevice) {
  const std::string groups = "{groups: [{device: h100-sxm, nodes: 3}, {device: a100-sxm, nodes: 5}]}";
  EXPECT_THAT(
      fault_of(on_groups(groups), {}),
      HasSubstr(
          "cluster.groups: a stage with its copies takes 16 devices (tensor x context x data), which do "
          "not divide the 24 of h100-sxm"));
  EXPECT_THAT(fault_of(on_groups(groups, "{tensor: 8, data: 1, order: tp-cp-ep-pp-dp}"), {}),
              HasSubstr("parallel.order: expected tp-cp-ep-dp-pp for cluster.groups"));
  EXPECT_THAT(fault_of(on_groups("{groups: []}"), {}),
              HasSubstr("cluster.groups: expected a list of groups"));
  EXPECT_THAT(fault_of(on_groups("{groups: [{nodes: 2}]}"), {}),
              HasSubstr("cluster.groups.0.device: expected the name of an accelerator"));
}

// An H800 is an H100 with slower NVLinks, which tensor parallelism uses.
TEST(DeviceScenario, DevicesWithoutTablesArePricedByTheirPeaksAndSaySo) {
  const auto longest = [](const std::string& device) {
    return experiment_of(kLlama, {{.key = "cluster.device", .value = device}}).costs.stages[0].forward_ns;
  };
  EXPECT_GT(longest("h800"), longest("h100"));
  EXPECT_GT(longest("h20"), 2 * longest("h100"));
  EXPECT_LT(longest("mi300x"), longest("l40s"));
  EXPECT_THAT(experiment_of(kLlama, {{.key = "cluster.device", .value = "mi325x"}}).notes,
              testing::Contains(HasSubstr("no kernels were measured on mi325x")));
}

TEST(DeviceNames, WhatNvidiaSmiPrintsIsTheDevice) {
  EXPECT_EQ(unknown_device("NVIDIA H100 80GB HBM3"),
            "expected one of a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300, gb300, a800, h800, h20, "
            "l40s, mi300x, mi325x, tpu-v5p, got \"NVIDIA H100 80GB HBM3\"; did you mean h100-sxm?");
  EXPECT_THAT(unknown_device("NVIDIA H200"), EndsWith("; did you mean h200-sxm?"));
  EXPECT_THAT(unknown_device("NVIDIA GB200"), EndsWith("; did you mean gb200?"));
  EXPECT_THAT(unknown_device("NVIDIA A100-SXM4-80GB"), EndsWith("; did you mean a100-sxm?"));
  EXPECT_THAT(unknown_device("NVIDIA A100-SXM4-40GB"),
              EndsWith("; did you mean a100-sxm? Write memory: 40 GB beside it"));
  EXPECT_THAT(unknown_device("h100-sxn"), EndsWith("; did you mean h100-sxm?"));
  EXPECT_THAT(unknown_device("h100sxm5"), EndsWith("; did you mean h100-sxm?"));
}

TEST(DeviceNames, ACardOfAnotherFormHasFiguresOfItsOwn) {
  EXPECT_THAT(unknown_device("NVIDIA A800-SXM4-80GB"), EndsWith("; did you mean a800?"));
  EXPECT_THAT(unknown_device("NVIDIA H20"), EndsWith("; did you mean h20?"));
  EXPECT_THAT(unknown_device("NVIDIA H100 PCIe"),
              HasSubstr("device: h100-sxm with its own flops, memory, memory_bandwidth and nvlink"));
}

TEST(DeviceNames, OtherDevicesGetNoHintButHowToWriteOnesOwn) {
  for (const std::string_view name :
       {"mi300a", "l4", "910b", "rtx4090", "tpu-v4", "MI355X", "gaudi3", "h300-sxm", "b100-sxm", ""}) {
    EXPECT_THAT(unknown_device(name), Not(HasSubstr("did you mean"))) << name;
    EXPECT_THAT(
        unknown_device(name),
        HasSubstr("such as device: h100-sxm with flops, memory, memory_bandwidth, nvlink, network and "
                  "kernels"))
        << name;
  }
}

}  // namespace
}  // namespace penstock
