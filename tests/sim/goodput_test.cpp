// Goodput against a simulation of the failures themselves, and the best interval against sqrt(2 C M).

#include "sim/risk/goodput.hpp"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace penstock {
namespace {

/// Lives through `segments` intervals of work, failure by failure.
double simulated_goodput(const Failures& failures, double interval, int segments) {
  std::mt19937_64 random(5);
  std::exponential_distribution<double> life(failures.devices / failures.device_mtbf);
  double time = 0;
  for (int segment = 0; segment < segments; ++segment) {
    bool restarting = false;  // the first attempt goes on from the checkpoint before
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
  // Daly's restart is as likely to fail as work is. Without a restart the two are the same process.
  for (const double interval : {20.0, 100.0, 400.0}) {
    const Failures failures{.device_mtbf = 8000, .devices = 16, .save = 15, .restart = 0};
    EXPECT_NEAR(goodput(failures, interval), simulated_goodput(failures, interval, 200'000),
                0.01 * goodput(failures, interval))
        << interval;
  }
}

TEST(Goodput, CountsRestarts) {
  // The formula charges e^(R/M) on all attempts, the simulated life R behind a failure: close for R << M.
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
