#pragma once
// The downsets of a layer graph. A downset is a set of layers that contains all inputs of its layers, so that
// it can form the first stages of a pipeline. Downsets are the states of PipeDream's dynamic programme.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "schedules/ir/action.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// A set of layers, and sums over these layers. If the set contains a layer, it also contains all inputs of
/// this layer.
struct Downset {
  /// The members as bits: layer l is bit l % 64 of word l / 64.
  std::vector<std::uint64_t> members;
  std::int32_t size = 0;
  /// The time of the forward and backward passes of all layers in the set.
  Ns time_ns = 0;
  /// The bytes that the layers store for their backward pass.
  Bytes kept = 0;
  Bytes weights = 0;
  /// The bytes of the outputs that layers outside the set read from layers inside it. Each output counts
  /// once.
  Bytes alive = 0;

  bool holds(std::int32_t layer) const;
  /// Returns true if this set contains every layer of `other`.
  bool includes(const Downset& other) const;

  friend bool operator==(const Downset&, const Downset&) = default;
};

/// Returns all downsets after which a stage may end, sorted by size and then by members. The last downset has
/// all layers. The first one is the downset before the first stage. It contains those layers without cost
/// that depend on no layer with a cost, because such layers would only increase the number of downsets. It is
/// empty if there are no such layers. Returns an error if a sum exceeds 2^63, or if there are more than
/// `most` downsets. A chain of n layers has n + 1 downsets, and a graph of n branches has about 2^n.
tl::expected<std::vector<Downset>, std::string> downsets_of(const LayerGraph& graph, std::size_t most);

/// Returns the downsets of a graph if it is small enough for planning. Returns an error if a sum exceeds
/// 2^63, if branches lead to more than 4,096 downsets, or if there are more than 8,191 layers.
tl::expected<std::vector<Downset>, std::string> planned_downsets_of(const LayerGraph& graph);

/// Returns false if the branches of a graph lead to too many downsets. with_merged_branches() can then
/// reduce their number. Returns true for all other graphs. Planning may still refuse such a graph because
/// of its length or its sums.
bool can_be_planned_over(const LayerGraph& graph);

/// Returns the layers of `larger` that are not in `smaller`, in ascending order.
std::vector<std::int32_t> layers_between(const Downset& smaller, const Downset& larger);

// Merges parallel branches of a layer graph that has too many downsets for planning.

/// A graph of merged layers, and the original layers in each merged layer.
struct MergedGraph {
  /// The graph. The figures of a merged layer are the sums over its members.
  LayerGraph graph;
  /// The original layers of each layer of the graph, in ascending order.
  std::vector<std::vector<std::int32_t>> members;
};

/// Returns `graph` with fewer layers: it merges layers in the regions that have too many downsets. A region
/// consists of the layers between two layers that lie on every path. The result has about 256 downsets in
/// total. A cut remains possible after every layer that was not merged into another one.
/// merged_branches.cpp describes the steps.
MergedGraph merged_branches(const LayerGraph& graph);

// Computes the tables of PipeDream's dynamic programme for each level of bandwidth. Only
// pipedream_partition.cpp uses the tables, to read the stages of the best plan.

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
/// is stored as a reduced fraction f. If the components are devices, each of them has ceil(1 + f) minibatches
/// in flight.
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

/// The costs of a device that do not belong to a single layer.
struct DeviceCosts {
  std::int64_t state_bytes_per_weight_byte = 0;
  /// The time that is added to each forward pass, and also to each backward pass.
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

/// The period and the ring bytes of the best plan for some layers on some components. Among plans with equal
/// periods, the best plan is the one with the fewest ring bytes.
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
/// that `order` contains every device once. Returns the error of ClusterBuilder::build().
tl::expected<Cluster, std::string> in_device_order(const Cluster& cluster,
                                                   std::span<const std::int32_t> order);

// PipeDream's partitioner (SOSP'19, section 3.1). It decides the layers and the replicas of each stage, and
// the number of minibatches in flight. planned_scenario.hpp applies it to a scenario.

/// One stage of a plan. Its figures are for one minibatch.
struct PlannedStage {
  /// The indices of the stage's layers, in ascending order.
  std::vector<std::int32_t> layers;
  /// The devices of the stage's replicas. Minibatch g runs on devices[g % devices.size()].
  std::vector<std::int32_t> devices;
  /// The number of minibatches in flight on each replica. It is the warm-up of 1F1B-RR plus 1.
  std::int32_t in_flight = 1;
  /// The time of forward + backward on one device.
  Ns compute_ns = 0;
  Bytes weights = 0;
  /// The bytes of activations that the stage sends to the next stage. Equally many bytes of gradients come
  /// back.
  Bytes cut = 0;
  /// The bytes that one device stores: activations and weight versions of minibatches in flight, gradients
  /// and optimizer state.
  Bytes held = 0;
  /// The time to reduce the gradients, as a share for one minibatch. recurrence_period_ns() uses it.
  double reduction_ns = 0;
  /// The time in which a minibatch's activations and gradients cross the cut after the stage.
  double cut_ns = 0;
  /// The number of links between this stage and the next one. Each minibatch uses one of these links.
  std::int32_t cut_links = 1;

