// Each step frees what the next ones do not need, so that no two of the large parts are there at once:
//
//   compute lists -> tape -> further passes, or an endless stream: the steady rate
//                         -> one more pass: the spans of all ranks; the tape is gone
//                            -> figures, rank by rank
//                            -> the digest, since spans are lowered lists
//
// Bytes of a compute action, which has a SEND and a RECV beside it: compute lists 20, tape 20, spans 144.

#include "sim/runs/turn_run.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/arrivals.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/period.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/engines/turn_tape.hpp"
#include "sim/engines/turn_timeline.hpp"
#include "sim/runs/endless_stream.hpp"
#include "sim/runs/experiment_facts.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/runs/span_readings.hpp"

namespace penstock {
namespace {

/// Actions of the lowered program: each message is a SEND and a RECV.
std::size_t lowered_actions(const Program& program, const TurnTape& turns) {
  std::size_t actions = 2 * turns.units.size();
  for (const std::vector<Action>& list : program.ranks) actions += list.size();
  return actions;
}

/// A steady rate, and the stream that it is of where there is one.
struct SteadyRate {
  std::optional<double> samples_per_second;
  std::optional<EndlessStream> stream;
};

/// Nothing where a stream does not say its rate: then that of the stored run's own microbatches counts.
std::optional<SteadyRate> steady_rate(const Scenario& scenario, const Experiment& experiment,
                                      const TurnTape& turns, const TapeCosts& costs,
                                      const SimulateOptions& options) {
  if (options.steady == SteadyState::skip) return SteadyRate{};
  if (experiment.program.update != UpdateRule::microbatch) {
    RepeatedTape passes(turns.tape, costs, experiment.program);
    return SteadyRate{.samples_per_second = rate_of_passes(experiment, turns, passes),
                      .stream = std::nullopt};
  }
  const auto actions = static_cast<std::int64_t>(lowered_actions(experiment.program, turns));
  auto stream = options.stream_of({.actions_of_pass = actions}, scenario, experiment, options.engine);
  if (!stream || !stream->samples_per_second) return std::nullopt;
  return SteadyRate{.samples_per_second = stream->samples_per_second, .stream = std::move(stream)};
}

bool wants_digest(const SimulateOptions& options) {
  return options.figures == WantedFigures::all && options.digest == ProgramDigest::find;
}

/// The spans are the lowered lists.
std::string digest_of_spans(const Program& program, const Timeline& timeline) {
  DigestOfLists lists(program);
  for (const Spans& of_rank : spans_by_rank(timeline)) {
    lists.begin_list(of_rank.size());
    for (const Span& span : of_rank) lists.add(span.action);
  }
  return std::move(lists).text();
}

}  // namespace

bool may_go_by_turns(const Scenario& scenario, const SimulateOptions& options) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  const ChannelOptions& channels = scenario.channels;
  const bool is_generated = schedule != nullptr && !scenario.program;
  const bool follows_turns = !channels.blocking && !channels.launch_order && channels.capacity == 0 &&
                             channels.eager_bytes == 0 && options.engine != Engine::event;
  return is_generated && follows_turns && scenario.shape.iterations == 1;
}

std::optional<TurnTape> turns_of(const Experiment& experiment) {
  const Program& program = experiment.program;
  const bool has_messages = program.rank_count() > 1 && is_lowered(program);
  if (has_messages || !experiment.costs.launch.is_free() || stages_share_links(experiment))
    return std::nullopt;
  auto turns = compile_turns(program, experiment.channels, microbatch_groups(experiment.costs));
  return turns && !turns->has_collectives ? std::move(turns) : std::nullopt;
}

std::optional<double> rate_of_passes(const Experiment& experiment, const TurnTape& turns,
                                     RepeatedTape& passes) {
  const auto period =
      period_of_passes(experiment.program, lowered_actions(experiment.program, turns), passes);
  if (!period || period->period_ns == 0) return std::nullopt;
  return samples_per_second(*period, experiment.samples_per_microbatch);
}

std::optional<Prediction> turn_run(const Scenario& scenario, const Experiment& experiment,
                                   const SimulateOptions& options) {
  std::optional<TurnTape> turns = turns_of(experiment);
  if (!turns) return std::nullopt;
  const TapeCosts costs = tape_costs(turns->tape, experiment);
  auto rate = steady_rate(scenario, experiment, *turns, costs, options);
  // Before the timeline is made, which is larger than all else.
  if (!rate) return std::nullopt;
  turns->tape.origins = {};  // the timeline needs none
  Timeline timeline = timeline_of_turns(experiment.program, *turns, costs);
  turns.reset();

  SpanReadings readings(experiment, options);
  for (const Spans& of_rank : spans_by_rank(timeline)) readings.add(of_rank);
  RunFacts facts = readings.facts();
  facts.engine = to_text(Engine::critical_path);
  facts.steady_samples_per_second = rate->samples_per_second;
  facts.has_digest = false;
  std::string digest = wants_digest(options) ? digest_of_spans(experiment.program, timeline) : "";
  const Ns makespan_ns = timeline.makespan_ns;
  if (options.timeline == TimelineKept::all) facts.timeline = std::move(timeline);
  Result result = summarize(readings.take_figures(), makespan_ns, std::move(facts));
  result.program.digest = std::move(digest);
  return Prediction{
      .result = std::move(result), .stream = std::move(rate->stream), .copies = copies_of(experiment)};
}

}  // namespace penstock
