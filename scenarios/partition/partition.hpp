#pragma once
// Cuts layers into stages. This file has the options of PipeDream's partitioner, the rule that a scenario
// states, and the rules that need only layers (balanced, block, and the buckets of a stage).
// pipedream_partition.hpp has the rule that needs a cluster.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The formula by which PipeDream's partitioner computes a stage's time. T is the forward and backward time
/// of a minibatch. W is the bytes of weights, m the number of replicas, and B the bandwidth in bytes a
/// second. pipedream_levels.cpp has the formulas for several levels.
enum class PlanObjective : std::uint8_t {
  maximum,  // max(T/m, 2(m-1)W/(Bm^2)), and 2a/B for a cut of `a` bytes: 1F1B-RR's rings reduce once a round
  sum,      // (T + 4(m-1)W/(Bm)) / m, and 2a/(Bm) on both sides of a cut: the authors' released code
  maximum_printed,  // max(T, 2(m-1)W/B) / m, and 2a/B: the formula as printed (PipeDream, SOSP'19,
                    // section 3.1)
};
template <>
inline constexpr auto kEnumWords<PlanObjective> =
    std::to_array<EnumWord<PlanObjective>>({{PlanObjective::maximum, "maximum"},
                                            {PlanObjective::sum, "sum"},
                                            {PlanObjective::maximum_printed, "maximum-printed"}});

/// The choice whether stages of a plan may have replicas on several devices, or have one device each.
enum class PlanForm : std::uint8_t { replicated, straight };

/// The choice whether a plan counts the time of transfers between stages.
enum class CutTransfers : std::uint8_t { counted, free };
template <>
inline constexpr auto kEnumWords<CutTransfers> =
    std::to_array<EnumWord<CutTransfers>>({{CutTransfers::counted, "counted"}, {CutTransfers::free, "free"}});

/// The time at which a plan's stages update their weights.
enum class PlanUpdate : std::uint8_t {
  asynchronous,  // after each minibatch of a stream, as PipeDream does: the schedule is 1f1b-rr
  flush,         // once a minibatch of M microbatches, as in DAPPLE: the schedule is 1f1b with replicas
};
template <>
inline constexpr auto kEnumWords<PlanUpdate> = std::to_array<EnumWord<PlanUpdate>>(
    {{PlanUpdate::asynchronous, "asynchronous"}, {PlanUpdate::flush, "flush"}});

/// The options of PipeDream's partitioner.
struct PlanOptions {
  PlanObjective objective = PlanObjective::maximum;
  PlanForm form = PlanForm::replicated;
  CutTransfers transfers = CutTransfers::counted;
  PlanUpdate update = PlanUpdate::asynchronous;
  /// The memory limit of a device in bytes. If it is absent, the memory of the cluster's smallest device is
  /// the limit.
  std::optional<Bytes> memory_limit{};

  friend bool operator==(const PlanOptions&, const PlanOptions&) = default;
};

/// The rule by which the layers of a model are cut into stages, as a scenario states it.
struct Partition {
  enum class Rule : std::uint8_t {
    unset,
    balanced,   // the cuts of balanced_cuts()
    block,      // the cuts of block_cuts()
    pipedream,  // PipeDream's plan; with_planned_partition() replaces this rule by cuts
    cuts,
  };
  Rule rule = Rule::unset;
  /// The number of layers before each cut, in ascending order, for Rule::cuts.
  std::vector<std::int32_t> cuts{};
  /// The options for Rule::pipedream.
  PlanOptions plan{};
  /// True if the scenario states the objective. If it is false, a command may choose the objective.
  bool states_objective = false;

  friend bool operator==(const Partition&, const Partition&) = default;
};
/// The rules that have a name in scenarios. Rule::cuts has no name, because a scenario states it as a list
/// of cuts.
template <>
inline constexpr auto kEnumWords<Partition::Rule> =
    std::to_array<EnumWord<Partition::Rule>>({{Partition::Rule::balanced, "balanced"},
                                              {Partition::Rule::block, "block"},
                                              {Partition::Rule::pipedream, "pipedream"}});

/// Returns the cuts of the layers into `stages` stages. `slowness` is empty, or has the factor for each stage
/// by which its layers take longer than stated. Returns an error if there are no stages, or more stages than
/// layers. Also returns an error if several stages have no rule, or if the rule needs a plan or equal
/// devices. Stated cuts must be stages - 1 ascending numbers from 1 to layers - 1.
tl::expected<std::vector<std::int32_t>, std::string> cut_layers(const LayerGraph& graph,
                                                                const Partition& partition,
                                                                std::int32_t stages,
                                                                const std::vector<double>& slowness = {});

/// Returns the bytes that cross the cut before layer `cut`. These are the outputs of earlier layers that a
/// later layer reads, and each output counts once. Returns an error if the sum exceeds 2^63. Requires 0 <=
/// cut <= layers.
tl::expected<Bytes, std::string> cut_bytes(const LayerGraph& graph, std::int32_t cut);

// Cuts a model's layers into contiguous parts so that the longest part is as short as possible. cut_layers()
// uses it for stages and cut_buckets() for the buckets of a stage.

/// Returns the cuts for which the longest stage (forward + backward time) is as short as possible. Among
/// these, it chooses the most equal times, measured by the sum of squares. Among the remaining ones, it
/// chooses the least memory of the fullest stage under 1F1B, and then the earliest cuts. For stage s of K,
/// the memory consists of weights, their gradients, and the activations of K - s microbatches. `slowness` is
/// empty, or has the factor above 0 for each stage by which its layers take longer than stated. Requires 1 <=
/// stages <= layers.
std::vector<std::int32_t> balanced_cuts(const LayerGraph& graph, std::int32_t stages,
                                        const std::vector<double>& slowness = {});

/// Returns the earliest cuts for which the longest part is as short as possible. From the last part to the
/// first, each part gets as many layers as possible, but one layer remains for each earlier part. Gradient
/// buckets use these cuts: the first bucket is ready last, so it should be small. Requires 1 <= parts <=
/// layers.
std::vector<std::int32_t> earliest_cuts(const LayerGraph& graph, std::int32_t parts);

// Balances stages in the same manner as torchgpipe, for `partition: block`. The times of two stages differ by
// at most the largest difference between two layers. In contrast, balanced_cuts() minimises the longest
// stage.

/// Returns the cuts of a block partition, which balances forward + backward times. As in
/// torchgpipe.balance, the time of the shortest layer is first subtracted from the time of each layer. In
/// the result, no two blocks differ by more than the longest layer time that remains. Requires 1 <= stages
/// <= layers.
std::vector<std::int32_t> block_cuts(const LayerGraph& graph, std::int32_t stages);

// Cuts the layers of each stage into contiguous gradient buckets. Each stage is balanced as if it were a
// separate model:
//
//   layers  4 4 2 2 1 | 6 6      buckets [2, 1]      4 4 | 2 2 1 | 6 6

/// Returns the ends of all buckets, as numbers of layers. `ends` has the number of layers up to the end of
/// each stage, and `buckets` has the number of buckets in each stage. The longest bucket of a stage is as
/// short as possible. Returns an error if a stage has fewer layers than buckets. Requires at least one
/// bucket for each stage, and ascending ends. The last end must be the number of layers.
tl::expected<std::vector<std::int32_t>, std::string> cut_buckets(const LayerGraph& graph,
                                                                 const std::vector<std::int32_t>& ends,
                                                                 const std::vector<std::int32_t>& buckets);

}  // namespace penstock
