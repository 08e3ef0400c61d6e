#pragma once
// Finds lower bounds of a configuration's time and memory from sums over its layers, before the costs of
// its stages are computed. A search computes costs only for configurations that these bounds do not rule
// out.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "sim/choose/configuration.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {

/// The lower bounds of a configuration's step time and peak memory.
struct LowerBounds {
  Ns step_ns = 0;
  Bytes peak_bytes = 0;  ///< lower bound of the levelled peak (PricedConfiguration::smaller_by)
};

/// The time and memory of one part of a model for one microbatch, in nanoseconds and bytes. A part is the
/// embedding, one layer, or the head.
struct PartCost {
  double forward_ns = 0;
  double input_ns = 0;   ///< time to compute the gradient of the input
  double weight_ns = 0;  ///< time to compute the gradient of the weights
  double kept = 0;
  double released_by_input = 0;  ///< the part of `kept` that I releases
  double recomputed = 0;
  double constant = 0;  ///< bytes of weights and optimizer state
  double gradients = 0;

  double backward_ns() const { return input_ns + weight_ns; }
  double total_ns() const { return forward_ns + backward_ns(); }
  PartCost operator+(const PartCost& other) const;
  PartCost operator-(const PartCost& other) const;
};

/// The bytes that a part of a model (the embedding, a layer or the head) needs only while it runs.
struct PartTransient {
  double whole = 0;  ///< bytes that F and B need
  double split = 0;  ///< bytes that I and W need
};

/// The costs of all parts of a model (the embedding, the layers and the head), as prefix sums.
struct PartSums {
  /// Prefix sums of the costs: entry i is the sum over all parts before part i.
  std::vector<PartCost> before{PartCost{}};
  PartTransient embedding{};
  PartTransient layer{};  ///< least cost of a layer: the minimum of each value over all layers
  PartTransient head{};
};

/// Returns the prefix sums of a workload's costs, computed from `prices`. `one_rank_has_both_ends` is true if
/// the first and the last stage are on one rank. The sums and their bounds are 0 if the cost of a layer
/// depends on its stage. This is the case if only some layers are recomputed, or if a layout places
/// multi-token-prediction layers.
PartSums part_sums(const Workload& work, const LayerPrices& prices, bool one_rank_has_both_ends);

/// The sums of a pipeline whose ranks may be on devices of several kinds. Ranks of one kind follow each
/// other, in the order of `kinds`.
struct PipelineSums {
  /// The sums for each kind of device.
  std::vector<PartSums> kinds{};
  /// Sums of the least cost of each part on any kind. Absent if there is only one kind.
  std::optional<PartSums> least_of_kinds{};
  /// A factor of at least 1 for each kind. Each part takes at least this factor times as long on this kind as
  /// in least().
  std::vector<double> slowness{};

  const PartSums& least() const { return least_of_kinds ? *least_of_kinds : kinds.front(); }
};
/// Returns the sums of a pipeline from those of its kinds of devices. Requires at least one kind.
PipelineSums pipeline_sums(std::vector<PartSums> kinds);

/// The ranks of a pipeline on devices of several kinds. Both lists are empty if all devices are alike.
struct UnlikeRanks {
  std::vector<std::size_t> kinds{};  ///< the kind of device of each rank, as an index
  /// For each rank, the bytes by which its usable memory is smaller than that of the largest device.
  std::vector<Bytes> smaller_by{};

  friend bool operator==(const UnlikeRanks&, const UnlikeRanks&) = default;
};

/// Returns lower bounds of the time and memory of a pipeline whose stages have `layers` layers. The bounds
/// ignore STEP, messages and transient bytes.
LowerBounds quick_bounds(const PipelineSums& sums, const UnlikeRanks& unlike,
                         const std::vector<std::int64_t>& layers, const ScheduleOutline& outline,
                         std::int32_t microbatches);
/// Returns a lower bound of the bytes that all ranks together need for stages with these layers.
Bytes least_bytes_of_ranks(const PartSums& sums, const std::vector<std::int64_t>& layers,
                           const ScheduleOutline& outline);
/// Returns lower bounds of the time and memory that hold for every division of the layers into stages.
LowerBounds quick_bounds(const PipelineSums& sums, const UnlikeRanks& unlike, const ScheduleOutline& outline,
                         std::int32_t microbatches);

