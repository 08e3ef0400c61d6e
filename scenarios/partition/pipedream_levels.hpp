#pragma once
// The tables of PipeDream's dynamic programme, one for each level of bandwidth. This file fills them. Only
// pipedream_partition.cpp uses them, to read the stages of the best plan.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/partition/layer_graph_downsets.hpp"
#include "scenarios/partition/partition.hpp"
#include "schedules/ir/action.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// One level of the cluster. It consists of `components` of the level below (devices at the lowest level),
/// and has the bandwidth between two of them.
struct BandwidthLevel {
  /// The number of components, at least 1.
  std::int32_t components = 1;
  /// The bandwidth, greater than 0; it may be infinite.
  double bytes_per_second = 0;

  friend bool operator==(const BandwidthLevel&, const BandwidthLevel&) = default;
};

/// The number of devices on later stages for each device of a component, as a reduced fraction. A device with
/// the value `ahead` has ceil(1 + ahead) minibatches in flight.
struct WorkAhead {
  std::int64_t devices = 0;
  std::int64_t components = 1;

  friend auto operator<=>(const WorkAhead&, const WorkAhead&) = default;
};

/// A stage on one level.
struct LevelStage {
  /// The index of the downset before the stage.
  std::size_t from = 0;
  /// The index of the downset after the stage.
  std::size_t to = 0;
  /// The number of components of the level that run the stage and share its minibatches.
  std::int32_t replicas = 1;
  /// The number of components of the level that run later stages.
  std::int32_t later = 0;
};

/// The costs of a minibatch on a device that do not belong to a layer.
struct DeviceCosts {
  std::int64_t state_bytes_per_weight_byte = 0;
  /// The time that is added once to the forward pass and once to the backward pass.
  Ns overhead_ns = 0;
};

/// Returns the bytes of a device that runs the layers between two downsets with `minibatches` in flight. They
/// consist of one set of activations and weights for each minibatch, plus gradients and optimizer state. The
/// result is at most the largest Bytes.
Bytes held_bytes(const Downset& before, const Downset& after, std::int64_t minibatches,
                 std::int64_t state_bytes_per_weight_byte);

/// The position of a stage in the pipeline of its level. The released code computes the time of the first
/// stage differently (PlanObjective).
enum class StagePlace : std::uint8_t { first, later };

/// A best plan of some layers on some components. Of plans with equal periods it is the one with fewer ring
/// bytes.
struct LevelPlan {
  double period_ns = 0;
  /// The bytes that one device of every stage must reduce outside the plan. Used only for the objective
  /// `maximum`.
  double ring_bytes = 0;
};

/// The dynamic programme for one graph and cluster. Times are nanoseconds as real numbers. A time is infinite
/// if there is no plan.
class PipeDreamLevels {
 public:
  /// Requires that `downsets` and `levels` (from the lowest to the highest) outlive this object. If `options`
  /// has no memory limit, memory is unlimited.
  PipeDreamLevels(std::span<const Downset> downsets, std::span<const BandwidthLevel> levels,
                  const PlanOptions& options, const DeviceCosts& costs);

  /// Returns true for a straight pipeline with fewer layers than devices. Its plans use as many devices as
  /// they can, and the others stay idle.
  bool may_idle() const { return may_idle_; }

  /// Return the least period of the layers of `whole` on `whole.replicas` components of `level`, and the
  /// stages of that plan in order. Below the highest level, `whole` is one component of a stage, and `ahead`
  /// is the value of that component.
  double period_ns(std::size_t level, const LevelStage& whole, WorkAhead ahead);
  std::vector<LevelStage> stages(std::size_t level, const LevelStage& whole, WorkAhead ahead);

  /// Returns the value `ahead` of each component of `stage`, if the pipeline of its level has `ahead`.
  WorkAhead ahead_of(std::size_t level, const LevelStage& stage, WorkAhead ahead) const;

