// The batch rule.

#include "scenarios/read/batch.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace penstock {
namespace {

constexpr auto kPart = MicrobatchMeaning::part_of_minibatch;
constexpr auto kWhole = MicrobatchMeaning::whole_minibatch;
using Size = std::optional<std::int64_t>;

Batch batch(Size micro, Size global, Size microbatches) {
  return {.own_micro_batch_size = 1,
          .micro_batch_size = micro,
          .global_batch_size = global,
          .microbatches = microbatches};
}

ResolvedBatch resolved(std::int64_t micro, std::int32_t microbatches) {
  return {.micro_batch_size = micro, .microbatches = microbatches};
}

TEST(Batch, TheThirdFollowsFromTwo) {
  EXPECT_EQ(resolve_batch(batch(4, 128, {}), kPart), resolved(4, 32));
  EXPECT_EQ(resolve_batch(batch({}, 128, 32), kPart), resolved(4, 32));
  EXPECT_EQ(resolve_batch(batch(4, {}, 32), kPart), resolved(4, 32));
}

TEST(Batch, OneSampleAMicrobatchWithoutSizes) {
  EXPECT_EQ(resolve_batch(batch({}, {}, 32), kPart), resolved(1, 32));
  EXPECT_EQ(resolve_batch(batch({}, {}, 32), kWhole), resolved(1, 32));
}

TEST(Batch, AllThreeMustAgree) {
  EXPECT_EQ(resolve_batch(batch(4, 128, 32), kPart), resolved(4, 32));
  EXPECT_EQ(resolve_batch(batch(4, 128, 16), kPart).error(),
            "training.micro_batch_size 4 x schedule.microbatches 16 do not make training.global_batch_size "
            "128: all three must agree, or leave one out");
  EXPECT_FALSE(resolve_batch(batch(4, 129, 32), kPart));
}

TEST(Batch, WhatDoesNotDivideNamesTheNearest) {
  EXPECT_EQ(resolve_batch(batch({}, 100, 32), kPart).error(),
            "training.global_batch_size 100 is not a multiple of schedule.microbatches 32; the nearest that "
            "are: 96 or 128");
  EXPECT_EQ(resolve_batch(batch(8, 3, {}), kPart).error(),
            "training.global_batch_size 3 is not a multiple of training.micro_batch_size 8; the nearest that "
            "are: 8");
}

TEST(Batch, MicrobatchesMustFollowFromSomething) {
  for (const Batch& too_little : {batch({}, {}, {}), batch(4, {}, {}), batch({}, 128, {})}) {
    EXPECT_FALSE(resolve_batch(too_little, kPart));
  }
}

TEST(Batch, SizesBelowOneAreNamed) {
  EXPECT_EQ(resolve_batch(batch(0, {}, 4), kPart).error(),
            "training.micro_batch_size: expected a number of at least 1, got 0");
  EXPECT_EQ(resolve_batch(batch({}, -8, 4), kPart).error(),
            "training.global_batch_size: expected a number of at least 1, got -8");
  EXPECT_EQ(resolve_batch(batch({}, {}, 0), kWhole).error(),
            "schedule.microbatches: expected a number of at least 1, got 0");
}

TEST(Batch, MoreMicrobatchesThanNumbersIsAnError) {
  EXPECT_FALSE(resolve_batch(batch({}, {}, 1LL << 31), kPart));
  EXPECT_FALSE(resolve_batch(batch(1, 1LL << 40, {}), kPart));
  EXPECT_TRUE(resolve_batch(batch({}, {}, (1LL << 31) - 1), kPart));
}

TEST(Batch, AsynchronousSizesMeanTheSameAndMicrobatchesAreFree) {
  EXPECT_EQ(resolve_batch(batch(64, {}, 7), kWhole), resolved(64, 7));
  EXPECT_EQ(resolve_batch(batch({}, 64, 7), kWhole), resolved(64, 7));
  EXPECT_EQ(resolve_batch(batch(64, 64, 7), kWhole), resolved(64, 7));
  EXPECT_FALSE(resolve_batch(batch(32, 64, 2), kWhole));
  EXPECT_FALSE(resolve_batch(batch(64, 64, {}), kWhole));
}

TEST(Batch, TheFilesOwnMicrobatchFollowsFromItsSizes) {
  EXPECT_EQ(micro_batch_size_of(batch({}, {}, {}), kPart), 1);
  EXPECT_EQ(micro_batch_size_of(batch(4, {}, {}), kPart), 4);
  EXPECT_EQ(micro_batch_size_of(batch({}, 128, 32), kPart), 4);
  EXPECT_EQ(micro_batch_size_of(batch({}, 128, {}), kPart), std::nullopt);
  EXPECT_EQ(micro_batch_size_of(batch({}, 128, 33), kPart), std::nullopt);
  EXPECT_EQ(micro_batch_size_of(batch({}, 128, {}), kWhole), 128);
}

TEST(Batch, TheMinibatchFollowsFromTheFilesSizes) {
  EXPECT_EQ(global_batch_size_of(batch({}, 128, {}), kPart), 128);
  EXPECT_EQ(global_batch_size_of(batch(4, {}, 32), kPart), 128);
  EXPECT_EQ(global_batch_size_of(batch({}, {}, 32), kPart), 32);
  EXPECT_EQ(global_batch_size_of(batch(4, {}, {}), kPart), std::nullopt);
  EXPECT_EQ(global_batch_size_of(batch(64, {}, 60), kWhole), 64);
}

TEST(Batch, AMinibatchOfMoreSamplesThanCanBeCountedIsRefused) {
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  EXPECT_EQ(
      global_batch_size_of(batch(kMany, {}, kMany), kPart).error(),
      "training.micro_batch_size 1099511627776 x schedule.microbatches 1099511627776 are more than 2^63 "
      "samples; take fewer");
}

TEST(StatedBatch, LeavesTheScenarioAsItIsWhenNothingIsStated) {
  EXPECT_EQ(overridden(batch(4, 32, 8), {}, kPart), batch(4, 32, 8));
}

TEST(StatedBatch, ReplacesWhatTheScenarioSays) {
  EXPECT_EQ(overridden(batch(4, {}, 8), batch(2, {}, {}), kPart), batch(2, {}, 8));
  EXPECT_EQ(overridden(batch({}, {}, {}), batch({}, 32, 8), kPart), batch({}, 32, 8));
}

TEST(StatedBatch, ANumberOfMicrobatchesHoldsTheGlobalBatch) {
  EXPECT_EQ(overridden(batch(4, 32, {}), batch({}, {}, 16), kPart), batch({}, 32, 16));
}

TEST(StatedBatch, ASizeOfTheMicrobatchHoldsTheGlobalBatch) {
  EXPECT_EQ(overridden(batch({}, 32, 8), batch(2, {}, {}), kPart), batch(2, 32, {}));
}

TEST(StatedBatch, AGlobalBatchHoldsTheSizeOfTheMicrobatch) {
  EXPECT_EQ(overridden(batch(4, {}, 8), batch({}, 64, {}), kPart), batch(4, 64, {}));
}

TEST(StatedBatch, TwoFiguresPushOutTheThird) {
  EXPECT_EQ(overridden(batch(4, {}, {}), batch({}, 64, 8), kPart), batch({}, 64, 8));
  EXPECT_EQ(overridden(batch({}, 32, {}), batch(4, {}, 8), kPart), batch(4, {}, 8));
  EXPECT_EQ(overridden(batch({}, {}, 8), batch(4, 64, {}), kPart), batch(4, 64, {}));
}

TEST(StatedBatch, ThreeFiguresAreTakenAtTheirWord) {
  EXPECT_EQ(overridden(batch(1, 1, 1), batch(4, 64, 8), kPart), batch(4, 64, 8))
      << "resolve_batch() refuses them";
}

TEST(StatedBatch, InAnAsynchronousScheduleBothSizesAreOne) {
  EXPECT_EQ(overridden(batch(64, {}, 60), batch({}, 128, {}), kWhole), batch({}, 128, 60));
  EXPECT_EQ(overridden(batch({}, 128, 60), batch(64, {}, {}), kWhole), batch(64, {}, 60));
}

TEST(Batch, OnlyAsynchronousSchedulesTakeAMicrobatchForAMinibatch) {
  EXPECT_EQ(meaning_of_microbatch("1f1b"), kPart);
  EXPECT_EQ(meaning_of_microbatch("1F1B_RR"), kWhole);
  EXPECT_EQ(meaning_of_microbatch("of a program file"), kPart);
}

}  // namespace
}  // namespace penstock
