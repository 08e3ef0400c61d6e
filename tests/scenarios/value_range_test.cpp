// Tests that sums of times and sizes fit in 64 bits. A scenario is refused if a sum exceeds 64 bits, and
// accepted if the sum is slightly smaller.

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/pricing/chain_costs.hpp"
#include "tests/scenarios/read_scenario.hpp"

namespace penstock {
namespace {

/// A scenario in which one kind of time is @ seconds, or one rate is 1 TB / @ seconds.
struct Kind {
  std::string name;
  /// The number of times that this time occurs in the sum of time_fault(). By default there are 20
  /// microbatches and 4 stages. R takes as long as F unless it is stated. A pair counts in each of four
  /// actions. A collective has 2 (n - 1) steps or 2 n sizes before each action and at the end. Messages cross
  /// three boundaries in two directions.
  double times = 1;
  std::string part;  ///< the beginning of the message about the longest term of the sum
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

/// Returns the error message for the scenario, or an empty text if it can be prepared.
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
    // 9e9 s are less than 2^63 ns, but 20 times 9e9 s are more.
    for (const double seconds : {9e9, 4e9, 1e9, 1.01 * kMostSeconds / kind.times}) {
      const std::string fault = fault_of(kind, seconds);
      EXPECT_THAT(fault, testing::HasSubstr("64 bits of nanoseconds end at 146 years: " + kind.part))
          << seconds << " s";
    }
    EXPECT_EQ(fault_of(kind, 0.99 * kMostSeconds / kind.times), "");
  }
}

// Tests sizes that fit in 64 bits, but whose sum does not fit. The scenario is refused. With a kilobyte for
// each size, it is accepted.

/// A scenario of 20 microbatches in which one kind of size is @ bytes and all others are a kilobyte. With %,
/// only the last microbatch has this size.
struct KindOfBytes {
  std::string name;  ///< the name of the largest term in the message
  std::string schedule;
  std::string sizes;
  /// The sizes for which the scenario must be refused because of this kind of size.
  std::vector<double> refused = {4e18, 1e18};
  std::string training = "";
};

std::vector<KindOfBytes> kinds_of_bytes() {
  const std::string pipeline = "1f1b, stages: 8";
  const std::string copies = "1f1b, stages: 1, data_parallel: 4";
  const std::string small = "weights: 1 kB, gradients: 1 kB, optimizer_state: 1 kB, ";
  return {
      {"kept of stage", pipeline, "kept: @"},
      {"kept of stage", pipeline, "kept: %", {5e17}},
      {"input of stage", "1f1b, stages: 8, checkpoint: always", "activation: 1 kB, input: @"},
      {"input of stage", "1f1b, stages: 8, checkpoint: always", "activation: 1 kB, input: %", {5e17}},
      {"transient of stage", pipeline, "transient: @"},
      {"transient of stage", pipeline, "transient: %", {4e18}},
      {"weights of stage", pipeline, "weights: @, gradients: 1 kB, optimizer_state: 1 kB"},
      // The weights contribute 3.6e18 bytes to the sum.
      {"weights of stage",
       "1f1b-rr, stages: 8",
       "weights: @, gradients: 1 kB, optimizer_state: 1 kB",
       {5e16},
       "weight_versions: cloned, "},
      {"gradients of stage", pipeline, "weights: 1 kB, gradients: @, optimizer_state: 1 kB"},
      {"optimizer state of stage", pipeline, "weights: 1 kB, gradients: 1 kB, optimizer_state: @"},
      {"reduced weights of stage", copies, "weights: @, gradients: 1 kB, optimizer_state: 1 kB", {1e18}},
      {"reduced gradients of stage", copies, "weights: 1 kB, gradients: @, optimizer_state: 1 kB"},
      {"activation of edge", pipeline, small + "activation: @, gradient: 1 kB"},
      {"activation of edge", pipeline, small + "activation: %, gradient: 1 kB", {3e16}},
      {"gradient of edge", pipeline, small + "activation: 1 kB, gradient: @"},
      {"gradient of edge", pipeline, small + "activation: 1 kB, gradient: %", {3e16}},
  };
}

/// Returns the text with its marks @ and % replaced by this number of bytes.
std::string sized(std::string text, double bytes) {
  const std::string size = fmt::format("{:.0f} B", bytes);
  std::string last_of_all = "{microbatches: [";
  for (int i = 1; i < 20; ++i) last_of_all += "1 kB, ";
  last_of_all += size + "]}";
  if (const auto at = text.find('@'); at != std::string::npos) text.replace(at, 1, size);
  if (const auto at = text.find('%'); at != std::string::npos) text.replace(at, 1, last_of_all);
  return text;
}

/// Returns the error message for the scenario, or an empty text if it can be prepared.
std::string fault_of(const KindOfBytes& kind, double bytes) {
  const auto experiment = prepare(
      read_scenario(fmt::format("model: {{stages: {{forward: 1 us, backward: 2 us, {}}}}}\n"
                                "schedule: {{name: {}, microbatches: 20}}\ntraining: {{{}iterations: 20}}\n",
                                sized(kind.sizes, bytes), kind.schedule, kind.training)));
  return experiment ? "" : experiment.error().message;
}

TEST(ByteRange, TheSumHoldsEveryKindOfSize) {
  for (const KindOfBytes& kind : kinds_of_bytes()) {
    for (const double bytes : kind.refused) {
      EXPECT_THAT(fault_of(kind, bytes),
                  testing::AllOf(testing::HasSubstr("64 bits count no more than 4.6e18 safely"),
                                 testing::HasSubstr(": " + kind.name + " 0 has ")))
          << kind.sizes << ": " << bytes << " bytes";
    }
    EXPECT_EQ(fault_of(kind, 1e3), "") << kind.sizes;
  }
}

// Tests the sum of terms, and the text about the largest term.

TEST(PartSum, NamesWhatComesToMostInAll) {
  PartSum sum;
  sum.add("{}F", 0, 3e9, 2);
  sum.add("{}B", 7, 1e9, 20);
  sum.add("a launch", 0, 1e9, 20);
  EXPECT_EQ(sum.longest(), "7B takes 1 s, 20 times") << "the first of equal ones";
  EXPECT_EQ(sum.largest(), "7B has 1e+09 bytes, 20 times");
  EXPECT_EQ(sum.sum(), 46e9);
  EXPECT_EQ(sum.most(), 20e9);
  sum.add("kept of stage {}", 2, 5e18, 1);
  EXPECT_EQ(sum.largest(), "kept of stage 2 has 5e+18 bytes") << "once";
}

TEST(PartSum, WhatIsNoNumberFitsNowhere) {
  PartSum sum;
  sum.add("{}F", 0, std::numeric_limits<double>::quiet_NaN(), 1);
  sum.add("{}B", 0, 1e9, 1);
  EXPECT_FALSE(sum.sum() < 1e18);
  EXPECT_FALSE(sum.most() < 1e18);
  EXPECT_EQ(sum.longest(), "0F takes nan s");
}

}  // namespace
}  // namespace penstock
