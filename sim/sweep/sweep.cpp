// Predicts the many points of a sweep. Each point is a copy of the scenario with other numbers. Points run in
// parallel. Each writes its own row of the table, so the order does not depend on threads. Points of an
// earlier sweep are used again. To check them, a few are predicted again and must have the same figures.

#include "sim/sweep/sweep.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/closed_forms.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/sweep/parallel_loop.hpp"
#include "text/escaping.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

struct Point {
  std::size_t variant = 0;  ///< the index of the point's scenario in variants_of()
  std::string schedule;
  const Program* program = nullptr;  ///< the program of a file that `schedule` names
  std::optional<std::int32_t> stages;
  std::int32_t virtual_stages = 1;  ///< number of chunks for each rank (v); 1 if the schedule's rule fixes it
  bool states_chunks = false;       ///< true if the grid states v (chunks)
  std::optional<std::int32_t> microbatches;
};

using Numbers = std::vector<std::int32_t>;

/// The largest number of points that point_count() returns.
constexpr std::uint64_t kMostCounted = std::uint64_t{1} << 62U;

/// Returns the number of model chunks on a rank of the program, at least 1.
std::int32_t chunks_of_program(const Program& program) {
  const ExtraStages extra = extra_stages_of(program);
  return std::max(1, layer_stages(extra, program.stage_count()) / program.rank_count());
}

Numbers virtual_stages_of(const ScheduleInfo& schedule, const Scenario& scenario, const Numbers& wanted) {
  // If the rule ignores v, all values of v give the same program, so there is only one point.
  if (!takes_chunks(schedule)) return {1};
  if (!wanted.empty()) return wanted;
  return {scenario.states_chunks ? scenario.shape.virtual_stages : schedule.default_chunks};
}

std::vector<std::string> schedules_of(const Scenario& scenario, const SweepGrid& grid) {
  // A program file has one schedule, so the schedules of the grid are ignored.
  if (scenario.program) return {scenario.program->schedule};
  return grid.schedules.empty() ? std::vector<std::string>{scenario.schedule} : grid.schedules;
}

Numbers chunks_of_grid(const std::string& schedule, const Scenario& scenario, const SweepGrid& grid) {
  if (scenario.program) return {1};
  if (const auto found = grid.programs.find(schedule); found != grid.programs.end())
    return {chunks_of_program(found->second)};
  const ScheduleInfo* known = find_schedule(schedule);
  return known != nullptr ? virtual_stages_of(*known, scenario, grid.virtual_stages)
                          : Numbers{scenario.shape.virtual_stages};
}

/// Returns the scenarios of the sweep, one for each combination of varied keys. Without varied keys there
/// is only one.
std::vector<SweepVariant> variants_of(const Scenario& scenario, const SweepGrid& grid) {
  if (!grid.variants.empty()) return grid.variants;
  return {{.values = {}, .scenario = scenario, .batch = grid.batch}};
}

/// Returns the name that points have in the table. An alias of a schedule is replaced by its official name,
/// so that points of two sweeps can be compared. The alias for chunked prefill is kept, because it leaves out
/// the backward passes of the official schedule.
std::string name_in_points(const std::string& schedule, const Scenario& scenario) {
  if (scenario.program) return schedule;
  if (is_chunked_prefill(schedule)) return "chunked-prefill";
  const ScheduleInfo* known = find_schedule(schedule);
  return known == nullptr ? schedule : std::string(known->name);
}

/// Adds the points of one scenario, ordered by schedule, K, v and M.
void add_points(std::vector<Point>& points, std::size_t variant, const Scenario& scenario,
                const SweepGrid& grid) {
  // An empty list means the scenario's own value, which scenario_at() fills in.
  const auto or_own = [](const Numbers& numbers) {
    std::vector<std::optional<std::int32_t>> values(numbers.begin(), numbers.end());
    if (values.empty()) values.emplace_back();
    return values;
  };
  for (const std::string& schedule : schedules_of(scenario, grid)) {
    const std::string name = name_in_points(schedule, scenario);
    const auto file = grid.programs.find(schedule);
    const Program* const program = file == grid.programs.end() ? nullptr : &file->second;
    for (const auto& stages : or_own(grid.stages)) {
      for (const std::int32_t virtual_stages : chunks_of_grid(schedule, scenario, grid)) {
        for (const auto& microbatches : or_own(grid.microbatches)) {
          points.push_back(
              {variant, name, program, stages, virtual_stages, !grid.virtual_stages.empty(), microbatches});
        }
      }
    }
  }
}

