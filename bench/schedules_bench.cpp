// From a name to a program that an engine can run.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include <fmt/format.h>

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

/// Two chunks a rank where a schedule may have several.
Shape shape_for(const ScheduleInfo& schedule, const benchmark::State& state) {
  Shape shape = shape_of(state);
  const bool takes_chunks = std::ranges::find(schedule.options, "virtual_stages") != schedule.options.end();
  shape.virtual_stages = takes_chunks ? 2 : 1;
  return shape;
}

/// generate/NAME for every schedule of the table, without costs.
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

void lower_program(benchmark::State& state) {
  const Program program = *generate("1f1b", shape_of(state));
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(lower(program));
  clock.report(program);
}
BENCHMARK(lower_program)->Apply(pipeline_sizes);

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
