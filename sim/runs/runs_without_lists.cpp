// Runs a program without its lowered lists. The first half of this file runs the stream engine. The second
// half runs the turns engine, which writes a tape by placement rounds.
//
// A streamed walk (streamed_walk.cpp) computes the figures of each rank. This file adds the names of devices,
// the traffic over links and the headline figures. For a short run, it also adds the digest and the steady
// rate, so that the result equals that of a stored run. Tests: tests/sim/streamed_run_test.cpp and
// tests/sim/turn_run_test.cpp.
#include "sim/runs/simulate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/print/memory_category.hpp"
#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/engines/streamed_walk.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/run_facts.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

std::vector<LinkTraffic> link_traffic(const StreamedRun& run, const Cluster& cluster) {
  LinkBytes links(cluster);
  for (const RankTraffic& traffic : run.traffic) links.add(traffic.from_rank, traffic.to_rank, traffic.bytes);
  return links.traffic();
}

void name_devices(std::vector<RankFigures>& ranks, const Experiment& experiment) {
  const std::vector<std::string> devices = rank_devices(experiment);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].report.device = devices[rank];
    set_device(ranks[rank].report.memory, experiment, static_cast<std::int32_t>(rank));
  }
}

/// Returns the number of STEPs (optimizer steps) on the first replica of the first stage that has updates.
/// The number of samples per update is computed from it. A program of loops has no lists in which STEPs could
/// be counted.
std::int64_t steps_of_input_stage(const Experiment& experiment) {
  const std::int32_t stage = first_trained_stage(experiment.program).value_or(0);
  const std::int32_t rank = experiment.program.placement.stages[index(stage)].ranks.front();
  std::int64_t steps = 0;
  for (const RunLoop& loop : experiment.loops[index(rank)].loops()) {
    for (const ActionRun& run : loop.runs) {
      for (const PatternAction& here : run.pattern) {
        const bool counts = here.action.kind == ActionKind::step && here.action.stage == stage;
        if (counts) steps += std::int64_t{loop.count} * run.count;
      }
    }
  }
  return steps;
}

/// Returns the steady rate of a stream. Returns nothing for a synchronous program, because a streamed walk
/// runs it only once.
std::optional<double> stream_rate_of(const Experiment& experiment, const StreamedRun& run) {
  const bool repeats = run.period_ns && *run.period_ns > 0 && run.period_microbatches > 0;
  if (experiment.program.update != UpdateRule::microbatch || !repeats) return std::nullopt;
  return samples_per_second({.period_ns = *run.period_ns, .microbatches = run.period_microbatches},
                            experiment.samples_per_microbatch);
}

std::string streaming_note(const StreamedRun& run) {
  const auto all = static_cast<double>(run.actions + run.jumped);
  const double share = 100 * static_cast<double>(run.jumped) / all;
  return fmt::format(
      "{:.3g} compute actions were streamed, not stored ({:.1f} % of them jumped over as repetitions): there "
      "is no digest, no timeline and no steady rate of repeated passes",
      all, share);
}

std::vector<std::string> notes_of(const Experiment& experiment, const StreamedRun& run, bool shares_links) {
  std::vector<std::string> notes = experiment.notes;
  notes.push_back(streaming_note(run));
  if (shares_links) {
    notes.push_back(fmt::format("{}: each has them to itself here, since sharing needs a stored program",
                                "messages share links"));
  }
  return notes;
}

/// Returns the parts of the result (RunFacts) that are computed in the same manner for short and long runs.
RunFacts facts_of(const Experiment& experiment, const StreamedRun& run) {
  RunFacts facts = facts_of_experiment(experiment);
  facts.engine = to_text(Engine::critical_path);
  facts.links = link_traffic(run, experiment.cluster);
  return facts;
}

/// Makes the result of a program that is stored as loops, without lists of actions.
Result result_without_lists(const Experiment& experiment, StreamedRun run, RunFacts facts) {
  facts.has_digest = false;
  facts.updates = steps_of_input_stage(experiment);
  return summarize(std::move(run.ranks), run.makespan_ns, std::move(facts));
}

Result result_of_long(const Experiment& experiment, StreamedRun run, bool shares_links) {
  RunFacts facts = facts_of(experiment, run);
  facts.engine = "streamed";
  facts.link_sharing = shares_links ? LinkSharing::left_out : LinkSharing::none;
  facts.steady_samples_per_second = stream_rate_of(experiment, run);
  facts.notes = notes_of(experiment, run, shares_links);
  return result_without_lists(experiment, std::move(run), std::move(facts));
}

