// Compares makespans with formulas, for all small shapes. f, b and r are the times of forward, backward and
// recomputation, and c is the latency.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/steady_state.hpp"
#include "tests/sim/experiments.hpp"
#include "topology/collective.hpp"

namespace penstock {
namespace {

template <class Check>
void for_all_shapes(Check check) {
  for (std::int32_t stages = 1; stages <= 8; ++stages) {
    for (std::int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
      SCOPED_TRACE(testing::Message() << "K=" << stages << " M=" << microbatches);
      check(stages, microbatches);
    }
  }
}

constexpr Ns kF = 7;
constexpr Ns kB = 13;
const UniformTimes kTimes{.forward_ns = kF, .backward_ns = kB};

TEST(ClosedForm, GPipeTakesMPlusKMinusOneForwardsAndBackwards) {
  for_all_shapes([](std::int32_t k, std::int32_t m) {
    EXPECT_EQ(makespan_ns(uniform_experiment("gpipe", {.stages = k, .microbatches = m}, kTimes)),
              (m + k - 1) * (kF + kB));
    EXPECT_EQ(makespan_ns(uniform_experiment(
                  "gpipe", {.stages = k, .microbatches = m, .backward_order = BackwardOrder::lifo}, kTimes)),
              (m + k - 1) * (kF + kB));
  });
}

TEST(ClosedForm, OneFOneBTakesAsLongAsGPipe) {
  for_all_shapes([](std::int32_t k, std::int32_t m) {
    EXPECT_EQ(makespan_ns(uniform_experiment("1f1b", {.stages = k, .microbatches = m}, kTimes)),
              (m + k - 1) * (kF + kB));
  });
}

TEST(ClosedForm, NaiveRunsOneStageAtATime) {
  for_all_shapes([](std::int32_t k, std::int32_t m) {
    for (const UpdateRule update : {UpdateRule::minibatch, UpdateRule::microbatch}) {
      EXPECT_EQ(makespan_ns(
                    uniform_experiment("naive", {.stages = k, .microbatches = m, .update = update}, kTimes)),
                m * k * (kF + kB));
    }
  });
}

TEST(ClosedForm, GPipePaysLatencyOnceAndNaiveEveryTime) {
  for_all_shapes([](std::int32_t k, std::int32_t m) {
    const UniformTimes times{.forward_ns = kF, .backward_ns = kB, .latency_ns = 5};
    EXPECT_EQ(makespan_ns(uniform_experiment("gpipe", {.stages = k, .microbatches = m}, times)),
              (m + k - 1) * (kF + kB) + 2 * (k - 1) * 5);
    EXPECT_EQ(makespan_ns(uniform_experiment("naive", {.stages = k, .microbatches = m}, times)),
              m * k * (kF + kB) + m * 2 * (k - 1) * 5);
  });
}

// The makespan is (M+K-1)(f+b) + c [2(K-1)(q+1) + 2 max(0, r-2)] with q = floor((M-1)/K) and r = M - qK.
TEST(ClosedForm, OneFOneBPaysLatencyInEveryRound) {
  for (const Ns latency : {Ns{1}, Ns{3}, Ns{7}, Ns{14}}) {
    for_all_shapes([&](std::int32_t k, std::int32_t m) {
      const std::int32_t q = (m - 1) / k;
      const std::int32_t r = m - q * k;
      const Ns latencies = k == 1 ? 0 : 2 * (k - 1) * (q + 1) + 2 * std::max(0, r - 2);
      EXPECT_EQ(makespan_ns(uniform_experiment("1f1b", {.stages = k, .microbatches = m},
                                               {.forward_ns = kF, .backward_ns = kB, .latency_ns = latency})),
                (m + k - 1) * (kF + kB) + latency * latencies);
    });
  }
}

TEST(ClosedForm, RecomputeCostsOncePerMicrobatchWhenEarlyAndAlongTheDrainWhenLate) {
  constexpr Ns kR = kF;
  for_all_shapes([](std::int32_t k, std::int32_t m) {
    Shape shape{.stages = k, .microbatches = m, .checkpoint = Checkpoint::always};
    EXPECT_EQ(makespan_ns(uniform_experiment("gpipe", shape, kTimes)), (m + k - 1) * (kF + kB) + m * kR);
    shape.recompute = RecomputeTiming::late;
    EXPECT_EQ(makespan_ns(uniform_experiment("gpipe", shape, kTimes)), (m + k - 1) * (kF + kB + kR));
  });
}

TEST(ClosedForm, ExceptLastRecomputesOneMicrobatchLess) {
  for_all_shapes([](std::int32_t k, std::int32_t m) {
    const Shape shape{.stages = k, .microbatches = m, .checkpoint = Checkpoint::except_last};
    EXPECT_EQ(makespan_ns(uniform_experiment("gpipe", shape, kTimes)),
              (m + k - 1) * (kF + kB) + (m - 1) * kF);
  });
}

TEST(ClosedForm, TheSlowestStageDecidesAnUnequalGPipe) {
  std::uint32_t state = 1;
  const auto random = [&](Ns most) {
    return static_cast<Ns>((state = state * 1664525U + 1013904223U) >> 16U) % most + 1;
  };
  for_all_shapes([&](std::int32_t k, std::int32_t m) {
    const Program program = *generate("gpipe", {.stages = k, .microbatches = m});
    CostTable costs = uniform_costs(program, {});
    Ns sum = 0;
    Ns slowest_f = 0;
    Ns slowest_b = 0;
    for (StageCost& cost : costs.stages) {
      cost = {.forward_ns = random(20), .backward_ns = random(40)};
      sum += cost.forward_ns + cost.backward_ns;
      slowest_f = std::max(slowest_f, cost.forward_ns);
      slowest_b = std::max(slowest_b, cost.backward_ns);
    }
    EXPECT_EQ(makespan_ns(experiment_of(program, costs, uniform_links(k, kUnlimitedBandwidth, 0))),
              sum + (m - 1) * (slowest_f + slowest_b));
  });
}

TEST(ClosedForm, InterleavingDividesTheBubbleByTheChunks) {
  for (std::int32_t k = 1; k <= 8; ++k) {
    for (std::int32_t rounds = 1; rounds <= 3; ++rounds) {
      for (std::int32_t v = 1; v <= 4; ++v) {
        SCOPED_TRACE(testing::Message() << "K=" << k << " M=" << rounds * k << " v=" << v);
        EXPECT_EQ(makespan_ns(uniform_experiment(
                      "interleaved", {.stages = k, .microbatches = rounds * k, .virtual_stages = v}, kTimes)),
                  (rounds * k * v + k - 1) * (kF + kB));
      }
    }
  }
}

// For M >= 2K, the idle time is (K-1) max(f, i, f+i-w) (Qi et al.).
TEST(ClosedForm, ZbH1LeavesAThirdOfTheBubble) {
  for (std::int32_t k = 1; k <= 6; ++k) {
    for (const auto& [f, i, w] : {std::tuple{1, 1, 1}, {3, 3, 3}, {2, 5, 1}, {5, 2, 1}, {4, 3, 6}}) {
      const std::int32_t m = 2 * k + 1;
      const Program program = *generate("zb-h1", {.stages = k, .microbatches = m});
      const StageCost cost{.forward_ns = f, .backward_input_ns = i, .backward_weight_ns = w};
      EXPECT_EQ(makespan_ns(experiment_of(program, uniform_costs(program, cost),
                                          uniform_links(k, kUnlimitedBandwidth, 0))),
                m * (f + i + w) + (k - 1) * std::max({f, i, f + i - w}))
          << "K=" << k << " f,i,w=" << f << "," << i << "," << w;
    }
  }
}

// T(M) = (M+K-1)(W/M + o) is least for M near sqrt((K-1)W/o). With K = 4, W = 48 and o = 1, this is M = 12
// with T = 75.
TEST(ClosedForm, OverheadGivesGPipeABestNumberOfMicrobatches) {
  constexpr Ns kWork = 48'000;
  constexpr Ns kOverhead = 1'000;
  Ns best = 0;
  std::int32_t best_m = 0;
  for (const std::int32_t m : {1, 2, 3, 4, 6, 8, 12, 16, 24, 48}) {
    const Ns each = kWork / m + kOverhead;  // forward and backward of one microbatch on one stage
    const Ns t = makespan_ns(uniform_experiment("gpipe", {.stages = 4, .microbatches = m},
                                                {.forward_ns = each / 3, .backward_ns = each - each / 3}));
    EXPECT_EQ(t, (m + 3) * each);
    if (best_m == 0 || t < best) {
      best = t;
      best_m = m;
    }
  }
  EXPECT_EQ(best_m, 12);
  EXPECT_EQ(best, 75'000);
}

// The pipeline has four stages with f = 1, b = 2 and latency c in each direction (PipeDream, SOSP'19, Figure
// 18).
TEST(ClosedForm, AsynchronousDepthHidesLatency) {
  const auto period = [](std::vector<std::int32_t> warmup, Ns latency) {
    const Experiment experiment =
        uniform_experiment("1f1b-rr", {.stages = 4, .microbatches = 200, .warmup = std::move(warmup)},
                           {.forward_ns = 1000, .backward_ns = 2000, .latency_ns = latency});
    const auto found = steady_period(experiment, Engine::critical_path);
    return found ? static_cast<double>(found->period_ns) / static_cast<double>(found->microbatches) : -1.0;
  };
  for (const Ns latency : {Ns{0}, Ns{250}, Ns{500}, Ns{1000}}) {
    EXPECT_DOUBLE_EQ(period({3, 2, 1, 0}, latency), 3000 + 1.5 * static_cast<double>(latency)) << latency;
  }
  for (const Ns latency : {Ns{0}, Ns{250}, Ns{1000}, Ns{1500}}) {
    EXPECT_DOUBLE_EQ(period({6, 4, 2, 0}, latency), 3000) << latency;
  }
  EXPECT_GT(period({6, 4, 2, 0}, 1600), 3000);
}

// With K = 4, M = 4, b = 2f and r = f, the time of GPipe is compared with PipeDream's period of 3 for each
// minibatch.
TEST(ClosedForm, PipeDreamIsAboutTwiceAsFastAsGPipe) {
  const UniformTimes times{.forward_ns = 1000, .backward_ns = 2000};
  Shape shape{.stages = 4, .microbatches = 4};
  const auto per_microbatch = [&] {
    return static_cast<double>(makespan_ns(uniform_experiment("gpipe", shape, times))) / 4 / 3000;
  };
  EXPECT_DOUBLE_EQ(per_microbatch(), 1.75);
  shape.checkpoint = Checkpoint::always;
  EXPECT_NEAR(per_microbatch(), 2.083, 0.0005);
  shape.recompute = RecomputeTiming::late;
  EXPECT_NEAR(per_microbatch(), 2.333, 0.0005);
}

TEST(ClosedForm, DataParallelEndsWithTheRingAllReduce) {
  for (std::int32_t ranks = 1; ranks <= 8; ++ranks) {
    const Program program =
        *generate("data-parallel", {.stages = 1, .microbatches = ranks, .replicas = {ranks}});
    const CostTable costs{
        .stages = {{.forward_ns = 1000, .backward_ns = 2000, .weights = 840'000, .gradients = 840'000}},
        .edges = {}};
    const Ns ring =
        2 * (ranks - 1) * 840'000 / ranks + 2 * (ranks - 1) * 50;  // with 1 GB/s, a byte takes 1 ns
    EXPECT_EQ(makespan_ns(experiment_of(program, costs, uniform_links(ranks, 1e9, 50))), 3000 + ring)
        << ranks;
  }
}

}  // namespace
}  // namespace penstock
