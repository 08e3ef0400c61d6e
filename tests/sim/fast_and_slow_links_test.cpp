// A machine as PipeDream's Fig. 7 (SOSP'19) draws it: servers with fast links inside and a slow one between
// them. What a boundary between two stages costs depends on the link that it lies on; here by hand.
//
//     server 0               server 1
//   gpu0 ==== gpu1 --------- gpu2 ==== gpu3      ==== 10 GB/s, ---- 1 GB/s

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr Ns kMicrosecond = 1000;
constexpr Ns kMillisecond = 1000 * kMicrosecond;

const std::string kTwoServers =
    "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, intra_bandwidth: 10 GB/s, "
    "inter_bandwidth: 1 GB/s}\n";

/// The makespan with stage s on the s-th of `devices`.
Ns makespan_on(const std::vector<std::int32_t>& devices, const std::string& text) {
  auto scenario = parse_scenario(text + kTwoServers, "s.yaml", ".");
  EXPECT_TRUE(scenario) << scenario.error();
  if (!scenario) return 0;
  std::get<TwoLevelCluster>(scenario->cluster.shape).device_order = devices;
  const auto result = simulate_scenario(*scenario, {});
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->makespan_ns : 0;
}

/// The boundary's link is gpu0 = gpu1.
const std::vector<std::int32_t> kBesideEachOther = {0, 1, 2, 3};
/// The boundary's link is gpu0 - gpu2.
const std::vector<std::int32_t> kOnTwoServers = {0, 2, 1, 3};

/// Two stages of 1 ms forward and 2 ms backward, with a boundary of 3 MB: 300 us on a fast link, 3 ms on a
/// slow one.
std::string two_stages(const std::string& schedule) {
  return "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, output: 3 MB}, "
         "{name: b, forward: 1 ms, backward: 2 ms}]}\npartition: [1]\nschedule: " +
         schedule + "\n";
}

TEST(FastAndSlowLinks, AMinibatchWaitsForTheBoundaryOnceEachWay) {
  // F, activation, F, B, gradient, B: the compute, and twice the boundary.
  const std::string text = two_stages("{name: naive, stages: 2, microbatches: 1}");
  const Ns compute = 6 * kMillisecond;
  EXPECT_EQ(makespan_on(kBesideEachOther, text), compute + 2 * 300 * kMicrosecond);
  EXPECT_EQ(makespan_on(kOnTwoServers, text), compute + 2 * 3 * kMillisecond);
}

TEST(FastAndSlowLinks, APipelineHidesTheFastBoundaryAndIsPacedByTheSlowOne) {
  // GPipe, 8 microbatches. A fast boundary is shorter than a forward and shows once each way, as if there
  // were no pipeline behind it: 8 + 1 forwards, 8 + 1 backwards. Over the slow one messages are back to back:
  //   gpu0  F F F F F F F F                                                     B
  //   link    aaaaaaaa aaaaaaaa ... 8 times 3 ms        gggggggg ... 8 times 3 ms
  //   gpu2             F        F    ...        F B B B B B B B B
  const std::string text = two_stages("{name: gpipe, stages: 2, microbatches: 8}");
  constexpr Ns kForward = kMillisecond;
  constexpr Ns kBackward = 2 * kMillisecond;
  const Ns fast = makespan_on(kBesideEachOther, text);
  const Ns slow = makespan_on(kOnTwoServers, text);
  EXPECT_EQ(fast, (8 + 1) * (kForward + kBackward) + 2 * 300 * kMicrosecond);
  EXPECT_EQ(slow, 2 * (kForward + kBackward) + 2 * 8 * 3 * kMillisecond);
  EXPECT_EQ(slow - fast, 26'400 * kMicrosecond);
}

/// Four equal layers in three stages on gpu0 = gpu1 - gpu2. Behind b goes the large tensor.
std::string four_layers(const std::string& cuts) {
  return "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, output: 1 MB}, "
         "{name: b, forward: 1 ms, backward: 2 ms, output: 4 MB}, "
         "{name: c, forward: 1 ms, backward: 2 ms, output: 1 MB}, {name: d, forward: 1 ms, backward: 2 "
         "ms}]}\n"
         "schedule: {name: naive, stages: 3, microbatches: 1}\npartition: " +
         cuts + "\n";
}

TEST(FastAndSlowLinks, ThePartitionSaysWhichTensorCrossesTheSlowLink) {
  //   a b = c - d    4 MB over the fast link (400 us), 1 MB over the slow one (1 ms)
  //   a = b - c d    1 MB over the fast link (100 us), 4 MB over the slow one (4 ms)
  // The 3 MB by which the tensors differ move from 0.1 to 1 ns a byte, each way: 2 * 3 MB * 0.9 ns.
  const Ns large_on_fast = makespan_on(kBesideEachOther, four_layers("[2, 3]"));
  const Ns large_on_slow = makespan_on(kBesideEachOther, four_layers("[1, 2]"));
  const Ns compute = 12 * kMillisecond;
  EXPECT_EQ(large_on_fast, compute + 2 * (400 * kMicrosecond + kMillisecond));
  EXPECT_EQ(large_on_slow, compute + 2 * (100 * kMicrosecond + 4 * kMillisecond));
  EXPECT_EQ(large_on_slow - large_on_fast, 2 * 3 * 900 * kMicrosecond);
}

}  // namespace
}  // namespace penstock
