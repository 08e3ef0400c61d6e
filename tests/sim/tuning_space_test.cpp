// Compares the space of a search with a slow list, which checks every rule of the space for every tuple of
// values.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/tune.hpp"
#include "sim/choose/tune_questions.hpp"
#include "sim/choose/tuning_space.hpp"
#include "tests/sim/tune_request.hpp"

namespace penstock {
namespace {

bool divides(std::int64_t divisor, std::int64_t number) { return number % divisor == 0; }

/// Returns true if the configuration meets all rules of tuning_space.hpp.
bool is_in_space(const Architecture& model, const Configuration& of, std::int64_t global_batch,
                 std::int64_t sequence) {
  const std::int64_t devices = 8;
  if (std::int64_t{of.tensor} * of.context * of.data * of.stages != devices) return false;
  if (!divides(of.tensor, model.heads) || !divides(of.tensor, model.feed_forward) || of.tensor > 8)
    return false;
  if (!divides(of.tensor, model.kv_heads) && !divides(model.kv_heads, of.tensor)) return false;
  const bool is_ring = of.context_exchange == ContextExchange::ring;
  if (of.context == 1 && !is_ring) return false;  // equals the configuration with a ring
  if (of.context > 1 && is_ring && !divides(2 * of.context, sequence)) return false;
  if (of.context > 1 && !is_ring && !divides(of.context * of.tensor, model.heads)) return false;
  const std::int64_t experts = model.experts ? model.experts->count : 1;
  if (!divides(of.expert, experts) || !divides(of.expert, of.tensor * of.context * of.data)) return false;
  if (std::int64_t{of.micro_batch_size} * of.data * of.microbatches != global_batch) return false;
  if (of.sharding > 0 && of.data * of.context == 1) return false;
  if (of.schedule == "ep-1f1b" && of.expert == 1) return false;  // its pairs hide nothing
  const bool is_whole = of.virtual_stages == 1 && of.layer_split == 0;
  if (of.stages == 1) return is_whole && (of.schedule == "1f1b" || of.schedule == "ep-1f1b");
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const std::int64_t stages = std::int64_t{of.stages} * of.virtual_stages;
  if (of.layer_split == 0 && !divides(stages, layers)) return false;
  if (of.layer_split == 1 && !divides(stages, layers + 2)) return false;
  // With a balanced split, every stage needs a layer, except the first and the last one, which have the
  // embedding and the head.
  if (of.layer_split == 2 && stages > layers + 2) return false;
  if (of.layer_split == 2 && !std::has_single_bit(static_cast<std::uint32_t>(of.virtual_stages)))
    return false;
  const ScheduleInfo* schedule = find_schedule(of.schedule);
  const bool has_chunks = of.schedule == "interleaved" || of.schedule == "ep-1f1b";
  if (has_chunks && of.virtual_stages == 1) return false;  // equals 1f1b, or gains nothing over it
  const std::int32_t chunks = has_chunks ? of.virtual_stages : 1;
  if (chunks_of(*schedule, {.virtual_stages = chunks}) != of.virtual_stages) return false;
  return generate(of.schedule,
                  {.stages = of.stages, .microbatches = of.microbatches, .virtual_stages = chunks})
      .has_value();
}

/// Returns all tuples of small numbers that meet the rules.
std::set<Configuration> slow_space(const TuneRequest& request) {
  const Workload& work = std::get<DeviceModel>(request.base.model).work;
  const std::vector<std::int32_t> powers = {1, 2, 4, 8, 16};
  std::set<Configuration> found;
  Configuration of;
  const auto for_each = [&](const std::vector<std::int32_t>& values, std::int32_t& member, auto next) {
    for (const std::int32_t value : values) {
      member = value;
      next();
    }
  };
  const auto add_schedules = [&] {
    for (const std::string_view schedule : {"1f1b", "interleaved", "zb-h1", "zb-v", "ep-1f1b"}) {
      for (std::int32_t v = 1; v <= 10; ++v) {
        for (const std::size_t split : {0, 1, 2}) {
          of.schedule = schedule;
          of.virtual_stages = v;
          of.layer_split = split;
          if (is_in_space(work.model, of, request.global_batch_size, work.sequence)) found.insert(of);
        }
      }
    }
  };
  for_each(powers, of.tensor, [&] {
    for_each(powers, of.context, [&] {
      for_each(powers, of.data, [&] {
        for_each(powers, of.stages, [&] {
          if (of.tensor * of.context * of.data * of.stages != 8) return;
          for_each(powers, of.expert, [&] {
            for_each(powers, of.micro_batch_size, [&] {
              of.microbatches =
                  static_cast<std::int32_t>(request.global_batch_size) / of.micro_batch_size / of.data;
              for (const auto exchange : {ContextExchange::ring, ContextExchange::all_to_all}) {
                for (const auto recompute : {LayerRecompute::none, LayerRecompute::full}) {
                  for_each({0, 1, 2, 3}, of.sharding, [&] {
                    of.context_exchange = exchange;
                    of.recompute = recompute;
                    add_schedules();
                  });
                }
              }
            });
          });
        });
      });
    });
  });
  return found;
}

TEST(TuningSpace, HoldsWhatTheRulesAdmitAndNothingElse) {
  for (const std::string_view scenario : {kTunedLlama, kTunedMixtral}) {
    const TuneRequest request = tune_request(scenario, 24);
    const auto space = tuning_space(request);
    ASSERT_TRUE(space) << space.error();
    const std::set<Configuration> slow = slow_space(request);
    EXPECT_EQ(std::set<Configuration>(space->begin(), space->end()), slow);
    EXPECT_EQ(space->size(), slow.size());
    EXPECT_TRUE(std::ranges::is_sorted(*space));
  }
}

/// Returns the configurations of a space that have this order of parallelisms.
std::vector<Configuration> with_order(const std::vector<Configuration>& space, PlacementOrder order) {
  std::vector<Configuration> found;
  std::ranges::copy_if(space, std::back_inserter(found),
                       [&](const Configuration& of) { return of.order == order; });
  return found;
}

// In one NVLink domain, the order has no effect. On two nodes of eight devices, it has an effect unless a
// rank uses a whole node.
TEST(TuningSpace, HasAnotherOrderWhereItChangesALink) {
  TuneRequest request = tune_request(kTunedMixtral, 64);
  EXPECT_TRUE(with_order(*tuning_space(request), PlacementOrder::tp_cp_ep_pp_dp).empty());
  request.base.cluster.named->nodes = 2;
  request.choices.stages = {2};
  const std::vector<Configuration> other = with_order(*tuning_space(request), PlacementOrder::tp_cp_ep_pp_dp);
  ASSERT_FALSE(other.empty());
  for (const Configuration& of : other) EXPECT_LT(of.tensor * of.context, 8);
  request.choices.order = {PlacementOrder::tp_cp_ep_dp_pp};
  EXPECT_TRUE(with_order(*tuning_space(request), PlacementOrder::tp_cp_ep_pp_dp).empty());
  request.choices.order.clear();
  auto& model = std::get<DeviceModel>(request.base.model);
  model.states_order = true;
  EXPECT_TRUE(with_order(*tuning_space(request), PlacementOrder::tp_cp_ep_pp_dp).empty())
      << "the scenario states the usual order";
  model.work.parallel.order = PlacementOrder::tp_cp_ep_pp_dp;
  EXPECT_EQ(with_order(*tuning_space(request), PlacementOrder::tp_cp_ep_pp_dp), other);
}

TEST(TuningSpace, ChoicesCutIt) {
  TuneRequest request = tune_request(kTunedLlama, 16);
  request.choices.tensor = {2};
  request.choices.stages = {4};
  request.choices.recompute = {LayerRecompute::none};
  request.choices.micro_batch_size = {1};
  request.schedules = {"1f1b"};
  const auto space = tuning_space(request);
  ASSERT_TRUE(space) << space.error();
  ASSERT_EQ(space->size(), 2U);  // 8 layers on 4 stages, with an even and with a balanced split
  EXPECT_EQ(space->front().data, 1);
  EXPECT_EQ(space->front().microbatches, 16);
}

TEST(TuningSpace, SaysWhyNothingIsLeft) {
  TuneRequest request = tune_request(kTunedLlama, 16);
  request.choices.tensor = {3};
  EXPECT_EQ(
      tuning_space(request).error(),
      "tune: no configuration is left on 8 devices (1 x 8 h100-sxm): expected tensor x context x stages x "
      "data that make 8 devices (tensor at most 8, experts in equal parts); allow more choices");
  request.choices.tensor = {};
  request.choices.micro_batch_size = {3};
  EXPECT_NE(tuning_space(request).error().find("microbatches of 1, 2, 4, .. 16 samples"), std::string::npos);
  request.choices.micro_batch_size = {};
  request.choices.context = {1, 8};
  request.choices.tensor = {1};
  request.choices.stages = {8};
  request.choices.sharding = {1};
  EXPECT_NE(tuning_space(request).error().find("8 h100-sxm): ZeRO 1 shares out what copies of the weights "
                                               "hold and needs two copies: data x context is 1; "),
            std::string::npos)
      << tuning_space(request).error();
  request.choices = {};
  request.choices.stages = {4, 8};
  std::get<DeviceModel>(request.base.model).work.model.layers.resize(5);
  request.layer_splits = {{.rule = LayerSplit::Rule::even}};
  request.schedules = {"1f1b"};
  EXPECT_NE(tuning_space(request).error().find(
                "5 layers divide over none of the stages asked for, virtual ones counted "
                "(4, 8), by layer_split even; take --layer-split balanced"),
            std::string::npos)
      << tuning_space(request).error();
  request.choices.stages = {4};
  request.choices.virtual_stages = {2};
  EXPECT_NE(tuning_space(request).error().find("no schedule asked for takes the virtual stages asked for"),
            std::string::npos)
      << tuning_space(request).error();
  request.schedules = {"chimera"};
  EXPECT_NE(tuning_space(request).error().find("chimera is not tuned"), std::string::npos);
}

// The bounds and the choices of the search are those of training.
TEST(TuningSpace, ForwardPassesAloneAreRefused) {
  TuneRequest request = tune_request(kTunedLlama, 16);
  request.base.shape.passes = Passes::forward;
  EXPECT_NE(tuning_space(request).error().find("expected training with backward passes"), std::string::npos);
  request.base.shape.passes = Passes::both;
  EXPECT_TRUE(tuning_space(request));
  request.schedules = {"1f1b", "Chunked_Prefill"};
  EXPECT_NE(tuning_space(request).error().find("or chunked-prefill"), std::string::npos);
}

TEST(TuningSpace, TheStatedRecomputationIsACandidate) {
  TuneRequest request = tune_request(kTunedLlama, 16);
  Workload& work = std::get<DeviceModel>(request.base.model).work;
  const auto tried = [&] {
    std::set<std::string> texts;
    const auto space = tuning_space(request);
    for (const Configuration& of : *space) texts.insert(recompute_text(request, of.recompute));
    return texts;
  };
  EXPECT_EQ(tried(), (std::set<std::string>{"full", "none"}));
  work.recompute = {RecomputedPart::norm, RecomputedPart::mlp};
  EXPECT_EQ(tried(), (std::set<std::string>{"full", "none", to_text(work.recompute)}));
  work.recompute = LayerRecompute::full;
  work.recomputed_layers = {.method = RecomputedLayers::Method::block, .count = 3};
  EXPECT_EQ(tried(), (std::set<std::string>{"none", "{full: 3}"}));
  // The keys that a user gets for a configuration have the stated form, too.
  const std::vector<Configuration> space = *tuning_space(request);
  const auto part = std::ranges::find(space, LayerRecompute::full, &Configuration::recompute);
  ASSERT_NE(part, space.end());
  EXPECT_THAT(overrides_of(request, *part),
              testing::Contains(Override{.key = "training.recompute", .value = "{full: 3}"}));
  work.recomputed_layers = {.method = RecomputedLayers::Method::uniform, .count = 2};
  EXPECT_EQ(tried(), (std::set<std::string>{"none", "{uniform: 2}"}));
  work.recomputed_layers = {.method = RecomputedLayers::Method::listed, .layers = {0, 3}};
  EXPECT_EQ(tried(), (std::set<std::string>{"none", "{full: [0, 3]}"}));
}

TEST(TuningSpace, AProgramThatFitsNoMachineIsRefusedBeforeItIsMade) {
  const Configuration small{.stages = 4, .microbatches = 64};
  const Configuration large{
      .stages = 8, .virtual_stages = 2, .schedule = "interleaved", .microbatches = 1 << 20};
  constexpr Bytes kEnough = Bytes{4} << 30;
  EXPECT_EQ(space_refusal({}, 0), std::nullopt);
  EXPECT_EQ(space_refusal(std::vector{small}, 0), std::nullopt);
  EXPECT_EQ(space_refusal(std::vector{small, large}, kEnough), std::nullopt);
  EXPECT_EQ(
      space_refusal(std::vector{small, large, small}, Bytes{1} << 30),
      "tune: the 3.36e+07 compute actions of interleaved on 8 ranks x 2 virtual stages with 1048576 "
      "microbatches take at least 2.19 GiB of memory, and 1.00 GiB are within reach: take a smaller global "
      "batch, or allow only fewer stages (--pp-size), larger microbatches (--micro-batch-size) or "
      "more copies (--data-parallel)");
  const Configuration beyond{.stages = 2048, .microbatches = 1 << 18};
  const auto refusal = space_refusal(std::vector{beyond}, std::numeric_limits<Bytes>::max());
  EXPECT_NE(refusal.value_or("").find("are more than an engine numbers, 2^29: take"), std::string::npos)
      << refusal.value_or("none");
}

TEST(TuningSpace, SeveralNumbersOfNodes) {
  TuneRequest request = tune_request(kTunedLlama, 16);
  request.nodes = {1, 2};
  const auto space = tuning_space(request);
  ASSERT_TRUE(space);
  for (const Configuration& of : *space) EXPECT_EQ(device_count(of), 8 * of.nodes);
  EXPECT_EQ(space->front().nodes, 1);
  EXPECT_EQ(space->back().nodes, 2);
}

// If a schedule hangs with the scenario's channels or refuses one of its options, the search omits it and
// reports it. The result for other schedules is the same as without it.

/// Returns a request with four stages and channels with room for two messages. With this number of
/// microbatches, zb-v needs more room, and 1f1b does not.
TuneRequest narrow_request(std::vector<std::string> schedules) {
  TuneRequest request = tune_request(kTunedLlama, 64);
  request.choices.micro_batch_size = {1};
  request.base.channels.capacity = 2;
  request.schedules = std::move(schedules);
  request.choices.stages = {4};
  request.choices.sharding = {0};
  return request;
}

TEST(Tuning, AScheduleThatHangsIsLeftOutAndNamed) {
  const TuneRequest request = narrow_request({"zb-v", "1f1b"});
  for (const bool prune : {true, false}) {
    const auto report = tune(request, {.prune = prune});
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_EQ(report->left_out.size(), 1U);
    const LeftOut& left_out = report->left_out.front();
    EXPECT_EQ(left_out.schedule, "zb-v");
    EXPECT_TRUE(left_out.hangs);
    EXPECT_THAT(left_out.reason, testing::EndsWith(" microbatches hangs under these channels"));
    EXPECT_EQ(report->evaluated + report->pruned_by_memory + report->pruned_by_time + left_out.configurations,
              report->space);
    for (const TunedConfiguration& tuned : report->candidates) {
      EXPECT_EQ(tuned.configuration.schedule, "1f1b");
      EXPECT_EQ(tuned.step_ns, simulated_configuration(request, tuned.configuration).makespan_ns);
    }
  }
}

/// The result is the same as without the schedule that cannot run.
TEST(Tuning, WhatIsLeftOutChangesNothingForTheOthers) {
  const auto with = tune(narrow_request({"zb-v", "1f1b"}), {});
  const auto without = tune(narrow_request({"1f1b"}), {});
  ASSERT_TRUE(with) << with.error().message;
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_TRUE(without->left_out.empty());
  EXPECT_EQ(with->candidates.front().configuration, without->candidates.front().configuration);
  EXPECT_EQ(with->candidates.front().step_ns, without->candidates.front().step_ns);
}

TEST(Tuning, AScheduleThatRefusesAnOptionIsLeftOut) {
  TuneRequest request = tune_request(kTunedLlama, 16);
  request.base.shape.group_size = 4;
  request.schedules = {"1f1b", "interleaved"};
  request.choices.stages = {1, 2};
  const auto report = tune(request, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->candidates.front().configuration.schedule, "interleaved");
  ASSERT_EQ(report->left_out.size(), 1U);
  EXPECT_EQ(report->left_out.front().schedule, "1f1b");
  EXPECT_FALSE(report->left_out.front().hangs);
  EXPECT_THAT(report->left_out.front().reason, testing::StartsWith("group_size: 1f1b does not take it"));
}

/// An outline has fewer microbatches than the program, and the schedule may refuse this smaller number.
TEST(Tuning, AProgramWhoseOutlineIsRefusedIsOutlinedWhole) {
  TuneRequest request = tune_request(kTunedLlama, 24);
  request.base.shape.group_size = 6;
  request.schedules = {"interleaved"};
  request.choices.stages = {4};
  request.choices.data = {1};
  request.choices.micro_batch_size = {1};
  const auto report = tune(request, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->left_out.empty());
}

TEST(Tuning, WhereNothingCanRunTheErrorSaysWhy) {
  const auto hanging = tune(narrow_request({"zb-v"}), {});
  ASSERT_FALSE(hanging);
  EXPECT_EQ(hanging.error().kind, ErrorKind::check_failed);
  EXPECT_THAT(hanging.error().message, testing::HasSubstr(" of zb-v: zb-v with 4 stages and "));
  TuneRequest refusing = tune_request(kTunedLlama, 16);
  refusing.base.shape.group_size = 4;
  refusing.schedules = {"1f1b"};
  const auto refused = tune(refusing, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("group_size: 1f1b does not take it"));
}

// Schedules that search their order by costs. The best configuration must not depend on the number of listed
// ones. The sensitivity to changed figures must be consistent with the search.

/// Returns a request whose best configuration becomes the best only by the search of its order. Before, many
/// others are better.
TuneRequest request_of_searches() {
  TuneRequest request = tune_request(
      "model: {huggingface: llama-3.1-70b.json, sequence: 2048}\ncluster: {device: b200-sxm, nodes: 8}\n",
      64);
  request.schedules = {"interleaved", "zb-v"};
  request.choices.stages = {4, 8};
  request.choices.micro_batch_size = {2, 4};
  request.choices.sharding = {0, 1};
  request.choices.recompute = {LayerRecompute::none, LayerRecompute::selective};
  return request;
}

TEST(Tuning, HowManyAreListedDoesNotDecideWhichIsBest) {
  const TuneRequest request = request_of_searches();
  const auto shortest = tune(request, {.top = 1});
  ASSERT_TRUE(shortest) << shortest.error().message;
  const TunedConfiguration& best = shortest->candidates.front();
  EXPECT_FALSE(best.constructed);
  for (const std::size_t top : {2UL, 10UL, 20UL, 50UL}) {
    const auto report = tune(request, {.top = top});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->candidates.front().configuration, best.configuration) << top;
    EXPECT_EQ(report->candidates.front().step_ns, best.step_ns) << top;
    EXPECT_GE(report->candidates.size(), top);
  }
}

/// The best configuration must be the best with each of its values, even if the search of orders has improved
/// others.
TEST(Tuning, ValuesOfTheBestCostNothing) {
  const TuneRequest request = request_of_searches();
  const auto report = tune(request, {});
  ASSERT_TRUE(report) << report.error().message;
  const ChoiceTexts texts = choice_texts(request, report->candidates.front().configuration);
  for (std::size_t choice = 0; choice < kChoices.size(); ++choice) {
    const auto cost = std::ranges::find_if(report->choices, [&](const ChoiceCost& one) {
      return one.choice == kChoices[choice] && one.value == texts[choice];
    });
    ASSERT_NE(cost, report->choices.end()) << kChoices[choice];
    EXPECT_EQ(cost->best, std::optional<std::size_t>(0)) << kChoices[choice];
  }
}

TEST(Sensitivity, NoRowIsWorseThanTheBestOfThisMachineThere) {
  TuneRequest request = tune_request(
      "model: {huggingface: ../../../scenarios/library/models/llama-3.1-8b.json, sequence: 2048}\ncluster: "
      "{device: h100-sxm, nodes: 2}\n",
      32);
  request.schedules = {"interleaved", "zb-v"};
  request.choices.stages = {2, 4, 8};
  request.choices.sharding = {0, 1};
  request.choices.recompute = {LayerRecompute::none};
  const auto report = tune(request, {.top = 1});
  ASSERT_TRUE(report) << report.error().message;
  const auto rows = sensitivity(request, report->candidates.front());
  ASSERT_TRUE(rows) << rows.error();
  EXPECT_EQ(rows->size(), 8U);
  for (const SensitivityRow& row : *rows) {
    EXPECT_LE(row.loss.value_or(0), 0) << row.figure << " " << row.factor;
    const TunedConfiguration& old = report->candidates.front();
    // On another machine, the balanced layers of the same configuration may be different.
    const bool is_same = row.best.configuration == old.configuration && row.best.layers == old.layers;
    EXPECT_TRUE(!is_same || !row.loss || *row.loss == 0) << row.figure << " " << row.factor;
  }
}

}  // namespace
}  // namespace penstock