/// Returns the points of the grid, ordered by variant, schedule, K, v and M.
std::vector<Point> points_of(const std::vector<SweepVariant>& variants, const SweepGrid& grid) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < variants.size(); ++i) add_points(points, i, variants[i].scenario, grid);
  return points;
}

/// Returns the batch sizes of a point. The grid's M replaces the sizes that are stated for the sweep. These
/// in turn replace the scenario's own sizes.
Batch batch_at(const Batch& own, const Batch& stated, const Point& point) {
  Batch batch = stated;
  if (point.microbatches) batch.microbatches = *point.microbatches;
  const MicrobatchMeaning meaning =
      meaning_of_microbatch(point.program == nullptr ? point.schedule : point.program->schedule);
  batch = overridden(own, batch, meaning);
  // A scenario may state both a microbatch size and a global batch size for a synchronous schedule. For an
  // asynchronous schedule, the two sizes would contradict each other.
  const bool sizes_stated = stated.micro_batch_size || stated.global_batch_size;
  if (meaning == MicrobatchMeaning::whole_minibatch && !sizes_stated && batch.global_batch_size)
    batch.micro_batch_size.reset();
  return batch;
}

Scenario scenario_at(const SweepVariant& base, const Point& point) {
  Scenario scenario = base.scenario;
  scenario.states_chunks |= point.states_chunks;
  scenario.schedule = point.schedule;
  if (point.program != nullptr) scenario.program = *point.program;
  if (is_chunked_prefill(point.schedule) && scenario.shape.passes == Passes::both)
    scenario.shape.passes = Passes::forward_kv;
  if (point.stages) scenario.shape.stages = *point.stages;
  scenario.shape.virtual_stages = point.virtual_stages;
  scenario.batch = batch_at(base.scenario.batch, base.batch, point);
  return scenario;
}

/// Returns the reason why the program of a file cannot run as a point of the sweep, or nothing if it can.
/// `scenario` has the sizes of the point.
std::optional<std::string> misfit(const Scenario& scenario, const Program& program) {
  const std::int32_t ranks = program.rank_count();
  const auto& microbatches = scenario.batch.microbatches;
  if (ranks != scenario.shape.stages)
    return fmt::format("the program has {} ranks, and this point K = {}", ranks, scenario.shape.stages);
  if (microbatches && program.microbatches != *microbatches) {
    return fmt::format("the program has {} microbatches, and this point M = {}", program.microbatches,
                       *microbatches);
  }
  const Shape& shape = scenario.shape;
  const auto above_one = [](std::int32_t count) { return count > 1; };
  // For a model on named devices, a program contains one copy of the pipeline, so copies need no check.
  const bool is_of_copies = !std::holds_alternative<DeviceModel>(scenario.model);
  // These keys change the work of schedules by name, but not that of a program from a file.
  for (const auto& [key, is_stated] :
       {std::pair{"data_parallel", shape.data_parallel > 1},
        std::pair{"replicas", std::ranges::any_of(shape.replicas, above_one)},
        std::pair{"sharding", is_of_copies && shape.sharding.value_or(0) > 0},
        std::pair{"buckets", !shape.buckets.empty()}, std::pair{"slices", shape.slices > 1},
        std::pair{"checkpoint", shape.checkpoint != Checkpoint::never},
        std::pair{"offload", !shape.offload.empty()},
        std::pair{"forward_only", (shape.passes != Passes::both) != is_forward_only(program)}}) {
    if (is_stated)
      return fmt::format("schedule.{} of the scenario does not apply to the program of a file", key);
  }
  return std::nullopt;
}

/// Returns the bubble (idle_over_total) that the schedule's formula gives. Returns nothing if there is no
/// formula, or if it does not hold for this ratio of the times of F and B.
std::optional<double> formula_of(const Scenario& scenario, std::int32_t microbatches) {
  // The program of a file may have the name of a schedule but another order of actions.
  if (scenario.program) return std::nullopt;
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  const ClosedForm* form = schedule == nullptr ? nullptr : find_closed_form(schedule->name);
  if (form == nullptr || !form->for_any_times) return std::nullopt;
  Shape shape = scenario.shape;
  shape.microbatches = microbatches;
  return closed_form_bubble(*schedule, shape);
}