// Computes the costs of a configuration's stages, and lower bounds of its time and memory. The costs of a
// layer are cached and used again for other configurations.

/// The costs of a configuration, in the form that the engines and the bounds need.
struct PricedConfiguration {
  std::vector<std::int64_t> layers{};  ///< number of layers of each stage
  CostTable costs;                     ///< costs of the stages, which form a chain
  /// The links between ranks. If the devices are unlike, all have the rate of the slowest network.
  UniformCluster links;
  /// The links of each pair of ranks, if the devices are unlike. Null if they are alike.
  std::shared_ptr<const Cluster> unlike_links{};
  /// The bytes by which each rank's usable memory is smaller than that of the largest device. Empty if the
  /// devices are alike. A rank's levelled peak is its peak plus these bytes, so the levelled peaks of all
  /// ranks can be compared with one limit.
  std::vector<Bytes> smaller_by{};
  std::string fault{};  ///< the message if times or bytes may exceed 64 bits; otherwise empty

  friend bool operator==(const PricedConfiguration&, const PricedConfiguration&) = default;
};

class ConfigurationPrices {
 public:
  /// Stores a reference to the request, which must outlive this object.
  explicit ConfigurationPrices(const TuneRequest& request);

  /// Returns lower bounds of the configuration's time and memory, without computing its costs. They never
  /// exceed those of lower_bounds(). Returns nothing if the sums come near the limit of 64 bits, because
  /// only the costs can then show a fault.
  std::optional<LowerBounds> quick_bounds(const Configuration& configuration, const ScheduleOutline& outline);

  /// Returns sharper lower bounds of a configuration with a balanced layer split, without its costs. The
  /// level layers are the split that balances only times. If they need more memory than all ranks have
  /// together, no split fits, and of() uses the level layers (fitted_split()). The result then has the bounds
  /// for them. In all other cases, returns nothing. Requires that quick_bounds() has returned bounds.
  std::optional<LowerBounds> level_bounds(const Configuration& configuration, const ScheduleOutline& outline);

  /// Returns the costs of a configuration of the search space. `outline` must be the outline of its program
  /// and must outlive this object. A balanced layer split is balanced by price (prepare/balanced_split.cpp).
  /// If the result has a fault, its costs must not be used.
  PricedConfiguration of(const Configuration& configuration, const ScheduleOutline& outline);
  /// Returns the costs of a configuration, like the other of(), for given numbers of layers in each stage.
  PricedConfiguration of(const Configuration& configuration, const ScheduleOutline& outline,
                         std::vector<std::int64_t> layers);

 private:
  /// The numbers of domains that groups of devices span, for one kind of device.
  using Domains = std::array<std::int64_t, 3>;
  using LayerKey = std::tuple<std::int32_t, std::int32_t, ContextExchange, std::int32_t, std::int32_t,
                              LayerRecompute, std::int32_t, std::int32_t, GroupOrder, std::vector<Domains>>;
  /// The prices of layers on each kind of device, in the order of the ranks.
  using KindPrices = std::vector<LayerPrices>;

  /// The inputs of PipelineSums: the prices of layers, the degree of sharding, the number of copies, and true
  /// if one rank has both ends of the model.
  using PartKey = std::tuple<const KindPrices*, std::int32_t, std::int32_t, bool>;

  /// An outline (the microbatches that each rank holds at its fullest moments), and the same outline for
  /// `microbatches` microbatches. outline_of_whole() computes the second one.
  struct WholeOutline {
    const ScheduleOutline* of = nullptr;
    std::int32_t microbatches = 0;
    ScheduleOutline outline{};
  };

  /// Sets the fields of `work_` (the workload that is priced) to the choices and devices of `configuration`.
  void choose(const Configuration& configuration);
  bool is_balanced(const Configuration& configuration, const ScheduleOutline& outline) const;
  const KernelTables& kernels_of(const Configuration& configuration) const;
  const KindPrices& layers_of(const Configuration& configuration);
  const PipelineSums& parts_of(const Configuration& configuration, const ScheduleOutline& outline);
  /// Returns the kinds and limits of the ranks of work_.
  UnlikeRanks unlike_ranks() const;
  std::shared_ptr<const Cluster> unlike_links(const Configuration& configuration);
  std::vector<std::int64_t> cut_of(const Configuration& configuration, const ScheduleOutline& outline);
  const ScheduleOutline& whole_of(const ScheduleOutline& outline, std::int32_t microbatches);

