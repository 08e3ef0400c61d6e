// How long occupy modules hold their worker, told by a clock that only writes it down.

#include "backend/executor/occupy_module.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/executor/clock.hpp"
#include "backend/executor/stage_module.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {
namespace {

/// Time stands still: what is asked for is all that there is to see.
class WritingClock : public Clock {
 public:
  Ns now_ns() const override { return 0; }
  void hold_for(Ns duration_ns, const std::stop_token&) const override { held_.push_back(duration_ns); }
  std::chrono::steady_clock::time_point moment_of(Ns) const override { return {}; }

  const std::vector<Ns>& held() const { return held_; }

 private:
  mutable std::vector<Ns> held_;
};

const CostTable kCosts{.stages = {{.forward_ns = 1000,
                                   .backward_ns = 2000,
                                   .backward_input_ns = 700,
                                   .backward_weight_ns = 900}},
                       .edges = {}};

/// What F, B, I and W of `microbatches` microbatches are held for.
std::vector<Ns> held(const Jitter& jitter, std::int32_t microbatches = 1) {
  const WritingClock clock;
  OccupyModule module(kCosts, clock, jitter);
  const std::stop_token never;
  for (std::int32_t m = 0; m < microbatches; ++m) {
    const auto call = [&](const Action& action) {
      return ComputeCall{.action = action, .group = std::span(&action, 1), .stop = never};
    };
    const Action forward{.kind = ActionKind::forward, .microbatch = m};
    const Action backward{.kind = ActionKind::backward, .microbatch = m};
    const Action input{.kind = ActionKind::backward_input, .microbatch = m};
    const Action weight{.kind = ActionKind::backward_weight, .microbatch = m};
    module.forward(call(forward), {});
    module.backward(call(backward), {});
    module.backward_input(call(input), {});
    module.backward_weight(call(weight));
  }
  return clock.held();
}

TEST(OccupyModule, HoldsEachActionForItsCost) {
  EXPECT_THAT(held({}), testing::ElementsAre(1000, 2000, 700, 900));
}

TEST(OccupyModule, JitterIsTheSameInEveryRepeatAndOtherForAnotherSeed) {
  const Jitter jitter{.fraction = 0.5, .seed = 1};
  EXPECT_EQ(held(jitter, 20), held(jitter, 20));
  EXPECT_NE(held(jitter, 20), held({.fraction = 0.5, .seed = 2}, 20));
}

TEST(OccupyModule, JitterStaysWithinItsFraction) {
  bool shorter = false;
  bool longer = false;
  const std::vector<Ns> durations = held({.fraction = 0.25, .seed = 3}, 50);
  for (std::size_t i = 0; i < durations.size(); i += 4) {
    EXPECT_GE(durations[i], 750);
    EXPECT_LE(durations[i], 1250);
    shorter |= durations[i] < 900;
    longer |= durations[i] > 1100;
  }
  EXPECT_TRUE(shorter && longer);
}

TEST(OccupyModule, APairIsHeldOnceForItsStatedTimeByItsFirstAction) {
  const WritingClock clock;
  CostTable costs = kCosts;
  costs.stages[0].overlapped_pair_ns = 2400;
  OccupyModule module(costs, clock, {});
  const std::stop_token never;
  const std::vector<Action> group = {{.kind = ActionKind::forward, .overlaps_next = true, .microbatch = 1},
                                     {.kind = ActionKind::backward, .microbatch = 0}};
  module.forward({.action = group[0], .group = group, .stop = never}, {});
  module.backward({.action = group[1], .group = group, .first_of_group = false, .stop = never}, {});
  EXPECT_THAT(clock.held(), testing::ElementsAre(2400));
}

}  // namespace
}  // namespace penstock
