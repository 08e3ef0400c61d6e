#pragma once
// Computes the tables of PipeDream's dynamic programme for each level of bandwidth. Only
// pipedream_partition.cpp uses the tables, to read the stages of the best plan.

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

/// One level of bandwidth in the cluster, such as the devices of a server or the servers of a network. A
/// component of this level consists of `components` components of the next lower level. On the lowest
/// level, they are devices.
struct BandwidthLevel {
  /// The number of components that this level joins, at least 1.
  std::int32_t components = 1;
  /// The bandwidth between two components in bytes a second, greater than 0. It may be infinite.
  double bytes_per_second = 0;

  friend bool operator==(const BandwidthLevel&, const BandwidthLevel&) = default;
};

/// The number of devices that run later stages, divided by the number of components that run this stage. It
/// is stored as a reduced fraction. If the fraction is f when the components are devices, a device has
/// ceil(1 + f) minibatches in flight.
struct WorkAhead {
  std::int64_t devices = 0;
  std::int64_t components = 1;

  friend auto operator<=>(const WorkAhead&, const WorkAhead&) = default;
};

/// A stage of a plan on one level of bandwidth.
struct LevelStage {
  /// The index of the downset before the stage: the layers of all earlier stages.
  std::size_t from = 0;
  /// The index of the downset after the stage: the layers up to the end of the stage.
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

/// Returns the bytes that a device stores if it runs the layers between two downsets. They are activations
/// and weights for each of the `minibatches` in flight, plus gradients and optimizer state. If they exceed
/// 64 bits, the result is the largest `Bytes`.
Bytes held_bytes(const Downset& before, const Downset& after, std::int64_t minibatches,
                 std::int64_t state_bytes_per_weight_byte);

/// The position of a stage in the pipeline of its level. The released code computes the time of the first
/// stage differently (PlanObjective).
enum class StagePlace : std::uint8_t { first, later };

/// The figures of the best plan of some layers on some components. Among plans with equal periods, the best
/// plan is the one with the fewest ring bytes.
struct LevelPlan {
  double period_ns = 0;
  /// The bytes that the stages of the plan must reduce with devices outside the plan. For each stage, the
  /// bytes of one device count. Only the objective `maximum` uses this sum.
  double ring_bytes = 0;
};

/// The dynamic programme of PipeDream's partitioner for one layer graph and cluster. Times are real numbers
/// of nanoseconds, and infinite if there is no plan.
class PipeDreamLevels {
 public:
  /// Creates the tables. `levels` go from the lowest to the highest. `downsets` and `levels` must outlive
  /// this object. If `options` has no memory limit, memory is unlimited.
  PipeDreamLevels(std::span<const Downset> downsets, std::span<const BandwidthLevel> levels,
                  const PlanOptions& options, const DeviceCosts& costs);

  /// Returns true if plans are straight pipelines and there are fewer layers than devices. Some devices are
  /// then idle in each plan.
  bool may_idle() const { return may_idle_; }

  /// These functions describe the best plan for the layers of `whole` on `whole.replicas` components of
  /// `level`. period_ns() returns its period, and stages() returns its stages in order. Below the highest
  /// level, `whole` is one component of a stage, and `ahead` is the WorkAhead of this component.
  double period_ns(std::size_t level, const LevelStage& whole, WorkAhead ahead);
  std::vector<LevelStage> stages(std::size_t level, const LevelStage& whole, WorkAhead ahead);

  /// Returns the WorkAhead of each component that runs `stage`. `ahead` is the WorkAhead of the pipeline to
  /// which the stage belongs.
  WorkAhead ahead_of(std::size_t level, const LevelStage& stage, WorkAhead ahead) const;

  /// Returns the nanoseconds in which the components of the stage reduce their gradients. They reduce once
  /// after each component has run one minibatch. `ahead` is the WorkAhead of the stage's pipeline.
  double reduction_ns(std::size_t level, const LevelStage& stage, StagePlace place, WorkAhead ahead);
  /// Returns the nanoseconds in which the data of one minibatch cross the cut after `downset`. `replicas`
  /// is the number of components on one side of the cut.
  double cut_ns(std::size_t level, std::size_t downset, std::int32_t replicas) const;

 private:
  /// A table of the best plans for the layers between any two downsets, on each number of components.
  struct Table {
    /// The number of downsets at which plans of this table may begin. Each has one column of the table.
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

  /// One component that runs a stage, with the number of minibatches in flight and the plans inside the
  /// component.
  struct Component {
    WorkAhead ahead;
    /// The number of minibatches in flight on a device. Used only at the lowest level, where a component is
    /// a device.
    std::int64_t in_flight = 1;
    /// The plans inside one component. Null at the lowest level, and if components are idle.
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

// Finds levels of bandwidth for a cluster that states single links, because PipeDream's partitioner needs
// levels. planned_scenario.cpp uses it.

/// The levels of bandwidth of a cluster, from the lowest to the highest. `devices` lists the cluster's
/// devices, grouped by component.
struct ClusterLevels {
  std::vector<BandwidthLevel> levels;
  std::vector<std::int32_t> devices;

  friend bool operator==(const ClusterLevels&, const ClusterLevels&) = default;
};

/// Returns two levels of bandwidth if the devices form groups of equal size, such as servers in a network.
/// The routes inside each group must be faster than the routes between groups. Returns one level for other
/// clusters. The bandwidth of a level is that of its slowest route.
ClusterLevels cluster_levels(const Cluster& cluster);

/// Returns a sentence that describes the levels assumed for the cluster.
std::string to_text(const ClusterLevels& levels);

/// Returns the cluster with its devices renumbered: the new device d is the old device `order[d]`. Requires
/// that `order` contains every device once. Error: the error of ClusterBuilder::build().
tl::expected<Cluster, std::string> in_device_order(const Cluster& cluster,
                                                   std::span<const std::int32_t> order);

}  // namespace penstock
