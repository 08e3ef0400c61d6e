// Sizes that fit 64 bits one by one and not together: whatever a scenario may set, the sum is refused, and a
// kilobyte of each is a run.

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/prepare/experiment.hpp"
#include "tests/scenarios/read_scenario.hpp"

namespace penstock {
namespace {

/// A scenario of 20 microbatches in which one kind of size is @ bytes, or % those of the last microbatch
/// alone, and all others are a kilobyte.
struct KindOfBytes {
  std::string name;  ///< what the message calls the largest
  std::string schedule;
  std::string sizes;
  /// Of which the sum does not fit because of this kind alone: not by the mean of the microbatches either.
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
      // The weights themselves are 3.6e18 bytes of it.
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

/// The text with every mark as it stands for so many bytes.
std::string sized(std::string text, double bytes) {
  const std::string size = fmt::format("{:.0f} B", bytes);
  std::string last_of_all = "{microbatches: [";
  for (int i = 1; i < 20; ++i) last_of_all += "1 kB, ";
  last_of_all += size + "]}";
  if (const auto at = text.find('@'); at != std::string::npos) text.replace(at, 1, size);
  if (const auto at = text.find('%'); at != std::string::npos) text.replace(at, 1, last_of_all);
  return text;
}

/// "" where it is an experiment.
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

}  // namespace
}  // namespace penstock
