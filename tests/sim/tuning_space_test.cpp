// Which configurations a search looks at, held against every rule of the space tried on every tuple.

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
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/device_model.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/space_size.hpp"
#include "sim/tuning/tune.hpp"
#include "sim/tuning/tuning_space.hpp"
#include "tests/sim/tune_request.hpp"

namespace penstock {
namespace {

bool divides(std::int64_t divisor, std::int64_t number) { return number % divisor == 0; }

/// The rules one by one, as tuning_space.hpp states them.
bool is_in_space(const Architecture& model, const Configuration& of, std::int64_t global_batch,
                 std::int64_t sequence) {
  const std::int64_t devices = 8;
  if (std::int64_t{of.tensor} * of.context * of.data * of.stages != devices) return false;
  if (!divides(of.tensor, model.heads) || !divides(of.tensor, model.feed_forward) || of.tensor > 8)
    return false;
  if (!divides(of.tensor, model.kv_heads) && !divides(model.kv_heads, of.tensor)) return false;
  const bool is_ring = of.context_exchange == ContextExchange::ring;
  if (of.context == 1 && !is_ring) return false;  // the same as with a ring
  if (of.context > 1 && is_ring && !divides(2 * of.context, sequence)) return false;
  if (of.context > 1 && !is_ring && !divides(of.context * of.tensor, model.heads)) return false;
  const std::int64_t experts = model.experts ? model.experts->count : 1;
  if (!divides(of.expert, experts) || !divides(of.expert, of.tensor * of.context * of.data)) return false;
  if (std::int64_t{of.micro_batch_size} * of.data * of.microbatches != global_batch) return false;
  if (of.sharding > 0 && of.data * of.context == 1) return false;
  if (of.stages == 1) return of.schedule == "1f1b" && of.virtual_stages == 1 && of.layer_split == 0;
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const std::int64_t stages = std::int64_t{of.stages} * of.virtual_stages;
  if (of.layer_split == 0 && !divides(stages, layers)) return false;
  if (of.layer_split == 1 && !divides(stages, layers + 2)) return false;
  // Balanced: every stage but the first and the last, which have the ends, needs a layer.
  if (of.layer_split == 2 && stages > layers + 2) return false;
  if (of.layer_split == 2 && !std::has_single_bit(static_cast<std::uint32_t>(of.virtual_stages)))
    return false;
  const ScheduleInfo* schedule = find_schedule(of.schedule);
  if (of.schedule == "interleaved" && of.virtual_stages == 1) return false;  // which is 1f1b
  const std::int32_t chunks = of.schedule == "interleaved" ? of.virtual_stages : 1;
  if (chunks_of(*schedule, {.virtual_stages = chunks}) != of.virtual_stages) return false;
  return generate(of.schedule,
                  {.stages = of.stages, .microbatches = of.microbatches, .virtual_stages = chunks})
      .has_value();
}

/// All tuples of small numbers.
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
    for (const std::string_view schedule : {"1f1b", "interleaved", "zb-h1", "zb-v"}) {
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
                for (const auto recompute :
                     {LayerRecompute::none, LayerRecompute::selective, LayerRecompute::full}) {
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

/// Returns the configurations of a space that number devices in the order.
std::vector<Configuration> with_order(const std::vector<Configuration>& space, PlacementOrder order) {
  std::vector<Configuration> found;
  std::ranges::copy_if(space, std::back_inserter(found),
                       [&](const Configuration& of) { return of.order == order; });
  return found;
}

// On one NVLink domain no order changes anything. On two nodes of eight it does unless a rank fills a node.
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
  ASSERT_EQ(space->size(), 2U);  // 8 layers on 4 stages: even and balanced
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

}  // namespace
}  // namespace penstock
