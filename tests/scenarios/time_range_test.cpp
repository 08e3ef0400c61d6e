// Times that fit 64 bits one by one and not together: whatever a scenario may set, the sum is refused, and a
// millionth of each is a run.

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
  std::string schedule;
  std::string parts;
};

std::vector<Kind> kinds() {
  const std::string stages =
      "model: {stages: {forward: 1 us, backward: 2 us, activation: 1 kB, weights: 1 kB}}\n";
  const std::string heavy =
      "model: {stages: {forward: 1 us, backward: 2 us, activation: 1 TB, weights: 1 TB}}\n";
  return {
      {"F", "1f1b", "model: {stages: {forward: @, backward: 2 us}}\n"},
      {"B", "1f1b", "model: {stages: {forward: 1 us, backward: @}}\n"},
      {"I", "zb-h1", "model: {stages: {forward: 1 us, backward_input: @, backward_weight: 1 us}}\n"},
      {"W", "zb-h1", "model: {stages: {forward: 1 us, backward_input: 1 us, backward_weight: @}}\n"},
      {"R", "1f1b, checkpoint: always", "model: {stages: {forward: 1 us, backward: 2 us, recompute: @}}\n"},
      {"Pair", "dualpipe",
       "model: {stages: {forward: 1 us, backward: 2 us, backward_input: 1 us, overlapped_pair: @}}\n"},
      {"PairOfAMicrobatch", "dualpipe",
       "model: {stages: {forward: 1 us, backward: 2 us, backward_input: 1 us, overlapped_pair: "
       "{microbatches: [1 us, "
       "@]}}}\n"},
      {"Step", "1f1b",
       "model: {stages: {forward: 1 us, backward: 2 us, step: @}}\ntraining: {iterations: 20}\n"},
      {"Overhead", "1f1b", "model: {stages: {forward: 1 us, backward: 2 us, overhead: @}}\n"},
      {"Microbatch", "1f1b", "model: {stages: {forward: {microbatches: [1 us, @]}, backward: 2 us}}\n"},
      {"Samples", "1f1b",
       "model: {stages: {forward: 1 us, backward: @}}\ntraining: {micro_batch_size: 1, iterations: 2}\n"},
      {"Layer", "1f1b, stages: 1",
       "model: {layers: [{name: a, forward: @, backward: 1 us, output: 1 B}, {name: b, forward: 1 us, "
       "backward: 1 us, "
       "output: 1 B}]}\n"},
      {"Message", "1f1b", heavy + "cluster: {bandwidth: %}\n"},
      {"Latency", "1f1b", stages + "cluster: {bandwidth: 1 GB/s, latency: @}\n"},
      {"LatencyOfServers", "1f1b",
       stages + "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, intra_bandwidth: 1 GB/s, "
                "intra_latency: 1 us, "
                "inter_bandwidth: 1 GB/s, inter_latency: @}\n"},
      {"Reduction", "1f1b, stages: 1, data_parallel: 4", heavy + "cluster: {bandwidth: %}\n"},
      {"StepsOfAReduction", "1f1b, stages: 1, data_parallel: 4",
       stages + "cluster: {bandwidth: 1 GB/s, latency: @}\n"},
      {"Gather", "1f1b, stages: 1, data_parallel: 4, sharding: 3", heavy + "cluster: {bandwidth: %}\n"},
      {"StepsOfAGather", "1f1b, stages: 1, data_parallel: 4, sharding: 3",
       stages + "cluster: {bandwidth: 1 GB/s, latency: @}\n"},
      {"Launch", "1f1b", stages + "host: {launch_overhead: @}\n"},
      {"LaunchOfGathers", "1f1b, data_parallel: 4, sharding: 3", stages + "host: {launch_overhead: @}\n"},
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
  for (const Kind& kind : kinds()) {
    // Each is below 2^63 ns, which are 9.2e9 s, and 20 of them are not.
    for (const double seconds : {9e9, 4e9, 1e9}) {
      EXPECT_THAT(fault_of(kind, seconds), testing::HasSubstr("64 bits of nanoseconds end at 146 years"))
          << kind.name << ": " << seconds << " s";
    }
    EXPECT_EQ(fault_of(kind, 4e3), "") << kind.name;
  }
}

}  // namespace
}  // namespace penstock
