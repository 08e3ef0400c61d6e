// The table of schedules. Each schedule has a formula for its peak: the largest number of activations of a
// stage that a rank holds at one time. conformance_test.cpp counts the activations in the generated lists, so
// a wrong formula fails the test.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/stage_replicas.hpp"
#include "text/enum_words.hpp"

namespace penstock {

namespace {

std::int64_t one_microbatch(const Shape&, std::int32_t) { return 1; }

/// Returns the stage that a rank holds, and which microbatches of this stage the rank runs.
StageReplica replica_on(const Shape& shape, std::int32_t rank) { return stage_replicas(shape)[index(rank)]; }

/// Returns the largest number of activations that a rank holds in GPipe. It is the number of microbatches
/// that the rank runs.
std::int64_t gpipe_peak(const Shape& shape, std::int32_t rank) {
  return shape.replicas.empty() ? shape.microbatches : replica_on(shape, rank).count;
}

/// Returns the largest number of activations that a rank holds in 1F1B. It counts the warm-up forwards, and
/// the forward that runs directly before the first backward.
std::int64_t one_f_one_b_peak(const Shape& shape, std::int32_t rank) {
  const std::int32_t ahead = shape.expert_overlap ? 1 : 0;
  if (shape.replicas.empty())
    return std::min(shape.microbatches, warmup_of(shape, rank, shape.stages - 1 - rank + ahead) + 1);
  const StageReplica here = replica_on(shape, rank);
  return std::min(here.count, warmup_of(shape, here.stage, here.usual_warmup() + ahead) + 1);
}

std::int64_t stages_of_one_microbatch(const Shape& shape, std::int32_t) { return shape.stages; }

std::int64_t one_f_one_b_rr_peak(const Shape& shape, std::int32_t rank) {
  const StageReplica here = replica_on(shape, rank);
  return warmup_of(shape, here.stage, here.usual_warmup()) + 1;
}

std::int64_t eager_one_f_one_b_peak(const Shape& shape, std::int32_t rank) {
  return std::min(shape.microbatches, 2 * (shape.stages - 1 - rank) + 1);
}

std::int64_t kfkb_peak(const Shape& shape, std::int32_t rank) {
  return std::min<std::int64_t>(shape.microbatches, std::int64_t{shape.stages - rank} * kfkb_group(shape));
}

/// Returns the largest number of activations that a rank holds in sequence 1F1B, counted in slices. The
/// first backward waits for all slices of its microbatch, so the warm-up has additional forwards for these
/// slices.
std::int64_t seq_one_f_one_b_peak(const Shape& shape, std::int32_t rank) {
  return std::min(shape.microbatches * shape.slices, shape.stages - 1 - rank + shape.slices);
}

std::int64_t pipedream_2bw_peak(const Shape& shape, std::int32_t rank) {
  const std::int32_t warmup = std::min(shape.microbatches, shape.stages - 1 - rank);
  return std::min(shape.microbatches * shape.iterations, warmup + 1);
}

std::int64_t all_chunks_of_all_microbatches(const Shape& shape, std::int32_t) {
  return std::int64_t{shape.microbatches} * shape.virtual_stages;
}

/// Returns the group size g of the interleaved schedules: the user's value, or the value that PyTorch
/// computes (interleaved.cpp).
std::int32_t group_size(const Shape& shape) {
  if (shape.group_size > 0) return std::min(shape.group_size, shape.microbatches);
  return shape.microbatches / std::max(1, shape.microbatches / shape.stages);
}

/// Returns the largest number of activations that a rank holds in interleaved 1F1B: the number of warm-up
/// forwards (interleaved.cpp) plus one.
std::int64_t interleaved_peak(const Shape& shape, std::int32_t rank) {
  const std::int64_t group = group_size(shape);
  return std::min(all_chunks_of_all_microbatches(shape, rank),
                  (shape.virtual_stages - 1) * group + std::int64_t{2} * (shape.stages - 1 - rank) + 1 +
                      (shape.expert_overlap ? 1 : 0));
}

/// Returns the largest number of activations that a rank holds in EP-1F1B. It runs one more warm-up forward
/// than interleaved 1F1B.
std::int64_t ep_one_f_one_b_peak(const Shape& shape, std::int32_t rank) {
  Shape in_pairs = shape;
  in_pairs.expert_overlap = true;
  return interleaved_peak(in_pairs, rank);
}

std::int64_t interleaved_zero_bubble_peak(const Shape& shape, std::int32_t rank) {
  const std::int64_t group = group_size(shape);
  return std::min(all_chunks_of_all_microbatches(shape, rank),
                  (shape.virtual_stages - 1) * group + shape.stages);
}

// In ZB-H1, rank r delays each W by r microbatches and runs K - 1 - r forwards ahead. The peak is K on every
// rank. In ZB-H2, both numbers are doubled.
std::int64_t zb_h1_peak(const Shape& shape, std::int32_t rank) {
  if (shape.replicas.empty()) return std::min(shape.microbatches, shape.stages);
  const StageReplica here = replica_on(shape, rank);
  const std::int32_t all = replica_on(shape, 0).here_and_later;
  return std::min(here.count, round_robin_warmup(all, here.step) + 1);
}
std::int64_t zb_h2_peak(const Shape& shape, std::int32_t) {
  return std::min(shape.microbatches, 2 * shape.stages - 1);
}

std::int64_t zbv_peak(const Shape& shape, std::int32_t) {
  return std::int64_t{2} * std::min(shape.microbatches, shape.stages);
}
std::int64_t dual_pipe_peak(const Shape& shape, std::int32_t) { return shape.stages + 1; }
std::int64_t dual_pipe_v_peak(const Shape& shape, std::int32_t) { return 2 * shape.stages + 1; }

std::int64_t hanayo_peak(const Shape& shape, std::int32_t rank) {
  return std::min(all_chunks_of_all_microbatches(shape, rank),
                  std::int64_t{shape.virtual_stages - 1} * shape.stages + 1 + rank);
}

std::int64_t chimera_peak(const Shape& shape, std::int32_t rank) {
  const std::int32_t from_end = std::min(rank, shape.stages - 1 - rank);
  return std::min(shape.microbatches, shape.stages / 2 + 1 + from_end);
}

/// Returns an upper bound on the number of activations that fit within the memory limit. If the shape
/// states no limit in bytes, the limit is the memory of `activations` activations. After I (gradient of the
/// input), an activation may need less memory. The bound uses the smaller size.
std::int64_t peak_under_limit(const Shape& shape, std::int32_t rank, std::int64_t activations) {
  const auto all = std::int64_t{shape.microbatches} * shape.virtual_stages;
  if (shape.memory_limit.empty() && !shape.costs) return std::min(all, activations);
  StageCost cost{.kept = 1};
  if (shape.costs) cost = shape.costs->stages[static_cast<std::size_t>(rank)];
  if (shape.memory_limit.empty() && cost.kept <= 0) return std::min(all, activations);
  const Bytes limit =
      shape.memory_limit.empty()
          ? activations * cost.kept
          : shape.memory_limit[shape.memory_limit.size() == 1 ? 0 : static_cast<std::size_t>(rank)];
  const Bytes least = cost.kept - cost.released_by_input;
  return least <= 0 ? all : std::min(all, limit / least);
}

std::int64_t zb_1p_peak(const Shape& shape, std::int32_t rank) {
  return peak_under_limit(shape, rank, shape.stages);
}
std::int64_t zb_2p_peak(const Shape& shape, std::int32_t rank) {
  return peak_under_limit(shape, rank, 2 * std::int64_t{shape.stages});
}

/// Returns an upper bound on the number of activations that both chunks of a rank hold together in ZB-V.
/// The chunks' activations can have different sizes, and the bound uses the smaller one.
std::int64_t zb_v_peak(const Shape& shape, std::int32_t rank) {
  const auto all = 2 * std::int64_t{shape.microbatches};
  if (shape.memory_limit.empty()) return std::min(all, 2 * std::int64_t{shape.stages});
  const auto stage = static_cast<std::size_t>(rank);
  const auto other = static_cast<std::size_t>(2 * shape.stages - 1 - rank);
  Bytes least = 1;
  if (shape.costs) {
    const auto held = [&](std::size_t s) {
      return shape.costs->stages[s].kept - shape.costs->stages[s].released_by_input;
    };
    least = std::min(held(stage), held(other));
  }
  const Bytes limit = shape.memory_limit[shape.memory_limit.size() == 1 ? 0 : stage];
  return least <= 0 ? all : std::min(all, limit / least);
}

/// Returns an upper bound on the number of activations that a rank holds in a synthesized schedule. If the
/// shape has costs, the memory limit is in bytes and gives no bound on this number. The function then
/// returns the number of all activations.
std::int64_t synthesized_peak(const Shape& shape, std::int32_t rank) {
  const auto all = std::int64_t{shape.microbatches} * shape.virtual_stages;
  const auto activations = std::int64_t{shape.stages} * shape.virtual_stages;
  if (!shape.costs) {
    if (shape.memory_limit.empty()) return std::min(all, activations);
    return std::min(all, shape.memory_limit[shape.memory_limit.size() == 1 ? 0 : index(rank)]);
  }
  return all;
}

std::int64_t v_half_peak(const Shape& shape, std::int32_t) {
  return std::min(2 * std::int64_t{shape.microbatches}, 2 * (std::int64_t{shape.stages} / 2 + 1));
}
std::int64_t v_min_peak(const Shape& shape, std::int32_t) {
  return std::min(2 * std::int64_t{shape.microbatches}, 2 * ((std::int64_t{shape.stages} + 1) / 3 + 1));
}
std::int64_t one_f_one_b_v_peak(const Shape& shape, std::int32_t) {
  return std::min(2 * std::int64_t{shape.microbatches}, 2 * (2 * std::int64_t{shape.stages} / 3 + 1));
}

// The function is long only because the table lists all schedules.
// NOLINTNEXTLINE(readability-function-size)
const std::vector<ScheduleInfo>& table() {
  static const std::vector<ScheduleInfo> rows = {
      {.name = "naive",
       .aliases = {"model-parallel"},
       .summary = "one microbatch at a time through all stages",
       .constraint = "any K and M",
       .options = {"update", "checkpoint", "recompute"},
       .has_forward_half = true,
       .generate = naive,
       .declare = naive_loops,
       .peak_activations = one_microbatch},
      {.name = "gpipe",
       .aliases = {"ScheduleGPipe", "fill-drain", "f-then-b", "afab", "all-forward-all-backward"},
       .summary = "all forwards, then all backwards (GPipe)",
       .constraint = "any K and M",
       .options = {"backward_order", "checkpoint", "recompute", "replicas", "replica_sync"},
       .has_forward_half = true,
       .generate = gpipe,
       .declare = gpipe_loops,
       .peak_activations = gpipe_peak},
      {.name = "1f1b",
       .aliases = {"Schedule1F1B", "pipedream-flush", "dapple", "one-f-one-b", "one-forward-one-backward",
                   "non-interleaved", "TrainSchedule", "forward_backward_pipelining_without_interleaving"},
       .summary = "one forward, one backward, with a flush (PipeDream-Flush, DAPPLE, Megatron)",
       .constraint = "any K and M",
       .options = {"warmup", "checkpoint", "recompute", "offload", "replicas", "replica_sync"},
       .has_forward_half = true,
       .generate = one_f_one_b,
       .declare = one_f_one_b_loops,
       .peak_activations = one_f_one_b_peak},
      {.name = "1f1b-rr",
       .aliases = {"pipedream", "1f1b-round-robin"},
       .summary = "asynchronous 1F1B with replicated stages and weight stashing (PipeDream)",
       .constraint = "replicas of a stage must get equal numbers of minibatches unless replica_sync is off",
       .options = {"replicas", "warmup", "routing", "weights", "replica_sync"},
       .asynchronous = true,
       .generate = one_f_one_b_rr,
       .declare = one_f_one_b_rr_loops,
       .peak_activations = one_f_one_b_rr_peak},
      {.name = "data-parallel",
       .aliases = {"dp", "ddp"},
       .summary = "every stage on every rank, gradients reduced in one bucket a stage",
       .constraint = "any; replicas (default K) is the number of ranks",
       .options = {"replicas", "reduction", "replica_sync"},
       .generate = data_parallel,
       .peak_activations = stages_of_one_microbatch},
      {.name = "interleaved",
       .aliases = {"Interleaved1F1B", "ScheduleInterleaved1F1B", "interleaved-1f1b", "1f1b-interleaved",
                   "vpp", "depth-first", "forward_backward_pipelining_with_interleaving"},
       .summary = "1F1B over v model chunks a rank (Megatron, PyTorch's rounds)",
       .constraint = "M a multiple of max(1, floor(M/K)); with group_size g >= K, M mod g 0 or at least K",
       .options = {"virtual_stages", "group_size", "checkpoint", "recompute", "offload"},
       .default_chunks = 2,
       .has_forward_half = true,
       .takes = interleaved_takes,
       .generate = interleaved,
       .declare = interleaved_loops,
       .peak_activations = interleaved_peak},
      {.name = "ep-1f1b",
       .aliases = {"combined-1f1b", "1f1b-overlap"},
       .summary = "interleaved 1F1B, each F and B one pair that hides the exchange of experts (Megatron)",
       .constraint = "M a multiple of max(1, floor(M/K)); with group_size g >= K, M mod g 0 or at least K",
       .options = {"virtual_stages", "group_size"},
       .default_chunks = 2,
       .has_pairs = true,
       .takes = ep_one_f_one_b_takes,
       .generate = ep_one_f_one_b,
       .declare = ep_one_f_one_b_loops,
       .peak_activations = ep_one_f_one_b_peak},
      {.name = "zb-h1",
       .aliases = {"zero-bubble-h1"},
       .summary = "1F1B with split backwards, W delayed into the drain (Zero Bubble)",
       .constraint = "any K and M",
       .options = {"checkpoint", "recompute", "replicas", "replica_sync"},
       .generate = zb_h1,
       .declare = zb_h1_loops,
       .peak_activations = zb_h1_peak},
      {.name = "zb-h2",
       .aliases = {"zero-bubble-h2"},
       .summary = "ZB-H1 with twice the warm-up: no pause inside a rank's span (Zero Bubble)",
       .constraint = "any K and M",
       .options = {"checkpoint", "recompute"},
       .generate = zb_h2,
       .declare = zb_h2_loops,
       .peak_activations = zb_h2_peak},
      {.name = "zb-1p",
       .aliases = {"zb1p", "zero-bubble-1p"},
       .summary = "automatic zero bubble for the costs given, in the memory of 1F1B (Zero Bubble)",
       .constraint = "any K and M; memory for one microbatch",
       .options = {"memory_limit", "effort"},
       .weighs_costs = true,
       .generate = zb_1p,
       .peak_activations = zb_1p_peak},
      {.name = "zb-2p",
       .aliases = {"zb2p", "zero-bubble-2p"},
       .summary = "automatic zero bubble for the costs given, in twice the memory of 1F1B (Zero Bubble)",
       .constraint = "any K and M; memory for one microbatch",
       .options = {"memory_limit", "effort"},
       .weighs_costs = true,
       .generate = zb_2p,
       .peak_activations = zb_2p_peak},
      {.name = "eager-1f1b",
       .aliases = {"dapple-pb", "1f1b-overlap-friendly"},
       .summary = "1F1B with twice the warm-up, which hides the latency of links (DAPPLE's PB, Alpa)",
       .constraint = "any K and M",
       .options = {"checkpoint", "recompute"},
       .generate = eager_one_f_one_b,
       .declare = eager_one_f_one_b_loops,
       .peak_activations = eager_one_f_one_b_peak},
      {.name = "1f1b-vocab-1",
       .aliases = {"vocab-1", "vocab-parallel-1"},
       .summary = "1F1B, the output layer divided over all ranks; two barriers (Vocabulary Parallelism)",
       .constraint = "any K and M; the model has 2K+1 stages",
       .options = {},
       .extra_stages = ExtraStages::output_slices,
       .generate = one_f_one_b_vocab_1,
       .peak_activations = vocab_1_peak},
      {.name = "1f1b-vocab-2",
       .aliases = {"vocab-2", "vocab-parallel-2", "vocabulary-parallel"},
       .summary = "1F1B, the output layer divided over all ranks; one barrier (Vocabulary Parallelism)",
       .constraint = "any K and M; the model has 2K+1 stages",
       .options = {},
       .extra_stages = ExtraStages::output_slices_inputs,
       .generate = one_f_one_b_vocab_2,
       .peak_activations = vocab_2_peak},
      {.name = "1f1b-encoder-first",
       .aliases = {"encoder-first"},
       .summary = "1F1B with an encoder on every rank, which runs before and after it (Optimus)",
       .constraint = "any K and M; the model has K+1 stages",
       .options = {},
       .extra_stages = ExtraStages::encoder,
       .generate = one_f_one_b_encoder_first,
       .peak_activations = encoder_peak},
      {.name = "1f1b-encoder-bubbles",
       .aliases = {"optimus", "encoder-bubbles"},
       .summary = "1F1B with an encoder on every rank, which runs in the bubbles (Optimus)",
       .constraint = "any K and M; the model has K+1 stages",
       .options = {},
       .extra_stages = ExtraStages::encoder,
       .generate = one_f_one_b_encoder_bubbles,
       .peak_activations = encoder_peak},
      {.name = "kfkb",
       .aliases = {"ada-grouper"},
       .summary = "1F1B over groups of k microbatches, which hides the time of links (Ada-Grouper)",
       .constraint = "any K, M and group_size k (default 2)",
       .options = {"group_size", "checkpoint", "recompute"},
       .generate = kfkb,
       .peak_activations = kfkb_peak},
      {.name = "seq-1f1b",
       .aliases = {"sequence-sliced-1f1b", "seqpipe", "chunked-prefill"},
       .summary = "1F1B over q slices of each microbatch's sequence (Seq1F1B)",
       .constraint = "any K, M and slices",
       .options = {"slices", "checkpoint", "recompute"},
       .has_forward_half = true,
       .generate = seq_one_f_one_b,
       .peak_activations = seq_one_f_one_b_peak},
      {.name = "looped-bfs",
       .aliases = {"ScheduleLoopedBFS", "breadth-first", "bfs"},
       .summary = "breadth-first over v model chunks a rank: GPipe chunk by chunk",
       .constraint = "any K, M and v",
       .options = {"virtual_stages", "checkpoint", "recompute"},
       .default_chunks = 2,
       .has_forward_half = true,
       .generate = looped_bfs,
       .peak_activations = all_chunks_of_all_microbatches},
      {.name = "interleaved-zero-bubble",
       .aliases = {"ScheduleInterleavedZeroBubble", "interleaved-zb"},
       .summary = "interleaved 1F1B with split backwards (PyTorch's ZB-1P over v chunks)",
       .constraint = "M a multiple of max(1, floor(M/K))",
       .options = {"virtual_stages", "checkpoint", "recompute"},
       .default_chunks = 2,
       .takes = interleaved_zero_bubble_takes,
       .generate = interleaved_zero_bubble,
       .peak_activations = interleaved_zero_bubble_peak},
      {.name = "zb-v",
       .aliases = {"zbv", "zero-bubble-v", "v-zb", "zbvpp"},
       .summary = "zero bubble on a V of two chunks a rank, for the costs given (Zero Bubble)",
       .constraint = "any K and M; v is 2; memory for one microbatch",
       .options = {"virtual_stages", "memory_limit", "effort"},
       .chunks = 2,
       .weighs_costs = true,
       .generate = zb_v,
       .peak_activations = zb_v_peak},
      {.name = "v-half",
       .aliases = {},
       .summary = "a V in half the memory of 1F1B, for the costs given (Controllable Memory)",
       .constraint = "any K and M; v is 2",
       .options = {"virtual_stages", "effort"},
       .chunks = 2,
       .weighs_costs = true,
       .generate = v_half,
       .peak_activations = v_half_peak},
      {.name = "v-min",
       .aliases = {},
       .summary = "a V in a third of the memory of 1F1B, for the costs given (Controllable Memory)",
       .constraint = "any K and M; v is 2",
       .options = {"virtual_stages", "effort"},
       .chunks = 2,
       .weighs_costs = true,
       .generate = v_min,
       .peak_activations = v_min_peak},
      {.name = "1f1b-v",
       .aliases = {},
       .summary = "a V with whole backwards in two thirds of the memory of 1F1B, for the costs given",
       .constraint = "any K and M; v is 2",
       .options = {"virtual_stages"},
       .chunks = 2,
       .weighs_costs = true,
       .generate = one_f_one_b_v,
       .peak_activations = one_f_one_b_v_peak},
      {.name = "synthesized",
       .aliases = {},
       .summary = "the best order that a search finds for the costs given, under a memory limit",
       .constraint = "any K, M and v; memory for one microbatch",
       .options = {"virtual_stages", "memory_limit", "effort", "objective", "placement"},
       .weighs_costs = true,
       .generate = synthesized,
       .generate_with_notes = synthesized_with_notes,
       .peak_activations = synthesized_peak},
      {.name = "zbv-zero-bubble",
       .aliases = {"ScheduleZBVZeroBubble", "zbv-fixed"},
       .summary = "zero bubble on a V of two chunks a rank, PyTorch's fixed pattern",
       .constraint = "any K and M; v is 2",
       .options = {"virtual_stages", "checkpoint", "recompute"},
       .chunks = 2,
       .generate = zbv_zero_bubble,
       .peak_activations = zbv_peak},
      {.name = "dualpipe",
       .aliases = {"dual-pipe"},
       .summary = "two streams from both ends, a forward overlapping a backward (DeepSeek-V3)",
       .constraint = "even K, even M >= 2K",
       .options = {},
       .has_pairs = true,
       .takes = dual_pipe_takes,
       .generate = dual_pipe,
       .peak_activations = dual_pipe_peak},
      {.name = "dualpipe-v",
       .aliases = {"ScheduleDualPipeV", "dual-pipe-v"},
       .summary = "DualPipe cut in half: a V of two chunks a rank",
       .constraint = "M >= 2K; v is 2",
       .options = {"virtual_stages"},
       .chunks = 2,
       .has_pairs = true,
       .takes = dual_pipe_v_takes,
       .generate = dual_pipe_v,
       .peak_activations = dual_pipe_v_peak},
      {.name = "chimera",
       .aliases = {"bidirectional"},
       .summary = "two 1F1B pipelines in opposite directions fill each other's bubbles",
       .constraint = "even K, any M",
       .options = {"reduction", "replica_sync"},
       .takes = chimera_takes,
       .generate = chimera,
       .peak_activations = chimera_peak},
      {.name = "gems",
       .aliases = {},
       .summary = "microbatches alternate between two directions, one activation a rank",
       .constraint = "any K and M",
       .options = {"replica_sync"},
       .generate = gems,
       .peak_activations = one_microbatch},
      {.name = "hanayo",
       .aliases = {"wave"},
       .summary = "down the ranks and back up in v/2 waves, without a second copy of the weights",
       .constraint = "any K and M; even v",
       .options = {"virtual_stages", "checkpoint", "recompute"},
       .default_chunks = 2,
       .takes = hanayo_takes,
       .generate = hanayo,
       .peak_activations = hanayo_peak},
      {.name = "pipedream-2bw",
       .aliases = {"2bw"},
       .summary = "1F1B without flushes between minibatches and two weight versions",
       .constraint = "any K and M",
       .options = {},
       .generate = pipedream_2bw,
       .peak_activations = pipedream_2bw_peak},
  };
  return rows;
}

}  // namespace

std::span<const ScheduleInfo> schedule_table() { return table(); }

const ScheduleInfo* find_schedule(std::string_view name) {
  const auto spelled_so = std::ranges::find(table(), name, &ScheduleInfo::name);
  if (spelled_so != table().end()) return &*spelled_so;
  const std::string wanted = plain_name(name);
  for (const ScheduleInfo& row : table()) {
    if (plain_name(row.name) == wanted) return &row;
    for (const std::string_view alias : row.aliases) {
      if (plain_name(alias) == wanted) return &row;
    }
  }
  return nullptr;
}

std::optional<std::string_view> likely_schedule(std::string_view name) {
  std::vector<std::string> spellings;
  std::vector<std::string_view> names;
  for (const ScheduleInfo& row : schedule_table()) {
    spellings.push_back(plain_name(row.name));
    names.push_back(row.name);
    for (const std::string_view alias : row.aliases) {
      spellings.push_back(plain_name(alias));
      names.push_back(row.name);
    }
  }
  const std::vector<std::string_view> known(spellings.begin(), spellings.end());
  const auto likely = likely_name(plain_name(name), known);
  if (!likely) return std::nullopt;
  return names[static_cast<std::size_t>(std::ranges::find(known, *likely) - known.begin())];
}

std::string unknown_schedule(std::string_view name) {
  const auto likely = likely_schedule(name);
  return fmt::format("unknown schedule \"{}\"; {}`penstock schedules` lists all", name,
                     likely ? fmt::format("did you mean {}? ", *likely) : "");
}

}  // namespace penstock
