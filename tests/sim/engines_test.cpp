// Both engines against the slow reference: every generator on all small shapes under every channel model,
// and seeded random programs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "report/timeline/timeline.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/random_experiment.hpp"
#include "tests/sim/reference_engine.hpp"

namespace penstock {
namespace {

/// The first span in which two timelines differ, in words; empty when they are equal.
std::string difference(const Timeline& expected, const Timeline& actual) {
  if (expected.spans.size() != actual.spans.size()) return "different numbers of spans";
  for (std::size_t i = 0; i < expected.spans.size(); ++i) {
    const Span& e = expected.spans[i];
    const Span& a = actual.spans[i];
    if (e == a) continue;
    return "rank " + std::to_string(e.rank) + " " + to_text(e.action) + ": expected " +
           std::to_string(e.start_ns) + ".." + std::to_string(e.end_ns) + ", got " + to_text(a.action) + " " +
           std::to_string(a.start_ns) + ".." + std::to_string(a.end_ns);
  }
  return expected.makespan_ns == actual.makespan_ns ? "" : "different makespans";
}

void expect_agreement(const Experiment& experiment) {
  const ChannelOptions& channels = experiment.channels;
  SCOPED_TRACE(testing::Message() << to_text(channels.model) << (channels.blocking ? " blocking" : "")
                                  << " capacity " << channels.capacity << " eager " << channels.eager_bytes
                                  << "\n"
                                  << to_text(experiment.program));
  const Timeline expected = reference_engine(experiment);
  const auto fast = critical_path(experiment);
  ASSERT_TRUE(fast) << fast.error().message;
  EXPECT_EQ(difference(expected, *fast), "");
  if (links_are_shared(experiment)) return;
  const auto events = event_simulation(experiment);
  ASSERT_TRUE(events) << events.error().message;
  EXPECT_EQ(difference(expected, *events), "");
}

/// Unequal stages, messages that take a while, small reductions.
Experiment uneven(const Program& program, const ChannelOptions& channels) {
  CostTable costs;
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    costs.stages.push_back({.forward_ns = 10 + 3 * (stage % 3),
                            .backward_ns = 21 + 2 * (stage % 2),
                            .backward_input_ns = 9 + stage % 3,
                            .backward_weight_ns = 11,
                            .recompute_ns = 10,
                            .step_ns = 2,
                            .gradients = 30});
  }
  for (const StageEdge& edge : stage_edges(program)) costs.edges.push_back({6 + edge.from, 4});
  Experiment experiment = experiment_of(program, costs, uniform_links(program.rank_count(), 1e9, 3));
  experiment.channels = channels;
  return experiment;
}

std::vector<Shape> small_shapes() {
  std::vector<Shape> shapes;
  for (const std::int32_t stages : {1, 2, 3}) {
    for (const std::int32_t microbatches : {1, 2, 4}) {
      for (const std::int32_t v : {1, 2}) {
        shapes.push_back(
            {.stages = stages, .microbatches = microbatches, .virtual_stages = v, .iterations = 2});
      }
    }
  }
  return shapes;
}

TEST(Engines, AgreeOnEveryGeneratorUnderEveryChannelModel) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const int before = compared;
    for (const Shape& shape : small_shapes()) {
      const auto program = generate(schedule.name, shape);
      if (!program) continue;
      for (const ChannelModel model : kChannelModels) {
        SCOPED_TRACE(testing::Message()
                     << schedule.name << " K=" << shape.stages << " M=" << shape.microbatches
                     << " v=" << shape.virtual_stages << " " << to_text(model));
        const Experiment experiment = uneven(*program, {.model = model});
        ASSERT_FALSE(find_hang(experiment.program, experiment.channels, experiment.costs));
        expect_agreement(experiment);
        ++compared;
      }
    }
    EXPECT_GT(compared, before) << schedule.name;
  }
}

TEST(Engines, AgreeWithBlockingCapacityAndEagerMessages) {
  for (const ChannelOptions& channels : {ChannelOptions{.blocking = true}, ChannelOptions{.capacity = 1},
                                         ChannelOptions{.capacity = 2, .eager_bytes = 7},
                                         ChannelOptions{.model = ChannelModel::rank, .eager_bytes = 7}}) {
    for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1"}) {
      SCOPED_TRACE(testing::Message()
                   << name << " " << to_text(channels.model) << " blocking " << channels.blocking
                   << " capacity " << channels.capacity << " eager " << channels.eager_bytes);
      const Experiment experiment = uneven(*generate(name, {.stages = 3, .microbatches = 4}), channels);
      if (find_hang(experiment.program, experiment.channels, experiment.costs)) continue;
      expect_agreement(experiment);
    }
  }
}

/// A SEND stands behind an action that runs after its producer.
bool sends_late(const std::vector<Action>& list) {
  std::size_t newest = 0;  // group of compute actions
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (is_compute(list[i].kind) && opens_group(list, i)) newest = i;
    if (!is_send(list[i].kind)) continue;
    const auto produces = [&](const Action& action) {
      return output_of(action.kind) == flow_of(list[i].kind) && action.stage == list[i].stage &&
             action.microbatch == list[i].microbatch;
    };
    if (std::none_of(list.begin() + static_cast<std::ptrdiff_t>(newest),
                     list.begin() + static_cast<std::ptrdiff_t>(group_end(list, newest)), produces)) {
      return true;
    }
  }
  return false;
}

// PENSTOCK_PROGRAMS=20000 takes as many.
TEST(Engines, AgreeOnRandomPrograms) {
  const char* const given = std::getenv("PENSTOCK_PROGRAMS");
  const std::uint64_t programs = given == nullptr ? 3000 : std::stoul(given);
  std::uint64_t sending_late = 0;
  for (std::uint32_t seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Experiment experiment = random_experiment(seed);
    expect_agreement(experiment);
    if (HasFailure()) return;
    sending_late += std::ranges::any_of(experiment.program.ranks, sends_late) ? 1 : 0;
  }
  EXPECT_GT(sending_late, programs / 30);
}

TEST(Engines, AHangIsReportedByBoth) {
  // Each rank sends before it receives, over one queue a pair of ranks.
  const auto program = parse_program(
      "penstock program 1\nschedule crossed\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1STEP\n",
      "crossed.psched");
  ASSERT_TRUE(program) << program.error();
  Experiment experiment = uneven(*program, {.model = ChannelModel::pair});
  EXPECT_FALSE(critical_path(experiment));
  EXPECT_FALSE(event_simulation(experiment));
  experiment.channels.model = ChannelModel::directed;
  expect_agreement(experiment);
}

}  // namespace
}  // namespace penstock
