// Measures each step from the name of a schedule to a program that an engine can run:
//
//     name, K, M --generate--> compute lists --lower--> lists with messages --flatten--> flat program
//                                                         validate, check, text and back, digest
//
// The speed of lower() is compared with polled_communication.cpp, which must produce the same lists.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "bench/measure.hpp"
#include "bench/polled_communication.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/search/order_builder.hpp"
#include "schedules/search/synthesis.hpp"
#include "schedules/search/timed_lists.hpp"
#include "schedules/text/program_text.hpp"

namespace penstock {

namespace {

void generate_program(benchmark::State& state) {
  const Shape shape = shape_of(state);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(generate("1f1b", shape));
  clock.report(*generate("1f1b", shape));
}
BENCHMARK(generate_program)->Apply(pipeline_sizes);

/// Returns the shape. If the schedule may have several chunks on a rank, the shape has two.
Shape shape_for(const ScheduleInfo& schedule, const benchmark::State& state) {
  Shape shape = shape_of(state);
  shape.virtual_stages = takes_chunks(schedule) ? 2 : 1;
  return shape;
}

/// Registers generate/NAME for every schedule of the table. There are no costs, so no schedule searches for
/// an order.
const bool generators_are_registered = [] {
  for (const ScheduleInfo& schedule : schedule_table()) {
    const auto run = [&schedule](benchmark::State& state) {
      const Shape shape = shape_for(schedule, state);
      ActionClock clock(state);
      for (auto _ : state) benchmark::DoNotOptimize(generate(schedule.name, shape));
      clock.report(*generate(schedule.name, shape));
    };
    benchmark::RegisterBenchmark(fmt::format("generate/{}", schedule.name).c_str(), run)
        ->ArgNames({"K", "M"})
        ->ArgsProduct({{8, 16, 32}, {64, 128, 256, 512}})
        ->Unit(benchmark::kMicrosecond);
  }
  return true;
}();

void validate_program(benchmark::State& state) {
  const Program program = experiment_of(state).program;
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(validate(program));
  clock.report(program);
}
BENCHMARK(validate_program)->Apply(pipeline_sizes);

/// Measures lower() for a schedule with state.range(0) stages and state.range(1) microbatches. The counter is
/// the time of polled_communication() relative to lower(), for the same program in the same run.
void lower_program(benchmark::State& state, const std::string& schedule) {
  Shape shape = shape_of(state);
  if (schedule == "interleaved") shape.virtual_stages = 2;
  const Program program = generate(schedule, shape).value();
  if (lower(program) != polled_communication(program))
    return state.SkipWithError("turns and polling place different lists");
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(lower(program));
  clock.report(program);
  const double seconds = mean_seconds(3, [&] { return lower(program); });
  state.counters["polling_x"] = mean_seconds(1, [&] { return polled_communication(program); }) / seconds;
}
BENCHMARK_CAPTURE(lower_program, naive, "naive")->Name("lower/naive")->Apply([](auto* benchmark) {
  benchmark->Args({256, 8})->Args({2048, 8})->ArgNames({"K", "M"})->Unit(benchmark::kMicrosecond);
});
BENCHMARK_CAPTURE(lower_program, 1f1b, "1f1b")->Name("lower/1f1b")->Apply(pipeline_sizes);
BENCHMARK_CAPTURE(lower_program, interleaved, "interleaved")
    ->Name("lower/interleaved")
    ->Apply(pipeline_sizes);

void flatten_program(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(flatten(experiment.program, experiment.costs, {}));
  clock.report(experiment.program);
}
BENCHMARK(flatten_program)->Apply(pipeline_sizes);

void check_one_channel_model(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  const ChannelOptions channels = {.model = ChannelModel::rank};
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(find_hang(experiment.program, channels, experiment.costs));
  clock.report(experiment.program);
}
BENCHMARK(check_one_channel_model)->Apply(pipeline_sizes);

void write_and_read_text(benchmark::State& state) {
  const Program program = experiment_of(state).program;
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(parse_program(to_text(program), "bench"));
  clock.report(program);
}
BENCHMARK(write_and_read_text)->Apply(pipeline_sizes);

void digest_of_program(benchmark::State& state) {
  const Program program = experiment_of(state).program;
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(digest(program));
  clock.report(program);
}
BENCHMARK(digest_of_program)->Apply(pipeline_sizes);

}  // namespace

// Measures the search for orders: the time of a pass for each action, and the bubble after different numbers
// of passes.

namespace {

/// Returns the costs of a transformer of 38.5 G parameters on 32 ranks with 128 microbatches. Each rank has
/// `chunks` chunks (two chunks have a V-shaped placement). The memory limit is `eighths` / 8 of the memory
/// that 1F1B needs.
OrderCosts transformer(std::int32_t chunks, std::int64_t eighths) {
  constexpr std::int32_t kRanks = 32;
  // A transformer layer stores 34 h + 5 a s bytes for a token, with h = 6144, a = 48 heads, s = 1024. After
  // I, W still needs 32 h of these bytes.
  constexpr Bytes kKept = 34 * 6144 + 5 * 48 * 1024;
  const Ns parts = 2 / chunks;
  OrderCosts costs{.stages = {}, .transfer_ns = {}, .memory_limit = {}, .rank_of = {}, .microbatches = 128};
  for (std::int32_t stage = 0; stage < kRanks * chunks; ++stage) {
    costs.stages.push_back({.forward_ns = parts * 9469,
                            .backward_input_ns = parts * 9744,
                            .backward_weight_ns = parts * 7306,
                            .kept = kKept,
                            .released_by_input = kKept - 32 * 6144});
    costs.transfer_ns.push_back(892);
    costs.rank_of.push_back(chunks == 1 ? stage : std::min(stage, 2 * kRanks - 1 - stage));
  }
  costs.transfer_ns.pop_back();
  costs.memory_limit.assign(kRanks, kKept * kRanks * chunks * eighths / 8);
  return costs;
}

/// Measures one pass with the rules from which a search starts.
void pass(benchmark::State& state) {
  const OrderCosts costs = transformer(static_cast<std::int32_t>(state.range(0)), 12);
  OrderBuilder builder(costs, Objective::span, costs.microbatches);
  const OrderRules rules = starting_rules(costs).front();
  for (auto _ : state) benchmark::DoNotOptimize(builder.run(rules, std::numeric_limits<Ns>::max() / 2));
  state.counters["per_action"] =
      benchmark::Counter(static_cast<double>(builder.placed_actions()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(pass)->Name("synthesis/pass")->ArgName("chunks")->Arg(1)->Arg(2)->Unit(benchmark::kMicrosecond);

/// Reports the bubble of the longest span after a number of passes, and its proven lower bound.
void curve(benchmark::State& state) {
  const auto chunks = static_cast<std::int32_t>(state.range(0));
  const OrderCosts costs = transformer(chunks, state.range(1));
  Shape shape{.stages = 32, .microbatches = costs.microbatches, .virtual_stages = chunks};
  shape.costs = CostTable{.stages = costs.stages, .edges = {costs.stages.size() - 1, EdgeCost{}}};
  shape.transfer_ns = {costs.transfer_ns.front()};
  shape.memory_limit = {costs.memory_limit.front()};
  shape.effort.passes = 0;
  Program known = generate("synthesized", shape).value();
  for (std::vector<Action>& list : known.ranks)
    std::erase_if(list, [](const Action& action) { return action.kind == ActionKind::step; });
  // The bubble is 1 - (work of a rank) / span, because all 32 ranks have the same work.
  const auto rate = [&](Ns span) {
    Ns work = 0;
    for (const StageCost& cost : costs.stages)
      work += cost.forward_ns + cost.backward_input_ns + cost.backward_weight_ns;
    return 1 - static_cast<double>(work / 32 * costs.microbatches) / static_cast<double>(span);
  };
  for (auto _ : state) {
    const Synthesis found = synthesize(costs, Objective::span, {.passes = state.range(2)},
                                       [&](const OrderCosts& /*within*/, Ns /*longest*/) {
                                         return std::vector<std::vector<std::vector<Action>>>{known.ranks};
                                       });
    state.counters["bubble"] = rate(found.length_ns);
    state.counters["bound"] = rate(found.bound_ns);
  }
  state.counters["known"] = rate(length_of(known.ranks, costs, Objective::span));
}
BENCHMARK(curve)
    ->Name("synthesis/curve")
    ->ArgNames({"chunks", "eighths", "passes"})
    ->ArgsProduct({{1, 2}, {8, 9, 10, 11, 12, 16, 20}, {500}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace

}  // namespace penstock
