// Predicts a scenario in a list of steps:
//
//   Scenario -> begin_preparation(): its length -> prepare(): the program, costs, cluster
//            -> the endless stream of an asynchronous schedule -> plan_run(): the engine -> its run -> Result
//
// This file contains the stored runs. An engine finds the times of all actions, and figures, memory and
// traffic are computed from the spans. runs_without_lists.cpp contains the runs by the stream and turns
// engines.

#include "sim/runs/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/print/units.hpp"
#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/host/process_limits.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/return_if_error.hpp"
#include "schedules/passes/passes.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/run_facts.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

/// Returns the samples per second that the program reaches if it is repeated for ever. Returns nothing if
/// the repeated program has no period, or a period of 0 ns.
std::optional<double> steady_rate(const Experiment& experiment, Engine engine, const EngineRun& run) {
  const std::optional<Period> period = steady_period(experiment, engine, run);
  if (!period || period->period_ns == 0) return std::nullopt;
  return samples_per_second(*period, experiment.samples_per_microbatch);
}

/// Returns how the run treated shared links. `asked` is the engine that the user asked for, and `taken` is
/// the engine that ran.
LinkSharing link_sharing(const Experiment& experiment, Engine asked, Engine taken) {
  const bool is_event = taken == Engine::event;
  // For the automatic choice, plan_run() has already searched all lists for shared links. The engine that ran
  // therefore shows the result.
  if (asked == Engine::automatic) return is_event ? LinkSharing::counted : LinkSharing::none;
  if (!links_are_shared(experiment)) return LinkSharing::none;
  return is_event ? LinkSharing::counted : LinkSharing::left_out;
}

/// Returns the experiment's notes. If the options require it, two more runs of the event engine show how
/// certain the makespan is, and a note may state it.
std::vector<std::string> notes_of(const Experiment& experiment, const SimulateOptions& options,
                                  LinkSharing sharing, Ns makespan_ns) {
  std::vector<std::string> notes = experiment.notes;
  if (options.band == SharingBand::skip || sharing != LinkSharing::counted) return notes;
  if (auto note = sharing_band_note(experiment, makespan_ns)) notes.push_back(*std::move(note));
  return notes;
}

/// Frees the parts of `run` that are not needed to make spans (the start and end of each action).
void forget_all_but_spans(EngineRun& run) {
  run.tape.reset();
  run.flat.messages = {};
  run.flat.next_wait = {};
  run.flat.next_member = {};
  run.flat.next_collective = {};
  run.flat.released_by_consumer = {};
}

/// Passes the spans of all ranks to `readings`. Returns the spans if `kept` is TimelineKept::all, otherwise
/// an empty list.
std::vector<Span> read_spans(const EngineRun& run, const Placement& placement, TimelineKept kept,
                             SpanReadings& readings) {
  std::vector<Span> all;
  if (kept == TimelineKept::all) all.reserve(run.flat.ops.size());
  RankSpans spans(run.flat, placement, run.times);
  for (std::int32_t rank = 0; rank < run.flat.rank_count; ++rank) {
    const Spans of_rank = spans.of(rank);
    readings.add(of_rank);
    if (kept == TimelineKept::all) all.insert(all.end(), of_rank.begin(), of_rank.end());
  }
  return all;
}

using RunOfStored = tl::expected<Result, Hang>;

/// Runs a lowered program with the engine `planned`. `known_rate` is the steady rate of the endless stream,
/// if it is known. To limit the memory, the tape and the messages are freed before the spans are made.
RunOfStored stored_run(const Experiment& experiment, RunEngine planned, const SimulateOptions& options,
                       std::optional<double> known_rate) {
  const Engine engine = planned == RunEngine::event ? Engine::event : Engine::critical_path;
  auto run = run_engine(experiment, engine);
  if (!run) return tl::unexpected(run.error());
  std::optional<double> rate = known_rate;
  if (!rate && options.steady == SteadyState::find) rate = steady_rate(experiment, engine, *run);
  const Ns makespan_ns = last_end(run->times);
  forget_all_but_spans(*run);
  SpanReadings readings(experiment, options);
  Timeline timeline{.rank_count = run->flat.rank_count, .makespan_ns = makespan_ns, .spans = {}};
  timeline.spans = read_spans(*run, experiment.program.placement, options.timeline, readings);
  RunFacts facts = readings.facts();
  facts.engine = to_text(engine);
  facts.link_sharing = link_sharing(experiment, options.engine, engine);
  facts.steady_samples_per_second = rate;
  facts.notes = notes_of(experiment, options, facts.link_sharing, makespan_ns);
  facts.has_digest = options.figures == WantedFigures::all && options.digest == ProgramDigest::find;
  if (options.timeline == TimelineKept::all) {
    set_releases(timeline.spans, experiment);
    facts.timeline = std::move(timeline);
  }
  return summarize(readings.take_figures(), makespan_ns, std::move(facts));
}

}  // namespace

