// Compares the speed of the engines with a baseline, which is the simplest simulator. tape_bench.cpp measures
// compiled tapes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/measure.hpp"
#include "report/result/metrics.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// Returns the timeline of one iteration of F, B and STEP on a chain of stages, with links that have only a
/// latency. Throws std::runtime_error for any other program, and if ranks wait for each other for ever.
Timeline plain_walk(const Experiment& experiment);

// The simplest simulation. In each round, every rank runs the next action of its list if the inputs are
// present. This repeats until all lists are done. A map stores the end of each action:
//
//     F(s, m) starts at max(rank is free, RECV_F(s, m)), B(s, m) at max(rank is free, RECV_B(s, m)),
//     SEND(s, m) starts when its F or B ends; it and the RECV of the peer end a latency later.

namespace {

struct Times {
  Ns start_ns = 0;
  Ns end_ns = 0;
};

class PlainWalk {
 public:
  explicit PlainWalk(const Experiment& experiment)
      : e_(experiment),
        lists_(experiment.program.ranks),
        spans_(lists_.size()),
        free_(lists_.size(), 0),
        last_stage_(experiment.program.stage_count() - 1) {
    if (e_.program.iterations != 1) throw std::runtime_error("a plain walk has one iteration");
  }

  Timeline run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
        while (spans_[rank].size() < lists_[rank].size() && advance(rank)) moved = true;
      }
    }
    return timeline();
  }

 private:
  /// Kind, stage and microbatch of an action. With one iteration and one rank for each stage, only one action
  /// has this name.
  using Name = std::tuple<ActionKind, std::int32_t, std::int32_t>;

  /// Runs the rank's next action. Returns false if its inputs are not present yet.
  bool advance(std::size_t rank) {
    const Action& action = lists_[rank][spans_[rank].size()];
    const std::optional<Times> times = times_of(rank, action);
    if (!times) return false;
    done_[{action.kind, action.stage, action.microbatch}] = *times;
    if (is_compute(action.kind)) free_[rank] = times->end_ns;
    spans_[rank].push_back({.rank = static_cast<std::int32_t>(rank),
                            .action = action,
                            .start_ns = times->start_ns,
                            .end_ns = times->end_ns});
    return true;
  }

  std::optional<Times> times_of(std::size_t rank, const Action& action) const {
    switch (action.kind) {
      case ActionKind::forward:
        return computed(rank, action, action.stage > 0, ActionKind::recv_forward);
      case ActionKind::backward:
        return computed(rank, action, action.stage < last_stage_, ActionKind::recv_backward);
      case ActionKind::step:
        return computed(rank, action, false, ActionKind::recv_backward);
      case ActionKind::send_forward:
        return sent(rank, action, ActionKind::forward);
      case ActionKind::send_backward:
        return sent(rank, action, ActionKind::backward);
      case ActionKind::recv_forward:
        return found({ActionKind::send_forward, action.peer, action.microbatch});
      case ActionKind::recv_backward:
        return found({ActionKind::send_backward, action.peer, action.microbatch});
      case ActionKind::backward_input:
      case ActionKind::backward_weight:
      case ActionKind::recompute:
      case ActionKind::unshard:
      case ActionKind::reshard:
      case ActionKind::reduce_grad:
      case ActionKind::wait_send_forward:
      case ActionKind::wait_send_backward:
      case ActionKind::wait_reduce_grad:
      case ActionKind::offload:
      case ActionKind::reload:
        break;
    }
    throw std::runtime_error("a plain walk has F, B, STEP and their transfers, got " + to_text(action));
  }

  /// Returns the times of an action. It waits for its rank and, if `receives` is true, for the RECV of kind
  /// `input`. Returns nothing if the RECV has not run yet.
  std::optional<Times> computed(std::size_t rank, const Action& action, bool receives,
                                ActionKind input) const {
    Ns start = free_[rank];
    if (receives) {
      const auto received = found({input, action.stage, action.microbatch});
      if (!received) return std::nullopt;
      start = std::max(start, received->end_ns);
    }
    const StageCost& cost = e_.costs.stages[static_cast<std::size_t>(action.stage)];
    return Times{start, start + duration_ns(cost, action.kind)};
  }

  /// Returns the times of a SEND. It starts when its producer ends, because links are always free here.
  std::optional<Times> sent(std::size_t rank, const Action& action, ActionKind producer) const {
    const auto made = found({producer, action.stage, action.microbatch});
    if (!made) return std::nullopt;
    const std::int32_t peer = e_.program.placement.rank_of(action.peer, action.microbatch);
    const Ns latency = e_.cluster.route(static_cast<std::int32_t>(rank), peer).latency_ns;
    return Times{made->end_ns, made->end_ns + latency};
  }

  std::optional<Times> found(const Name& name) const {
    const auto done = done_.find(name);
    return done == done_.end() ? std::nullopt : std::optional(done->second);
  }

  Timeline timeline() const {
    Timeline timeline{.rank_count = e_.program.rank_count(), .spans = {}};
    for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
      if (spans_[rank].size() < lists_[rank].size())
        throw std::runtime_error("the lists wait for each other");
      timeline.spans.insert(timeline.spans.end(), spans_[rank].begin(), spans_[rank].end());
    }
    for (const Span& span : timeline.spans)
      timeline.makespan_ns = std::max(timeline.makespan_ns, span.end_ns);
    return timeline;
  }

  const Experiment& e_;
  const std::vector<std::vector<Action>>& lists_;
  std::map<Name, Times> done_;
  std::vector<std::vector<Span>> spans_;  // by rank
  std::vector<Ns> free_;                  // by rank, the end of its last compute action
  std::int32_t last_stage_;
};

}  // namespace

