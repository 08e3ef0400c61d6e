#pragma once
// The tables of PipeDream's dynamic programme, a table a level of bandwidth. Filled here, read back into
// stages by pipedream_partition.cpp, which is all that uses this.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
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

/// The programme on one graph and cluster. Times are nanoseconds as real numbers, infinite where there is no
/// plan.
class PipeDreamLevels {
 public:
  /// `downsets` and `levels` (from the lowest to the highest) must outlive this. Without a memory limit in
  /// `options` there is none.
  PipeDreamLevels(std::span<const Downset> downsets, std::span<const BandwidthLevel> levels,
                  const PlanOptions& options, const DeviceCosts& costs);

  /// The least period of the layers of `whole` on `whole.replicas` components of `level`, and its stages in
  /// order. Below the highest level `whole` stands for one component of a stage; `ahead` is its.
  double period_ns(std::size_t level, const LevelStage& whole, WorkAhead ahead);
  std::vector<LevelStage> stages(std::size_t level, const LevelStage& whole, WorkAhead ahead);

  /// What each component of `stage` has ahead when the pipeline of its level has `ahead`.
  WorkAhead ahead_of(std::size_t level, const LevelStage& stage, WorkAhead ahead) const;

  /// What the gradients' reduction among the stage's components takes, once for as many minibatches.
  double reduction_ns(std::size_t level, const LevelStage& stage) const;
  /// What a minibatch takes over the cut behind `downset`, with a stage of so many components at one side.
  double cut_ns(std::size_t level, std::size_t downset, std::int32_t replicas) const;

 private:
  /// The least periods from one downset to another on m components: of all plans (closed) and with the time
  /// in which the first stage receives its input at this level (open).
  struct Table {
    std::size_t targets = 0;  ///< all downsets, or the last one alone
    std::int32_t components = 0;
    std::vector<double> closed;
    std::vector<double> open;

    std::size_t column(std::size_t to) const;
    std::size_t place(std::size_t from, std::int32_t used, std::size_t to) const;
  };

  Table& table(std::size_t level, WorkAhead ahead);
  void add_last_stages(Table& table, std::size_t level, WorkAhead ahead, std::size_t from);
  void add_splits(Table& table, std::size_t level, WorkAhead ahead, std::size_t from, std::size_t to,
                  std::span<const double> of_use_below);
  std::vector<double> useful_below(const Table& table, std::size_t from) const;

  LevelStage first_stage(const Table& table, std::size_t level, const LevelStage& rest, WorkAhead ahead,
                         std::size_t pipeline_from);
  std::int32_t used_components(const LevelStage& whole) const;
  std::int32_t most_replicas(std::int32_t components) const;
  double stage_ns(std::size_t level, const LevelStage& stage, WorkAhead ahead);
  double component_ns(std::size_t level, const LevelStage& stage, WorkAhead ahead);
  double device_ns(const LevelStage& stage, WorkAhead ahead) const;

  std::span<const Downset> downsets_;
  std::span<const BandwidthLevel> levels_;
  PlanOptions options_;
  DeviceCosts costs_;
  std::vector<std::vector<std::uint32_t>> larger_;  // the downsets that include each one, ascending
  std::map<std::pair<std::size_t, WorkAhead>, Table> tables_;
};

}  // namespace penstock
