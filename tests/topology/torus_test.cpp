// Tests tori, and compares the costs of collectives on them with a slow reference that moves every part of a
// buffer:
//
//   2 x 3 devices, 6 parts each.  A reduce-scatter down the columns leaves the sums of 3 parts on each
//   device, and one along the rows leaves 1 of them. The all-gather sends all sums back to all devices.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/cluster.hpp"
#include "topology/collective.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using Sizes = std::vector<std::int32_t>;

constexpr std::int64_t kLatency = 7;

/// Returns a torus on whose links a byte takes 1 ns and the latency is 7 ns.
Cluster torus(const Sizes& dimensions, TorusCollectives collectives = TorusCollectives::dimensions) {
  return torus_cluster({.dimensions = dimensions,
                        .bytes_per_second = 1e9,
                        .latency_ns = kLatency,
                        .collectives = collectives})
      .value();
}

Sizes all_devices(std::int32_t count) {
  Sizes devices(static_cast<std::size_t>(count));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

std::int32_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 1, std::multiplies<>());
}

/// The slow reference: a torus whose devices send parts of a buffer to each other, one part after the other.
class MovedParts {
 public:
  MovedParts(const Sizes& dimensions, std::int64_t part_bytes)
      : dimensions_(dimensions), part_bytes_(part_bytes), devices_(product(dimensions)) {
    for (std::int32_t device = 0; device < devices_; ++device) {
      for (std::int32_t part = 0; part < devices_; ++part) held_[device][part] = {device};
    }
  }

  /// Executes an all-reduce and returns its duration in ns.
  std::int64_t all_reduce() {
    std::int64_t ns = 0;
    for (std::size_t d = 0; d < dimensions_.size(); ++d) ns += pass(d, true);
    for (std::size_t d = dimensions_.size(); d-- > 0;) ns += pass(d, false);
    return ns;
  }

  /// Returns true if each device has the contributions of all devices to all parts.
  bool all_have_all() const {
    for (const auto& [device, parts] : held_) {
      if (std::ssize(parts) != devices_) return false;
      for (const auto& [part, from] : parts)
        if (std::ssize(from) != devices_) return false;
    }
    return true;
  }

 private:
  std::int32_t stride(std::size_t dimension) const {
    std::int32_t stride = 1;
    for (std::size_t d = dimension + 1; d < dimensions_.size(); ++d) stride *= dimensions_[d];
    return stride;
  }
  std::int32_t place(std::int32_t number, std::size_t dimension) const {
    return number / stride(dimension) % dimensions_[dimension];
  }
  std::int32_t next(std::int32_t device, std::size_t dimension) const {
    const std::int32_t size = dimensions_[dimension];
    const std::int32_t here = place(device, dimension);
    return device + ((here + 1) % size - here) * stride(dimension);
  }

  /// Executes size - 1 steps in all rings of a dimension at the same time, and returns their duration. In
  /// step k of a reduce-scatter, the device at place p sends the parts of place p - 1 - k. In an all-gather,
  /// it sends the parts of place p - k.
  std::int64_t pass(std::size_t dimension, bool scatters) {
    const std::int32_t size = dimensions_[dimension];
    std::int64_t ns = 0;
    for (std::int32_t step = 0; step + 1 < size; ++step) {
      auto after = held_;
      std::int64_t most = 0;
      for (std::int32_t device = 0; device < devices_; ++device) {
        const std::int32_t sent = (place(device, dimension) - step - (scatters ? 1 : 0) + 2 * size) % size;
        std::int64_t bytes = 0;
        for (const auto& [part, from] : held_[device]) {
          if (place(part, dimension) != sent) continue;
          bytes += part_bytes_;
          after[next(device, dimension)][part].insert(from.begin(), from.end());
          if (scatters) after[device].erase(part);
        }
        most = std::max(most, bytes);
      }
      held_ = after;
      ns += most + kLatency;
    }
    return ns;
  }

  Sizes dimensions_;
  std::int64_t part_bytes_;
  std::int32_t devices_;
  std::map<std::int32_t, std::map<std::int32_t, std::set<std::int32_t>>> held_;
};

const std::vector<Sizes> kTori = {{2, 3}, {4, 4}, {3, 5}, {2, 2, 2}, {2, 3, 4}, {1, 4}, {5}, {3, 1, 2}};

std::int64_t all_reduce_ns(const Cluster& cluster, std::int64_t bytes) {
  const Sizes ring = ring_order(cluster, all_devices(cluster.device_count()));
  return collective_route(cluster, ring, Collective::all_reduce, bytes).cost.duration_ns;
}

TEST(Torus, AllReduceByDimensionTakesWhatMovingEveryPartTakes) {
  for (const Sizes& dimensions : kTori) {
    constexpr std::int64_t kPart = 1000;
    MovedParts reference(dimensions, kPart);
    const std::int64_t expected = reference.all_reduce();
    EXPECT_TRUE(reference.all_have_all()) << testing::PrintToString(dimensions);
    EXPECT_EQ(all_reduce_ns(torus(dimensions), kPart * product(dimensions)), expected)
        << testing::PrintToString(dimensions);
  }
}

// The formula is 2(n-1)/n bytes/B + 2 sum(d-1) a.
TEST(Torus, AllReduceByDimensionIsTheClosedForm) {
  for (const Sizes& dimensions : kTori) {
    const std::int64_t n = product(dimensions);
    std::int64_t steps = 0;
    for (const std::int32_t size : dimensions) steps += 2 * (size - 1);
    EXPECT_EQ(all_reduce_ns(torus(dimensions), 1000 * n), 2 * (n - 1) * 1000 + steps * kLatency)
        << testing::PrintToString(dimensions);
  }
}

