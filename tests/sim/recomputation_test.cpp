// What layers compute again inside their backward pass, where a schedule splits that pass: I computes it, W
// reads it, and it is held in between. A walk through the lists of a program says what each rank then holds
// at most:
//
//   F  + kept     B  - kept     I  + recomputed     W  - kept - recomputed
//
// By hand on small programs: memory_test.cpp. Recomputation as an action of its own (R): there, too.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/pricing/layer_recompute.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/tuning/tune.hpp"
#include "tests/sim/tune_request.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

Scenario on_devices(std::string_view schedule, std::int32_t virtual_stages, LayerRecompute recompute) {
  const std::string text = fmt::format(
      "model: {{transformer: {{layers: 32, hidden: 4096, heads: 32, kv_heads: 8, sequence: 4096, "
      "vocabulary: 32000, feed_forward: 12288, gated: true}}}}\n"
      "cluster: {{device: a100-sxm}}\nparallel: {{data: 2}}\n"
      "schedule: {{name: {}, stages: 4, microbatches: 16{}}}\n"
      "training: {{micro_batch_size: 1, recompute: {}}}\n",
      schedule, virtual_stages > 1 ? fmt::format(", virtual_stages: {}", virtual_stages) : "",
      to_text(recompute));
  return parse_scenario(text, "test.yaml", ".").value();
}

std::vector<Bytes> activation_peaks(const Scenario& scenario) {
  const auto result = simulate_scenario(scenario, {});
  EXPECT_TRUE(result) << result.error().message;
  std::vector<Bytes> peaks;
  for (const RankReport& rank : result->ranks)
    peaks.push_back(rank.memory.peaks[static_cast<std::size_t>(MemoryCategory::activations)]);
  return peaks;
}

/// Returns what the list holds at most. The leaves of an overlapped group begin together.
Bytes most_in_list(const std::vector<Action>& list, const CostTable& costs) {
  Bytes held = 0;
  Bytes most = 0;
  Bytes released = 0;
  for (const Action& action : list) {
    if (action.stage < 0) continue;
    const StageCost& cost = costs.stages[static_cast<std::size_t>(action.stage)];
    if (action.kind == ActionKind::forward) held += cost.kept;
    if (action.kind == ActionKind::backward_input) held += cost.recomputed;
    if (action.kind == ActionKind::backward) released += cost.kept;
    if (action.kind == ActionKind::backward_weight) released += cost.kept + cost.recomputed;
    if (action.overlaps_next) continue;
    most = std::max(most, held);
    held -= released;
    released = 0;
  }
  return most;
}

//   rank 3   F0 I0 F1 I1 F2 I2 F3 I3 W0 ...     four microbatches wait for W: all of them whole
//   rank 0   F0 F1 F2 F3 .. I0 W0 F4 I1 W1      three wait for I with their layers' inputs, one is whole
TEST(Recomputation, OfASplitBackwardPassIsHeldUntilWHasReadIt) {
  const Scenario scenario = on_devices("zb-h1", 1, LayerRecompute::full);
  const CostTable costs = prepare(scenario)->costs;
  const std::vector<Bytes> peaks = activation_peaks(scenario);
  ASSERT_EQ(peaks.size(), 4U);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const Bytes inputs = costs.stages[rank].kept;
    const Bytes whole = inputs + costs.stages[rank].recomputed;
    const auto r = static_cast<Bytes>(rank);
    EXPECT_EQ(peaks[rank], (3 - r) * inputs + (r + 1) * whole) << "rank " << rank;
  }
  const std::vector<Bytes> without = activation_peaks(on_devices("zb-h1", 1, LayerRecompute::none));
  EXPECT_EQ(peaks[3], without[3]) << "the last rank saves nothing";
  EXPECT_LT(3 * peaks[0], without[0]);
}

TEST(Recomputation, OfAWholeBackwardPassIsThereALayerAtATime) {
  const Scenario scenario = on_devices("1f1b", 1, LayerRecompute::full);
  const CostTable costs = prepare(scenario)->costs;
  const std::vector<Bytes> peaks = activation_peaks(scenario);
  for (std::size_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(peaks[rank], static_cast<Bytes>(4 - rank) * costs.stages[rank].kept) << "rank " << rank;
}

TEST(Recomputation, AgreesWithAWalkThroughTheListsOfEverySchedule) {
  int compared = 0;
  int split = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const LayerRecompute recompute :
         {LayerRecompute::selective, LayerRecompute::norm, LayerRecompute::activation, LayerRecompute::mlp,
          LayerRecompute::full}) {
      const Scenario scenario = on_devices(schedule.name, takes_chunks(schedule) ? 2 : 1, recompute);
      const auto experiment = prepare(scenario);
      if (!experiment) continue;  // one of several ranks a stage, which a model on devices has not
      SCOPED_TRACE(testing::Message() << schedule.name << " " << to_text(recompute));
      const std::vector<Bytes> peaks = activation_peaks(scenario);
      for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
        const std::vector<Action>& list = experiment->program.ranks[rank];
        EXPECT_EQ(peaks[rank], most_in_list(list, experiment->costs)) << "rank " << rank;
        split += std::ranges::find(list, ActionKind::backward_weight, &Action::kind) != list.end() ? 1 : 0;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
  EXPECT_GT(split, 150) << "ranks that split their backward passes";
}

// With full recomputation zb-v would be the fastest here, and between I and W it holds more than twice what a
// device has.
TEST(Recomputation, DoesNotMakeASplitBackwardPassFit) {
  TuneRequest request = tune_request(
      "model: {transformer: {layers: 64, hidden: 5120, heads: 64, kv_heads: 8, head_dim: 128, sequence: "
      "16384, "
      "vocabulary: 151936, feed_forward: 25600, gated: true, query_key_norm: true}}\n"
      "cluster: {device: a100-sxm, nodes: 2}\n",
      64);
  request.schedules = {"1f1b", "zb-h1", "zb-v"};
  request.choices.stages = {4};
  request.choices.tensor = {2};
  request.choices.context = {1};
  request.choices.recompute = {LayerRecompute::full};
  request.layer_splits = {{}};
  const auto report = tune(request, {.top = 100});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->candidates.front().configuration.schedule, "1f1b");
  EXPECT_TRUE(report->candidates.front().fits);
  int split = 0;
  for (const TunedConfiguration& tuned : report->candidates) {
    if (tuned.configuration.schedule == "1f1b") continue;
    EXPECT_FALSE(tuned.fits) << tuned.configuration.schedule;
    EXPECT_GT(tuned.peak_bytes, Bytes{100} << 30) << tuned.configuration.schedule;
    ++split;
  }
  EXPECT_GT(split, 3);
}

}  // namespace
}  // namespace penstock
