// An engine gives times; this makes a Result of them: traffic, memory, figures, the steady rate, notes about
// everything that was assumed. The same function fills the result of every question that is put to the
// simulator.

#include "sim/runs/simulate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
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
#include "report/timeline/arrivals.hpp"
#include "report/timeline/timeline.hpp"
#include "report/timeline/walk_timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/lowered_program.hpp"
#include "scenarios/prepare/prepare_error.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/period.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/runs/endless_stream.hpp"
#include "sim/runs/experiment_facts.hpp"
#include "sim/runs/memory_need.hpp"
#include "sim/runs/row_run.hpp"
#include "sim/runs/sharing_band.hpp"
#include "sim/runs/span_readings.hpp"
#include "sim/runs/streamed_run.hpp"
#include "sim/runs/turn_run.hpp"

namespace penstock {
namespace {

/// Samples a second of the program repeated for ever; nothing where it has no period, or one of 0 ns.
std::optional<double> steady_rate(const Experiment& experiment, Engine engine, const EngineRun& run) {
  const std::optional<Period> period = steady_period(experiment, engine, run);
  if (!period || period->period_ns == 0) return std::nullopt;
  return samples_per_second(*period, experiment.samples_per_microbatch);
}

/// What the engine that was taken makes of shared links; an automatic choice has looked for them.
LinkSharing link_sharing(const Experiment& experiment, Engine asked, Engine taken) {
  const bool is_event = taken == Engine::event;
  // Looking for shared links goes through all lists, and has been done once.
  if (asked == Engine::automatic) return is_event ? LinkSharing::counted : LinkSharing::none;
  if (!links_are_shared(experiment)) return LinkSharing::none;
  return is_event ? LinkSharing::counted : LinkSharing::left_out;
}

/// The experiment's own, and how sure the makespan is where that is asked for: two more runs by events.
std::vector<std::string> notes_of(const Experiment& experiment, const SimulateOptions& options,
                                  LinkSharing sharing, Ns makespan_ns) {
  std::vector<std::string> notes = experiment.notes;
  if (options.band == SharingBand::skip || sharing != LinkSharing::counted) return notes;
  if (auto note = sharing_band_note(experiment, makespan_ns)) notes.push_back(*std::move(note));
  return notes;
}

/// `rate_of` is asked for the steady rate by the engine that ran, where `options` wants one.
using RateOf = std::function<std::optional<double>(Engine, const EngineRun&)>;

/// Leaves of a run what its spans are made of.
void forget_all_but_spans(EngineRun& run) {
  run.tape.reset();
  run.flat.messages = {};
  run.flat.next_wait = {};
  run.flat.next_member = {};
  run.flat.next_collective = {};
  run.flat.released_by_consumer = {};
}

/// Reads off the spans of all ranks, and keeps them where the options say so.
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

/// Each step frees what the later ones do not need: the tape and the messages go before any span is made.
tl::expected<Result, Hang> simulate_at_rate(const Experiment& experiment, const SimulateOptions& options,
                                            const RateOf& rate_of) {
  const Engine engine = resolve(experiment, options.engine);
  auto run = run_engine(experiment, engine);
  if (!run) return tl::unexpected(run.error());
  const std::optional<double> rate =
      options.steady == SteadyState::find ? rate_of(engine, *run) : std::nullopt;
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
  if (options.timeline == TimelineKept::all) facts.timeline = std::move(timeline);
  return summarize(readings.take_figures(), makespan_ns, std::move(facts));
}

}  // namespace

tl::expected<Result, Hang> simulate(const Experiment& experiment, const SimulateOptions& options) {
  return simulate_at_rate(experiment, options, [&](Engine engine, const EngineRun& run) {
    return steady_rate(experiment, engine, run);
  });
}

namespace {

constexpr const char* kMeanRate =
    "the stream shows no period: its steady rate is the mean over whole rounds of the replicas, once the "
    "pipeline is full";

/// That the rate of a stream is given although a device is too small for it; nothing when all are large
/// enough, or when the run itself does not fit, which is reported anyway.
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

/// The run of an experiment that was prepared from the scenario.
tl::expected<Prediction, SimulateError> stored_prediction(const Scenario& scenario,
                                                          const Experiment& experiment,
                                                          const SimulateOptions& options) {
  std::optional<EndlessStream> stream;
  auto result = simulate_at_rate(experiment, options, [&](Engine engine, const EngineRun& run) {
    // The run's own microbatches may be too few to fill the pipeline.
    if (experiment.program.update == UpdateRule::microbatch)
      stream = options.stream_of({}, scenario, experiment, options.engine);
    const bool is_known = stream && stream->samples_per_second;
    return is_known ? stream->samples_per_second : steady_rate(experiment, engine, run);
  });
  if (!result) return tl::unexpected(SimulateError{result.error().message, true, result.error()});
  return Prediction{
      .result = *std::move(result), .stream = std::move(stream), .copies = copies_of(experiment)};
}

SimulateError not_prepared(const PrepareError& error) { return {error.message, error.invalid, std::nullopt}; }

/// predict() of a scenario that nobody streams: by turns where they say all, otherwise stored.
tl::expected<Prediction, SimulateError> predict_listed(const Scenario& scenario,
                                                       const SimulateOptions& options) {
  // From the least memory to the most, and each is refused by what it takes itself.
  if (!may_go_by_turns(scenario, options)) return predict_stored(scenario, options);
  if (auto refusal = turns_refusal(scenario))
    return tl::unexpected(SimulateError{*std::move(refusal), false, std::nullopt});
  auto experiment = prepare_as_generated(scenario);
  if (!experiment) return tl::unexpected(not_prepared(experiment.error()));
  if (auto run = turn_run(scenario, *experiment, options)) return *std::move(run);
  if (auto refusal = memory_refusal(scenario, options))
    return tl::unexpected(SimulateError{*std::move(refusal), false, std::nullopt});
  auto lowered = lowered_program(std::move(experiment->program), scenario.model);
  if (!lowered) return tl::unexpected(not_prepared(in_file(scenario.file, lowered.error())));
  experiment->program = *std::move(lowered);
  return stored_prediction(scenario, *experiment, options);
}

}  // namespace

tl::expected<Prediction, SimulateError> predict_stored(const Scenario& scenario,
                                                       const SimulateOptions& options) {
  if (auto refusal = memory_refusal(scenario, options))
    return tl::unexpected(SimulateError{*std::move(refusal), false, std::nullopt});
  const auto experiment = prepare(scenario);
  if (!experiment) return tl::unexpected(not_prepared(experiment.error()));
  return stored_prediction(scenario, *experiment, options);
}

tl::expected<Prediction, SimulateError> predict(const Scenario& scenario, const SimulateOptions& options) {
  if (options.timeline == TimelineKept::all) {
    if (auto refusal = timeline_refusal(scenario))
      return tl::unexpected(SimulateError{*std::move(refusal), false, std::nullopt});
  }
  // The cheapest way that has all that is wanted: streamed, a row from its tape, streamed with digest and
  // steady rate, by turns. Each says nothing where it does not know the answer; stored lists know every one.
  if (options.timeline == TimelineKept::none && is_long(scenario)) {
    if (auto streamed = streamed_result(scenario, options)) {
      return std::move(*streamed).map(
          [](Result result) { return Prediction{.result = std::move(result), .stream = std::nullopt}; });
    }
  }
  if (options.figures == WantedFigures::of_rows) {
    if (auto row = row_prediction(scenario, options)) return *std::move(row);
    return predict_stored(scenario, options);
  }
  if (options.timeline == TimelineKept::none && options.figures == WantedFigures::all) {
    if (auto streamed = short_streamed_run(scenario, options)) return *std::move(streamed);
  }
  return predict_listed(scenario, options);
}

tl::expected<Result, SimulateError> simulate_scenario(const Scenario& scenario,
                                                      const SimulateOptions& options) {
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

}  // namespace penstock
