// Finds the steady state of a stream, which is a long run of an asynchronous schedule. Once its pipeline is
// full, its times usually repeat with a period. A stream shows its period only if it is several times longer
// than its dependency depth. The depth is the number of microbatches that depend on each other, so the
// schedule determines the first length that is tried. If this stream has no period, because queues before
// slow stages still fill, a stream of four times the length is tried, and so on. If links are shared, there
// may be no period at any length. The rate is then the mean over whole rounds of the replicas in the longest
// stream.

#include "sim/runs/simulate.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/cut.hpp"  // IWYU pragma: keep (its members are read)
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/plan_run.hpp"

namespace penstock {
namespace {

/// Returns the number of microbatches of the shortest stream whose period is visible, if `depth` microbatches
/// depend on each other. The first `depth` microbatches fill the pipeline, and the last `depth` drain it.
/// period_of_stream() compares the times of the others.
std::int64_t length_for(std::int32_t depth) { return 4 * std::int64_t{depth} + 64; }

/// A number of microbatches that no stream can have, because it is too large (most_microbatches()).
constexpr std::int64_t kBeyondStreams = std::int64_t{1} << 32;

/// Returns the least common multiple of the stages' replica numbers, such as 6 for 2, 3 and 1 replicas. With
/// this number of microbatches, all replicas of a stage get equally many. The result is at most
/// kBeyondStreams, because, for example, the multiple of all primes up to 53 exceeds 2^64.
std::int64_t common_multiple_of_replicas(const Program& program) {
  std::int64_t multiple = 1;
  for (const StagePlacement& stage : program.placement.stages) {
    // 2^32 times a number of ranks, which has 31 bits, does not overflow.
    const std::int64_t replicas = std::max<std::int64_t>(1, std::ssize(stage.ranks));
    multiple = std::min(kBeyondStreams, std::lcm(multiple, replicas));
  }
  return multiple;
}

struct Stream {
  Experiment experiment;
  bool is_of_any_length = true;  ///< false if the length depends on the experiment's number of microbatches
};

/// Returns the largest number of microbatches of a stream. A longer one would take too long to run.
std::int64_t most_microbatches(const StreamQuestion& question, const Experiment& experiment) {
  constexpr std::int64_t kMostActions = 1 << 23;
  const std::int64_t actions =
      question.actions_of_pass ? *question.actions_of_pass : lowered_actions(experiment);
  return kMostActions * experiment.program.microbatches / std::max<std::int64_t>(1, actions);
}

/// Returns the experiment with a number of microbatches from `least` to `most`. Returns nothing if the
/// schedule allows no such number.
std::optional<Stream> stream_of(const Experiment& experiment, std::int64_t least, std::int64_t most) {
  const std::int64_t microbatches = experiment.program.microbatches;
  // Some placements cannot distribute a common multiple evenly over the replicas, but they can distribute the
  // experiment's own number of microbatches.
  const std::int64_t shared_evenly = common_multiple_of_replicas(experiment.program);
  for (const std::int64_t multiple : {shared_evenly, microbatches}) {
    const std::int64_t length = (least + multiple - 1) / multiple * multiple;
    if (length > most) continue;
    if (auto longer = with_microbatches(experiment, length, ProgramForm::lists))
      return Stream{*std::move(longer), multiple == shared_evenly};
  }
  return std::nullopt;
}

/// Returns the shortest stream in which a period is visible (length_for()). Its length follows from its
/// dependency depth.
std::optional<Stream> shortest_stream(const Experiment& experiment, std::int64_t most) {
  std::int64_t least = length_for(1);
  while (true) {
    auto stream = stream_of(experiment, least, most);
    if (!stream) return std::nullopt;
    const Program& program = stream->experiment.program;
    // The dependency depth may grow with the length, because a short stream has fewer microbatches that can
    // depend on each other.
    const std::int64_t wanted = length_for(dependency_depth(program));
    if (wanted <= program.microbatches) return stream;
    least = wanted;
  }
}

constexpr std::int64_t kRounds = 8;  // the least number of rounds of the replicas in a mean rate

bool has_its_rounds(const Period& period, const Program& program) {
  return period.microbatches >= kRounds * common_multiple_of_replicas(program);
}

std::optional<double> rate_of(const StreamRate& rate, const Experiment& stream) {
  if (rate.period.period_ns == 0) return std::nullopt;
  return samples_per_second(rate.period, stream.samples_per_microbatch);
}

template <class Run>
StreamRate stream_rate_in(const Run& run, const Program& program) {
  if (const auto period = period_of_stream(run, program)) return {.period = *period, .is_exact = true};
  const std::int64_t round = common_multiple_of_replicas(program);
  return {.period = mean_of_rounds(run, program, round).value_or(Period{}), .is_exact = false};
}

struct RunOfStream {
  StreamRate rate;
  std::vector<RankMemory> memories;  ///< empty if the caller does not want them
};

template <class Run>
RunOfStream read_stream(const Run& run, const Experiment& experiment, const StreamQuestion& question) {
  RunOfStream found{.rate = rate_of_stream(run, experiment.program), .memories = {}};
  if (question.peaks) found.memories = memory_of(run, experiment, {.samples = false});
  return found;
}

/// Compiles the stream to a tape by placement rounds (compile_turns()), and reads the start and end of its
/// actions. Returns nothing if the rounds stall because ranks wait for each other.
std::optional<RunOfStream> read_turns(const Experiment& experiment, const StreamQuestion& question) {
  auto turns = compile_turns(experiment.program, experiment.channels, microbatch_groups(experiment.costs));
  if (!turns) return std::nullopt;
  const TapeCosts costs = tape_costs(turns->tape, experiment);
  turns->tape.origins = {};  // a timeline does not use them
  const Timeline timeline = timeline_of_turns(experiment.program, *turns, costs);
  turns.reset();
  return read_stream(timeline, experiment, question);
}

/// Runs the stream with the engine that plan_run() chooses for a run with a timeline. If this engine needs
/// lowered lists, the function stores them in `stream`. Returns nothing if the stream cannot run.
std::optional<RunOfStream> run_of_stream(Stream& stream, Engine engine, const StreamQuestion& question) {
  const auto plan = plan_run(stream.experiment, {.asked = engine, .timeline = true}, {});
  if (!plan) return std::nullopt;
  if (plan->engine == RunEngine::turns) {
    if (auto run = read_turns(stream.experiment, question)) return run;
  }
  auto stored = lowered(std::move(stream.experiment));
  if (!stored) return std::nullopt;
  stream.experiment = *std::move(stored);
  const auto run = run_engine(stream.experiment, engine);
  if (!run) return std::nullopt;
  return read_stream(*run, stream.experiment, question);
}

}  // namespace

StreamRate rate_of_stream(const EngineRun& run, const Program& program) {
  return stream_rate_in(run, program);
}
StreamRate rate_of_stream(const Timeline& run, const Program& program) {
  return stream_rate_in(run, program);
}

std::int64_t lowered_actions(const Experiment& experiment) {
  const Program& program = experiment.program;
  std::int64_t actions = 0;
  for (const std::vector<Action>& list : program.ranks) actions += std::ssize(list);
  for (const ActionLoops& list : experiment.loops) actions += list.size();
  if (has_transfers(program)) return actions;
  for (const StageEdge& edge : stage_edges(program)) {
    // For each microbatch, the edge carries an activation, a gradient, or both. Each of them has a SEND and a
    // RECV.
    const std::int64_t of_unit = edge.flows == EdgeFlows::both ? 4 : 2;
    for (std::int32_t unit = 0; unit < program.unit_count(); ++unit) {
      const Placement& placement = program.placement;
      if (placement.rank_of(edge.from, unit) != placement.rank_of(edge.to, unit)) actions += of_unit;
    }
  }
  return actions;
}

std::optional<EndlessStream> endless_stream(const StreamQuestion& question, const Experiment& experiment,
                                            Engine engine) {
  const bool is_rules = experiment.source && !experiment.source->scenario.program;
  if (!is_rules || experiment.program.update != UpdateRule::microbatch) return std::nullopt;
  std::optional<EndlessStream> found;
  const std::int64_t most = most_microbatches(question, experiment);
  std::optional<Stream> stream = shortest_stream(experiment, most);
  for (int attempt = 0; stream; ++attempt) {
    const std::int64_t length = stream->experiment.program.microbatches;
    // If the caller knows that a stream of this length has no period, only the next length is computed here,
    // and the stream is not run.
    if (attempt >= question.known_without_period) {
      auto run = run_of_stream(*stream, engine, question);
      if (!run) break;
      const StreamRate& rate = run->rate;
      found = EndlessStream{.samples_per_second = rate_of(rate, stream->experiment),
                            .is_exact = rate.is_exact,
                            .memories = std::move(run->memories),
                            .is_of_any_length = stream->is_of_any_length};
      const bool is_last =
          attempt + 1 >= question.attempts && has_its_rounds(rate.period, stream->experiment.program);
      if (rate.is_exact || is_last) break;
    }
    stream = stream_of(experiment, 4 * length, most);
  }
  return found;
}

}  // namespace penstock
