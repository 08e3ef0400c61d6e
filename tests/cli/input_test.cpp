// How flags change what a scenario says about its batch.

#include "cli/input.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "cli/flags.hpp"
#include "scenarios/batch.hpp"

namespace penstock {
namespace {

using Size = std::optional<std::int64_t>;
constexpr auto kPart = MicrobatchMeaning::part_of_minibatch;
constexpr auto kWhole = MicrobatchMeaning::whole_minibatch;

Batch batch(Size micro, Size global, Size microbatches) {
  return {.micro_batch_size = micro, .global_batch_size = global, .microbatches = microbatches};
}

InputFlags flags(Size micro, Size global, Size microbatches) {
  InputFlags given;
  given.micro_batch_size = micro;
  given.global_batch_size = global;
  given.num_microbatches = microbatches;
  return given;
}

TEST(BatchFlags, LeaveTheScenarioAsItIsWhenNoneIsGiven) {
  EXPECT_EQ(with_flags(batch(4, 32, 8), {}, kPart), batch(4, 32, 8));
}

TEST(BatchFlags, OverrideWhatTheScenarioSays) {
  EXPECT_EQ(with_flags(batch(4, {}, 8), flags(2, {}, {}), kPart), batch(2, {}, 8));
  EXPECT_EQ(with_flags(batch({}, {}, {}), flags({}, 32, 8), kPart), batch({}, 32, 8));
}

TEST(BatchFlags, ANumberOfMicrobatchesHoldsTheGlobalBatch) {
  EXPECT_EQ(with_flags(batch(4, 32, {}), flags({}, {}, 16), kPart), batch({}, 32, 16));
}

TEST(BatchFlags, ASizeOfTheMicrobatchHoldsTheGlobalBatch) {
  EXPECT_EQ(with_flags(batch({}, 32, 8), flags(2, {}, {}), kPart), batch(2, 32, {}));
}

TEST(BatchFlags, AGlobalBatchHoldsTheSizeOfTheMicrobatch) {
  EXPECT_EQ(with_flags(batch(4, {}, 8), flags({}, 64, {}), kPart), batch(4, 64, {}));
}

TEST(BatchFlags, TwoFlagsPushOutTheThirdFigure) {
  EXPECT_EQ(with_flags(batch(4, {}, {}), flags({}, 64, 8), kPart), batch({}, 64, 8));
  EXPECT_EQ(with_flags(batch({}, 32, {}), flags(4, {}, 8), kPart), batch(4, {}, 8));
  EXPECT_EQ(with_flags(batch({}, {}, 8), flags(4, 64, {}), kPart), batch(4, 64, {}));
}

TEST(BatchFlags, ThreeFlagsAreTakenAtTheirWord) {
  EXPECT_EQ(with_flags(batch(1, 1, 1), flags(4, 64, 8), kPart), batch(4, 64, 8)) << "prepare() refuses them";
}

TEST(BatchFlags, InAnAsynchronousScheduleBothSizesAreOne) {
  EXPECT_EQ(with_flags(batch(64, {}, 60), flags({}, 128, {}), kWhole), batch({}, 128, 60));
  EXPECT_EQ(with_flags(batch({}, 128, 60), flags(64, {}, {}), kWhole), batch(64, {}, 60));
}

}  // namespace
}  // namespace penstock