/// Sets the peak memory of the point, and the status that says whether it fits. If there is a stream, both
/// come from the stream, because a short run may not fill the pipeline.
void add_memory_verdict(SweepRow& row, const Prediction& prediction) {
  std::vector<RankMemory> memories;
  if (prediction.stream) {
    memories = prediction.stream->memories;
  } else {
    for (const RankReport& rank : prediction.result.ranks) memories.push_back(rank.memory);
  }
  const auto peak = std::ranges::max_element(memories, {}, &RankMemory::peak_bytes);
  row.peak_bytes = peak->peak_bytes;
  row.peak_rank = static_cast<std::int32_t>(peak - memories.begin());
  row.memory_unit = peak->unit;
  const auto rank = fullest_out_of_memory(memories);
  if (!rank) return;
  const RankMemory& fullest = memories[*rank];
  const std::string needed = format_memory(fullest.peak_bytes, fullest.unit);
  const std::string available = available_text(fullest);
  row.status = SweepStatus::out_of_memory;
  row.reason = prediction.stream
                   ? fmt::format("the stream's steady state needs {} on rank {}, its device has {}", needed,
                                 *rank, available)
                   : fmt::format("rank {} needs {}, its device has {}", *rank, needed, available);
}

/// Returns the number of microbatches in one iteration. An asynchronous program has one pass, which
/// contains the microbatches of all iterations.
std::int32_t microbatches_of_iteration(const ProgramReport& program, const Shape& shape) {
  const bool repeats = program.iterations > 1;
  return repeats ? program.microbatches : program.microbatches / std::max(1, shape.iterations);
}

/// Sets the shape of a point whose scenario is a program file. The scenario's own shape is not used.
void add_shape_of_program(SweepRow& row, const Program& program) {
  const ExtraStages extra = extra_stages_of(program.schedule);
  row.stages = pipeline_size_of(program);
  row.virtual_stages = std::max(1, layer_stages(extra, program.stage_count()) / std::max(1, row.stages));
  row.microbatches = program.microbatches;
}

void add_figures(SweepRow& row, const Scenario& scenario, const Prediction& prediction) {
  const Result& result = prediction.result;
  if (scenario.program) add_shape_of_program(row, *scenario.program);
  row.microbatches = microbatches_of_iteration(result.program, scenario.shape);
  row.micro_batch_size = samples_of_copy(result) / result.program.microbatches / result.program.iterations;
  row.global_batch_size = result.throughput.samples_per_update;
  row.makespan_ns = result.makespan_ns;
  row.closed_form_bubble = formula_of(scenario, row.microbatches);
  for (const RunFigure& figure : figures_of_runs()) {
    const std::optional<double> value = figure.get(result);
    if (figure.in_sweep && value) figure.set(row, *value);
  }
  add_memory_verdict(row, prediction);
}

void add_refusal(SweepRow& row, const Scenario& scenario, const UserError& error) {
  const Batch& batch = scenario.batch;
  // Only sizes that the user has stated are written. The others are not known, and they may be the reason why
  // the point was refused.
  if (batch.micro_batch_size) row.micro_batch_size = static_cast<double>(*batch.micro_batch_size);
  if (batch.global_batch_size) row.global_batch_size = static_cast<double>(*batch.global_batch_size);
  row.status = error.kind == ErrorKind::check_failed ? SweepStatus::failed : SweepStatus::skipped;
  // In a table, a reason has one line, so the further lines of a message are omitted.
  row.reason = in_one_line(error.message);
  if (row.reason.starts_with(scenario.file + ": ")) row.reason.erase(0, scenario.file.size() + 2);
}

std::int32_t chunks_at(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  return schedule == nullptr ? scenario.shape.virtual_stages : chunks_of(*schedule, scenario.shape);
}

/// A cache of the steady states of one scenario's asynchronous schedules. It stores only states that do not
/// depend on the number of microbatches.
class SharedStreams {
 public:
  /// Returns the result of endless_stream(). If an equal stream was computed before, takes the result from
  /// the cache. May be called from any thread. Two threads may compute the same stream at once.
  std::optional<EndlessStream> of(const StreamQuestion& question, const Experiment& experiment,
                                  Engine engine) {
    const Key key{experiment.program.schedule, experiment.pipeline_size, experiment.program.stage_count(),
                  experiment.samples_per_microbatch};
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = known_.find(key); found != known_.end()) return found->second;
    }
    // The mutex is not locked while a stream runs, so that other threads need not wait.
    auto stream = endless_stream(question, experiment, engine);
    // If the length of the stream depends on M, its result is valid for this point only.
    if (!stream || !stream->is_of_any_length) return stream;
    const std::scoped_lock lock(mutex_);
    return known_.try_emplace(key, *std::move(stream)).first->second;
  }

 private:
  /// The properties in which the points of one scenario differ: the schedule, K, the model's number of
  /// stages, and the samples of a microbatch.
  using Key = std::tuple<std::string, std::int32_t, std::int32_t, double>;
  std::mutex mutex_;
  std::map<Key, EndlessStream> known_;
};

