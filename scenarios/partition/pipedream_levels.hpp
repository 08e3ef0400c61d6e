#pragma once
// The tables of PipeDream's dynamic programme, one for each level of bandwidth. They are filled here, and
// pipedream_partition.cpp, the only user, reads them back into stages.

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

/// One level of the cluster: `components` of the level below (at the lowest level: devices) and the bandwidth
/// between two of them.
struct BandwidthLevel {
  /// The number of components, at least 1.
  std::int32_t components = 1;
  /// The rate, greater than 0; may be infinite.
  double bytes_per_second = 0;

  friend bool operator==(const BandwidthLevel&, const BandwidthLevel&) = default;
};

/// The number of later devices in the pipeline for each device of a component, as a reduced fraction. With a
/// value of `ahead` a device has ceil(1 + ahead) minibatches in flight.
struct WorkAhead {
  std::int64_t devices = 0;
  std::int64_t components = 1;

  friend auto operator<=>(const WorkAhead&, const WorkAhead&) = default;
};

/// A stage on one level.
struct LevelStage {
  /// The index of the downset before it.
  std::size_t from = 0;
  /// The index of the downset that it completes.
  std::size_t to = 0;
  /// The components of the level that share its minibatches.
  std::int32_t replicas = 1;
  /// The components of the level that come after it.
  std::int32_t later = 0;
};

/// The costs of a minibatch on a device beyond those of its layers.
struct DeviceCosts {
  std::int64_t state_bytes_per_weight_byte = 0;
  /// The time that is added once to the forward and once to the backward pass.
  Ns overhead_ns = 0;
};

/// Returns the bytes of a device that runs the layers between two downsets with `minibatches` in flight: that
/// many activations and versions of the weights, plus gradients and optimizer state. Returns at most the
/// largest Bytes.
Bytes held_bytes(const Downset& before, const Downset& after, std::int64_t minibatches,
                 std::int64_t state_bytes_per_weight_byte);

/// The place of a stage in the pipeline of its level. The released code prices the first stage differently
/// (PlanObjective).
enum class StagePlace : std::uint8_t { first, later };

/// A best plan of some layers on some components. Among equal periods the one with fewer ring bytes is taken.
struct LevelPlan {
  double period_ns = 0;
  /// The bytes that one device of every stage must reduce outside the plan; only for the objective `maximum`.
  double ring_bytes = 0;
};

/// The dynamic programme on one graph and cluster. Times are nanoseconds as real numbers, and infinite if
/// there is no plan.
class PipeDreamLevels {
 public:
  /// `downsets` and `levels` (from the lowest to the highest) must outlive this object. Without a memory
  /// limit in `options` memory is unlimited.
  PipeDreamLevels(std::span<const Downset> downsets, std::span<const BandwidthLevel> levels,
                  const PlanOptions& options, const DeviceCosts& costs);

  /// Returns true for a straight pipeline of fewer layers than devices, whose parts use as many devices as
  /// they can.
  bool may_idle() const { return may_idle_; }

  /// Return the least period of the layers of `whole` on `whole.replicas` components of `level`, and the
  /// stages of that plan in order. Below the highest level `whole` represents one component of a stage, and
  /// `ahead` is that component's.
  double period_ns(std::size_t level, const LevelStage& whole, WorkAhead ahead);
  std::vector<LevelStage> stages(std::size_t level, const LevelStage& whole, WorkAhead ahead);

  /// Returns what each component of `stage` has ahead if the pipeline of its level has `ahead`.
  WorkAhead ahead_of(std::size_t level, const LevelStage& stage, WorkAhead ahead) const;

  /// Returns the time of the gradients' reduction among the stage's components, once for as many minibatches.
  /// `ahead` is that of the stage's pipeline.
  double reduction_ns(std::size_t level, const LevelStage& stage, StagePlace place, WorkAhead ahead);
  /// Returns the time of a minibatch over the cut after `downset`, with a stage of `replicas` components at
  /// one side.
  double cut_ns(std::size_t level, std::size_t downset, std::int32_t replicas) const;

 private:
  /// The best plans between two downsets on m components.
  struct Table {
    /// The number of columns: all downsets, or only the first one.
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

  /// The minibatches in flight and the tables of a stage's components.
  struct Component {
    WorkAhead ahead;
    /// The minibatches on a device, at the lowest level.
    std::int64_t in_flight = 1;
    /// The plans of one component; null at the lowest level, and if components stay idle.
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
  std::vector<std::vector<std::uint32_t>> smaller_;  // for each downset those that it includes, ascending
  std::map<TableKey, Table> tables_;
};

}  // namespace penstock
