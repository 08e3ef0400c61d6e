// Measures tapes: the time to compile a program once, and the time to run the tape with one table of costs
// and with eight at once. The baseline is the walk over the same flat program.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/measure.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {
namespace {

/// A program, flattened and compiled.
struct Compiled {
  explicit Compiled(Experiment made)
      : experiment(std::move(made)),
        flat(flatten(experiment.program, experiment.costs,
                     {.channels = experiment.channels, .iterations = experiment.program.iterations})),
        tape(compile(flat, experiment.channels).value()),
        costs(tape_costs(tape, experiment)) {}

  Experiment experiment;
  FlatProgram flat;
  Tape tape;
  TapeCosts costs;
};

void compile_flat_program(benchmark::State& state) {
  const Compiled made(experiment_of(state));
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(compile(made.flat, made.experiment.channels));
  clock.report(made.experiment.program);
}
BENCHMARK(compile_flat_program)->Name("compile")->Apply(pipeline_sizes);

/// Measures the steps from compute lists to the tape. `lists_x` is the relative time of the steps with
/// lowered lists and a flat program.
void compile_while_placing(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  const Program program = generate("1f1b", {.stages = static_cast<std::int32_t>(state.range(0)),
                                            .microbatches = static_cast<std::int32_t>(state.range(1))})
                              .value();
  const auto by_turns = [&] { return compile_turns(program, experiment.channels); };
  const auto by_lists = [&] {
    const Program lowered = lower(program).value();
    return compile(flatten(lowered, experiment.costs, {.channels = experiment.channels}),
                   experiment.channels);
  };
  if (makespan_ns(by_turns()->tape, tape_costs(by_turns()->tape, experiment)) !=
      makespan_ns(*by_lists(), tape_costs(*by_lists(), experiment)))
    return state.SkipWithError("lists have another makespan");
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(by_turns());
  clock.report(program);
  const int runs = std::max(1, 200'000 / static_cast<int>(state.range(0) * state.range(1)));
  state.counters["lists_x"] = mean_seconds(runs, by_lists) / mean_seconds(runs, by_turns);
}
BENCHMARK(compile_while_placing)->Name("compile/turns")->Apply(pipeline_sizes);

/// Lets every message occupy its channel for longer than its sender computes, so that queues fill.
Compiled on_slow_links(Experiment experiment) {
  Compiled made(std::move(experiment));
  for (PricedLink& link : made.costs.links) link.hold_ns = link.latency_ns > 0 ? 2'500'000 : 0;
  return made;
}

/// Returns 1F1B in which both ends of a link must be examined, because they have different messages.
Compiled on_slow_links(const benchmark::State& state, ChannelModel model) {
  Experiment experiment = experiment_of(state);
  experiment.channels.model = model;
  return on_slow_links(std::move(experiment));
}

using MakeCompiled = Compiled (*)(const benchmark::State&);

/// A case of the benchmarks compiled/NAME and lanes/NAME.
struct CompiledCase {
  const char* name;
  MakeCompiled make;
};
const CompiledCase kPlainCases[] = {
    {"1f1b", [](const benchmark::State& state) { return Compiled(experiment_of(state)); }},
    {"1f1b_slow_links", [](const benchmark::State& state) { return on_slow_links(experiment_of(state)); }},
};
const CompiledCase kOtherRules[] = {
    {"rank", [](const benchmark::State& state) { return on_slow_links(state, ChannelModel::rank); }},
    {"direction",
     [](const benchmark::State& state) { return on_slow_links(state, ChannelModel::direction); }},
    {"groups", [](const benchmark::State& state) { return Compiled(experiment_of(state, "dualpipe")); }},
    {"collectives",
     [](const benchmark::State& state) {
       return Compiled(experiment_of(state, "1f1b-rr", ", replicas: 2"));
     }},
};

/// Runs the tape with one table of costs in each iteration.
void one_table(benchmark::State& state, MakeCompiled make) {
  const Compiled made = make(state);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(makespan_ns(made.tape, made.costs));
  clock.report(made.experiment.program);
  state.counters["instructions"] = static_cast<double>(made.tape.size());
}

/// Runs the tape with one table for each lane in each iteration. ns/action counts the actions of all tables.
void eight_tables(benchmark::State& state, MakeCompiled make) {
  const Compiled made = make(state);
  const std::vector<TapeCosts> tables(kLanes, made.costs);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(makespans_ns(made.tape, tables));
  clock.report(made.experiment.program);
  state.counters["tables"] = static_cast<double>(kLanes);
  state.SetLabel(std::string(lane_code()));
}

void long_sizes(benchmark::internal::Benchmark* benchmark) {
  pipeline_sizes(benchmark);
  benchmark->Args({16, 1024})->Args({64, 4096});
}

const bool tapes_are_registered = [] {
  const auto add = [](const char* mode, const CompiledCase& of, auto run) {
    const auto timed = [run, make = of.make](benchmark::State& state) { run(state, make); };
    long_sizes(benchmark::RegisterBenchmark(fmt::format("{}/{}", mode, of.name).c_str(), timed));
  };
  for (const CompiledCase& of : kPlainCases) {
    add("compiled", of, one_table);
    add("lanes", of, eight_tables);
  }
  for (const CompiledCase& of : kOtherRules) add("compiled", of, one_table);
  return true;
}();

/// Measures the baseline. The counters are the time of the walk relative to one table alone on the tape, and
/// relative to one of eight tables.
void baseline_walk(benchmark::State& state) {
  const Compiled made(experiment_of(state));
  const WalkDurations durations = walk_durations(made.experiment, made.flat);
  const auto walked = [&] { return last_end(*walk(made.flat, durations, made.experiment.channels)); };
  if (walked() != makespan_ns(made.tape, made.costs))
    return state.SkipWithError("the tape and the walk have different makespans");
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(walked());
  clock.report(made.experiment.program);
  const std::vector<TapeCosts> tables(kLanes, made.costs);
  const double walk_seconds = mean_seconds(20, walked);
  state.counters["compiled_x"] =
      walk_seconds / mean_seconds(200, [&] { return makespan_ns(made.tape, made.costs); });
  state.counters["lane_x"] = static_cast<double>(kLanes) * walk_seconds /
                             mean_seconds(200, [&] { return makespans_ns(made.tape, tables); });
}
BENCHMARK(baseline_walk)->Name("compiled/baseline_walk")->Apply(pipeline_sizes);

}  // namespace
}  // namespace penstock