std::optional<double> repeated_rate(const Experiment& experiment) {
  const auto period = streamed_period(experiment, experiment.loops);
  if (!period || period->period_ns == 0) return std::nullopt;
  return samples_per_second(*period, experiment.samples_per_microbatch);
}

bool wants_digest(const SimulateOptions& options) {
  return options.figures == WantedFigures::all && options.digest == ProgramDigest::find;
}

Result result_of_short(const Experiment& experiment, StreamedRun run, const SimulateOptions& options,
                       std::optional<double> stream_rate) {
  RunFacts facts = facts_of(experiment, run);
  facts.steady_samples_per_second = stream_rate;
  const bool repeats = experiment.program.update != UpdateRule::microbatch;
  if (repeats && options.steady == SteadyState::find)
    facts.steady_samples_per_second = repeated_rate(experiment);
  Result result = result_without_lists(experiment, std::move(run), std::move(facts));
  // lowered_digest() cannot fail, because it uses the same placement rounds as the walk, and the walk did not
  // stall.
  if (wants_digest(options))
    result.program.digest = lowered_digest(experiment.program, experiment.loops).value();
  return result;
}

}  // namespace

tl::expected<Result, StalledTurns> streamed_run(const Experiment& experiment, const RunPlan& plan,
                                                const SimulateOptions& options,
                                                std::optional<double> stream_rate) {
  auto run = stream(experiment, experiment.loops);
  if (!run) return tl::unexpected(StalledTurns{std::move(run.error())});
  name_devices(run->ranks, experiment);
  return plan.is_long ? result_of_long(experiment, *std::move(run), plan.shares_links)
                      : result_of_short(experiment, *std::move(run), options, stream_rate);
}

// Each step frees the data that later steps do not need, so at most one of the large parts (compute lists,
// tape, spans) is complete in memory:
//
//   compute lists -> tape -> further passes: the steady rate of a synchronous schedule
//                         -> one more pass: the spans of all ranks; the tape is gone
//                            -> figures, rank by rank
//                            -> the digest, since spans are lowered lists
//                 -> for a point of a sweep: one pass: clocks, makespan
//                                            -> peaks of memory from the lists alone, or from the tape
//
// Bytes for each compute action with one SEND and one RECV: compute lists 20, tape 20, spans 144.

namespace {

/// Returns the number of actions of the lowered program. Each message is a SEND and a RECV.
std::size_t lowered_actions(const Program& program, const TurnTape& turns) {
  std::size_t actions = 2 * turns.units.size();
  for (const std::vector<Action>& list : program.ranks) actions += list.size();
  return actions;
}

/// Returns the steady rate, which is found by repeated passes over the tape. Some passes may have run
/// before the call.
std::optional<double> rate_of_passes(const Experiment& experiment, const TurnTape& turns,
                                     RepeatedTape& passes) {
  const auto period =
      period_of_passes(experiment.program, lowered_actions(experiment.program, turns), passes);
  if (!period || period->period_ns == 0) return std::nullopt;
  return samples_per_second(*period, experiment.samples_per_microbatch);
}

/// Returns true if the steady rate must be found by repeated passes. This is not needed for an asynchronous
/// schedule, because the rate of its stream is already known.
bool asks_passes(const Experiment& experiment, const SimulateOptions& options) {
  return options.steady == SteadyState::find && experiment.program.update != UpdateRule::microbatch;
}

// --- points of a sweep -----------------------------------------------------------------------------------

std::vector<RankFigures> figures_of(const std::vector<ComputeTimes>& times) {
  std::vector<RankFigures> ranks(times.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].report.busy_ns = times[rank].busy_ns;
    ranks[rank].first_ns = times[rank].first_ns;
    ranks[rank].last_ns = times[rank].last_ns;
  }
  return ranks;
}

std::vector<RankMemory> memory_of_peaks(const Experiment& experiment, const std::vector<Bytes>& peaks) {
  std::vector<RankMemory> memories;
  memories.reserve(peaks.size());
  for (const Bytes peak : peaks) {
    RankMemory& memory = memories.emplace_back();
    memory.peak_bytes = peak;
    set_device(memory, experiment, static_cast<std::int32_t>(memories.size()) - 1);
  }
  return memories;
}

