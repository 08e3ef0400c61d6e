#pragma once
// A period that no plan can beat, from what its devices and links have to do for each minibatch, and a peak
// of memory that none stays below. Private to sim/planning.

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "schedules/ir/action.hpp"
#include "sim/planning/plan_choice.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// The devices of the choice's ranks, of a cluster with these levels.
std::vector<std::int32_t> devices_of(const PlanChoice& choice, std::span<const BandwidthLevel> levels);

class PlanBound {
 public:
  /// `layers` in the order that the choices cut; `cluster` has its devices component by component. `buckets`:
  /// reductions may run beside the backward pass. `state`: optimizer state and gradients, bytes a byte of
  /// weights.
  PlanBound(const LayerGraph& graph, std::span<const std::int32_t> order,
            std::span<const BandwidthLevel> levels, const Cluster& cluster, bool buckets, std::int64_t state);

  /// The busiest device's compute and reduction, the busiest link, and the longest way there and back for as
  /// many minibatches as may be in flight: nanoseconds between two minibatches. At most the simulated period.
  double period_ns(const PlanChoice& choice);

  /// What the fullest device holds when its first backward begins: its state, and what its warm-up and one
  /// more forward keep. At most the simulated peak, but for roundings.
  double peak_bytes(const PlanChoice& choice) const;

 private:
  struct Sums {
    double time_ns = 0;  ///< of the layers before
    double weights = 0;
    double kept = 0;
    double alive = 0;  ///< bytes over a cut here
  };
  /// A ring over devices: what a byte of weights takes, and how many of its bytes each link carries.
  struct Ring {
    double ns_per_byte = 0;
    double latency_ns = 0;
    std::vector<std::pair<std::int32_t, double>> loads;
  };
  struct Way {
    std::vector<LinkNumber> links;
    double ns_per_byte = 0;
    double latency_ns = 0;
    bool is_known = false;
  };
  using Devices = std::span<const std::int32_t>;

  const Sums& sums_before(const PlanChoice& choice, std::size_t stage) const;
  const Way& way(std::int32_t from, std::int32_t to);
  const Ring& ring(Devices devices);
  double cross(Devices from, Devices to, double bytes);
  void load_ring(const Ring& ring, double bytes, double minibatches);
  void load(LinkNumber link, double bytes);

  std::vector<BandwidthLevel> levels_;
  const Cluster& cluster_;
  double overhead_ns_ = 0;
  bool buckets_ = false;
  double state_ = 0;
  std::vector<Sums> sums_;  // by cut
  // By the devices from and to, as far as they were asked for, which every pair of replicas of every bound
  // does.
  std::vector<std::vector<Way>> ways_;
  std::map<std::vector<std::int32_t>, Ring> rings_;
  std::vector<double> link_ns_;  // of the choice at hand, as far as links have been met
};

}  // namespace penstock
