#pragma once
// The tables of PipeDream's dynamic programme, a table a level of bandwidth. Filled here, read back into
// stages by pipedream_partition.cpp, which is all that uses this.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "scenarios/partition/layer_graph_downsets.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// One level of the cluster: `components` of the level below (at the lowest level, devices) and the
/// bandwidth between two of them.
struct BandwidthLevel {
  std::int32_t components = 1;  ///< >= 1
  double bytes_per_second = 0;  ///< > 0; may be infinite

  friend bool operator==(const BandwidthLevel&, const BandwidthLevel&) = default;
};

/// How many devices come later in the pipeline than a component, as a reduced fraction of those that its
/// replicas share: a device with `ahead` keeps ceil(1 + ahead) minibatches in flight.
struct WorkAhead {
  std::int64_t devices = 0;
  std::int64_t components = 1;

  friend auto operator<=>(const WorkAhead&, const WorkAhead&) = default;
};

/// A stage as its level sees it.
struct LevelStage {
  std::size_t from = 0;       ///< index of the downset before it
  std::size_t to = 0;         ///< index of the downset that it completes
  std::int32_t replicas = 1;  ///< components of the level that share its minibatches
  std::int32_t later = 0;     ///< components of the level that come after it
};

/// What a minibatch costs a device beyond its layers' own figures.
struct DeviceCosts {
  std::int64_t state_bytes_per_weight_byte = 0;
  Ns overhead_ns = 0;  ///< added once to its forward and once to its backward pass
};

/// Bytes that a device holds which runs the layers between two downsets with `minibatches` in flight: as many
/// activations and versions of the weights, gradients, optimizer state. At most the largest Bytes.
Bytes held_bytes(const Downset& before, const Downset& after, std::int64_t minibatches,
                 std::int64_t state_bytes_per_weight_byte);

/// Whether a stage begins the pipeline of its level; the released code prices these otherwise
/// (PlanObjective).
enum class StagePlace : std::uint8_t { first, later };

/// A best plan of some layers on some components. Of equal periods the one with the smaller ring.
struct LevelPlan {
  double period_ns = 0;
  double ring_bytes = 0;  ///< that one of its devices of every stage have to reduce beyond it; maximum alone
};

/// The programme on one graph and cluster. Times are nanoseconds as real numbers, infinite where there is no
/// plan.
class PipeDreamLevels {
 public:
  /// `downsets` and `levels` (from the lowest to the highest) must outlive this. Without a memory limit in
  /// `options` there is none.
  PipeDreamLevels(std::span<const Downset> downsets, std::span<const BandwidthLevel> levels,
                  const PlanOptions& options, const DeviceCosts& costs);

  /// True for a straight pipeline of fewer layers than devices: each part of it uses as many as it can.
  bool may_idle() const { return may_idle_; }

  /// The least period of the layers of `whole` on `whole.replicas` components of `level`, and its stages in
  /// order. Below the highest level `whole` stands for one component of a stage; `ahead` is its.
  double period_ns(std::size_t level, const LevelStage& whole, WorkAhead ahead);
  std::vector<LevelStage> stages(std::size_t level, const LevelStage& whole, WorkAhead ahead);

  /// What each component of `stage` has ahead when the pipeline of its level has `ahead`.
  WorkAhead ahead_of(std::size_t level, const LevelStage& stage, WorkAhead ahead) const;

  /// What the gradients' reduction among the stage's components takes, once for as many minibatches; `ahead`
  /// is its pipeline's.
  double reduction_ns(std::size_t level, const LevelStage& stage, StagePlace place, WorkAhead ahead);
  /// What a minibatch takes over the cut behind `downset`, with a stage of so many components at one side.
  double cut_ns(std::size_t level, std::size_t downset, std::int32_t replicas) const;

 private:
  /// Best plans between two downsets on m components.
  struct Table {
    std::size_t sources = 0;  ///< all downsets, or the first one alone
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

  /// What a stage's components have ahead.
  struct Component {
    WorkAhead ahead;
    std::int64_t in_flight = 1;    ///< minibatches on a device, at the lowest level
    const Table* below = nullptr;  ///< plans of one component; at the lowest level, or where some idle, none
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
  std::vector<std::vector<std::uint32_t>> smaller_;  // the downsets that each one includes, ascending
  std::map<TableKey, Table> tables_;
};

}  // namespace penstock