tl::expected<Result, Hang> simulate(const Experiment& experiment, const SimulateOptions& options) {
  Wanted wanted = wanted_by(options);
  wanted.stored = true;
  // The lists are stored already, so no budget is given, and plan_run() cannot refuse the run for lack of
  // memory.
  const RunPlan plan = plan_run(experiment, wanted, {}).value();
  return stored_run(experiment, plan.engine, options, std::nullopt);
}

tl::expected<Result, std::string> simulate_uniform(const Program& program, const CostTable& costs,
                                                   Ns latency_ns, SteadyState steady) {
  PENSTOCK_ASSIGN_OR_RETURN(Program lowered_one, lower(program));
  PENSTOCK_ASSIGN_OR_RETURN(Cluster cluster,
                            uniform_cluster({.devices = program.rank_count(), .latency_ns = latency_ns}));
  return simulate({.name = program.schedule,
                   .program = std::move(lowered_one),
                   .costs = costs,
                   .cluster = std::move(cluster),
                   .channels = {},
                   .notes = {}},
                  {.memory = {.samples = false}, .steady = steady})
      .map_error([](const Hang& hang) { return hang.message; });
}

namespace {

constexpr const char* kMeanRate =
    "the stream shows no period: its steady rate is the mean over whole rounds of the replicas, once the "
    "pipeline is full";

/// Returns a note if the run fits in memory but the steady state of its stream does not. Otherwise returns
/// nothing. If the run itself does not fit, there is no note, because the figures of the ranks show it.
std::optional<std::string> steady_memory_note(const Result& result, const EndlessStream& stream) {
  for (const RankReport& rank : result.ranks) {
    if (rank.memory.out_of_memory()) return std::nullopt;
  }
  const auto rank = fullest_out_of_memory(stream.memories);
  if (!rank) return std::nullopt;
  const RankMemory& memory = stream.memories[*rank];
  return fmt::format(
      "this run fits in memory, but the stream's steady state needs {} on rank {} ({}), which has {}: the "
      "steady rate is what it would be with enough memory",
      format_memory(memory.peak_bytes, memory.unit), *rank, result.ranks[*rank].device,
      available_text(memory));
}

}  // namespace

std::optional<std::size_t> fullest_out_of_memory(const std::vector<RankMemory>& memories) {
  const auto found = std::ranges::max_element(memories, {}, &RankMemory::lacking);
  if (found == memories.end() || !found->out_of_memory()) return std::nullopt;
  return static_cast<std::size_t>(found - memories.begin());
}

namespace {

/// An experiment with the data from which its run is planned: the wanted outputs, and the stream of an
/// asynchronous schedule.
struct RunToPlan {
  Experiment experiment;
  Wanted wanted;
  std::optional<EndlessStream> stream{};

  std::optional<double> stream_rate() const { return stream ? stream->samples_per_second : std::nullopt; }
};

tl::expected<RunToPlan, UserError> prepared_run(const Scenario& scenario, const Wanted& wanted) {
  PENSTOCK_ASSIGN_OR_RETURN(const Preparation begun, begin_preparation(scenario));
  if (auto refusal = length_refusal(begun, wanted, memory_within_reach))
    return bad_input(*std::move(refusal));
  PENSTOCK_ASSIGN_OR_RETURN(Experiment experiment, prepare(begun, form_of_run(begun, wanted)));
  return RunToPlan{.experiment = std::move(experiment), .wanted = wanted};
}

tl::expected<RunPlan, UserError> plan_of(const RunToPlan& run) {
  return plan_run(run.experiment, run.wanted, memory_within_reach).map_error([](std::string reason) {
    return UserError{.message = std::move(reason)};
  });
}

/// Plans the run. An asynchronous schedule may have too few microbatches to fill its pipeline. So the
/// steady rate comes from its endless stream. If the stream has no rate, the steady rate comes from the
/// run's own microbatches.
tl::expected<RunPlan, UserError> plan_with_stream(RunToPlan& run, const SimulateOptions& options) {
  auto plan = plan_of(run);
  const bool is_asynchronous = run.experiment.program.update == UpdateRule::microbatch;
  if (!plan || !is_asynchronous || options.steady == SteadyState::skip) return plan;
  // A long streamed run finds its own period.
  if (plan->engine == RunEngine::stream && plan->is_long) return plan;
  run.stream = options.stream_of({}, run.experiment, options.engine);
  run.wanted.own_period = !run.stream_rate();
  return run.wanted.own_period ? plan_of(run) : plan;
}

/// Lowers the program and runs it by an engine that needs stored lists.
tl::expected<Result, UserError> run_of_lists(RunToPlan& run, const RunPlan& plan,
                                             const SimulateOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(run.experiment, lowered(std::move(run.experiment)));
  return stored_run(run.experiment, plan.engine, options, run.stream_rate()).map_error([](const Hang& hang) {
    return UserError{.kind = ErrorKind::check_failed, .message = hang.message, .hang = hang};
  });
}

/// Runs the experiment as planned. If the placement rounds stall, plans the run again for an engine without
/// placement rounds.
tl::expected<Result, UserError> result_of_plan(RunToPlan& run, const RunPlan& plan,
                                               const SimulateOptions& options) {
  tl::expected<Result, StalledTurns> result;
  switch (plan.engine) {
    case RunEngine::stream:
      result = streamed_run(run.experiment, plan, options, run.stream_rate());
      break;
    case RunEngine::turns:
      run.experiment = with_lists(std::move(run.experiment));
      result = turn_run(run.experiment, options, run.stream_rate());
      break;
    case RunEngine::tape:
    case RunEngine::event:
      return run_of_lists(run, plan, options);
  }
  if (result) return *std::move(result);
  run.wanted.stalled = result.error().message;
  PENSTOCK_ASSIGN_OR_RETURN(const RunPlan next, plan_of(run));
  return run_of_lists(run, next, options);
}

tl::expected<Prediction, UserError> prediction_of(const Scenario& scenario, const SimulateOptions& options,
                                                  const Wanted& wanted) {
  PENSTOCK_ASSIGN_OR_RETURN(RunToPlan run, prepared_run(scenario, wanted));
  PENSTOCK_ASSIGN_OR_RETURN(const RunPlan plan, plan_with_stream(run, options));
  PENSTOCK_ASSIGN_OR_RETURN(Result result, result_of_plan(run, plan, options));
  return Prediction{.result = std::move(result), .stream = std::move(run.stream)};
}

}  // namespace