  /// Returns the time of the gradients' reduction among the stage's components. There is one reduction for as
  /// many minibatches as components. `ahead` is the value of the stage's pipeline.
  double reduction_ns(std::size_t level, const LevelStage& stage, StagePlace place, WorkAhead ahead);
  /// Returns the time of one minibatch over the cut after `downset`. `replicas` is the number of components
  /// on one side of the cut.
  double cut_ns(std::size_t level, std::size_t downset, std::int32_t replicas) const;

 private:
  /// The best plans between any two downsets on m components.
  struct Table {
    /// The number of columns: one for each downset, or one in total.
    std::size_t sources = 0;
    std::int32_t components = 0;
    std::vector<double> periods;
    std::vector<double> rings;

    std::size_t place(std::size_t from, std::int32_t used, std::size_t to) const;
    LevelPlan at(std::size_t place) const {
      return {.period_ns = periods[place], .ring_bytes = rings[place]};
    }
    void put(std::size_t place, LevelPlan plan);
  };
  struct TableKey {
    std::size_t level = 0;
    WorkAhead ahead;
    std::int32_t components = 0;

    friend auto operator<=>(const TableKey&, const TableKey&) = default;
  };

  /// The minibatches in flight on a component of a stage, and its tables.
  struct Component {
    WorkAhead ahead;
    /// The minibatches in flight on a device; used at the lowest level.
    std::int64_t in_flight = 1;
    /// The plans of one component. Null at the lowest level, and if components stay idle.
    const Table* below = nullptr;
  };
  class StageComponents;

  Component component_of(std::size_t level, const LevelStage& stage, WorkAhead ahead);
  Table& table(std::size_t level, WorkAhead ahead, std::int32_t components);
  void add_whole_ranges(Table& table, std::size_t level, const StageComponents& stages, std::size_t to);
  void add_splits(Table& table, std::size_t level, const StageComponents& stages, std::size_t split,
                  std::size_t to, std::span<const double> of_use_below);

  LevelStage last_stage(const Table& table, std::size_t level, const LevelStage& rest, WorkAhead ahead);
  std::int32_t used_components(const LevelStage& whole) const;
  std::int32_t most_replicas(std::int32_t components) const;
  LevelPlan stage_plan(std::size_t level, const LevelStage& stage, StagePlace place,
                       const Component& of_stage);
  LevelPlan component_plan(std::size_t level, const LevelStage& stage, const Component& component);
  double reduced_bytes_ns(std::size_t level, const LevelStage& stage, StagePlace place, double bytes) const;
  double around_ns(std::size_t level, const LevelStage& stage) const;
  double device_ns(const LevelStage& stage, std::int64_t minibatches) const;
  double weights_between(const LevelStage& stage) const;

  std::span<const Downset> downsets_;
  std::span<const BandwidthLevel> levels_;
  PlanOptions options_;
  DeviceCosts costs_;
  bool may_idle_ = false;
  std::vector<std::vector<std::uint32_t>> smaller_;  // the downsets that each downset includes, ascending
  std::map<TableKey, Table> tables_;
};

// Finds levels of bandwidth for a cluster that is given link by link, because PipeDream's partitioner needs
// levels. Used by planned_scenario.cpp.

/// The levels from the lowest to the highest. `devices` lists the cluster's devices component by component.
struct ClusterLevels {
  std::vector<BandwidthLevel> levels;
  std::vector<std::int32_t> devices;

  friend bool operator==(const ClusterLevels&, const ClusterLevels&) = default;
};

/// Returns two levels if the devices form groups of equal size, such as servers in a network. The members of
/// a group must reach each other faster than they reach other devices. Each level has the bandwidth of its
/// slowest route. Otherwise returns one level with the bandwidth of the slowest route.
ClusterLevels cluster_levels(const Cluster& cluster);

/// Returns a sentence that describes the levels assumed for the cluster.
std::string to_text(const ClusterLevels& levels);

/// Returns the cluster with its devices renumbered: the new device d is the old device `order[d]`. Requires
/// that `order` contains every device once. Error: the error of ClusterBuilder::build().
tl::expected<Cluster, std::string> in_device_order(const Cluster& cluster,
                                                   std::span<const std::int32_t> order);

}  // namespace penstock
