#pragma once
// Converts the costs of a chain of stages to the form that engines use: whole nanoseconds and bytes, and
// links between stages.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/cost_table.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {

/// Returns an error message if the costs exceed 64 bits, and nothing otherwise. Work that each microbatch
/// defers to the step counts once for each of the `microbatches`.
std::optional<std::string> chain_fault(std::span<const StagePrice> prices, const RankStep& step,
                                       std::int64_t microbatches);

/// Returns the costs of the stages and of the edges between them. Stages with the same rank in
/// `rank_of_stage` share one optimizer step. Requires that chain_fault() returns nothing.
CostTable chain_costs(std::span<const StagePrice> prices, std::span<const std::int32_t> rank_of_stage,
                      const RankStep& step, std::int64_t microbatches);

/// Returns the seconds that an action takes in addition to its kernels, for a framework. Used if the
/// scenario states none.
double usual_action_seconds(Framework framework);
/// Returns the nanoseconds that chain_costs() adds to each F, B, I and W (Workload::action_seconds).
Ns action_ns(double action_seconds);

/// Returns the links over which the workload's stages send activations and gradients. If the devices are of
/// several kinds, all links have the rate of the slowest network. The devices of the result are then those
/// of the first rank.
UniformCluster links_between_stages(const Workload& work);
/// Returns a cluster for a workload with several kinds of devices. Each rank is a device, and each pair of
/// ranks has a link. Between ranks on different kinds of devices, the link has the rate of the slower
/// network.
tl::expected<Cluster, std::string> unlike_stages_cluster(const Workload& work);

// Computes the costs of one copy of a pipeline on its devices.
//
//   layers of a stage -> prices of a microbatch -> prices of a rank's step -> F, I, W, STEP and their memory

/// Returns the costs of the stages. For each stage, `layers` has its number of layers and `rank_of_stage`
/// its rank. Both lists must have the same length, and the layers must add up to those of the model.
/// Returns an error if a figure does not fit in 64 bits.
tl::expected<CostTable, std::string> copy_costs(const Workload& work, const KernelTables& kernels,
                                                std::span<const std::int64_t> layers,
                                                std::span<const std::int32_t> rank_of_stage,
                                                std::int64_t microbatches);

// Adds up times or bytes in floating point, so that the sum cannot overflow. If the sum is small enough,
// engines can add the same terms in 64 bits.

/// A sum of terms, each of which belongs to a stage or an edge. It remembers the largest term.
class PartSum {
 public:
  /// Adds the term `times` x `each`. `form` is the term's name in messages, with {} for `number`, such as
  /// "{}F" or "kept of stage {}". It must be a literal, because only a view is stored. NaN is treated as the
  /// largest value.
  void add(std::string_view form, std::size_t number, double each, double times) {
    const double all = each * times;
    sum_ += all;
    if (all <= most_ || std::isnan(most_)) return;
    most_ = all;
    largest_ = {.form = form, .number = number, .each = each, .times = times};
  }
  double sum() const { return sum_; }
  /// Returns the value of the largest term.
  double most() const { return most_; }
  /// Returns a text about the largest term of a sum of nanoseconds, such as "0F takes 3.6e+09 s, 20000
  /// times".
  std::string longest() const;
  /// Returns a text about the largest term of a sum of bytes, such as "kept of stage 0 has 1e+18 bytes, 8
  /// times".
  std::string largest() const;

 private:
  struct Part {
    std::string_view form{};
    std::size_t number = 0;
    double each = 0;
    double times = 0;
  };
  std::string name() const;
  std::string how_often() const;

  double sum_ = 0;
  double most_ = -1;
  Part largest_;
};

}  // namespace penstock
