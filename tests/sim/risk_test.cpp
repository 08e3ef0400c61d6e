// Tests trials with noise: they do not depend on the number of cores, are within the bounds of the noise, and
// equal simulations with the disturbed costs. The second half tests the goodput of jobs with failures.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/risk/risk.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

Experiment one_f_one_b(Ns forward_ns = 1000) {
  return uniform_experiment("1f1b", {.stages = 4, .microbatches = 8},
                            {.forward_ns = forward_ns, .backward_ns = 2 * forward_ns, .latency_ns = 100});
}

NoisyMakespans noisy(const Experiment& experiment, const Noise& noise, std::int32_t trials = 200) {
  auto makespans = monte_carlo(experiment, noise, {.count = trials});
  EXPECT_TRUE(makespans) << makespans.error();
  return *std::move(makespans);
}

TEST(MonteCarlo, WithoutNoiseIsThePrediction) {
  const NoisyMakespans makespans = noisy(one_f_one_b(), {}, 3);
  const Ns predicted = critical_path(one_f_one_b())->makespan_ns;
  EXPECT_EQ(makespans.undisturbed_ns, predicted);
  EXPECT_EQ(makespans.sorted, (std::vector<Ns>{predicted, predicted, predicted}));
}

// Threads report in any order, so the numbers are a set. A report says how many trials have finished.
TEST(MonteCarlo, ReportsHowManyTrialsHaveFinished) {
  for (const Engine engine : {Engine::critical_path, Engine::event}) {
    std::mutex mutex;
    std::set<std::size_t> reports;
    const auto makespans =
        monte_carlo(one_f_one_b(), {.jitter = 0.1},
                    {.count = 20, .engine = engine, .progress = [&](std::size_t done, std::size_t total) {
                       const std::lock_guard lock(mutex);
                       EXPECT_EQ(total, 20U);
                       reports.insert(done);
                     }});
    ASSERT_TRUE(makespans);
    // The engine of tapes runs eight trials at once: 8, 8 and 4.
    EXPECT_EQ(reports.size(), engine == Engine::event ? 20U : 3U);
    EXPECT_EQ(*reports.rbegin(), 20U);
  }
}

// The engine runs eight trials at once, but each must equal a separate walk with its disturbed durations.
TEST(MonteCarlo, TrialsAreWalksOverDisturbedDurations) {
  const Noise noise{.jitter = 0.3, .straggler_chance = 0.4, .slowdown = 2, .seed = 7};
  for (const auto& [name, copies] : std::vector<std::pair<const char*, std::int32_t>>{
           {"gpipe", 1}, {"1f1b", 2}, {"zb-h1", 2}, {"interleaved", 1}, {"dualpipe", 1}, {"naive", 2}}) {
    for (const ChannelOptions& channels :
         {ChannelOptions{}, ChannelOptions{.capacity = 2, .eager_bytes = 5}}) {
      const auto generated =
          generate(name, {.stages = 4, .microbatches = 8, .iterations = 2, .data_parallel = copies});
      ASSERT_TRUE(generated) << name << ": " << generated.error();
      const Program& program = *generated;
      Experiment experiment =
          experiment_of(program, differing_costs(program, 8), uniform_links(program.rank_count(), 1e9, 3));
      experiment.channels = channels;
      const FlatProgram flat = flatten(experiment.program, experiment.costs,
                                       {.channels = channels, .iterations = program.iterations});
      const WalkDurations durations = walk_durations(experiment, flat);
      std::vector<Ns> expected;
      for (std::uint64_t trial = 0; trial < 21; ++trial)  // two batches of eight, and a smaller one
        expected.push_back(last_end(walk(flat, disturbed(durations, flat, noise, trial), channels).value()));
      std::ranges::sort(expected);
      const auto found = monte_carlo(experiment, noise, {.count = 21, .engine = Engine::critical_path});
      ASSERT_TRUE(found) << found.error();
      EXPECT_EQ(found->sorted, expected) << name;
      EXPECT_EQ(found->undisturbed_ns, last_end(walk(flat, durations, channels).value())) << name;
    }
  }
}

