#pragma once
// Generates the program of a schedule from its name and a shape (counts and options). Each published rule
// is a pure function Shape -> Program in its own file. A new schedule needs one file, one row in
// schedule_table.cpp and one reference picture in the tests.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/order_follower.hpp"

namespace penstock {

enum class ExtraStages : std::uint8_t;

/// The result of a generator that writes the list of each rank as loops: the program, or an error message.
using GeneratedLoops = tl::expected<RolledProgram, std::string>;

/// The result of the check of a shape by a schedule's rule. The error message states why the rule rejects the
/// shape, and which similar shapes it accepts.
using ShapeCheck = tl::expected<void, std::string>;

/// A program with remarks, for example a remark about the quality of its order.
struct ProgramWithNotes {
  Program program;
  std::vector<std::string> notes;
};
/// The result of a generator that also returns remarks.
using GeneratedWithNotes = tl::expected<ProgramWithNotes, std::string>;

/// One row of the table of schedules.
struct ScheduleInfo {
  std::string_view name;
  /// Other names of the schedule, for example the names that PyTorch uses.
  std::vector<std::string_view> aliases;
  /// The description of the schedule that `penstock schedules` prints, in one line.
  std::string_view summary;
  /// A description of the shapes that the schedule accepts.
  std::string_view constraint;
  /// The names of the fields of Shape that the schedule reads, in addition to stages, microbatches,
  /// iterations and barrier.
  std::vector<std::string_view> options;
  /// True if each microbatch is a minibatch with its own weight update.
  bool asynchronous = false;
  /// The number v of chunks on each rank if the rule fixes it. 0 means that the rule does not fix it, and
  /// Shape::virtual_stages states it.
  std::int32_t chunks = 0;
  /// The default of v, the number of chunks on each rank. It is more than 1 for schedules that need several
  /// chunks.
  std::int32_t default_chunks = 1;
  /// True if the order of the actions depends on Shape::costs and Shape::transfer_ns.
  bool weighs_costs = false;
  /// True if some F and B of the rule are overlapped pairs.
  bool has_pairs = false;
  /// The stages that the rule adds to the K stages of the layers (extra_stages.hpp).
  ExtraStages extra_stages{};
  /// True if a pipeline without backward passes can run the forward passes of the rule in their order.
  bool has_forward_half = false;
  /// Checks the conditions of this rule on K, v and M. Null if the rule has no conditions.
  ShapeCheck (*takes)(const Shape&) = nullptr;
  /// Returns the program for a shape, or an error that explains why the shape is impossible.
  Generated (*generate)(const Shape&) = nullptr;
  /// Returns the same program as `generate`, with remarks about it. Null if the rule has no remarks.
  GeneratedWithNotes (*generate_with_notes)(const Shape&) = nullptr;
  /// Returns the lists of `generate` as loops, without recomputations. Its memory does not grow with M. Null
  /// if the rule cannot write loops. The caller then derives the loops from the lists of `generate`.
  GeneratedLoops (*declare)(const Shape&) = nullptr;
  /// Returns an upper bound on the number of activations that a rank stores at once. It holds for a single
  /// copy of the pipeline; claimed_peak() handles several copies.
  std::int64_t (*peak_activations)(const Shape&, std::int32_t rank) = nullptr;
};

/// Returns all schedules, in the order of `penstock schedules`.
std::span<const ScheduleInfo> schedule_table();

/// Returns the row with this name or alias, or null if there is none. Ignores case, '-' and '_'.
const ScheduleInfo* find_schedule(std::string_view name);

/// Returns the scenario keys of the schedule's options, in the order of ScheduleInfo::options. The option
/// "effort" has three keys.
std::vector<std::string_view> option_keys(const ScheduleInfo& schedule);

/// Returns true if the schedule has this option.
bool takes_option(const ScheduleInfo& schedule, std::string_view option);
/// Returns true if the user chooses v: the schedule has the option virtual_stages, and its rule does not fix
/// v.
bool takes_chunks(const ScheduleInfo& schedule);

/// Returns v, the number of model chunks on each rank, for this schedule and shape. The model has stages *
/// v stages.
std::int32_t chunks_of(const ScheduleInfo& schedule, const Shape& shape);

/// Returns an upper bound on the activations that a rank stores at once, in the program of generate().
std::int64_t claimed_peak(const ScheduleInfo& schedule, const Shape& shape, std::int32_t rank);

/// Generates the schedule `name` for `shape`, or only its forward passes if `shape.passes` asks for these.
/// It then makes data_parallel copies of the pipeline (passes.hpp). After that, it cuts the stages into
/// buckets (passes.hpp) and shards them (passes.hpp).
/// Fails if the name is unknown; the message suggests a similar one. Fails if the schedule does not have
/// one of the options, or if its rule rejects the shape. Fails if there are more than 2^40 compute actions.
/// Also fails if the copies cannot share the microbatches evenly, or if the program cannot be cut into
/// buckets or sharded.
Generated generate(std::string_view name, const Shape& shape);

/// Returns the program of generate() with the rule's remarks about it. The errors are the same as for
/// generate().
GeneratedWithNotes generate_with_notes(std::string_view name, const Shape& shape);

/// Returns the program of generate() with its lists as loops. If the rule writes loops itself, the memory
/// does not grow with M, and a shape may have 2^40 compute actions. With recomputations, copies, buckets or
/// sharding, the function first makes plain lists and then finds the loops in them. The errors are the same
/// as for generate().
GeneratedLoops generate_loops(std::string_view name, const Shape& shape);

/// Checks whether generate() accepts the K, v and M of the shape, without generating a program. The errors
/// are the same as for generate().
ShapeCheck check_shape(std::string_view name, const Shape& shape);

/// Returns the approximate number of compute actions, which are F and B of all stages and microbatches.
/// Returns 0 for an unknown schedule.
double compute_actions(std::string_view name, const Shape& shape);

// The generators. generate() does the checks that all schedules share. A generator with a fixed number of
// chunks ignores virtual_stages.
Generated naive(const Shape& shape);
Generated gpipe(const Shape& shape);
Generated one_f_one_b(const Shape& shape);
Generated one_f_one_b_rr(const Shape& shape);
Generated data_parallel(const Shape& shape);
Generated interleaved(const Shape& shape);
Generated ep_one_f_one_b(const Shape& shape);
Generated zb_h1(const Shape& shape);
Generated zb_h2(const Shape& shape);
Generated eager_one_f_one_b(const Shape& shape);
Generated kfkb(const Shape& shape);
/// Returns k, the number of microbatches in a group of the schedule kFkB. It is `shape.group_size`, or 2 if
/// that is not given, and never more than M.
std::int32_t kfkb_group(const Shape& shape);
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
Generated synthesized(const Shape& shape);
GeneratedWithNotes synthesized_with_notes(const Shape& shape);

// The checks of the generators that accept only some values of K, v and M.
ShapeCheck interleaved_takes(const Shape& shape);
ShapeCheck ep_one_f_one_b_takes(const Shape& shape);
ShapeCheck interleaved_zero_bubble_takes(const Shape& shape);
ShapeCheck dual_pipe_takes(const Shape& shape);
ShapeCheck dual_pipe_v_takes(const Shape& shape);
ShapeCheck hanayo_takes(const Shape& shape);
ShapeCheck chimera_takes(const Shape& shape);

// The generators that write loops.
GeneratedLoops naive_loops(const Shape& shape);
GeneratedLoops gpipe_loops(const Shape& shape);
GeneratedLoops one_f_one_b_loops(const Shape& shape);
GeneratedLoops eager_one_f_one_b_loops(const Shape& shape);
GeneratedLoops one_f_one_b_rr_loops(const Shape& shape);
GeneratedLoops interleaved_loops(const Shape& shape);
GeneratedLoops ep_one_f_one_b_loops(const Shape& shape);
GeneratedLoops zb_h1_loops(const Shape& shape);
GeneratedLoops zb_h2_loops(const Shape& shape);

// Suggests schedules for mistyped names. It compares them with all names and aliases in the table.

/// Returns the schedule with the name that is most similar to `name`, or nothing if no name is similar
/// (likely_name()).
std::optional<std::string_view> likely_schedule(std::string_view name);

/// Returns the error message for an unknown name. It suggests a name and says how to list all schedules.
std::string unknown_schedule(std::string_view name);

// The warm-up of 1F1B-RR (PipeDream, SOSP'19, section 3.2). The generator, its bound on live activations and
// the planners share this formula.

/// Returns the number of forwards that each replica of a stage runs before its first backward. With this
/// number, the replica is busy until its first minibatch returns. `workers` is the number of replicas of this
/// stage and all later stages. `replicas` is the number of replicas of this stage. The number of minibatches
/// in flight is the result plus 1. For the first stage, this is the paper's NOAM.
///   replicas 4 1 2: (7 - 1) / 4 = 1, (3 - 1) / 1 = 2, (2 - 1) / 2 = 0
/// Requires workers >= replicas >= 1.
constexpr std::int32_t round_robin_warmup(std::int32_t workers, std::int32_t replicas) {
  return (workers - 1) / replicas;
}

// Orders from which other schedules start, such as the orders that ZB-V tries under a memory limit. Only
// schedules/rules includes this header.

/// Returns the orders that ZB-V tries under a memory limit (v_placement.cpp). The last order always fits if
/// the memory can store one microbatch.
std::vector<OrderChoice> orders_on_a_v(const Shape& shape);

/// Returns a list for each rank in which each microbatch ends on all stages before the next one begins.
/// Each W (gradient of the weights) comes directly after its I (gradient of the input). The lists fit if
/// the memory can store one microbatch.
std::vector<std::vector<Action>> one_by_one(const Program& placed);

}  // namespace penstock