SweepPoint point_at(const SweepVariant& base, const Point& point, Engine engine, SharedStreams& streams) {
  const Scenario scenario = scenario_at(base, point);
  SweepRow row;
  row.varied = base.values;
  row.schedule = scenario.schedule;
  row.stages = scenario.shape.stages;
  row.virtual_stages = chunks_at(scenario);
  // This value remains only if the point is refused. Otherwise add_figures() replaces it by the number of the
  // run.
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  // larger numbers are refused
  row.microbatches = static_cast<std::int32_t>(std::min(scenario.batch.microbatches.value_or(1), kMost));
  if (!base.refusal.empty()) {
    add_refusal(row, scenario, {.kind = ErrorKind::bad_input, .message = base.refusal, .hang = {}});
    return {row, {}};
  }
  if (auto reason = point.program == nullptr ? std::nullopt : misfit(scenario, *point.program)) {
    add_refusal(row, scenario, {.message = *std::move(reason)});
    return {row, {}};
  }
  try {
    const auto prediction = predict(scenario, {.engine = engine,
                                               .memory = {.samples = false},
                                               .timeline = TimelineKept::none,
                                               .figures = WantedFigures::of_rows,
                                               .stream_of = std::bind_front(&SharedStreams::of, &streams)});
    if (prediction) {
      add_figures(row, scenario, *prediction);
      return {row, prediction->result.notes};
    }
    add_refusal(row, scenario, prediction.error());
    if (scenario.program) add_shape_of_program(row, *scenario.program);
  } catch (const std::exception& failure) {  // a point that needs too much memory must not end the sweep
    row.status = SweepStatus::failed;
    row.reason = failure.what();
  }
  return {row, {}};
}

/// Returns a note if the model's work grows with v (chunks on each rank), so that points with different v
/// have different work. Otherwise returns an empty text.
std::string growing_chunks_note(const Scenario& scenario) {
  if (!work_grows_with_chunks(scenario)) return "";
  return fmt::format("each of the K*v stages {}, so v = 2 is twice the work of v = 1",
                     std::holds_alternative<UnitCosts>(scenario.model)
                         ? "takes F = 1 ms a sample (--unit stage)"
                         : "takes the times of model.stages");
}

/// Returns the bytes that a plan may use on the device with least memory. Returns nothing if memory is
/// unlimited or is counted in activations.
std::optional<Bytes> usable_memory_of(const Scenario& scenario) {
  if (const auto* devices = std::get_if<DeviceModel>(&scenario.model))
    return devices->work.device.usable_memory();
  if (std::holds_alternative<UnitCosts>(scenario.model)) return std::nullopt;
  const auto cluster = build_cluster(scenario.cluster, 1);
  if (!cluster) return std::nullopt;
  std::optional<Bytes> least;
  for (const Device& device : cluster->devices()) {
    const auto usable = usable_bytes(device.memory_bytes, device.reserved_bytes);
    if (usable && (!least || *usable < *least)) least = usable;
  }
  return least;
}

/// Returns true if the row belongs to the point: if it has the same values, schedule and sizes. Does not
/// compare figures.
bool is_of(const SweepRow& row, const SweepVariant& base, const Point& point) {
  const Scenario scenario = scenario_at(base, point);
  const auto& m = scenario.batch.microbatches;
  return row.varied == base.values && row.schedule == scenario.schedule &&
         row.stages == scenario.shape.stages && row.virtual_stages == chunks_at(scenario) &&
         (!m || !was_simulated(row) || row.microbatches == *m);
}

/// Returns the name of a point for messages, such as "point 3 (1f1b, K = 4, v = 1, M = 8)".
std::string name_of(std::size_t number, const SweepRow& row) {
  const std::string varied = row.varied.empty() ? "" : ", " + varied_text(row.varied);
  return fmt::format("point {} ({}, K = {}, v = {}, M = {}{})", number, row.schedule, row.stages,
                     row.virtual_stages, row.microbatches, varied);
}

/// Returns the number of points of one scenario, at most 2^62.
std::uint64_t count_of(const Scenario& scenario, const SweepGrid& grid) {
  const auto length = [](const Numbers& list) { return std::max<std::uint64_t>(1, list.size()); };
  std::uint64_t count = 0;
  for (const std::string& schedule : schedules_of(scenario, grid)) {
    std::uint64_t points = chunks_of_grid(schedule, scenario, grid).size();
    for (const std::uint64_t factor : {length(grid.stages), length(grid.microbatches)}) {
      if (__builtin_mul_overflow(points, factor, &points)) return kMostCounted;
    }
    count = std::min(kMostCounted, count + std::min(kMostCounted, points));
  }
  return count;
}

}  // namespace

