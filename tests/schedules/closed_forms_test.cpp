// The formulas of schedules/rules/closed_forms.hpp against the simulator.

#include "schedules/rules/closed_forms.hpp"

#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "report/result/metrics.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

double simulated_bubble(const Program& program) {
  const Experiment experiment =
      experiment_of(program, unit_costs(program), uniform_links(program.rank_count(), 1e9, 0));
  return summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs})
      .bubble.idle_over_total;
}

std::vector<std::int32_t> chunk_counts(const ScheduleInfo& schedule) {
  for (const std::string_view option : schedule.options) {
    if (option == "virtual_stages" && schedule.chunks == 0) return {1, 2, 3, 4};
  }
  return {1};
}

TEST(ClosedForms, AreWhatTheSimulatorFindsWhereverTheyHold) {
  int schedules = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (find_closed_form(schedule.name) == nullptr) continue;
    ++schedules;
    int compared = 0;
    for (std::int32_t stages = 1; stages <= 8; ++stages) {
      for (std::int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
        for (const std::int32_t v : chunk_counts(schedule)) {
          const Shape shape = {.stages = stages, .microbatches = microbatches, .virtual_stages = v};
          const std::optional<double> formula = closed_form_bubble(schedule, shape);
          const auto program = generate(schedule.name, shape);
          if (!formula || !program) continue;
          EXPECT_NEAR(simulated_bubble(*program), *formula, 1e-12)
              << schedule.name << " K=" << stages << " M=" << microbatches << " v=" << v;
          ++compared;
        }
      }
    }
    EXPECT_GE(compared, 20) << schedule.name;
  }
  EXPECT_EQ(schedules, 21);
}

TEST(ClosedForms, OfCopiesAreThoseOfOnePipeline) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (find_closed_form(schedule.name) == nullptr) continue;
    const Shape copies = {.stages = 4, .microbatches = 24, .data_parallel = 3};
    const std::optional<double> formula = closed_form_bubble(schedule, copies);
    const auto program = generate(schedule.name, copies);
    if (!formula || !program) continue;
    EXPECT_NEAR(simulated_bubble(*program), *formula, 1e-12) << schedule.name;
  }
  EXPECT_DOUBLE_EQ(
      *closed_form_bubble(*find_schedule("1f1b"), {.stages = 4, .microbatches = 24, .data_parallel = 3}),
      3.0 / 11);
}

TEST(ClosedForms, OfSlicesDivideThePassOfOneFOneB) {
  const ScheduleInfo& schedule = *find_schedule("seq-1f1b");
  for (const std::int32_t slices : {2, 4}) {
    const Shape shape = {.stages = 4, .microbatches = 8, .slices = slices};
    EXPECT_DOUBLE_EQ(*closed_form_bubble(schedule, shape), (9.0 / slices) / (9.0 / slices + 24));
  }
}

TEST(ClosedForms, SayNothingOfWhatTheyLeaveOut) {
  const ScheduleInfo& gpipe = *find_schedule("gpipe");
  EXPECT_TRUE(closed_form_bubble(gpipe, {.stages = 4, .microbatches = 8}));
  EXPECT_FALSE(closed_form_bubble(gpipe, {.stages = 4, .microbatches = 8, .checkpoint = Checkpoint::always}));
  EXPECT_FALSE(closed_form_bubble(*find_schedule("1f1b-rr"), {.stages = 4, .microbatches = 8}));
  EXPECT_FALSE(closed_form_bubble(*find_schedule("zb-h2"), {.stages = 4, .microbatches = 6}));
}

}  // namespace
}  // namespace penstock
