// Tests 1F1B with an encoder on all ranks: which microbatches each rank encodes and when, and the time that
// the encoder adds to 1F1B.

#include <cstdint>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

std::string encoder_text(const char* name, std::int32_t stages, std::int32_t microbatches) {
  return to_text(*generate(name, {.stages = stages, .microbatches = microbatches}));
}

// Stage 0 is the encoder. Microbatch m is encoded on rank m mod 2.
TEST(Encoder, RunsFirstAndLast) {
  EXPECT_EQ(encoder_text("1f1b-encoder-first", 2, 3), R"(penstock program 1
schedule 1f1b-encoder-first
microbatches 3
stage 0: ranks 0 1 route 0 1 0
stage 1: rank 0
stage 2: rank 1
rank 0: 0F0 0F2 1F0 1F1 1B0 1F2 1B1 1B2 0B0 0B2 0REDUCE_GRAD 0STEP 1STEP
rank 1: 0F1 2F0 2B0 2F1 2B1 2F2 2B2 0B1 0REDUCE_GRAD 0STEP 2STEP
)");
}

TEST(Encoder, RunsBehindTheWarmUpAndDuringTheCoolDown) {
  EXPECT_THAT(encoder_text("1f1b-encoder-bubbles", 3, 6),
              testing::EndsWith(
                  "rank 0: 0F0 1F0 1F1 1F2 0F3 1B0 1F3 1B1 1F4 1B2 1F5 1B3 0B0 1B4 1B5 0B3 0REDUCE_GRAD "
                  "0STEP 1STEP\n"
                  "rank 1: 0F1 2F0 2F1 0F4 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 0B1 2B5 0B4 0REDUCE_GRAD "
                  "0STEP 2STEP\n"
                  "rank 2: 0F2 0F5 3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 0B2 0B5 0REDUCE_GRAD "
                  "0STEP 3STEP\n"));
}

// The third rank encodes nothing, and takes part in the reduction.
TEST(Encoder, HasFewerMicrobatchesThanRanks) {
  for (const char* name : {"1f1b-encoder-first", "1f1b-encoder-bubbles"}) {
    EXPECT_THAT(encoder_text(name, 3, 2),
                testing::EndsWith("rank 0: 0F0 1F0 1F1 1B0 1B1 0B0 0REDUCE_GRAD 0STEP 1STEP\n"
                                  "rank 1: 0F1 2F0 2F1 2B0 2B1 0B1 0REDUCE_GRAD 0STEP 2STEP\n"
                                  "rank 2: 3F0 3B0 3F1 3B1 0REDUCE_GRAD 0STEP 3STEP\n"))
        << name;
  }
}

TEST(Encoder, IsInFrontOfTheLayersOfOneRank) {
  for (const char* name : {"1f1b-encoder-first", "1f1b-encoder-bubbles"}) {
    EXPECT_THAT(encoder_text(name, 1, 2),
                testing::EndsWith("rank 0: 0F0 0F1 1F0 1B0 1F1 1B1 0B0 0B1 0STEP 1STEP\n"))
        << name;
  }
}

constexpr Ns kStageForward = 1000;

/// Returns the time of a schedule whose layers take kStageForward and 2 kStageForward on each rank. The
/// encoder takes `encode` forward and twice as long backward.
Ns encoder_makespan(const std::string& name, const Shape& shape, Ns encode) {
  const Program program = *generate(name, shape);
  CostTable costs = uniform_costs(program, {.forward_ns = kStageForward, .backward_ns = 2 * kStageForward});
  if (extra_stages_of(program) == ExtraStages::encoder)
    costs.stages.front() = {.forward_ns = encode, .backward_ns = 2 * encode};
  return makespan_ns(
      experiment_of(program, costs, uniform_links(program.rank_count(), kUnlimitedBandwidth, 0)));
}

TEST(Encoder, FirstAddsItsWholeWorkOnTheFullestRank) {
  for (const auto& [stages, microbatches] : {std::tuple{1, 3}, {2, 5}, {4, 8}, {8, 20}}) {
    const Shape shape{.stages = stages, .microbatches = microbatches};
    const std::int32_t encoded = (microbatches + stages - 1) / stages;
    EXPECT_EQ(encoder_makespan("1f1b-encoder-first", shape, 100),
              encoder_makespan("1f1b", shape, 0) + Ns{encoded} * 3 * 100)
        << stages << " x " << microbatches;
  }
}

// Each rank encodes four microbatches. Only one F and one B of the encoder are outside the pauses of 1F1B.
TEST(Encoder, InBubblesAddsOneForwardAndOneBackward) {
  for (const std::int32_t stages : {4, 6, 8}) {
    const Shape shape{.stages = stages, .microbatches = 4 * stages};
    for (const Ns encode : {100, 250, 500}) {
      EXPECT_EQ(encoder_makespan("1f1b-encoder-bubbles", shape, encode),
                encoder_makespan("1f1b", shape, 0) + 3 * encode)
          << stages << " ranks, " << encode;
    }
  }
}

TEST(Encoder, InBubblesIsNeverSlowerThanFirst) {
  for (std::int32_t stages = 1; stages <= 8; ++stages) {
    for (std::int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
      const Shape shape{.stages = stages, .microbatches = microbatches};
      for (const Ns encode : {100, 500, 1000, 3000}) {
        EXPECT_LE(encoder_makespan("1f1b-encoder-bubbles", shape, encode),
                  encoder_makespan("1f1b-encoder-first", shape, encode))
            << stages << " x " << microbatches << ", " << encode;
      }
    }
  }
}

}  // namespace
}  // namespace penstock