Timeline plain_walk(const Experiment& experiment) { return PlainWalk(experiment).run(); }

// Measures both engines on one program: longest paths over a tape, and a simulation from event to event. The
// baseline is plain_walk(), which must give the same timeline. critical_path_x and event_x are its time
// relative to the engines. Other benchmarks measure the computations from a timeline: figures, memory and the
// steady period.

namespace {

void critical_path_engine(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(critical_path(experiment));
  clock.report(experiment.program);
}
BENCHMARK(critical_path_engine)->Apply(pipeline_sizes);

void event_engine(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(event_simulation(experiment));
  clock.report(experiment.program);
}
BENCHMARK(event_engine)->Apply(pipeline_sizes);

/// Measures the baseline. The counters are its time relative to the engines, measured in this run.
void baseline_plain_walk(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  if (plain_walk(experiment) != critical_path(experiment))
    return state.SkipWithError("the engine and the plain walk have different timelines");
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(plain_walk(experiment));
  clock.report(experiment.program);
  const int runs = std::max(1, 200'000 / static_cast<int>(experiment.program.ranks.size() * state.range(1)));
  const double plain = mean_seconds(runs, [&] { return plain_walk(experiment); });
  state.counters["critical_path_x"] = plain / mean_seconds(runs, [&] { return critical_path(experiment); });
  state.counters["event_x"] = plain / mean_seconds(runs, [&] { return event_simulation(experiment); });
}
BENCHMARK(baseline_plain_walk)->Apply(pipeline_sizes);

void metrics_of_timeline(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  const Timeline timeline = *critical_path(experiment);
  const RunFacts facts = {.program = experiment.program, .costs = experiment.costs};
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(summarize(timeline, facts));
  clock.report(experiment.program);
}
BENCHMARK(metrics_of_timeline)->Apply(pipeline_sizes);

void memory_of_timeline(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  const Timeline timeline = *critical_path(experiment);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(memory_of(timeline, experiment, {.samples = false}));
  clock.report(experiment.program);
}
BENCHMARK(memory_of_timeline)->Apply(pipeline_sizes);

void steady_period_of_program(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(steady_period(experiment, Engine::critical_path));
  clock.report(experiment.program);
}
BENCHMARK(steady_period_of_program)->Apply(pipeline_sizes);

/// Measures simulate() for a prepared program.
void simulate_whole(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(simulate(experiment, {.memory = {.samples = false}}));
  clock.report(experiment.program);
}
BENCHMARK(simulate_whole)->Apply(pipeline_sizes);

}  // namespace

}  // namespace penstock
