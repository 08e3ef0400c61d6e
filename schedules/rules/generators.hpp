#pragma once
// The table of schedules: every published rule is a pure function Shape -> Program in a file of its
// own. Adding a schedule = one file, one row in schedule_table.cpp, one golden picture.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// A generator's answer with its lists as loops.
using GeneratedLoops = tl::expected<RolledProgram, std::string>;

/// Whether a rule takes a shape; the error says why not and which nearest shapes work.
using ShapeCheck = tl::expected<void, std::string>;

/// A program and what is to be said of it: how good it is, for example.
struct ProgramWithNotes {
  Program program;
  std::vector<std::string> notes;
};
using GeneratedWithNotes = tl::expected<ProgramWithNotes, std::string>;

/// One row of the table of schedules.
struct ScheduleInfo {
  std::string_view name;
  std::vector<std::string_view> aliases;  ///< PyTorch's and other names
  std::string_view summary;               ///< one line for `penstock schedules`
  std::string_view constraint;            ///< which shapes it takes, in words
  std::vector<std::string_view> options;  ///< keys of Shape beyond stages, microbatches, iterations, barrier
  bool asynchronous = false;              ///< a microbatch is a minibatch with its own update
  std::int32_t chunks = 0;                ///< v where the rule fixes it; 0: Shape::virtual_stages says it
  std::int32_t default_chunks = 1;        ///< v where a user states none; more for what one chunk undoes
  bool weighs_costs = false;              ///< reads Shape::costs and Shape::transfer_ns
  /// What generate() asks of K, v and M beyond numbers of at least 1; null: nothing.
  ShapeCheck (*takes)(const Shape&) = nullptr;
  Generated (*generate)(const Shape&) = nullptr;
  GeneratedWithNotes (*generate_with_notes)(const Shape&) = nullptr;  ///< where there is anything to say
  /// The same as loops, made in memory that does not grow with M, without recomputations; null where they are
  /// found in generate()'s lists.
  GeneratedLoops (*declare)(const Shape&) = nullptr;
  /// Most live activations that the schedule claims on a rank of one pipeline (an upper bound); see
  /// claimed_peak() for copies of it.
  std::int64_t (*peak_activations)(const Shape&, std::int32_t rank) = nullptr;
};

/// Every schedule, in the order in which `penstock schedules` lists them.
std::span<const ScheduleInfo> schedule_table();

/// The row that `name` or an alias of it names; case, '-' and '_' are ignored. Null when there is none.
const ScheduleInfo* find_schedule(std::string_view name);

/// The keys by which a scenario gives the row's options, in its order: "effort" is three of them.
std::vector<std::string_view> option_keys(const ScheduleInfo& schedule);

/// Whether the row has that among its options.
bool takes_option(const ScheduleInfo& schedule, std::string_view option);
/// Whether Shape::virtual_stages decides v: it is among the options, and no rule fixes it.
bool takes_chunks(const ScheduleInfo& schedule);

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

/// The same with what the rule says of its answer.
GeneratedWithNotes generate_with_notes(std::string_view name, const Shape& shape);

/// The same with loops for lists. Where the schedule declares its loops, nothing is as long as a list, and a
/// shape may have 2^40 compute actions; recomputations, copies of the pipeline, buckets and sharding are
/// found in lists. Errors: those of generate().
GeneratedLoops generate_loops(std::string_view name, const Shape& shape);

/// Whether generate() would take the shape, as far as K, v and M decide it, without generating anything.
/// Errors: generate()'s.
ShapeCheck check_shape(std::string_view name, const Shape& shape);

/// About how many compute actions a schedule has for a shape: F and B of all stages and microbatches. 0 of
/// unknown ones.
double compute_actions(std::string_view name, const Shape& shape);

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
Generated kfkb(const Shape& shape);
std::int32_t kfkb_group(const Shape& shape);  ///< k: group_size, 2 where it is not given, at most M
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

// What those ask that do not take every K, v and M.
ShapeCheck interleaved_takes(const Shape& shape);
ShapeCheck interleaved_zero_bubble_takes(const Shape& shape);
ShapeCheck dual_pipe_takes(const Shape& shape);
ShapeCheck dual_pipe_v_takes(const Shape& shape);
ShapeCheck hanayo_takes(const Shape& shape);
ShapeCheck chimera_takes(const Shape& shape);

// Those that declare loops.
GeneratedLoops naive_loops(const Shape& shape);
GeneratedLoops gpipe_loops(const Shape& shape);
GeneratedLoops one_f_one_b_loops(const Shape& shape);
GeneratedLoops eager_one_f_one_b_loops(const Shape& shape);
GeneratedLoops one_f_one_b_rr_loops(const Shape& shape);
GeneratedLoops interleaved_loops(const Shape& shape);
GeneratedLoops zb_h1_loops(const Shape& shape);
GeneratedLoops zb_h2_loops(const Shape& shape);

}  // namespace penstock
