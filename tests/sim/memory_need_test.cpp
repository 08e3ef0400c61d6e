// A run that the machine's memory cannot hold is refused before it takes any.

#include "sim/runs/memory_need.hpp"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/ir/action.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

using testing::Eq;
using testing::Optional;

SimulateOptions options_of(TimelineKept timeline, Engine engine = Engine::automatic) {
  SimulateOptions options;
  options.timeline = timeline;
  options.engine = engine;
  return options;
}

TEST(MemoryNeed, ARunThatFitsIsNotRefused) {
  EXPECT_EQ(memory_refusal(1'000'000, options_of(TimelineKept::none), Bytes{1} << 30), std::nullopt);
  EXPECT_EQ(memory_refusal(0, {}, 0), std::nullopt);
}

TEST(MemoryNeed, ARefusalNamesWhatIsNeededAndWhatThereIs) {
  EXPECT_THAT(
      memory_refusal(1 << 22, options_of(TimelineKept::none), Bytes{1} << 30),
      Optional(Eq("4.19e+06 compute actions take at least 1.09 GiB of memory, and 1.00 GiB are within "
                  "reach: take fewer stages, microbatches or iterations")));
  EXPECT_THAT(
      memory_refusal(1 << 22, options_of(TimelineKept::all, Engine::event), Bytes{1} << 30),
      Optional(Eq("4.19e+06 compute actions take at least 5.00 GiB of memory, and 1.00 GiB are within "
                  "reach: take fewer stages, microbatches or iterations, or no timeline")));
}

TEST(MemoryNeed, TheMachineHasLessWithinReachThanItHas) {
  const auto available = available_memory();
  const auto within_reach = memory_within_reach();
  ASSERT_TRUE(available);
  ASSERT_TRUE(within_reach);
  EXPECT_GT(*within_reach, 0);
  EXPECT_LT(*within_reach, *available);
}

}  // namespace
}  // namespace penstock