std::uint64_t point_count(const Scenario& scenario, const SweepGrid& grid) {
  if (grid.variants.empty()) return count_of(scenario, grid);
  std::uint64_t count = 0;
  for (const SweepVariant& variant : grid.variants)
    count = std::min(kMostCounted, count + count_of(variant.scenario, grid));
  return count;
}

tl::expected<void, std::string> check_known(const Scenario& scenario, const SweepGrid& grid) {
  const std::vector<SweepVariant> variants = variants_of(scenario, grid);
  const std::vector<Point> points = points_of(variants, grid);
  for (const auto& [number, point] : grid.known) {
    if (number >= points.size() || !is_of(point.row, variants[points[number].variant], points[number]))
      return tl::unexpected(name_of(number, point.row) + " is none of this sweep");
  }
  // If the model or the release has changed, nearly every point is different, so comparing a few points is
  // enough.
  constexpr std::size_t kTried = 3;
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < kTried && !grid.known.empty(); ++i) {
    const std::size_t at = i * (grid.known.size() - 1) / (kTried - 1);
    // The first, the middle and the last known point are tried. If fewer than three are known, some of these
    // coincide.
    if (std::exchange(last, at) == at) continue;
    const auto& [number, point] = *std::next(grid.known.begin(), static_cast<std::ptrdiff_t>(at));
    SharedStreams streams;
    if (point_at(variants[points[number].variant], points[number], grid.engine, streams) == point) continue;
    return tl::unexpected(name_of(number, point.row) +
                          " has other figures now: the scenario, the flags or penstock have changed");
  }
  return {};
}

namespace {

/// Returns the notes on the scenarios of the sweep. Each note appears once.
std::vector<std::string> notes_of(const Scenario& scenario, const SweepGrid& grid) {
  std::vector<std::string> notes = scenario.notes;
  for (const SweepVariant& variant : grid.variants) {
    for (const std::string& note : variant.scenario.notes) {
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
    }
  }
  return notes;
}

}  // namespace

SweepHead sweep_head(const Scenario& scenario, const SweepGrid& grid) {
  return {.points = static_cast<std::size_t>(point_count(scenario, grid)),
          .digest = {},
          .shard = grid.shard,
          .title = scenario.file,
          .notes = notes_of(scenario, grid),
          .usable_bytes = usable_memory_of(scenario),
          .chunks_note = growing_chunks_note(scenario)};
}

Sweep sweep(const Scenario& scenario, const SweepGrid& grid) {
  std::vector<SweepVariant> variants = variants_of(scenario, grid);
  const std::vector<Point> points = points_of(variants, grid);
  for (SweepVariant& variant : variants) {
    // For a model on named devices, the cluster is built anew for each point, because its links depend on the
    // point's parallel degrees.
    Scenario& base = variant.scenario;
    if (!std::holds_alternative<DeviceModel>(base.model)) base.cluster = built_once(std::move(base.cluster));
  }
  std::deque<SharedStreams> streams(variants.size());
  std::vector<std::optional<SweepPoint>> rows(points.size());
  for (const auto& [number, point] : grid.known) rows[number] = point;
  const std::size_t wanted = grid.shard.size(points.size());
  std::atomic<std::size_t> done = grid.known.size();
  parallel_loop(points.size(), [&](std::size_t i) {
    if (rows[i] || !grid.shard.has(i) || (grid.stopped && grid.stopped())) return;
    // Each point has its own element of `rows`, so no mutex is needed.
    rows[i] = point_at(variants[points[i].variant], points[i], grid.engine, streams[points[i].variant]);
    if (grid.finished) grid.finished(i, *rows[i]);
    if (grid.progress) grid.progress(++done, wanted);
  });
  return sweep_of_points(sweep_head(scenario, grid), std::move(rows));
}

std::optional<Scenario> scenario_of_point(const Scenario& scenario, const SweepGrid& grid,
                                          std::size_t number) {
  const std::vector<SweepVariant> variants = variants_of(scenario, grid);
  const std::vector<Point> points = points_of(variants, grid);
  if (number >= points.size()) return std::nullopt;
  return scenario_at(variants[points[number].variant], points[number]);
}

}  // namespace penstock