  const TuneRequest& request_;
  Workload work_;
  /// The kinds of devices in each order of the groups, by GroupOrder. Empty lists for devices of one kind.
  std::array<std::vector<DeviceKind>, 2> kinds_;
  std::map<LayerKey, std::unique_ptr<const KindPrices>> layers_;
  std::map<PartKey, PipelineSums> parts_;
  std::map<std::pair<std::size_t, std::int32_t>, std::vector<std::int64_t>> cuts_;
  /// The number of layers of each stage in balanced splits. The key is the prices of the layers and the
  /// rank of each stage.
  std::map<std::pair<const KindPrices*, std::vector<std::int32_t>>, std::vector<std::int64_t>> level_;
  /// The links between ranks on unlike devices, by the order of groups, the stages, and the devices of a
  /// rank.
  std::map<std::tuple<GroupOrder, std::int32_t, std::int32_t, std::int32_t, std::int32_t>,
           std::shared_ptr<const Cluster>>
      unlike_links_;
  WholeOutline whole_;
};

/// Returns lower bounds of the step time and of the peak memory for `microbatches` microbatches. They never
/// exceed the figures that the engines find.
LowerBounds lower_bounds(const PricedConfiguration& priced, const ScheduleOutline& outline,
                         std::int32_t microbatches);

// The best configurations that a search has found so far. They show which other configurations may still
// change the answer.

/// The time and memory of a configuration, or lower bounds of them.
struct Worth {
  std::int64_t time = 0;  ///< time of a step times the number of devices, in nanoseconds
  Bytes bytes = 0;        ///< bytes on the fullest device

  friend auto operator<=>(const Worth&, const Worth&) = default;
};

/// The best configurations that the search has found so far for one value of a choice, such as tensor = 8.
struct BestOfValue {
  std::optional<std::size_t> fitting{};
  Worth fitting_worth{};
  std::optional<std::size_t> fastest{};  ///< the fastest configuration, even if it does not fit in memory
  std::int64_t fastest_time = std::numeric_limits<std::int64_t>::max();
};

class KnownWorth {
 public:
  /// Creates an empty record. `top` is the number of configurations in the answer. `usable` is the bytes of
  /// a device that a configuration may use. `values` is the number of values of all choices together.
  KnownWorth(std::size_t top, Bytes usable, std::size_t values)
      : top_(top), usable_(usable), values_(values) {}

  std::size_t top() const { return top_; }
  bool fits(Bytes bytes) const { return bytes <= usable_; }
  /// Records whether fewer than `top` configurations may fit in memory. `count` is their number. If there are
  /// more than `top`, `count` may be `top`. If `count` is below `top`, the answer also contains
  /// configurations that do not fit.
  void set_possible_fits(std::size_t count) { others_count_ = count < top_; }

  /// Returns true if a configuration with this lower bound may still be in the answer. It may be one of the
  /// fastest, on the Pareto front of time and memory, or the best with one of its values.
  bool may_matter(const ValueNumbers::Numbers& numbers, const Worth& least) const;

  /// Records the time of the configuration with number `number`. Its peak memory may be unknown.
  void note_time(std::size_t number, const ValueNumbers::Numbers& numbers, std::int64_t time);
  void note(std::size_t number, const ValueNumbers::Numbers& numbers, const Worth& worth);

  const BestOfValue& of_value(std::size_t value) const { return values_[value]; }

 private:
  bool may_be_first(const Worth& least) const;
  bool may_be_on_front(const Worth& least) const;
  bool may_be_best_of_value(const ValueNumbers::Numbers& numbers, const Worth& least) const;
  void add_to_front(const Worth& worth);

  std::size_t top_;
  Bytes usable_;
  bool others_count_ = false;
  std::vector<std::int64_t> fitting_times_;  // shortest times of configurations that fit, in ascending order
  std::vector<std::int64_t> other_times_;
  std::vector<Worth> front_;
  std::vector<BestOfValue> values_;
};

}  // namespace penstock