TEST(MonteCarlo, StaysBetweenTheExtremesOfItsFactors) {
  const NoisyMakespans makespans = noisy(one_f_one_b(), {.jitter = 0.2});
  EXPECT_GE(makespans.sorted.front(), critical_path(one_f_one_b(800))->makespan_ns);
  EXPECT_LE(makespans.sorted.back(), critical_path(one_f_one_b(1200))->makespan_ns);
  EXPECT_LT(makespans.sorted.front(), makespans.sorted.back());
  // The makespan is a maximum over paths, so noise makes it longer on average.
  EXPECT_GT(makespans.mean_ns(), static_cast<double>(makespans.undisturbed_ns));
}

TEST(MonteCarlo, AClusterOfStragglersIsAsSlowAsTheyAre) {
  const NoisyMakespans makespans = noisy(one_f_one_b(), {.straggler_chance = 1, .slowdown = 3}, 5);
  EXPECT_EQ(makespans.sorted.front(), critical_path(one_f_one_b(3000))->makespan_ns);
  EXPECT_EQ(makespans.sorted.back(), makespans.sorted.front());
}

// Eight microbatches of 3000 s on four ranks are 96,000 s of computation. 2^62 ns are 4.6e9 s.
TEST(MonteCarlo, RefusesNoiseBeyondTheTimesThatAreCounted) {
  const Experiment long_run = one_f_one_b(Ns{1'000'000'000'000});
  EXPECT_FALSE(noise_fault(long_run, {.jitter = 1, .straggler_chance = 0.1, .slowdown = 20'000}));
  EXPECT_FALSE(noise_fault(long_run, {.straggler_chance = 0, .slowdown = 1e6})) << "there are none";
  const auto fault = noise_fault(long_run, {.jitter = 1, .straggler_chance = 0.1, .slowdown = 30'000});
  ASSERT_TRUE(fault);
  EXPECT_EQ(
      *fault,
      "with this noise the compute actions may take 6e+04 times their 9.6e+04 s, one after the other, and 64 "
      "bits of nanoseconds end at 146 years: 0B0 may take 1.2e+08 s; take a smaller --slowdown or --jitter, "
      "or "
      "shorter times");
}

TEST(MonteCarlo, StragglersComeAsOftenAsTheirChance) {
  // With a single rank, a trial has one of two makespans.
  const Experiment alone = uniform_experiment("gpipe", {.stages = 1, .microbatches = 1},
                                              {.forward_ns = 1000, .backward_ns = 2000});
  const NoisyMakespans makespans = noisy(alone, {.straggler_chance = 0.25, .slowdown = 2}, 4000);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(makespans.sorted, 6000)), 1000, 100);
  EXPECT_EQ(makespans.percentile(0.5), 3000);
  EXPECT_EQ(makespans.percentile(0.99), 6000);
}

TEST(MonteCarlo, IsTheSameOnOneCoreAndAnotherWithAnotherSeed) {
  const Noise noise{.jitter = 0.3, .straggler_chance = 0.1, .seed = 7};
  const NoisyMakespans many = noisy(one_f_one_b(), noise);
  {
    const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
    EXPECT_EQ(noisy(one_f_one_b(), noise).sorted, many.sorted);
  }
  EXPECT_NE(noisy(one_f_one_b(), {.jitter = 0.3, .straggler_chance = 0.1, .seed = 8}).sorted, many.sorted);
}

TEST(MonteCarlo, PercentilesAreOfTheNearestRank) {
  const NoisyMakespans four{.undisturbed_ns = 0, .sorted = {10, 20, 30, 40}};
  EXPECT_EQ(four.percentile(0.25), 10);
  EXPECT_EQ(four.percentile(0.26), 20);
  EXPECT_EQ(four.percentile(0.5), 20);
  EXPECT_EQ(four.percentile(1), 40);
  EXPECT_DOUBLE_EQ(four.mean_ns(), 25);
}

/// Returns VGG-16 on four servers. The uplinks carry activations in one direction and gradients in the other.
Experiment vgg16_on_cluster_a() {
  const auto scenario = load_scenario(source_path("scenarios/library/vgg16-cluster-a.yaml"));
  EXPECT_TRUE(scenario) << scenario.error();
  return prepare(*scenario).value();
}

TEST(MonteCarlo, SharesLinksWhereThePredictionDoes) {
  const Experiment experiment = vgg16_on_cluster_a();
  ASSERT_TRUE(links_are_shared(experiment));
  const NoisyMakespans makespans = noisy(experiment, {.jitter = 0.1}, 20);
  const Ns predicted = event_simulation(experiment)->makespan_ns;
  EXPECT_EQ(makespans.undisturbed_ns, predicted);
  EXPECT_GT(makespans.sorted.front(), critical_path(experiment)->makespan_ns)
      << "no trial has all links to itself";
}

TEST(MonteCarlo, TakesTheEngineThatIsAskedFor) {
  const Experiment experiment = vgg16_on_cluster_a();
  const auto makespans = monte_carlo(experiment, {}, {.count = 1, .engine = Engine::critical_path});
  ASSERT_TRUE(makespans) << makespans.error();
  EXPECT_EQ(makespans->undisturbed_ns, critical_path(experiment)->makespan_ns);
}

// Compares the goodput with a simulation of the failures, and the best interval with sqrt(2 C M).

/// Simulates `segments` intervals of work with random failures, and returns the goodput.
double simulated_goodput(const Failures& failures, double interval, int segments) {
  std::mt19937_64 random(5);
  std::exponential_distribution<double> life(failures.devices / failures.device_mtbf);
  double time = 0;
  for (int segment = 0; segment < segments; ++segment) {
    bool restarting = false;  // the first attempt continues from the last checkpoint without a restart
    while (true) {
      const double needed = (restarting ? failures.restart : 0) + interval + failures.save;
      const double until_failure = life(random);
      if (until_failure >= needed) {
        time += needed;
        break;
      }
      time += until_failure;
      restarting = true;
    }
  }
  return interval * segments / time;
}

TEST(Goodput, OfAJobThatNeverFailsIsWhatSavingLeaves) {
  EXPECT_NEAR(goodput({.device_mtbf = 1e15, .devices = 1, .save = 10, .restart = 100}, 90), 0.9, 1e-9);
}

TEST(Goodput, IsThatOfALifeWithFailures) {
  // In Daly's formula, a failure may also happen during a restart. If a restart takes no time, formula and
  // simulation describe the same process.
  for (const double interval : {20.0, 100.0, 400.0}) {
    const Failures failures{.device_mtbf = 8000, .devices = 16, .save = 15, .restart = 0};
    EXPECT_NEAR(goodput(failures, interval), simulated_goodput(failures, interval, 200'000),
                0.01 * goodput(failures, interval))
        << interval;
  }
}

TEST(Goodput, CountsRestarts) {
  // The formula multiplies the time of all attempts by e^(R/M). The simulation adds R after each failure.
  // Both are nearly equal if R << M.
  const Failures failures{.device_mtbf = 8000, .devices = 16, .save = 15, .restart = 20};
  EXPECT_NEAR(goodput(failures, 100), simulated_goodput(failures, 100, 200'000), 0.03);
  EXPECT_LT(goodput(failures, 100), goodput({.device_mtbf = 8000, .devices = 16, .save = 15}, 100));
}

TEST(BestInterval, IsNearTheSquareRootWhereSavingIsCheap) {
  for (const double save : {1.0, 10.0, 60.0}) {
    const Failures failures{.device_mtbf = 4e7, .devices = 1000, .save = save, .restart = 300};
    const double mean = 4e4;
    EXPECT_NEAR(best_interval(failures), std::sqrt(2 * save * mean), 0.05 * std::sqrt(2 * save * mean))
        << save;
  }
}

TEST(BestInterval, HasTheHighestGoodput) {
  for (const double save : {0.001, 1.0, 50.0, 1000.0, 1e6}) {
    const Failures failures{.device_mtbf = 1000, .devices = 1, .save = save, .restart = 30};
    const double best = best_interval(failures);
    for (const double factor : {0.5, 0.9, 0.99, 1.01, 1.1, 2.0}) {
      EXPECT_GE(goodput(failures, best), goodput(failures, best * factor) * (1 - 1e-9))
          << "saving " << save << ", " << factor << " times the best";
    }
  }
}

TEST(BestInterval, OfWhatCostsNothingToSaveIsAllTheTime) {
  const Failures failures{.device_mtbf = 1000, .devices = 4, .save = 0, .restart = 30};
  EXPECT_EQ(best_interval(failures), 0);
  EXPECT_NEAR(goodput(failures, 0), goodput(failures, 1e-6), 1e-6);
}

}  // namespace
}  // namespace penstock
