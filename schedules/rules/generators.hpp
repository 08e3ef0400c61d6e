#pragma once
// The table of schedules. Every published rule is a pure function Shape -> Program in its own file. A new
// schedule needs one file, one row in schedule_table.cpp and one golden picture.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// The result of a generator with its lists as loops.
using GeneratedLoops = tl::expected<RolledProgram, std::string>;

/// Success if a rule takes a shape. The error explains why not and which similar shapes work.
using ShapeCheck = tl::expected<void, std::string>;

/// A program and remarks about it, for example how good it is.
struct ProgramWithNotes {
  Program program;
  std::vector<std::string> notes;
};
/// The result of a generator that adds remarks.
using GeneratedWithNotes = tl::expected<ProgramWithNotes, std::string>;

/// One row of the table of schedules.
struct ScheduleInfo {
  std::string_view name;
  /// Other names, for example PyTorch's.
  std::vector<std::string_view> aliases;
  /// One line for `penstock schedules`.
  std::string_view summary;
  /// The shapes that the schedule takes, in words.
  std::string_view constraint;
  /// The keys of Shape that it takes beyond stages, microbatches, iterations and barrier.
  std::vector<std::string_view> options;
  /// True if each microbatch is a minibatch with its own update.
  bool asynchronous = false;
  /// The chunks on each rank, v, if the rule fixes them; 0 if Shape::virtual_stages decides.
  std::int32_t chunks = 0;
  /// The default of v. It is more than 1 for schedules that make no sense with one chunk.
  std::int32_t default_chunks = 1;
  /// True if the rule reads Shape::costs and Shape::transfer_ns.
  bool weighs_costs = false;
  /// Checks the conditions of generate() on K, v and M beyond "at least 1". Null if there are none.
  ShapeCheck (*takes)(const Shape&) = nullptr;
  /// Returns the program of a shape, or an error that explains why there is none.
  Generated (*generate)(const Shape&) = nullptr;
  /// Like `generate`, with remarks about the program; null if the rule has none.
  GeneratedWithNotes (*generate_with_notes)(const Shape&) = nullptr;
  /// Like `generate`, with loops as lists and without recomputations, in memory that does not grow with M.
  /// Null if loops must be found in the lists of `generate`.
  GeneratedLoops (*declare)(const Shape&) = nullptr;
  /// Returns an upper bound on the live activations of a rank in one pipeline. See claimed_peak() for copies
  /// of the pipeline.
  std::int64_t (*peak_activations)(const Shape&, std::int32_t rank) = nullptr;
};

/// Returns every schedule, in the order of `penstock schedules`.
std::span<const ScheduleInfo> schedule_table();

/// Returns the row with that name or alias, ignoring case, '-' and '_'. Returns null if there is none.
const ScheduleInfo* find_schedule(std::string_view name);

/// Returns the scenario keys of the row's options in its order. The option "effort" has three keys.
std::vector<std::string_view> option_keys(const ScheduleInfo& schedule);

/// Returns true if the schedule has that option.
bool takes_option(const ScheduleInfo& schedule, std::string_view option);
/// Returns true if Shape::virtual_stages decides v: it is an option, and the rule does not fix v.
bool takes_chunks(const ScheduleInfo& schedule);

/// Returns v, the model chunks a rank that `schedule` has for `shape`. The model has stages * v stages.
std::int32_t chunks_of(const ScheduleInfo& schedule, const Shape& shape);

/// Returns an upper bound on the live activations of a rank in the program of generate().
std::int64_t claimed_peak(const ScheduleInfo& schedule, const Shape& shape, std::int32_t rank);

/// Generates the schedule `name` for `shape`, copies the pipeline data_parallel times
/// (pipeline_replicas.hpp), cuts its stages into buckets (buckets.hpp) and shards them (sharding.hpp).
/// Errors: an unknown name, with a similar one; an option that the schedule does not take; a shape that its
/// rule refuses, or one of more than 2^40 compute actions; microbatches that the copies cannot share evenly;
/// a program that cannot be cut into buckets or sharded.
Generated generate(std::string_view name, const Shape& shape);

/// Like generate(), with the rule's remarks about the program.
GeneratedWithNotes generate_with_notes(std::string_view name, const Shape& shape);

/// Like generate(), with loops as lists. If the schedule declares its loops, no memory grows with M, and a
/// shape may have 2^40 compute actions. For recomputations, copies, buckets and sharding the loops are found
/// in plain lists. Errors: those of generate().
GeneratedLoops generate_loops(std::string_view name, const Shape& shape);

/// Checks whether generate() takes the shape as far as K, v and M decide it, without generating a program.
/// Errors: those of generate().
ShapeCheck check_shape(std::string_view name, const Shape& shape);

/// Returns the approximate number of compute actions of a schedule for a shape: F and B of all stages and
/// microbatches. Returns 0 for an unknown schedule.
double compute_actions(std::string_view name, const Shape& shape);

// The generators. generate() above checks what is common to all of them. A generator with a fixed number of
// chunks ignores virtual_stages.
Generated naive(const Shape& shape);
Generated gpipe(const Shape& shape);
Generated one_f_one_b(const Shape& shape);
Generated one_f_one_b_rr(const Shape& shape);
Generated data_parallel(const Shape& shape);
Generated interleaved(const Shape& shape);
Generated zb_h1(const Shape& shape);
Generated zb_h2(const Shape& shape);
Generated eager_one_f_one_b(const Shape& shape);
Generated kfkb(const Shape& shape);
/// Returns k: group_size, or 2 if it is not given, but at most M.
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

// The checks of the generators that do not take every K, v and M.
ShapeCheck interleaved_takes(const Shape& shape);
ShapeCheck interleaved_zero_bubble_takes(const Shape& shape);
ShapeCheck dual_pipe_takes(const Shape& shape);
ShapeCheck dual_pipe_v_takes(const Shape& shape);
ShapeCheck hanayo_takes(const Shape& shape);
ShapeCheck chimera_takes(const Shape& shape);

// The generators that declare loops.
GeneratedLoops naive_loops(const Shape& shape);
GeneratedLoops gpipe_loops(const Shape& shape);
GeneratedLoops one_f_one_b_loops(const Shape& shape);
GeneratedLoops eager_one_f_one_b_loops(const Shape& shape);
GeneratedLoops one_f_one_b_rr_loops(const Shape& shape);
GeneratedLoops interleaved_loops(const Shape& shape);
GeneratedLoops zb_h1_loops(const Shape& shape);
GeneratedLoops zb_h2_loops(const Shape& shape);

}  // namespace penstock
