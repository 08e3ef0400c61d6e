#pragma once
// What a schedule is asked for: K, M and the options that rules take. Read from a scenario or from flags,
// turned into a Program by rules (generators.hpp).

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

/// Which of a rank's kept microbatches runs backward first.
enum class BackwardOrder : std::uint8_t { fifo, lifo };
template <>
inline constexpr auto kEnumWords<BackwardOrder> =
    std::to_array<EnumWord<BackwardOrder>>({{BackwardOrder::fifo, "fifo"}, {BackwardOrder::lifo, "lifo"}});

/// Which microbatches keep only their stage input and recompute the rest (torchgpipe's modes).
enum class Checkpoint : std::uint8_t { never, always, except_last };
template <>
inline constexpr auto kEnumWords<Checkpoint> = std::to_array<EnumWord<Checkpoint>>(
    {{Checkpoint::never, "never"}, {Checkpoint::always, "always"}, {Checkpoint::except_last, "except_last"}});

/// Which replica of the next stage takes a microbatch.
enum class Routing : std::uint8_t {
  global,   // microbatch number modulo the number of replicas (PipeDream, SOSP'19, section 3.2)
  runtime,  // (local number + own replica) modulo the replicas, as PipeDream's released runtime does
};
template <>
inline constexpr auto kEnumWords<Routing> =
    std::to_array<EnumWord<Routing>>({{Routing::global, "global"}, {Routing::runtime, "runtime"}});

/// Which weights an asynchronous schedule uses (PipeDream, SOSP'19, section 3.3).
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

/// Whether replicas of a stage reduce their gradients, and when.
enum class ReplicaSync : std::uint8_t { on, off };
enum class Reduction : std::uint8_t {
  overlapped,  // each stage right after its last backward
  at_end,      // all stages after the whole backward pass
};
template <>
inline constexpr auto kEnumWords<Reduction> = std::to_array<EnumWord<Reduction>>(
    {{Reduction::overlapped, "overlapped"}, {Reduction::at_end, "at_end"}});

/// How the chunks of `synthesized` lie on the ranks (program_parts.hpp).
enum class ChunkPlacement : std::uint8_t {
  by_number,    // two chunks as a V, others interleaved
  interleaved,  // chunk c of rank r is stage c*K + r
  v,            // down the ranks and back up, chunk by chunk
};
/// The words that a scenario may state. `by_number` is what it leaves out.
template <>
inline constexpr auto kEnumWords<ChunkPlacement> = std::to_array<EnumWord<ChunkPlacement>>(
    {{ChunkPlacement::interleaved, "interleaved"}, {ChunkPlacement::v, "v"}});

/// What a generator may depend on. Fields that a schedule does not take must keep their default.
struct Shape {
  std::int32_t stages = 1;          ///< K >= 1; the model has stages * virtual_stages stages
  std::int32_t microbatches = 1;    ///< M >= 1, over all replicas
  std::int32_t virtual_stages = 1;  ///< v >= 1 model chunks a rank
  std::int32_t iterations = 1;      ///< >= 1
  bool barrier = false;
  std::vector<std::int32_t> replicas{};  ///< one a stage, or one for all; empty: 1 each
  std::vector<std::int32_t>
      warmup{};  ///< forwards before the first backward, one a stage; empty: the rule's own
  BackwardOrder backward_order = BackwardOrder::fifo;
  Checkpoint checkpoint = Checkpoint::never;
  RecomputeTiming recompute = RecomputeTiming::early;
  Routing routing = Routing::runtime;
  WeightPolicy weights = WeightPolicy::stash;
  ReplicaSync replica_sync = ReplicaSync::on;
  Reduction reduction = Reduction::overlapped;
  UpdateRule update = UpdateRule::minibatch;
  std::int32_t group_size = 0;          ///< of microbatches; 0: interleaved PyTorch's rounds, kfkb 2 (rules/)
  std::int32_t slices = 1;              ///< q >= 1 slices of a microbatch's sequence
  std::int32_t data_parallel = 1;       ///< >= 1 copies of the whole pipeline, which share the microbatches
  std::vector<std::int32_t> buckets{};  ///< of gradients, one a stage or one for all; empty: 1 (buckets.hpp)
  /// The stage of ZeRO, 0 to 3, over the ranks of each stage (sharding.hpp). Absent where nothing states it:
  /// a program then shares out nothing, and priced copies what `parallel.distributed_optimizer` says.
  std::optional<std::int32_t> sharding{};
  Gather gather = Gather::microbatch;  ///< how often stages exchange what sharding 2 and 3 share out

  // What the schedules that weigh costs read (zb-1p, zb-2p, zb-v, v-half, v-min, 1f1b-v); others ignore it.
  std::optional<CostTable> costs{};  ///< of all model stages; absent: F, I and W take equally long
  std::vector<Ns> transfer_ns{};     ///< from stage s to s+1 or back, one an edge or one for all; empty: 0
  std::vector<Bytes>
      memory_limit{};  ///< most `kept` bytes of a rank, one a rank or one for all; empty: the rule's own
  // What those of them that search their order read.
  SearchEffort effort{};  ///< where costs are given; without costs the order is the one that is constructed
  Objective objective = Objective::span;
  ChunkPlacement placement = ChunkPlacement::by_number;

  friend bool operator==(const Shape&, const Shape&) = default;
};

/// A generator's answer: the compute program (no SEND or RECV yet), or why the shape is impossible and
/// which nearest shapes work.
using Generated = tl::expected<Program, std::string>;

}  // namespace penstock
