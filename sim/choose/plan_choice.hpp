#pragma once
// A plan in the form that plan_search.cpp changes: the cuts between layers, the replicas of each stage,
// and the devices. Used only in sim/choose.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "schedules/ir/action.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// The placement of a plan's replicas on the devices. The devices of a component have consecutive numbers.
enum class PlanPlacement : std::uint8_t {
  in_order,  // one stage after another
  spread,    // each stage over as many servers as possible
  stated,    // on the devices in PlanChoice::devices
};

struct PlanChoice {
  std::size_t order = 0;               ///< number of the order of the layers in PlanTrials::orders_
  std::vector<std::int32_t> cuts;      ///< for each cut, the number of layers before it, ascending
  std::vector<std::int32_t> replicas;  ///< one element for each stage
  PlanPlacement placement = PlanPlacement::in_order;
  std::vector<std::int32_t> devices{};  ///< devices of a `stated` placement, in the order of the ranks
  std::int32_t deeper = 0;              ///< number of additional warm-up forwards of each stage
  std::int32_t buckets = 0;             ///< gradient buckets of each stage; 0: as the scenario states

  std::size_t stages() const { return replicas.size(); }
  std::int32_t device_count() const;

  friend auto operator<=>(const PlanChoice&, const PlanChoice&) = default;
};

/// Returns the number of warm-up forward passes of a stage. It is the number in 1F1B-RR (generators.hpp)
/// plus the choice's additional ones. `later` is the number of replicas of all later stages.
std::int32_t warmup_of(const PlanChoice& choice, std::size_t stage, std::int32_t later);

/// Returns true if some stage has replicas, and so reduces gradients. Otherwise buckets have no effect.
bool reduces(const PlanChoice& choice);

/// Returns the number of replicas of each stage as text, for example "12-3-1".
std::string configuration_of(const PlanChoice& choice);

/// The space of all plans that a search may consider: the numbers of layers and devices, and the form of
/// the plan.
struct PlanSpace {
  std::int32_t layers = 1;
  std::int32_t devices = 1;
  PlanForm form = PlanForm::replicated;
};

/// Returns the number of choices whose placement is `in_order`, or `most` if there are more.
std::int64_t count_choices(const PlanSpace& space, std::int64_t most);
/// Returns all choices whose placement is `in_order`. They are every set of cuts combined with every list
/// of replicas on at most all devices.
std::vector<PlanChoice> all_choices(const PlanSpace& space);

/// Returns the choices that differ from `choice` by one move. There are four kinds of moves:
///
///     put a cut anywhere between its neighbours;
///     move a replica to another stage, out of the plan or into the plan;
///     split a stage with any share of its replicas;
///     merge two stages, and give up to two replicas to any stage.
///
/// If `choice` has stated devices, its neighbours have the devices in order, because the stated ones belong
/// to the old stages.
std::vector<PlanChoice> neighbours(const PlanChoice& choice, const PlanSpace& space);

/// Returns the device of each rank of the choice, on a cluster with the bandwidth levels `levels`.
std::vector<std::int32_t> devices_of(const PlanChoice& choice, std::span<const BandwidthLevel> levels);

/// The way in which all plans of a search reduce gradients.
struct PlanReductions {
  bool in_buckets = false;        ///< true if reductions may run during the backward pass
  std::int32_t microbatches = 0;  ///< M if updates have a flush, and otherwise 0
};

class PlanBound {
 public:
  /// Creates an object that computes bounds for choices with this `order` of layers. The devices of a
  /// component of `cluster` must have consecutive numbers. `state` is the number of bytes of optimizer state
  /// and gradients for each byte of weights.
  PlanBound(const LayerGraph& graph, std::span<const std::int32_t> order,
            std::span<const BandwidthLevel> levels, const Cluster& cluster, PlanReductions reductions,
            std::int64_t state);

  /// Returns a lower bound of the simulated time between two minibatches, in nanoseconds. It is the largest
  /// of three times. The first is the computation and reduction of the busiest device, and the second is
  /// the work of the busiest link. The third is the longest round trip of a minibatch, divided by the
  /// number of minibatches that may be in flight.
  double period_ns(const PlanChoice& choice);

  /// Returns a lower bound of the simulated peak, apart from rounding. It counts the bytes that the fullest
  /// device holds when its first backward begins: the weights with their state, and the activations of its
  /// warm-up and of one more forward.
  double peak_bytes(const PlanChoice& choice) const;

 private:
  struct Sums {
    double time_ns = 0;  ///< sum over the layers before the cut, like `weights` and `kept`
    double weights = 0;
    double kept = 0;
    double alive = 0;  ///< bytes of all outputs that cross the cut
  };
  /// The costs of a ring all-reduce over devices, for each byte of weights: its time, and the bytes that
  /// each link carries.
  struct Ring {
    double ns_per_byte = 0;
    double latency_ns = 0;
    std::vector<std::pair<std::int32_t, double>> loads;
  };
  struct RoutePrice {
    std::vector<LinkNumber> links;
    double ns_per_byte = 0;
    double latency_ns = 0;
    bool is_known = false;
  };
  using Devices = std::span<const std::int32_t>;

  const Sums& sums_before(const PlanChoice& choice, std::size_t stage) const;
  const RoutePrice& route_price(std::int32_t from, std::int32_t to);
  const Ring& ring(Devices devices);
  double cross(Devices from, Devices to, double bytes);
  void load_ring(const Ring& ring, double bytes, double minibatches);
  void load(LinkNumber link, double bytes);

  std::vector<BandwidthLevel> levels_;
  const Cluster& cluster_;
  double overhead_ns_ = 0;
  bool buckets_ = false;
  std::int32_t microbatches_ = 0;
  double state_ = 0;
  std::vector<Sums> sums_;  // index: cut
  // The routes by source device, then by destination device. A route is computed at its first use, and the
  // bounds of many choices use it again.
  std::vector<std::vector<RoutePrice>> routes_;
  std::map<std::vector<std::int32_t>, Ring> rings_;
  // The time of each link for the current choice. It contains only links that were used so far.
  std::vector<double> link_ns_;
};

}  // namespace penstock
