#include "schedules/ir/iterations.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

/// M of one pass, and of one minibatch.
std::pair<std::int32_t, std::int32_t> microbatches_of(const std::string& schedule, const Shape& shape) {
  const Program program = *generate(schedule, shape);
  return {program.microbatches, microbatches_of_minibatch(program)};
}

TEST(Iterations, ASynchronousPassIsOneMinibatchOverAllReplicas) {
  EXPECT_EQ(microbatches_of("gpipe", {.stages = 2, .microbatches = 8, .iterations = 3}), std::pair(8, 8));
  EXPECT_EQ(microbatches_of("1f1b", {.stages = 2, .microbatches = 8, .data_parallel = 2}), std::pair(8, 8));
  EXPECT_EQ(microbatches_of("chimera", {.stages = 4, .microbatches = 8}), std::pair(8, 8));
  EXPECT_EQ(microbatches_of("seq-1f1b", {.stages = 2, .microbatches = 8, .slices = 4}), std::pair(8, 8));
}

TEST(Iterations, APassOfPipeDream2bwIsAStreamOfMinibatches) {
  EXPECT_EQ(microbatches_of("pipedream-2bw", {.stages = 2, .microbatches = 8, .iterations = 3}),
            std::pair(24, 8));
}

TEST(Iterations, EveryMicrobatchOfPipeDreamIsAMinibatch) {
  EXPECT_EQ(microbatches_of("1f1b-rr", {.stages = 2, .microbatches = 8, .iterations = 3}), std::pair(24, 1));
  EXPECT_EQ(microbatches_of("naive", {.stages = 2, .microbatches = 8, .update = UpdateRule::microbatch}),
            std::pair(8, 1));
}

}  // namespace
}  // namespace penstock
