// Microbatches that differ: every engine prices each action by its own microbatch, as the slow reference
// does, and memory and traffic hold the bytes of those that are there.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/reference_engine.hpp"

namespace penstock {
namespace {

/// The first action that two timelines place differently; empty when there is none.
std::string late_action(const Timeline& expected, const Timeline& actual) {
  for (std::size_t i = 0; i < expected.spans.size(); ++i) {
    if (expected.spans[i] == actual.spans.at(i)) continue;
    return to_text(expected.spans[i].action) + " ends at " + std::to_string(actual.spans[i].end_ns) +
           " instead of " + std::to_string(expected.spans[i].end_ns);
  }
  return "";
}

// F 1 3 1, B twice that; K=2, M=3. The long microbatch 1 holds up rank 0, which has nothing else to do.
//
//   rank 0  F0 F1 F1 F1 B0 B0 F2 .  .  .  .  .  B1 ...
//   rank 1  .  F0 B0 B0 F1 F1 F1 B1 B1 B1 B1 B1 B1 F2 B2 B2
TEST(MicrobatchCosts, EachActionTakesWhatItsOwnMicrobatchTakes) {
  const Program program = *generate("1f1b", {.stages = 2, .microbatches = 3});
  CostTable costs = uniform_costs(program, {});
  for (const Ns length : {1, 3, 1}) {
    const CostTable one = uniform_costs(program, {.forward_ns = length, .backward_ns = 2 * length});
    costs.microbatches.push_back({.stages = one.stages, .edges = one.edges});
  }
  const auto timeline =
      critical_path(experiment_of(program, costs, uniform_links(2, kUnlimitedBandwidth, 0)));
  ASSERT_TRUE(timeline);
  std::vector<Ns> ends;
  for (const Span& span : timeline->spans) {
    if (span.rank == 1 && is_compute(span.action.kind)) ends.push_back(span.end_ns);
  }
  EXPECT_EQ(ends, (std::vector<Ns>{2, 4, 7, 13, 14, 16, 16}));  // F0 B0 F1 B1 F2 B2 STEP
}

TEST(MicrobatchCosts, EnginesAgreeOnEveryGenerator) {
  std::vector<Shape> shapes;
  for (const std::int32_t stages : {1, 2, 3}) {
    for (const std::int32_t microbatches : {1, 2, 4}) {
      for (const std::int32_t v : {1, 2}) {
        shapes.push_back(
            {.stages = stages, .microbatches = microbatches, .virtual_stages = v, .iterations = 2});
      }
      shapes.push_back({.stages = stages, .microbatches = microbatches, .slices = 2});
      shapes.push_back({.stages = stages, .microbatches = microbatches, .data_parallel = 2});
    }
  }
  for (const ScheduleInfo& schedule : schedule_table()) {
    int compared = 0;
    for (const Shape& shape : shapes) {
      const auto program = generate(schedule.name, shape);
      if (!program) continue;
      // As many as there are microbatches, and half as many, which repeat.
      for (const std::int32_t repetitions : {1, 2}) {
        if (program->microbatches % repetitions != 0) continue;
        const auto distinct = static_cast<std::size_t>(program->microbatches / repetitions);
        for (const ChannelOptions& channels : {ChannelOptions{}, ChannelOptions{.model = ChannelModel::rank},
                                               ChannelOptions{.eager_bytes = 5}}) {
          SCOPED_TRACE(testing::Message() << schedule.name << " K=" << shape.stages
                                          << " M=" << shape.microbatches << " " << to_text(channels.model));
          Experiment experiment = experiment_of(*program, differing_costs(*program, distinct),
                                                uniform_links(program->rank_count(), 1e9, 3));
          experiment.channels = channels;
          if (find_hang(experiment.program, channels, experiment.costs)) continue;
          const Timeline expected = reference_engine(experiment);
          EXPECT_EQ(late_action(expected, *critical_path(experiment)), "");
          if (!links_are_shared(experiment)) {
            EXPECT_EQ(late_action(expected, *event_simulation(experiment)), "");
          }
          ++compared;
        }
      }
    }
    EXPECT_GT(compared, 0) << schedule.name;
  }
}

TEST(MicrobatchCosts, EqualOnesCostWhatOneCostForAllDoes) {
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "interleaved"}) {
    const Program program = *generate(name, {.stages = 4, .microbatches = 8});
    const StageCost stage{
        .forward_ns = 5, .backward_ns = 9, .backward_input_ns = 4, .backward_weight_ns = 5, .kept = 3};
    const CostTable alike = uniform_costs(program, stage, {.activation = 7, .gradient = 5});
    CostTable listed = alike;
    listed.microbatches.assign(8, {.stages = alike.stages, .edges = alike.edges});
    const Cluster cluster = uniform_links(4, 1e9, 2);
    EXPECT_EQ(*simulate(experiment_of(program, alike, cluster), {}),
              *simulate(experiment_of(program, listed, cluster), {}))
        << name;
  }
}

// GPipe keeps all of them, 1F1B on the last rank one at a time.
TEST(MicrobatchCosts, MemoryAndTrafficAreThoseOfTheMicrobatchesThatAreThere) {
  const auto result_of = [](const char* name) {
    const Program program = *generate(name, {.stages = 2, .microbatches = 3});
    CostTable costs = uniform_costs(program, {});
    for (const Bytes size : {100, 500, 200}) {
      const CostTable one = uniform_costs(program, {.forward_ns = 1, .backward_ns = 2, .kept = size},
                                          {.activation = size, .gradient = 1});
      costs.microbatches.push_back({.stages = one.stages, .edges = one.edges});
    }
    return *simulate(experiment_of(program, costs, uniform_links(2, kUnlimitedBandwidth, 0)), {});
  };
  const auto kept = [](const Result& result, std::size_t rank) {
    return result.ranks[rank].memory.peaks[static_cast<std::size_t>(MemoryCategory::activations)];
  };
  const Result gpipe = result_of("gpipe");
  EXPECT_EQ(kept(gpipe, 0), 800);
  EXPECT_EQ(kept(gpipe, 1), 800);
  EXPECT_EQ(gpipe.ranks[0].sent_bytes, 800);
  EXPECT_EQ(gpipe.ranks[1].sent_bytes, 3);
  const Result one_f_one_b = result_of("1f1b");
  EXPECT_EQ(kept(one_f_one_b, 0), 700);  // microbatches 1 and 2
  EXPECT_EQ(kept(one_f_one_b, 1), 500);
}

}  // namespace
}  // namespace penstock
