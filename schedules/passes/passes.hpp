#pragma once
// Inserts SEND and RECV into a compute program, so that it can run (lowering). The position of the action
// that sends decides the positions of both:
//
//   rank 0   0F0 0F1 0B0 0B1        0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
//   rank 1   1F0 1B0 1F1 1B1   ->   1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "text/enum_words.hpp"

namespace penstock {

/// Returns the program with SEND and RECV actions. A program that already has them or needs none is
/// returned unchanged. Requires that validate(program) succeeds. Fails if the lists cannot be executed in
/// their order. The error message says what each blocked rank waits for.
/// Actions are placed in rounds (take_turns.hpp). When an action is placed, its SENDs are appended to the
/// list of its rank. At the same moment, the matching RECVs are appended to the lists of the receivers. A
/// collective is placed on all its members at once. So each list is a part of one global order. Such lists
/// cannot hang, even with one rendezvous FIFO for each rank. This is the order of PyTorch's _add_send_recv.
/// Sometimes no global order exists, because a rank must continue after a collective before the other
/// members reach it. Then the rank joins the collective early and continues up to the action that waits for
/// the collective. Such a program cannot hang under `directed` channels.
tl::expected<Program, std::string> lower(const Program& program);

/// Returns the lowered program with the RECVs where runtimes with these channels post them. If transfers are
/// batched, each RECV is directly before the compute action that needs it, or earlier if that position would
/// hang. A rank with several stages may also run an F and the B after it without transfers between them, as
/// in Megatron-LM's interleaved schedule. It does so only if the makespan in unit times becomes shorter. A
/// program that already has its messages is returned unchanged.
tl::expected<Program, std::string> lower(const Program& program, const ChannelOptions& channels);

// Computes the digest of a lowered program without its lowered lists.

/// Returns digest(lower(...)) of a program whose compute actions and collectives are in `lists`, by rank.
/// It does not read the lists of `program`. The time is proportional to the number of actions. The memory
/// is a quarter of the lowered lists. Returns nothing if lower() would fail, or if lower() would have to
/// check that the program cannot hang.
std::optional<std::string> lowered_digest(const Program& program, std::span<const ActionLoops> lists);

// A pass that posts each RECV of a lowered program as late as possible.

/// The rule that says which transfers of a lowered program are joined into one group.
enum class Posting : std::uint8_t {
  batched,           // all SENDs and RECVs between two other actions
  megatron,          // those that Megatron-LM posts together
  megatron_overlap,  // no transfers are joined, but they have the order of Megatron-LM's single messages
                     // (overlap_p2p_comm)
};
template <>
inline constexpr auto kEnumWords<Posting> =
    std::to_array<EnumWord<Posting>>({{Posting::batched, "batched"},
                                      {Posting::megatron, "megatron"},
                                      {Posting::megatron_overlap, "megatron-overlap"}});

/// Returns the program with its transfers joined into groups. Requires a lowered program without groups.
/// Its RECVs must be where lower() places them if transfers are batched.
/// With one stage on each rank, Megatron-LM posts an activation together with a gradient
/// (send_forward_recv_backward and send_backward_recv_forward). It posts two activations or two gradients
/// one after the other. With several stages on each rank, it posts all of them together.
/// With Posting::megatron_overlap, messages stay single. Between two other actions, even ranks post SEND_F,
/// RECV_F, SEND_B and RECV_B in this order, and odd ranks RECV_F, SEND_F, RECV_B and SEND_B. Messages from or
/// to one rank do not overtake each other.
Program group_transfers(Program lowered, Posting posting);

/// Returns the program with each RECV directly before the compute action that needs it. A RECV stays at its
/// position if its move would contribute to a hang under `channels`. The result therefore hangs only if
/// `lowered` hangs. In some channel models (`rank`, `pair`, `direction`), SENDs and RECVs share a queue. A
/// RECV that is moved back no longer delays SENDs that are ready. Requires a validated, lowered program.
/// Makes at most one channel check for each RECV.
Program defer_receives(const Program& lowered, const ChannelOptions& channels, const CostTable& costs);

// Lets ranks offload a share of their activations to the memory of their hosts (schedule.offload).

/// Returns the program with an OFFLOAD and a RELOAD for some activations of each rank (offload.cpp).
/// `shares[r]` is the share of rank r's activations to offload, from 0 to 1; a single entry applies to all
/// ranks. Requires a program without messages. A rank that recomputes must have the share 0.
Program offload_activations(Program program, std::span<const double> shares);

// Inserts the gathers and reductions of ZeRO for stages that several ranks share. The passes of
// torch.distributed.pipelining below place them exactly as PyTorch does.

/// The ZeRO stage, and the frequency at which the ranks of a stage exchange their shards.
struct ShardOptions {
  /// The ZeRO stage, 0 to 3.
  std::int32_t sharding = 0;
  Gather gather = Gather::microbatch;
};

/// Returns the compute program with its stages sharded (Rajbhandari et al., SC'20, sections 5 and 7). Stages
/// that only one rank holds stay unchanged.
///   1  optimizer state: STEP updates the rank's part of the weights. After the last STEP of the list, an
///      UNSHARD gathers the weights of each stage. The UNSHARDs are in ascending order of stages, so that the
///      next iteration can begin before all weights have arrived.
///   2  also gradients: a rank stores only its part after REDUCE_GRAD. Each microbatch has a REDUCE_GRAD
///      (exchange_each_microbatch()). With Gather::step, only the last microbatch has one.
///   3  also weights: an UNSHARD comes before each pass of a microbatch, and a RESHARD after it. With
///      Gather::step, a stage is gathered before its first use and dropped after its last use.
/// REDUCE_GRAD is a reduce-scatter in all three cases. With sharding 0, the program is returned unchanged.
/// Fails if the program updates more than once in a minibatch or does not reduce its gradients. Also fails if
/// ranks run a different number of passes of a shared stage, or use shared stages in different orders.
tl::expected<Program, std::string> shard_stages(const Program& program, const ShardOptions& options);

// Passes of torch.distributed.pipelining: gathers and reductions of fully sharded stages, and the merge of I
// and W into B. The first two reproduce `_add_unshard_reshard` and `_add_reduce_grad` of torch 2.11 action
// for action. They run before lower(); insert_reduce_grad() may also run after it.

/// The options of insert_unshard_reshard(), which say when a rank gathers the weights of a stage.
struct UnshardOptions {
  /// The number of different stages whose gathered weights a rank stores at once, at least 1.
  std::int32_t max_active_stages = 3;
  /// The number of different stages that each rank gathers ahead, counted from its next action (torch's
  /// unshard_lookahead). Each number is from 1 to max_active_stages. Empty means max_active_stages for all
  /// ranks ("full").
  std::vector<std::int32_t> lookahead{};
};

/// Returns the lookahead that torch calls "auto": r + 2 for rank r, and at most max_active_stages. The later
/// a rank is, the longer it waits for its first activation, so that more gathers can overlap.
std::vector<std::int32_t> automatic_lookahead(std::int32_t ranks, std::int32_t max_active_stages);

/// Inserts UNSHARD and RESHARD. Before each F, B, I, W or R, exactly the next `max_active_stages` different
/// stages in the rank's list are gathered. If an overlapped group crosses this limit, more stages are
/// gathered. All other gathered stages are dropped first, in ascending order. After its last use, a stage is
/// dropped only after its REDUCE_GRAD, if the list has one. STEP updates the sharded weights, so its stage is
/// gathered again. If the limit covers all stages, no stage is gathered twice. A shorter lookahead only moves
/// UNSHARDs closer to the action that needs them.
///
/// The result has `sharding` 3. Each rank is processed separately. A replica without any microbatch of a
/// stage gathers nothing. validate() rejects such a program, because an UNSHARD needs all replicas. Requires
/// max_active_stages >= 1, a lookahead for each rank or none, and a program without UNSHARD and RESHARD.
Program insert_unshard_reshard(const Program& program, const UnshardOptions& options = {});

/// Inserts a REDUCE_GRAD for each stage and each of its STEPs in a rank's list. It comes directly after the
/// last B or W of the stage before this STEP. In a list without STEP, it comes after the last B or W of the
/// stage. In a lowered program, it comes after the SENDs that follow this B or W. A stage that already has
/// a REDUCE_GRAD stays unchanged.
Program insert_reduce_grad(const Program& program);

// A pass that merges each I with the W directly after it into a B:
//
//   0F0 0I0 0W0 0I1 1F0 0W1   ->   0F0 0B0 0I1 1F0 0W1
//
// Schedules with split backwards list I and W for every microbatch. If the W comes directly after the I, one
// B has less overhead and releases all memory at once.

/// Replaces each I (gradient of the input) and the W (gradient of the weights) directly after it by one B.
/// Both must have the same stage, microbatch and weight version, and must be outside overlapped groups.
/// PyTorch calls this `merge_bw`. Requires a compute program, so the pass must run before lower().
Program merge_backward(const Program& program);

// Adds data parallelism to a pipeline's program. One pass makes copies of the whole pipeline. Another pass
// cuts stages into buckets whose gradients are reduced one by one. The passes of ZeRO above are used if
// replicas also divide weights, gradients or optimizer state.

/// The number of copies, and how they reduce their gradients.
struct PipelineReplicas {
  /// The number of copies, at least 1.
  std::int32_t count = 1;
  ReplicaSync sync = ReplicaSync::on;
  Reduction reduction = Reduction::overlapped;
};

/// Returns `replicas.count` copies of `pipeline`. Copy i of rank r is rank r * count + i, so the copies of a
/// stage are adjacent, as in Megatron-LM and DeepSpeed. Copy i runs the microbatches m with m mod count = i.
/// Before each STEP, all copies of the stage reduce their gradients. `overlapped` puts the reduction directly
/// after the last B or W before this STEP. `at_end` puts it directly before the group of consecutive STEPs.
/// If the pipeline already reduces a stage, its REDUCE_GRADs remain and get the copies as further members.
/// Requires a compute program without messages, UNSHARD and RESHARD.
Program replicate_pipeline(const Program& pipeline, const PipelineReplicas& replicas);

// Cuts a stage into gradient buckets. The gradients of one bucket are reduced while the backward pass of the
// next bucket runs. In this example, two ranks share stage 0, which has three buckets (a = REDUCE_GRAD, s =
// STEP):
//
//   0F 0B 0a 0s   ->   0F 1F 2F  2B 2a 1B 1a 0B 0a  2s 1s 0s

/// The number of buckets of each stage, and the time of their reductions.
struct BucketOptions {
  /// The number of buckets of each stage, at least 1. There is one number for each stage, or one for all
  /// stages.
  std::vector<std::int32_t> counts;
  Reduction reduction = Reduction::overlapped;
};

/// Returns the compute program with its stages cut into buckets, as in DistributedDataParallel (Li et al.,
/// VLDB'20, section 3.2). Stage s becomes counts[s] consecutive stages on the same ranks, and all stages get
/// new numbers. F goes through the buckets in order, and B, I and W go through them in reverse order. A
/// REDUCE_GRAD directly after a backward is overlapped: it becomes one REDUCE_GRAD after the backward of each
/// bucket. Every other action is repeated for each bucket.
///
/// Fails if the number of counts is wrong. Also fails if the program has overlapped pairs or recomputation,
/// because each bucket would need its own input. The program must not have gathers, because sharding comes
/// after this pass.
tl::expected<Program, std::string> split_into_buckets(const Program& program, const BucketOptions& options);

}  // namespace penstock