/// Returns the memory of all ranks. It tries the cheapest way first. The order of the action lists alone is
/// enough for some programs, others also need the times of the tape. The rest need the start and end of every
/// action (a Timeline), which cost most.
std::vector<RankMemory> memories_of(const Experiment& experiment, const TurnTape& turns,
                                    const TapeCosts& costs, const MemoryOptions& options) {
  std::optional<std::vector<Bytes>> peaks = list_peaks(experiment.program, experiment.costs);
  if (!peaks) peaks = tape_peaks(experiment.program, experiment.costs, turns, costs);
  if (peaks) return memory_of_peaks(experiment, *peaks);
  return memory_of(timeline_of_turns(experiment.program, turns, costs), experiment, options);
}

Result row_result(const Experiment& experiment, const TurnTape& turns, const SimulateOptions& options,
                  std::optional<double> stream_rate) {
  const TapeCosts costs = tape_costs(turns.tape, experiment);
  // The first pass is the run itself. The steady rate needs further passes.
  RepeatedTape passes(turns.tape, costs, experiment.program);
  std::vector<RankFigures> ranks = figures_of(passes.pass_with_compute());
  const Ns makespan_ns = passes.latest_ns();
  RunFacts facts = facts_of_experiment(experiment);
  facts.engine = to_text(Engine::critical_path);
  facts.memories = memories_of(experiment, turns, costs, options.memory);
  facts.has_digest = false;
  facts.steady_samples_per_second =
      asks_passes(experiment, options) ? rate_of_passes(experiment, turns, passes) : stream_rate;
  return summarize(std::move(ranks), makespan_ns, std::move(facts));
}

// --- all figures -----------------------------------------------------------------------------------------

/// Returns the digest of the lowered program. The spans of each rank are its lowered list.
std::string digest_of_spans(const Program& program, const Timeline& timeline) {
  DigestOfLists lists(program);
  for (const Spans& of_rank : spans_by_rank(timeline)) {
    lists.begin_list(of_rank.size());
    for (const Span& span : of_rank) lists.add(span.action);
  }
  return std::move(lists).text();
}

Result result_with_spans(const Experiment& experiment, TurnTape turns, const SimulateOptions& options,
                         std::optional<double> stream_rate) {
  const TapeCosts costs = tape_costs(turns.tape, experiment);
  std::optional<double> rate = stream_rate;
  if (asks_passes(experiment, options)) {
    RepeatedTape passes(turns.tape, costs, experiment.program);
    rate = rate_of_passes(experiment, turns, passes);
  }
  turns.tape.origins = {};  // a timeline does not use them
  Timeline timeline = timeline_of_turns(experiment.program, turns, costs);
  turns = {};

  SpanReadings readings(experiment, options);
  for (const Spans& of_rank : spans_by_rank(timeline)) readings.add(of_rank);
  RunFacts facts = readings.facts();
  facts.engine = to_text(Engine::critical_path);
  facts.steady_samples_per_second = rate;
  facts.has_digest = false;
  std::string digest = wants_digest(options) ? digest_of_spans(experiment.program, timeline) : "";
  const Ns makespan_ns = timeline.makespan_ns;
  if (options.timeline == TimelineKept::all) {
    set_releases(timeline.spans, experiment);
    facts.timeline = std::move(timeline);
  }
  Result result = summarize(readings.take_figures(), makespan_ns, std::move(facts));
  result.program.digest = std::move(digest);
  return result;
}

}  // namespace

tl::expected<Result, StalledTurns> turn_run(const Experiment& experiment, const SimulateOptions& options,
                                            std::optional<double> stream_rate) {
  auto turns = compile_turns(experiment.program, experiment.channels, microbatch_groups(experiment.costs));
  if (!turns) return tl::unexpected(StalledTurns{"ranks wait for each other"});
  // Prefill needs the times of first tokens, which are computed from spans.
  const bool is_row = options.figures == WantedFigures::of_rows && options.timeline == TimelineKept::none &&
                      !is_prefill(experiment);
  return is_row ? row_result(experiment, *turns, options, stream_rate)
                : result_with_spans(experiment, *std::move(turns), options, stream_rate);
}

// Runs every schedule with a model of the same size. A rank's share of the model takes the same time under
// each schedule. If the share is cut into chunks, or a sequence into slices, the parts take equal times.