  friend bool operator==(const PlannedStage&, const PlannedStage&) = default;
};

/// A plan: the stages of a pipeline and the devices that run them.
struct PipelinePlan {
  /// The time between two minibatches, as PipeDream's dynamic programme computes it.
  double period_ns = 0;
  /// The stages. Every layer is in one stage, and each stage reads only from earlier stages.
  std::vector<PlannedStage> stages;

  friend bool operator==(const PipelinePlan&, const PipelinePlan&) = default;
};

/// Returns the plan with the shortest period on all devices of the cluster. `levels` go from the lowest to
/// the highest. On each level, device d belongs to component d / n, where n is the number of devices in one
/// component. Some devices are idle in two cases. In a straight pipeline, there may be fewer layers than
/// devices. The memory limit may also allow only plans on fewer components of the highest level. Among plans
/// with equal periods, the function chooses the plan with the longest last stages, as PipeDream's released
/// code does. Fails if a layer fits on no device; the message has its name and bytes. Also fails if no plan
/// is within the memory limit, or if the graph has too many downsets.
tl::expected<PipelinePlan, std::string> plan_pipeline(const LayerGraph& graph,
                                                      std::span<const BandwidthLevel> levels,
                                                      const PlanOptions& options,
                                                      std::int64_t state_bytes_per_weight_byte = 0);

/// Returns the best plans on 1, 2, ... components of the highest level. It omits numbers of components for
/// which there is no plan. Returns an empty list for a graph that plan_pipeline() refuses.
std::vector<PipelinePlan> plans_on_each(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                                        const PlanOptions& options,
                                        std::int64_t state_bytes_per_weight_byte = 0);

/// Returns `stages` with the fields that depend on the minibatches in flight. Their number follows from the
/// devices of the stage and of later stages. In the input, `held` has the bytes of one minibatch, and compute
/// times do not include overhead. In the result, `held` has the bytes of all minibatches in flight, and
/// compute times include overhead.
std::vector<PlannedStage> with_minibatches_in_flight(std::vector<PlannedStage> stages,
                                                     const LayerGraph& graph,
                                                     std::int64_t state_bytes_per_weight_byte);

/// Returns a plan's period by the formula of PipeDream's dynamic programme. It is the maximum of the times of
/// all cuts and of all stages. The time of a stage (computation and reduction) is divided by its number of
/// devices.
double recurrence_period_ns(const PipelinePlan& plan, PlanObjective objective);

/// Returns the bytes that all devices together send for one minibatch. They are the activations and
/// gradients that cross each cut, and the bytes of ring all-reduces. The m replicas of a stage with weights
/// of W bytes send 2(m-1)W bytes for m minibatches. If `reduced` is not 0, they send these bytes for
/// `reduced` minibatches.
double bytes_per_minibatch(const PipelinePlan& plan, std::int32_t reduced = 0);

// Computes the period of a plan with given stages, by the formula of PipeDream's dynamic programme. It is
// used for plans that another measure ranks (planned_scenario.hpp).

/// The layers of a stage, and the devices of its replicas. Minibatch g runs on devices[g % devices.size()].
struct StatedStage {
  std::vector<std::int32_t> layers;
  std::vector<std::int32_t> devices;
};

/// Returns the plan that consists of these stages, with its period under the objective `maximum`. To price
/// a ring or a cut, it finds the lowest level on which one component contains all devices involved. It uses
/// the bandwidth of this level. Device numbers follow the components. Requires that each stage has at least
/// one device and reads only from earlier stages.
PipelinePlan stated_plan(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                         const std::vector<StatedStage>& stages, std::int64_t state_bytes_per_weight_byte);

}  // namespace penstock
