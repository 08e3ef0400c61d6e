#pragma once
// The table of schedules: every published rule is a pure function Shape -> Program in a file of its
// own. Adding a schedule = one file, one row in schedule_table.cpp, one golden picture.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/action.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/program.hpp"

namespace penstock {

/// Which of a rank's kept microbatches runs backward first.
enum class BackwardOrder : std::uint8_t { fifo, lifo };

/// Which microbatches keep only their stage input and recompute the rest (torchgpipe's modes).
enum class Checkpoint : std::uint8_t { never, always, except_last };

/// Which replica of the next stage takes a microbatch.
enum class Routing : std::uint8_t {
  global,   // microbatch number modulo the number of replicas (PipeDream, SOSP'19, section 3.2)
  runtime,  // (local number + own replica) modulo the replicas, as PipeDream's released runtime does
};

/// Which weights an asynchronous schedule uses (PipeDream, SOSP'19, section 3.3).
enum class WeightPolicy : std::uint8_t {
  stash,          // B uses the version that its F used
  vertical_sync,  // every stage uses the version that the input stage used
  latest,         // F and B use the newest: no stashing
};

/// Whether replicas of a stage reduce their gradients, and when.
enum class ReplicaSync : std::uint8_t { on, off };
enum class Reduction : std::uint8_t {
  overlapped,  // each stage right after its last backward
  at_end,      // all stages after the whole backward pass
};

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
  std::int32_t group_size = 0;  ///< microbatches that pass a chunk before the next one; 0: PyTorch's rounds
  std::int32_t slices = 1;      ///< q >= 1 slices of a microbatch's sequence
  std::int32_t data_parallel = 1;       ///< >= 1 copies of the whole pipeline, which share the microbatches
  std::vector<std::int32_t> buckets{};  ///< of gradients, one a stage or one for all; empty: 1 (buckets.hpp)
  std::int32_t sharding = 0;            ///< ZeRO stage 0..3 over the ranks of each stage (sharding.hpp)

  // What the schedules that weigh costs read (zb-1p, zb-2p, zb-v, v-half, v-min, 1f1b-v); others ignore it.
  std::optional<CostTable> costs{};  ///< of all model stages; absent: F, I and W take equally long
  std::vector<Ns> transfer_ns{};     ///< from stage s to s+1 or back, one an edge or one for all; empty: 0
  std::vector<Bytes>
      memory_limit{};  ///< most `kept` bytes of a rank, one a rank or one for all; empty: the rule's own

  friend bool operator==(const Shape&, const Shape&) = default;
};

/// A generator's answer: the compute program (no SEND or RECV yet), or why the shape is impossible and
/// which nearest shapes work.
using Generated = tl::expected<Program, std::string>;

/// One row of the table of schedules.
struct ScheduleInfo {
  std::string_view name;
  std::vector<std::string_view> aliases;  ///< PyTorch's and other names
  std::string_view summary;               ///< one line for `penstock schedules`
  std::string_view constraint;            ///< which shapes it takes, in words
  std::vector<std::string_view> options;  ///< keys of Shape beyond stages, microbatches, iterations, barrier
  bool asynchronous = false;              ///< a microbatch is a minibatch with its own update
  std::int32_t chunks = 0;                ///< v where the rule fixes it; 0: Shape::virtual_stages says it
  bool weighs_costs = false;              ///< reads Shape::costs and Shape::transfer_ns
  Generated (*generate)(const Shape&) = nullptr;
  /// Most live activations that the schedule claims on a rank of one pipeline (an upper bound); see
  /// claimed_peak() for copies of it.
  std::int64_t (*peak_activations)(const Shape&, std::int32_t rank) = nullptr;
};

/// Every schedule, in the order in which `penstock schedules` lists them.
std::span<const ScheduleInfo> schedule_table();

/// The row that `name` or an alias of it names; case, '-' and '_' are ignored. Null when there is none.
const ScheduleInfo* find_schedule(std::string_view name);

/// v, the model chunks a rank that `schedule` has for `shape`: the model has stages * v stages.
std::int32_t chunks_of(const ScheduleInfo& schedule, const Shape& shape);

/// The most live activations that `schedule` claims on a rank of generate()'s program.
std::int64_t claimed_peak(const ScheduleInfo& schedule, const Shape& shape, std::int32_t rank);

/// Generates `name` for `shape`, copies the pipeline data_parallel times (pipeline_replicas.hpp), cuts its
/// stages into buckets (buckets.hpp) and shards them (sharding.hpp). Errors: an unknown name (the nearest
/// known one is offered), an option that the schedule does not take, a shape that its rule refuses, or one of
/// more than 2^40 compute actions; microbatches that do not divide among the copies; what cannot be cut into
/// buckets or sharded.
Generated generate(std::string_view name, const Shape& shape);

// The generators themselves; generate() above checks what is common to them. Those with a fixed
// number of chunks do not look at virtual_stages.
Generated naive(const Shape& shape);
Generated gpipe(const Shape& shape);
Generated one_f_one_b(const Shape& shape);
Generated one_f_one_b_rr(const Shape& shape);
Generated data_parallel(const Shape& shape);
Generated interleaved(const Shape& shape);
Generated zb_h1(const Shape& shape);
Generated zb_h2(const Shape& shape);
Generated eager_one_f_one_b(const Shape& shape);
Generated seq_one_f_one_b(const Shape& shape);
Generated looped_bfs(const Shape& shape);
Generated interleaved_zero_bubble(const Shape& shape);
Generated zbv_zero_bubble(const Shape& shape);
Generated dual_pipe(const Shape& shape);
Generated dual_pipe_v(const Shape& shape);
Generated chimera(const Shape& shape);
Generated gems(const Shape& shape);
Generated hanayo(const Shape& shape);
Generated pipedream_2bw(const Shape& shape);
Generated zb_1p(const Shape& shape);
Generated zb_2p(const Shape& shape);
Generated zb_v(const Shape& shape);
Generated v_half(const Shape& shape);
Generated v_min(const Shape& shape);
Generated one_f_one_b_v(const Shape& shape);

}  // namespace penstock
