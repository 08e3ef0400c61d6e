#pragma once
// Defines the input of a schedule generator: the stages K, the microbatches M, the options of schedules,
// and the effort of searches. The input is read from a scenario or from flags. Generators (generators.hpp)
// make a Program from it.

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The frequency at which the ranks of a stage exchange sharded data under sharding 2 and 3. Under sharding
/// 0 and 1, they exchange data only once per step.
enum class Gather : std::uint8_t {
  microbatch,  // each pass of a microbatch gathers weights (sharding 3); each backward reduces gradients
  step,        // a step gathers weights once (sharding 3), and its last microbatch reduces gradients
};
template <>
inline constexpr auto kEnumWords<Gather> =
    std::to_array<EnumWord<Gather>>({{Gather::step, "step"}, {Gather::microbatch, "microbatch"}});

// Defines the objective of a search for an order of actions, and the largest effort of the search.

/// The definition of an order's length. A search for an order of actions makes this length as small as
/// possible.
enum class Objective : std::uint8_t {
  /// The longest time that any rank takes from its first start to its last end.
  span,
  /// The time from 0 to the last end of any rank. Late starts count, too.
  makespan,
};
template <>
inline constexpr auto kEnumWords<Objective> =
    std::to_array<EnumWord<Objective>>({{Objective::span, "span"}, {Objective::makespan, "makespan"}});

/// The effort of a search for an order, counted in passes. Each pass builds an order once, so equal efforts
/// give equal programs on any machine. A time budget can end a search early. The result then depends on the
/// speed of the machine.
struct SearchEffort {
  /// The number of passes, at least 0. With 0 passes, the search returns the order that the rule constructs.
  std::int64_t passes = kDefaultPasses;
  /// The seed of the search's random draws.
  std::uint64_t seed = 1;
  /// The longest time of the search in seconds. With 0, only the number of passes limits the search.
  double budget_seconds = 0;

  static constexpr std::int64_t kDefaultPasses = 500;

  friend bool operator==(const SearchEffort&, const SearchEffort&) = default;
};

/// Returns `effort` with the time `seconds` as its only limit. Its number of passes is larger than any
/// search reaches. Even so, the number of passes times the number of actions fits in 64 bits.
inline SearchEffort with_budget(SearchEffort effort, double seconds) {
  effort.budget_seconds = seconds;
  effort.passes = std::numeric_limits<std::int32_t>::max();
  return effort;
}

/// The order in which a rank runs the backward passes of microbatches that are ready for it: first in first
/// out, or last in first out.
enum class BackwardOrder : std::uint8_t { fifo, lifo };
template <>
inline constexpr auto kEnumWords<BackwardOrder> =
    std::to_array<EnumWord<BackwardOrder>>({{BackwardOrder::fifo, "fifo"}, {BackwardOrder::lifo, "lifo"}});

/// The choice of the microbatches that are recomputed, with the modes of torchgpipe. For a recomputed
/// microbatch, a rank stores only the input of the stage.
enum class Checkpoint : std::uint8_t { never, always, except_last };
template <>
inline constexpr auto kEnumWords<Checkpoint> = std::to_array<EnumWord<Checkpoint>>(
    {{Checkpoint::never, "never"}, {Checkpoint::always, "always"}, {Checkpoint::except_last, "except_last"}});

/// The rule that selects which replica of the next stage runs a microbatch.
enum class Routing : std::uint8_t {
  global,   // microbatch number modulo the number of replicas (PipeDream, SOSP'19, section 3.2)
  runtime,  // (local number + own replica) modulo the replicas, as PipeDream's released runtime does
};
template <>
inline constexpr auto kEnumWords<Routing> =
    std::to_array<EnumWord<Routing>>({{Routing::global, "global"}, {Routing::runtime, "runtime"}});

/// The rule that says which weight version an action of an asynchronous schedule uses (PipeDream, SOSP'19,
/// section 3.3).
enum class WeightPolicy : std::uint8_t {
  stash,          // B uses the version that its F used
  vertical_sync,  // every stage uses the version that the input stage used
  latest,         // F and B use the newest version, without stashing
};
template <>
inline constexpr auto kEnumWords<WeightPolicy> =
    std::to_array<EnumWord<WeightPolicy>>({{WeightPolicy::stash, "stash"},
                                           {WeightPolicy::vertical_sync, "vertical_sync"},
                                           {WeightPolicy::latest, "latest"}});

/// The setting that says whether the replicas of a stage reduce their gradients.
enum class ReplicaSync : std::uint8_t { on, off };
/// The time at which replicas of a stage reduce their gradients.
enum class Reduction : std::uint8_t {
  overlapped,  // each stage reduces directly after its last backward
  at_end,      // all stages reduce after the whole backward pass
};
template <>
inline constexpr auto kEnumWords<Reduction> = std::to_array<EnumWord<Reduction>>(
    {{Reduction::overlapped, "overlapped"}, {Reduction::at_end, "at_end"}});

/// The rule that places the chunks of the schedule `synthesized` on the ranks (program_parts.hpp).
enum class ChunkPlacement : std::uint8_t {
  by_number,    // a V for two chunks, interleaved for other numbers
  interleaved,  // chunk c of rank r is stage c*K + r
  v,            // the chunks go down the ranks and back up
};
/// The words for the placements in a scenario. `by_number` has no word, because it is the placement if the
/// scenario states none.
template <>
inline constexpr auto kEnumWords<ChunkPlacement> = std::to_array<EnumWord<ChunkPlacement>>(
    {{ChunkPlacement::interleaved, "interleaved"}, {ChunkPlacement::v, "v"}});

/// All inputs of a schedule's generator. Fields that the schedule does not use must have their default
/// values.
struct Shape {
  /// The number K of stages if each rank holds one chunk, at least 1. The model has stages * virtual_stages
  /// stages.
  std::int32_t stages = 1;
  /// M, the number of microbatches over all replicas, at least 1.
  std::int32_t microbatches = 1;
  /// The number v of model chunks on a rank, at least 1.
  std::int32_t virtual_stages = 1;
  /// The number of iterations, at least 1.
  std::int32_t iterations = 1;
  /// True if ranks wait for each other between iterations.
  bool barrier = false;
  /// The number of replicas of each stage, or one number for all stages. Empty means 1 for each stage.
  std::vector<std::int32_t> replicas{};
  /// The number of forwards before the first backward, by stage, or one number for all. Empty means the
  /// rule's default.
  std::vector<std::int32_t> warmup{};
  BackwardOrder backward_order = BackwardOrder::fifo;
  Checkpoint checkpoint = Checkpoint::never;
  RecomputeTiming recompute = RecomputeTiming::early;
  Routing routing = Routing::runtime;
  WeightPolicy weights = WeightPolicy::stash;
  ReplicaSync replica_sync = ReplicaSync::on;
  Reduction reduction = Reduction::overlapped;
  UpdateRule update = UpdateRule::minibatch;
  /// The number of microbatches in a group. 0 means the schedule's default: for `interleaved` the size of
  /// PyTorch's rounds, for `kfkb` 2.
  std::int32_t group_size = 0;
  /// The number q of slices into which the sequence of a microbatch is cut, at least 1.
  std::int32_t slices = 1;
  /// The number of data-parallel copies of the whole pipeline, at least 1. The copies share the
  /// microbatches.
  std::int32_t data_parallel = 1;
  /// The number of gradient buckets of each stage (passes.hpp). The list has one number for each stage,
  /// or one for all stages. Empty means one bucket for each stage.
  std::vector<std::int32_t> buckets{};
  /// The ZeRO stage, 0 to 3, over the ranks that hold the same pipeline stage (passes.hpp). If it is
  /// absent, the program has no sharding. The cost of data-parallel copies is then computed with
  /// `parallel.distributed_optimizer`.
  std::optional<std::int32_t> sharding{};
  /// The frequency at which the ranks of a stage exchange sharded weights and gradients.
  Gather gather = Gather::microbatch;
  /// The passes that all stages run: forward only, or forward and backward. If there are no backward
  /// passes, the program is the forward half of the schedule.
  Passes passes = Passes::both;
  /// The share of the activations of each rank that it offloads to its host (passes.hpp), from 0 to 1. There
  /// is one entry for each rank of the pipeline, or one for all ranks. Empty means 0.
  std::vector<double> offload{};
  /// True if each F and B of the steady state are an overlapped pair. The exchange of tokens between
  /// experts in one pass then runs beside the computation of the other. A scenario states it as
  /// `parallel.expert_overlap`.
  bool expert_overlap = false;

  // Only the schedules that compare costs use these fields: zb-1p, zb-2p, zb-v, v-half, v-min, 1f1b-v.
  /// The costs of all stages of the model. If they are absent, F, I (gradient of the input) and W (gradient
  /// of the weights) take equally long.
  std::optional<CostTable> costs{};
  /// The time of a transfer between stages s and s+1 in either direction. There is one entry for each edge,
  /// or one for all edges. Empty means 0.
  std::vector<Ns> transfer_ns{};
  /// The limit of the `kept` bytes on a rank. The list has one limit for each rank, or one for all ranks.
  /// Empty means the default limit of the schedule.
  std::vector<Bytes> memory_limit{};
  // Only the schedules that search their order use these fields.
  /// The effort of the search for an order. Without `costs`, there is no search.
  SearchEffort effort{};
  Objective objective = Objective::span;
  ChunkPlacement placement = ChunkPlacement::by_number;

  friend bool operator==(const Shape&, const Shape&) = default;
};

/// The result of a generator: a compute program (without SEND and RECV), or an error message. The message
/// explains why the shape is impossible and which similar shapes are possible.
using Generated = tl::expected<Program, std::string>;

}  // namespace penstock
