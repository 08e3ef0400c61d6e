// Noise: equal on any number of cores, bounded by what is drawn, and equal to a plain simulation of the costs
// that it stands for.

#include "sim/risk/monte_carlo.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/network/message_costs.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/source_path.hpp"

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

// Each trial is a walk of its own over the disturbed durations, whatever runs eight of them at once.
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
      for (std::uint64_t trial = 0; trial < 21; ++trial)  // two batches of eight, and a part of one
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
  // The maximum over paths grows with their spread: noise costs time on average.
  EXPECT_GT(makespans.mean_ns(), static_cast<double>(makespans.undisturbed_ns));
}

TEST(MonteCarlo, AClusterOfStragglersIsAsSlowAsTheyAre) {
  const NoisyMakespans makespans = noisy(one_f_one_b(), {.straggler_chance = 1, .slowdown = 3}, 5);
  EXPECT_EQ(makespans.sorted.front(), critical_path(one_f_one_b(3000))->makespan_ns);
  EXPECT_EQ(makespans.sorted.back(), makespans.sorted.front());
}

// Eight microbatches of 3000 s on four ranks are 96,000 s of computing; 2^62 ns are 4.6e9 s.
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
  // One rank alone: a trial is slow or it is not.
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

/// VGG-16 on four servers, whose uplinks carry activations one way and gradients the other.
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

}  // namespace
}  // namespace penstock
