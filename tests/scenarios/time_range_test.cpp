// Times that fit 64 bits one by one and not together: whatever a scenario may set, the sum is refused that
// holds it as often as a run has it, and one a little below is a run.

#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/prepare/experiment.hpp"
#include "tests/scenarios/read_scenario.hpp"

namespace penstock {
namespace {

/// A scenario in which one kind of time is @ seconds, or one rate 1 TB / @.
struct Kind {
  std::string name;
  /// How often it is in the sum: by 20 microbatches and 4 stages, unless the schedule says otherwise, R as
  /// long as F unless it is stated, a pair of F and B in each of four actions, a collective's 2 (n - 1) steps
  /// or 2 n sizes before each of those and at the end, two directions of three boundaries.
  double times = 1;
  std::string part;  ///< the longest of the sum, as a message begins to name it
  std::string schedule;
  std::string parts;
};

std::vector<Kind> kinds() {
  const std::string stages =
      "model: {stages: {forward: 1 us, backward: 2 us, activation: 1 kB, weights: 1 kB}}\n";
  const std::string heavy =
      "model: {stages: {forward: 1 us, backward: 2 us, activation: 1 TB, weights: 1 TB}}\n";
  const std::string gradients =
      "model: {stages: {forward: 1 us, backward: 2 us, activation: 1 kB, weights: 1 kB, gradients: 1 TB}}\n";
  const std::string weights =
      "model: {stages: {forward: 1 us, backward: 2 us, activation: 1 kB, weights: 1 TB, gradients: 1 kB}}\n";
  return {
      {"F", 160, "0F", "1f1b", "model: {stages: {forward: @, backward: 2 us}}\n"},
      {"B", 160, "0B", "1f1b", "model: {stages: {forward: 1 us, backward: @}}\n"},
      {"I", 160, "0B", "zb-h1",
       "model: {stages: {forward: 1 us, backward_input: @, backward_weight: 1 us}}\n"},
      {"W", 160, "0B", "zb-h1",
       "model: {stages: {forward: 1 us, backward_input: 1 us, backward_weight: @}}\n"},
      {"R", 80, "0R", "1f1b, checkpoint: always",
       "model: {stages: {forward: 1 us, backward: 2 us, recompute: @}}\n"},
      {"Pair", 320, "an overlapped pair of stage 0", "dualpipe",
       "model: {stages: {forward: 1 us, backward: 2 us, backward_input: 1 us, overlapped_pair: @}}\n"},
      {"PairOfAMicrobatch", 480, "an overlapped pair of stage 0", "dualpipe",
       "model: {stages: {forward: 1 us, backward: 2 us, backward_input: 1 us, overlapped_pair: "
       "{microbatches: [1 us, "
       "@]}}}\n"},
      {"Step", 80, "0STEP", "1f1b",
       "model: {stages: {forward: 1 us, backward: 2 us, step: @}}\ntraining: {iterations: 20}\n"},
      {"Overhead", 400, "0", "1f1b", "model: {stages: {forward: 1 us, backward: 2 us, overhead: @}}\n"},
      {"Microbatch", 240, "0F", "1f1b",
       "model: {stages: {forward: {microbatches: [1 us, @]}, backward: 2 us}}\n"},
      {"Samples", 320, "0B", "1f1b",
       "model: {stages: {forward: 1 us, backward: @}}\ntraining: {micro_batch_size: 1, iterations: 2}\n"},
      {"Layer", 40, "0F", "1f1b, stages: 1",
       "model: {layers: [{name: a, forward: @, backward: 1 us, output: 1 B}, {name: b, forward: 1 us, "
       "backward: 1 us, "
       "output: 1 B}]}\n"},
      {"Message", 120, "a message there and back", "1f1b", heavy + "cluster: {bandwidth: %}\n"},
      {"Latency", 120, "a message there and back", "1f1b",
       stages + "cluster: {bandwidth: 1 GB/s, latency: @}\n"},
      {"LatencyOfServers", 240, "a message there and back", "1f1b",
       stages + "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, intra_bandwidth: 1 GB/s, "
                "intra_latency: 1 us, "
                "inter_bandwidth: 1 GB/s, inter_latency: @}\n"},
      {"Reduction", 648, "a collective of stage 0", "1f1b, stages: 1, data_parallel: 4",
       gradients + "cluster: {bandwidth: %}\n"},
      {"StepsOfAReduction", 486, "a collective of stage 0", "1f1b, stages: 1, data_parallel: 4",
       stages + "cluster: {bandwidth: 1 GB/s, latency: @}\n"},
      {"Gather", 648, "a collective of stage 0", "1f1b, stages: 1, data_parallel: 4, sharding: 3",
       weights + "cluster: {bandwidth: %}\n"},
      {"StepsOfAGather", 486, "a collective of stage 0", "1f1b, stages: 1, data_parallel: 4, sharding: 3",
       stages + "cluster: {bandwidth: 1 GB/s, latency: @}\n"},
      {"Launch", 968, "a launch", "1f1b", stages + "host: {launch_overhead: @}\n"},
      {"LaunchOfGathers", 1952, "a launch", "1f1b, data_parallel: 4, sharding: 3",
       stages + "host: {launch_overhead: @}\n"},
  };
}

std::string with(std::string text, double seconds) {
  for (std::size_t at = text.find('@'); at != std::string::npos; at = text.find('@'))
    text.replace(at, 1, fmt::format("{:.0f} ns", seconds * 1e9));
  for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%'))
    text.replace(at, 1, fmt::format("{} B/s", 1e12 / seconds));
  return text;
}

/// "" where it is an experiment.
std::string fault_of(const Kind& kind, double seconds) {
  const bool has_stages = kind.schedule.find("stages:") != std::string::npos;
  const std::string schedule = fmt::format("schedule: {{name: {}{}, microbatches: 20}}\n", kind.schedule,
                                           has_stages ? "" : ", stages: 4");
  const auto experiment = prepare(read_scenario(schedule + with(kind.parts, seconds)));
  return experiment ? "" : experiment.error().message;
}

TEST(TimeRange, TheSumHoldsEveryKindOfTime) {
  constexpr double kMostSeconds = 4.6e9;
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    // 9e9 s are below 2^63 ns, and 20 of them are not.
    for (const double seconds : {9e9, 4e9, 1e9, 1.01 * kMostSeconds / kind.times}) {
      const std::string fault = fault_of(kind, seconds);
      EXPECT_THAT(fault, testing::HasSubstr("64 bits of nanoseconds end at 146 years: " + kind.part))
          << seconds << " s";
    }
    EXPECT_EQ(fault_of(kind, 0.99 * kMostSeconds / kind.times), "");
  }
}

}  // namespace
}  // namespace penstock
