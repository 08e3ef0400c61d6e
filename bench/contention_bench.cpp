// Measures the simulation of pipelines that share links. The baseline is a simple network simulation with the
// flows of the same run.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "bench/measure.hpp"
#include "bench/plain_flows.hpp"
#include "bench/shared_links.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/index.hpp"
#include "sim/engines/engines.hpp"
#include "sim/network/flow_network.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {
namespace {

constexpr Bytes kLight = 512 * 1024;   // messages that share links only sometimes
constexpr Bytes kDense = 2048 * 1024;  // messages that fill the links

/// Returns the number of events: the ends of compute actions, and the starts and ends of flows.
double events_of(const FlatProgram& flat) {
  const auto computes = std::ranges::count(flat.ops, FlatOp::compute);
  return static_cast<double>(computes) + 2.0 * static_cast<double>(flat.messages.size());
}

FlatProgram flat_of(const Experiment& experiment) {
  return flatten(experiment.program, experiment.costs, {.channels = experiment.channels});
}

void report_events(benchmark::State& state, const FlatProgram& flat) {
  state.counters["events"] = events_of(flat);
  state.counters["events/s"] =
      benchmark::Counter(events_of(flat), benchmark::Counter::kIsIterationInvariantRate);
}

/// Measures the engine on a program that is already flattened.
void contention(benchmark::State& state, Bytes message_bytes) {
  const Experiment experiment =
      pipelines_on_shared_links({.pipelines = static_cast<std::int32_t>(state.range(0)),
                                 .stages = 16,
                                 .microbatches = 64,
                                 .message_bytes = message_bytes});
  const FlatProgram flat = flat_of(experiment);
  const WalkDurations durations = walk_durations(experiment, flat);
  loop_begins();
  for (auto _ : state) benchmark::DoNotOptimize(event_walk(experiment, flat, durations));
  loop_ends();
  report_events(state, flat);
  state.counters["makespan_ms"] =
      static_cast<double>(last_end(event_walk(experiment, flat, durations))) * 1e-6;
}
BENCHMARK_CAPTURE(contention, light, kLight)->ArgName("pipelines")->Arg(64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(contention, dense, kDense)->ArgName("pipelines")->Arg(64)->Unit(benchmark::kMillisecond);

/// Measures all steps from the program to the timeline, including the check for hangs.
void contention_whole(benchmark::State& state, Bytes message_bytes) {
  const Experiment experiment =
      pipelines_on_shared_links({.pipelines = static_cast<std::int32_t>(state.range(0)),
                                 .stages = 16,
                                 .microbatches = 64,
                                 .message_bytes = message_bytes});
  loop_begins();
  for (auto _ : state) benchmark::DoNotOptimize(event_simulation(experiment));
  loop_ends();
  report_events(state, flat_of(experiment));
}
BENCHMARK_CAPTURE(contention_whole, light, kLight)
    ->Name("contention/light/whole")
    ->ArgName("pipelines")
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(contention_whole, dense, kDense)
    ->Name("contention/dense/whole")
    ->ArgName("pipelines")
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);

/// Returns the flows of a run in the order of their starts.
std::vector<PlainFlow> flows_of(const Experiment& experiment) {
  const FlatProgram flat = flat_of(experiment);
  const ProgramTimes times = event_walk(experiment, flat, walk_durations(experiment, flat));
  std::vector<PlainFlow> flows;
  for (std::size_t id = 0; id < flat.messages.size(); ++id) {
    const FlatMessage& message = flat.messages[id];
    flows.push_back({times.message_start[id], message.from_rank, message.to_rank, message.bytes});
  }
  std::ranges::stable_sort(flows, {}, &PlainFlow::start_ns);
  return flows;
}

/// Returns the end of each flow, computed by sim/network. `flows` must be in the order of their starts. If a
/// flow ends when another one starts, the end is processed first.
std::vector<Ns> flow_ends(const Cluster& cluster, const std::vector<PlainFlow>& flows) {
  std::vector<Ns> ends(flows.size(), 0);
  FlowNetwork network(cluster);
  for (std::size_t next = 0;;) {
    const auto end = network.next_end();
    if (end && (next == flows.size() || *end <= flows[next].start_ns)) {
      ends[index(network.finish())] = *end;
      continue;
    }
    if (next == flows.size()) return ends;
    const PlainFlow& flow = flows[next];
    network.start(flow.start_ns, network.class_of(flow.from, flow.to), flow.bytes,
                  static_cast<std::int32_t>(next++));
  }
}

/// Measures the baseline: at every start and end of a flow, it computes the rates of all flows again. The
/// counter is the baseline's time relative to sim/network.
void baseline_network(benchmark::State& state, Bytes message_bytes) {
  const Experiment experiment =
      pipelines_on_shared_links({.pipelines = static_cast<std::int32_t>(state.range(0)),
                                 .stages = 16,
                                 .microbatches = 2,
                                 .message_bytes = message_bytes});
  const std::vector<PlainFlow> flows = flows_of(experiment);
  const std::vector<Ns> ends = flow_ends(experiment.cluster, flows);
  const std::vector<Ns> plain_ends = plain_flow_ends(experiment.cluster, flows);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (std::abs(ends[i] - plain_ends[i]) > 1000)
      return state.SkipWithError("the networks differ by more than a microsecond");
  }
  for (auto _ : state) benchmark::DoNotOptimize(plain_flow_ends(experiment.cluster, flows));
  const double plain = mean_seconds(1, [&] { return plain_flow_ends(experiment.cluster, flows); });
  state.counters["network_x"] =
      plain / mean_seconds(20, [&] { return flow_ends(experiment.cluster, flows); });
}
BENCHMARK_CAPTURE(baseline_network, light, kLight)
    ->Name("contention/light/baseline_network")
    ->ArgName("pipelines")
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(baseline_network, dense, kDense)
    ->Name("contention/dense/baseline_network")
    ->ArgName("pipelines")
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock
