#pragma once
// The shape of a schedule: K, M and the options that rules take. It is read from a scenario or from flags,
// and rules (generators.hpp) turn it into a Program.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/gather.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/search_effort.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The order in which a rank runs the backwards of its waiting microbatches.
enum class BackwardOrder : std::uint8_t { fifo, lifo };
template <>
inline constexpr auto kEnumWords<BackwardOrder> =
    std::to_array<EnumWord<BackwardOrder>>({{BackwardOrder::fifo, "fifo"}, {BackwardOrder::lifo, "lifo"}});

/// The microbatches that retain only their stage input and recompute the rest (torchgpipe's modes).
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

/// The weights that an asynchronous schedule uses (PipeDream, SOSP'19, section 3.3).
enum class WeightPolicy : std::uint8_t {
  stash,          // B uses the version that its F used
  vertical_sync,  // every stage uses the version that the input stage used
  latest,         // F and B use the newest: no stashing
};
template <>
inline constexpr auto kEnumWords<WeightPolicy> =
    std::to_array<EnumWord<WeightPolicy>>({{WeightPolicy::stash, "stash"},
                                           {WeightPolicy::vertical_sync, "vertical_sync"},
                                           {WeightPolicy::latest, "latest"}});

/// The reduction of gradients among the replicas of a stage: present or left out.
enum class ReplicaSync : std::uint8_t { on, off };
/// The time at which replicas of a stage reduce their gradients.
enum class Reduction : std::uint8_t {
  overlapped,  // each stage right after its last backward
  at_end,      // all stages after the whole backward pass
};
template <>
inline constexpr auto kEnumWords<Reduction> = std::to_array<EnumWord<Reduction>>(
    {{Reduction::overlapped, "overlapped"}, {Reduction::at_end, "at_end"}});

/// The placement of the chunks of the schedule `synthesized` on the ranks (program_parts.hpp).
enum class ChunkPlacement : std::uint8_t {
  by_number,    // two chunks as a V, others interleaved
  interleaved,  // chunk c of rank r is stage c*K + r
  v,            // down the ranks and back up, chunk by chunk
};
/// The words that a scenario may state. `by_number` is what it leaves out.
template <>
inline constexpr auto kEnumWords<ChunkPlacement> = std::to_array<EnumWord<ChunkPlacement>>(
    {{ChunkPlacement::interleaved, "interleaved"}, {ChunkPlacement::v, "v"}});

/// Everything that a generator may depend on. Fields that a schedule does not take must have their default.
struct Shape {
  /// K, at least 1. The model has stages * virtual_stages stages.
  std::int32_t stages = 1;
  /// M, at least 1, over all replicas.
  std::int32_t microbatches = 1;
  /// The model chunks v of a rank, at least 1.
  std::int32_t virtual_stages = 1;
  /// The number of iterations, at least 1.
  std::int32_t iterations = 1;
  /// True if ranks wait for each other between iterations.
  bool barrier = false;
  /// The replicas of each stage, or one number for all stages; empty means 1 each.
  std::vector<std::int32_t> replicas{};
  /// The forwards before the first backward, one number a stage or one for all; empty means the rule's own.
  std::vector<std::int32_t> warmup{};
  BackwardOrder backward_order = BackwardOrder::fifo;
  Checkpoint checkpoint = Checkpoint::never;
  RecomputeTiming recompute = RecomputeTiming::early;
  Routing routing = Routing::runtime;
  WeightPolicy weights = WeightPolicy::stash;
  ReplicaSync replica_sync = ReplicaSync::on;
  Reduction reduction = Reduction::overlapped;
  UpdateRule update = UpdateRule::minibatch;
  /// The microbatches of a group; 0 means the rule's own: for `interleaved` PyTorch's rounds, for `kfkb` 2.
  std::int32_t group_size = 0;
  /// The slices q of a microbatch's sequence, at least 1.
  std::int32_t slices = 1;
  /// The copies of the whole pipeline, at least 1, which share the microbatches.
  std::int32_t data_parallel = 1;
  /// The buckets of gradients of each stage, or one number for all stages; empty means 1 each (buckets.hpp).
  std::vector<std::int32_t> buckets{};
  /// The ZeRO stage, 0 to 3, over the ranks of each stage (sharding.hpp). If it is absent, a program shards
  /// nothing, and priced copies follow `parallel.distributed_optimizer`.
  std::optional<std::int32_t> sharding{};
  /// The frequency with which the ranks of a stage exchange the parts that sharding 2 and 3 distribute.
  Gather gather = Gather::microbatch;

  // These fields are read by the schedules that weigh costs (zb-1p, zb-2p, zb-v, v-half, v-min, 1f1b-v).
  // Others ignore them.
  /// The costs of all stages of the model; if absent, F, I and W take equally long.
  std::optional<CostTable> costs{};
  /// The time of a transfer between stages s and s+1 in either direction, one entry an edge or one for all;
  /// empty means 0.
  std::vector<Ns> transfer_ns{};
  /// The most `kept` bytes of a rank, one number a rank or one for all; empty means the rule's own limit.
  std::vector<Bytes> memory_limit{};
  // These fields are read by those schedules that search their order.
  /// The effort of the search if costs are given. Without costs the order is the constructed one.
  SearchEffort effort{};
  Objective objective = Objective::span;
  ChunkPlacement placement = ChunkPlacement::by_number;

  friend bool operator==(const Shape&, const Shape&) = default;
};

/// The result of a generator: the compute program (without SEND and RECV), or a message that explains why the
/// shape is impossible and which similar shapes work.
using Generated = tl::expected<Program, std::string>;

}  // namespace penstock