TEST(Torus, OneRingGoesToAndFroOverSingleLinks) {
  for (const Sizes& dimensions : std::vector<Sizes>{{2, 3}, {4, 4}, {2, 3, 4}, {6, 5}}) {
    const std::int64_t n = product(dimensions);
    EXPECT_EQ(all_reduce_ns(torus(dimensions, TorusCollectives::ring), 1000 * n),
              2 * (n - 1) * 1000 + 2 * (n - 1) * kLatency)
        << testing::PrintToString(dimensions);
  }
}

TEST(Torus, ReduceScatterAndAllGatherAreHalvesOfAnAllReduce) {
  const Cluster cluster = torus({2, 3, 4});
  const Sizes devices = all_devices(24);
  const auto ns = [&](Collective collective) {
    return collective_route(cluster, devices, collective, 24'000).cost.duration_ns;
  };
  EXPECT_EQ(ns(Collective::reduce_scatter), ns(Collective::all_gather));
  EXPECT_EQ(ns(Collective::reduce_scatter) + ns(Collective::all_gather), ns(Collective::all_reduce));
}

// A row of a 4 x 4 torus is a single ring. Devices that form no grid also use a single ring.
TEST(Torus, AGroupThatIsNoGridTakesOneRing) {
  const Cluster cluster = torus({4, 4});
  const auto phases = [&](const Sizes& devices) {
    return collective_route(cluster, devices, Collective::all_reduce, 1200).phases.size();
  };
  EXPECT_EQ(phases({0, 1, 4, 5}), 4U) << "2 x 2 of it: two dimensions, there and back";
  EXPECT_EQ(phases({4, 5, 6, 7}), 2U) << "a row";
  EXPECT_EQ(phases({0, 1, 4}), 1U) << "a corner";
  EXPECT_EQ(phases({3}), 0U);
}

TEST(Torus, EachHopOfAPhaseHasALinkOfItsOwn) {
  const Cluster cluster = torus({4, 4});
  for (const CollectivePhase& phase :
       collective_route(cluster, all_devices(16), Collective::all_reduce, 1600).phases) {
    std::set<LinkNumber> links;
    for (const RingHop& hop : phase.hops) {
      const Route route = cluster.route(hop.from, hop.to);
      ASSERT_EQ(route.links.size(), 1U);
      EXPECT_TRUE(links.insert(route.links.front()).second);
    }
    EXPECT_EQ(links.size(), 16U);
  }
}

TEST(Torus, JoinsNeighboursRoundTheEdges) {
  const Cluster cluster = torus({3, 4});
  EXPECT_EQ(cluster.devices()[6].name, "chip1-2");
  EXPECT_EQ(cluster.links().size(), 2U * 2 * 12) << "two neighbours ahead, a link each way";
  EXPECT_EQ(cluster.route(0, 3).links.size(), 1U) << "round the edge of a row";
  EXPECT_EQ(cluster.route(0, 8).links.size(), 1U) << "round the edge of a column";
  EXPECT_EQ(cluster.route(0, 6).latency_ns, 3 * kLatency) << "a column and two rows away";
}

// If a dimension has two devices, there is one link between them. There is no second link over the border.
TEST(Torus, ADimensionOfTwoHasOneLink) {
  EXPECT_EQ(torus({2}).links().size(), 2U);
  EXPECT_EQ(torus({2, 2}).links().size(), 8U);
  EXPECT_EQ(torus({1, 1}).links().size(), 0U);
}

TEST(Torus, RefusesWhatIsNone) {
  EXPECT_THAT(torus_cluster({}).error(), HasSubstr("dimensions must name at least one size, found none"));
  EXPECT_THAT(torus_cluster({.dimensions = {4, 0}}).error(), HasSubstr("must be at least 1, found 0"));
  EXPECT_THAT(torus_cluster({.dimensions = {128, 128}}).error(),
              HasSubstr("at most 8192 devices together, found 128 x 128"));
  EXPECT_THAT(torus_cluster({.dimensions = {4}, .bytes_per_second = 0}).error(),
              HasSubstr("bytes_per_second must be greater than 0"));
}

// Each link has 496, 656 or 400 Gb/s in each direction.
TEST(TorusPreset, HasThePublishedFigures) {
  const TorusCluster& v2 = find_torus_preset("TPU_v2")->shape;
  EXPECT_EQ(product(v2.dimensions), 256);
  EXPECT_EQ(v2.bytes_per_second, 62e9);
  const TorusCluster& v3 = find_torus_preset("tpu-v3")->shape;
  EXPECT_EQ(product(v3.dimensions), 1024);
  EXPECT_EQ(v3.bytes_per_second, 82e9);
  EXPECT_EQ(v3.memory_bytes, std::int64_t{32} << 30);
  const TorusCluster& v4 = find_torus_preset("tpu-v4")->shape;
  EXPECT_EQ(v4.dimensions.size(), 3U);
  EXPECT_EQ(product(v4.dimensions), 4096);
  EXPECT_EQ(v4.bytes_per_second, 50e9);
  EXPECT_EQ(find_torus_preset("tpu-v9"), nullptr);
}

}  // namespace
}  // namespace penstock
