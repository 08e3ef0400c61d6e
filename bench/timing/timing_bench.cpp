// Runs the whole timing matrix. It compares predictions from separate calibrations with measurements in
// threads. The matrix has K in {2, 4, 8}, M in {K, 2K, 4K}, balanced, imbalanced and jittered stages, and
// free and slow links. It prints every configuration. The exit code is 1 if the mean absolute error exceeds
// the goal, or if a schedule is ranked wrong. No other program should run on the machine.

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/timing/timing_matrix.hpp"

namespace penstock {
namespace {

constexpr double kGoal = 0.03;  // limit of the mean absolute error
constexpr std::int32_t kRepeats = 5;
constexpr Ns kForwardNs = 5'000'000;  // the two chunks of interleaved then have 2.5 ms each

std::vector<TimingConfiguration> shapes() {
  std::vector<TimingConfiguration> shapes;
  for (const std::int32_t ranks : {2, 4, 8}) {
    for (const StageTimes times : {StageTimes::balanced, StageTimes::jittered, StageTimes::imbalanced}) {
      for (const Links links : {Links::free, Links::slow}) {
        for (const std::int32_t rounds : {1, 2, 4}) {
          shapes.push_back({.schedule = "",
                            .ranks = ranks,
                            .microbatches = ranks * rounds,
                            .times = times,
                            .links = links,
                            .forward_ns = kForwardNs});
        }
      }
    }
  }
  return shapes;
}

int run_matrix() {
  TimingPredictions predictions;
  std::vector<TimingOutcome> all;
  std::size_t wrong = 0;
  for (const TimingConfiguration& shape : shapes()) {
    const auto outcomes =
        outcomes_of({"naive", "gpipe", "1f1b", "zb-h1", "interleaved"}, shape, predictions, kRepeats);
    if (!outcomes) {
      fmt::print(stderr, "timing_bench: {}\n", outcomes.error());
      return 3;
    }
    for (const TimingOutcome& outcome : *outcomes) fmt::print("{}\n", to_text(outcome));
    for (const std::string& pair : ranked_wrong(*outcomes)) {
      fmt::print("RANKED WRONG: {}\n", pair);
      ++wrong;
    }
    std::fflush(stdout);
    all.insert(all.end(), outcomes->begin(), outcomes->end());
  }
  const double mean = mean_absolute_error(all);
  fmt::print("mean absolute error {:.2f} % over {} configurations; the goal is {:.0f} %; {} ranked wrong\n",
             100 * mean, all.size(), 100 * kGoal, wrong);
  return mean <= kGoal && wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace penstock

int main() { return penstock::run_matrix(); }
