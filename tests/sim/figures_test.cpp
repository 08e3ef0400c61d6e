// Figures need no timeline: those that are read off one rank's spans after the other are those of the whole
// timeline, for every generator, channel and engine; and those of a sweep's rows are among them.

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/random_experiment.hpp"

namespace penstock {
namespace {

SimulateOptions figures_by(Engine engine) {
  return {.engine = engine, .memory = {}, .steady = SteadyState::skip, .timeline = TimelineKept::none};
}

/// The figures of a timeline, with the names that `named` has.
Result of_timeline(const Timeline& timeline, const Experiment& experiment, const Result& named) {
  std::vector<std::string> devices;
  for (const RankReport& rank : named.ranks) devices.push_back(rank.device);
  return summarize(timeline, {.program = experiment.program,
                              .costs = experiment.costs,
                              .samples_per_microbatch = experiment.samples_per_microbatch,
                              .scenario = named.scenario,
                              .engine = named.engine,
                              .channels = experiment.channels,
                              .link_sharing = named.link_sharing,
                              .devices = devices,
                              .memories = memory_of(timeline, experiment, {}),
                              .links = named.links,
                              .notes = named.notes});
}

void expect_rows_figures(const Experiment& experiment, Engine engine, const Result& whole) {
  SimulateOptions options = figures_by(engine);
  options.figures = WantedFigures::of_rows;
  const Result row = *simulate(experiment, options);
  EXPECT_EQ(row.makespan_ns, whole.makespan_ns);
  EXPECT_EQ(row.bubble, whole.bubble);
  EXPECT_EQ(row.throughput, whole.throughput);
  ASSERT_EQ(row.ranks.size(), whole.ranks.size());
  for (std::size_t rank = 0; rank < row.ranks.size(); ++rank) {
    EXPECT_EQ(row.ranks[rank].busy_ns, whole.ranks[rank].busy_ns);
    EXPECT_EQ(row.ranks[rank].memory, whole.ranks[rank].memory);
  }
}

void expect_figures(const Experiment& experiment, Engine engine) {
  const auto found = simulate(experiment, figures_by(engine));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->timeline.spans.empty());
  Result expected =
      of_timeline(engine == Engine::event ? *event_simulation(experiment) : *critical_path(experiment),
                  experiment, *found);
  SimulateOptions with_timeline = figures_by(engine);
  with_timeline.timeline = TimelineKept::all;
  EXPECT_EQ(*simulate(experiment, with_timeline), expected);
  expected.timeline = {};
  EXPECT_EQ(*found, expected);
  expect_rows_figures(experiment, engine, expected);
}

/// Costs of bytes of every kind, so that every category of memory is there.
CostTable heavy_costs(const Program& program) {
  CostTable costs = uniform_costs(program,
                                  {.forward_ns = 100,
                                   .backward_ns = 210,
                                   .backward_input_ns = 90,
                                   .backward_weight_ns = 120,
                                   .recompute_ns = 100,
                                   .step_ns = 11,
                                   .kept = 80,
                                   .released_by_input = 20,
                                   .recomputed = 30,
                                   .input = 7,
                                   .weights = 500,
                                   .gradients = 500,
                                   .optimizer_state = 1000,
                                   .transient = 13,
                                   .recomputed_at_once = 5},
                                  {.activation = 60, .gradient = 40});
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage)
    costs.stages[static_cast<std::size_t>(stage)].forward_ns += 37 * (stage % 3);
  return costs;
}

TEST(Figures, NeedNoTimelineOnAnyGeneratorAndChannel) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const int before = compared;
    for (const std::int32_t microbatches : {4, 8}) {
      const auto program = generate(schedule.name, {.stages = 4,
                                                    .microbatches = microbatches,
                                                    .virtual_stages = chunks_to_try(schedule),
                                                    .iterations = 2});
      if (!program) continue;
      Experiment experiment =
          experiment_of(*program, heavy_costs(*program), uniform_links(program->rank_count(), 1e9, 7));
      for (const ChannelModel model : kChannelModels) {
        for (const bool blocking : {false, true}) {
          experiment.channels = {.model = model, .blocking = blocking, .capacity = blocking ? 0 : 1};
          if (find_hang(experiment.program, experiment.channels, experiment.costs)) continue;
          SCOPED_TRACE(testing::Message() << schedule.name << " M=" << microbatches << " " << to_text(model)
                                          << (blocking ? " blocking" : ""));
          expect_figures(experiment, Engine::critical_path);
          ASSERT_FALSE(HasFailure());
          ++compared;
        }
      }
    }
    EXPECT_GT(compared, before) << schedule.name;
  }
  EXPECT_GT(compared, 300);
}

TEST(Figures, NeedNoTimelineOnRandomPrograms) {
  for (std::uint32_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Experiment experiment = random_experiment(seed);
    expect_figures(experiment, Engine::critical_path);
    expect_figures(experiment, Engine::event);
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace penstock
