// Measures each step from a name to a program that an engine can run:
//
//     name, K, M --generate--> compute lists --lower--> lists with messages --flatten--> flat program
//                                                         validate, check, text and back, digest
//
// Lowering by turns is compared with asking every rank in every round (polled_communication.cpp), which must
// place the same lists.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "bench/mean_seconds.hpp"
#include "bench/polled_communication.hpp"
#include "bench/sizes.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
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

/// Returns the shape, with two chunks a rank if the schedule may have several.
Shape shape_for(const ScheduleInfo& schedule, const benchmark::State& state) {
  Shape shape = shape_of(state);
  shape.virtual_stages = takes_chunks(schedule) ? 2 : 1;
  return shape;
}

/// Registers generate/NAME for every schedule of the table, without costs, so that no order is searched.
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

/// Measures placing the messages of a schedule with state.range(0) stages and state.range(1) microbatches.
/// The counter is the time of asking every rank in every round, relative to this, for the same program in the
/// same run.
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
}  // namespace penstock
