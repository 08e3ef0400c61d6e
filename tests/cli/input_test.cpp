// From flags to a scenario.

#include "cli/input.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/flags.hpp"

namespace penstock {
namespace {

InputFlags one_f_one_b() {
  InputFlags flags;
  flags.schedule = "1f1b";
  flags.pp_size = 4;
  return flags;
}

TEST(Input, BothSizesOfTheBatchSayTheNumberOfMicrobatches) {
  InputFlags flags = one_f_one_b();
  flags.micro_batch_size = 4;
  flags.global_batch_size = 32;
  const auto scenario = scenario_of(flags, {});
  ASSERT_TRUE(scenario) << scenario.error().message;
  const auto experiment = prepared(*scenario);
  ASSERT_TRUE(experiment) << experiment.error().message;
  EXPECT_EQ(experiment->program.microbatches, 8);
}

TEST(Input, OneSizeOfTheBatchDoesNotSayIt) {
  InputFlags flags = one_f_one_b();
  flags.global_batch_size = 32;
  const auto scenario = scenario_of(flags, {});
  ASSERT_FALSE(scenario);
  EXPECT_THAT(scenario.error().message, testing::HasSubstr("--num-microbatches M"));
}

}  // namespace
}  // namespace penstock