Wanted wanted_by(const SimulateOptions& options) {
  return {.asked = options.engine,
          .figures = options.figures,
          .timeline = options.timeline == TimelineKept::all,
          .memory_over_time = options.memory.samples};
}

tl::expected<RunPlan, UserError> planned(const Scenario& scenario, const SimulateOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(RunToPlan run, prepared_run(scenario, wanted_by(options)));
  return plan_with_stream(run, options);
}

tl::expected<Prediction, UserError> predict_stored(const Scenario& scenario, const SimulateOptions& options) {
  Wanted wanted = wanted_by(options);
  wanted.stored = true;
  return prediction_of(scenario, options, wanted);
}

tl::expected<Prediction, UserError> predict(const Scenario& scenario, const SimulateOptions& options) {
  return prediction_of(scenario, options, wanted_by(options));
}

tl::expected<Result, UserError> simulate_scenario(const Scenario& scenario, const SimulateOptions& options) {
  auto prediction = predict(scenario, options);
  if (!prediction) return tl::unexpected(prediction.error());
  Result& result = prediction->result;
  if (prediction->stream) {
    if (auto note = steady_memory_note(result, *prediction->stream)) result.notes.push_back(*std::move(note));
    if (!prediction->stream->is_exact && result.throughput.steady_samples_per_second)
      result.notes.emplace_back(kMeanRate);
  }
  return std::move(result);
}

// Estimates how much the makespan depends on tiny changes of durations. If many messages share links, a
// nanosecond can decide which messages meet on a link and delay each other, and so which messages they meet
// later. The makespan is then a chaotic function of the durations. If few messages share links, the relative
// change of the makespan is at most that of the durations.

namespace {

/// Returns the durations, each multiplied by 1 + part * u. u is a pseudo-random number from [-1, 1),
/// different for each position.
WalkDurations disturbed(const WalkDurations& undisturbed, double part) {
  constexpr std::uint64_t kSeed = 1;
  WalkDurations durations = undisturbed;
  for (std::size_t position = 0; position < durations.compute.size(); ++position) {
    const auto duration = static_cast<double>(durations.compute[position]);
    durations.compute[position] += std::llround(duration * part * (2 * even_draw(kSeed, position) - 1));
  }
  return durations;
}

}  // namespace

double sharing_band(const Experiment& experiment, Ns makespan_ns) {
  if (makespan_ns == 0) return 0;
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = experiment.channels, .iterations = experiment.program.iterations});
  const WalkDurations durations = walk_durations(experiment, flat);
  Ns farthest = 0;
  // Two sizes of the change are tried, because with a single size the same messages might meet by chance.
  for (const double part : {1e-6, 1e-5}) {
    const Ns other = last_end(event_walk(experiment, flat, disturbed(durations, part)));
    farthest = std::max(farthest, std::abs(other - makespan_ns));
  }
  return static_cast<double>(farthest) / static_cast<double>(makespan_ns);
}

std::optional<std::string> sharing_band_note(const Experiment& experiment, Ns makespan_ns) {
  constexpr double kWorthSaying = 1e-4;
  const double band = sharing_band(experiment, makespan_ns);
  if (band <= kWorthSaying) return std::nullopt;
  return fmt::format(
      "shared links: ±{} on the makespan: when durations change by 0.001 %, other messages meet on the links",
      format_percent(band));
}

}  // namespace penstock