namespace {

/// Returns costs in which F, I and W each take 1 ms for 1/K of the model. K is the number of ranks. The
/// costs of chunks and slices are parts of 1 ms.
CostTable equal_stages(const Program& program) {
  constexpr Ns kUnit = 1'000'000;
  const ExtraStages extra = extra_stages_of(program);
  CostTable costs = unit_costs(program);
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    const StageShare of_model = stage_share(extra, program.stage_count(), stage);
    StageCost& cost = costs.stages[static_cast<std::size_t>(stage)];
    const Ns part = of_model.of(kUnit * program.rank_count()) / program.slices;
    cost.forward_ns = cost.backward_input_ns = cost.backward_weight_ns = cost.recompute_ns = part;
    cost.backward_ns = 2 * part;
    // If all stages have the same size, each activation counts as 1. Otherwise, it counts as its stage's
    // share of the model.
    if (extra != ExtraStages::none) cost.kept = of_model.of(kActivationParts * program.rank_count());
  }
  return costs;
}

/// Returns the weights that the fullest rank stores, in units of 1/K of the model. They are those of the
/// rank's stages times its number of weight versions.
double weights_of(const Program& program, const Result& result) {
  const ExtraStages extra = extra_stages_of(program);
  double most = 0;
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    double held = 0;
    for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
      const StageShare part = stage_share(extra, program.stage_count(), stage);
      if (program.placement.replica_on(stage, rank) < 0) continue;
      held +=
          static_cast<double>(part.numerator * program.rank_count()) / static_cast<double>(part.denominator);
    }
    most = std::max(most, held * result.ranks[static_cast<std::size_t>(rank)].weight_versions);
  }
  return most;
}

/// Returns the activations that the fullest rank stores, in activations of 1/K of the model.
double peak_activations_of(const Program& program, const Result& result) {
  if (extra_stages_of(program) != ExtraStages::none) {
    Bytes most = 0;
    for (const RankReport& rank : result.ranks)
      most = std::max(most, rank.memory.peaks[static_cast<std::size_t>(MemoryCategory::activations)]);
    return static_cast<double>(most) / static_cast<double>(kActivationParts);
  }
  std::int64_t peak = 0;
  for (const RankReport& rank : result.ranks) peak = std::max(peak, rank.peak_live_activations);
  return static_cast<double>(peak * program.rank_count()) / (program.stage_count() * program.slices);
}

/// Generates the program. If the schedule searches its order by costs, the search gets the costs of equal
/// stages.
Generated program_of(const ScheduleInfo& schedule, Shape shape) {
  auto program = generate(schedule.name, shape);
  if (!program || !schedule.weighs_costs || shape.costs) return program;
  shape.costs = equal_stages(*program);
  return generate(schedule.name, shape);
}

tl::expected<Result, std::string> result_of(const Program& program) {
  return simulate_uniform(program, equal_stages(program), 0, SteadyState::skip);
}

}  // namespace

Shape shape_for(const ScheduleInfo& schedule, Shape shape) {
  if (!takes_chunks(schedule)) shape.virtual_stages = 1;
  if (!takes_option(schedule, "slices")) shape.slices = 1;
  return shape;
}

std::optional<ScheduleFigures> figures_of(const ScheduleInfo& schedule, const Shape& shape) {
  const auto program = program_of(schedule, shape_for(schedule, shape));
  if (!program) return std::nullopt;
  auto result = result_of(*program);
  if (!result) return std::nullopt;

  ScheduleFigures figures{.schedule = schedule.name,
                          .idle_over_total = result->bubble.idle_over_total,
                          .longest_span_rate = result->bubble.longest_span_rate,
                          .weights = weights_of(*program, *result),
                          .result = *std::move(result)};
  if (program->update == UpdateRule::double_buffered) {
    Program twice = *program;  // a run of one iteration does not show the second version
    twice.iterations = 2;
    if (const auto longer = result_of(twice)) figures.weights = weights_of(twice, *longer);
  }
  figures.peak_activations = peak_activations_of(*program, figures.result);
  std::int64_t sends = 0;
  for (const Span& span : figures.result.timeline.spans) sends += is_send(span.action.kind) ? 1 : 0;
  figures.sends_per_microbatch = static_cast<double>(sends) / program->microbatches;
  return figures;
}

}  // namespace penstock
