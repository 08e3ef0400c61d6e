// Measures the steps from a scenario to all figures without a timeline. The baseline computes the figures
// from the timeline of one pass, and the steady rate from the timelines of two, four and more passes.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/measure.hpp"
#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/result/result_json.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

namespace {

const SimulateOptions kFigures{.memory = {.samples = false}, .timeline = TimelineKept::none};

/// Returns the starts and ends of each pass in the order of the lists. Two passes over two ranks of one
/// action each:
///
///     spans   rank 0: [0, 1] [3, 4]   rank 1: [1, 2] [4, 5]
///     rows    pass 0: 0 1 1 2         pass 1: 3 4 4 5
std::vector<std::vector<Ns>> rows_of_passes(const Timeline& timeline, const Program& program) {
  std::vector<std::vector<Ns>> rows(static_cast<std::size_t>(program.iterations));
  auto span = timeline.spans.begin();
  for (const auto& list : program.ranks) {
    for (auto& row : rows) {
      for (std::size_t i = 0; i < list.size(); ++i, ++span)
        row.insert(row.end(), {span->start_ns, span->end_ns});
    }
  }
  return rows;
}

/// Returns the time between the last pass and the pass before it. Returns nothing if this time is not equal
/// for all actions, even after 64 passes.
std::optional<Ns> period_of_passes(Experiment experiment) {
  for (const std::int32_t passes : {2, 4, 8, 16, 32, 64}) {
    experiment.program.iterations = passes;
    const auto rows = rows_of_passes(*critical_path(experiment), experiment.program);
    const auto& before = rows[rows.size() - 2];
    const Ns period = rows.back().front() - before.front();
    const bool is_one = std::ranges::equal(before, rows.back(),
                                           [period](Ns early, Ns late) { return late - early == period; });
    if (is_one) return period;
  }
  return std::nullopt;
}

/// Computes the figures of the baseline.
Result figures_of_timelines(const Experiment& experiment) {
  Timeline timeline = *critical_path(experiment);
  std::vector<RankMemory> memories = memory_of(timeline, experiment, {.samples = false});
  const std::optional<Ns> period = period_of_passes(experiment);
  std::optional<double> rate;
  if (period) rate = experiment.program.microbatches * 1e9 / static_cast<double>(*period);
  return summarize(std::move(timeline), {.program = experiment.program,
                                         .costs = experiment.costs,
                                         .steady_samples_per_second = rate,
                                         .memories = std::move(memories)});
}

/// Compares two results without the names of devices, because the baseline does not have these names.
bool equal_figures(const Result& a, const Result& b) {
  const auto equal_rank = [](RankReport x, RankReport y) {
    x.device = y.device = "";
    return x == y;
  };
  return a.makespan_ns == b.makespan_ns && a.bubble == b.bubble && a.throughput == b.throughput &&
         std::ranges::equal(a.ranks, b.ranks, equal_rank);
}

/// Measures what `penstock simulate` computes after its program is generated.
void figures_of_program(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  if (!equal_figures(*simulate(experiment, kFigures), figures_of_timelines(experiment)))
    return state.SkipWithError("a timeline has other figures");
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(simulate(experiment, kFigures));
  clock.report(experiment.program);
  const int runs = std::max(1, 200'000 / static_cast<int>(experiment.program.ranks.size() * state.range(1)));
  state.counters["timeline_x"] = mean_seconds(runs, [&] { return figures_of_timelines(experiment); }) /
                                 mean_seconds(runs, [&] { return simulate(experiment, kFigures); });
}
BENCHMARK(figures_of_program)->Name("figures/1f1b")->Apply(pipeline_sizes);

/// Measures the steps from a name, K and M to all figures: generating the program, computing its costs, and
/// running it. With a digest, the loops are also expanded and lowered. `schedule_options` has more keys of
/// the schedule, each after a comma.
void figures_of_name(benchmark::State& state, const std::string& schedule, ProgramDigest digest,
                     const std::string& schedule_options) {
  SimulateOptions options = kFigures;
  options.digest = digest;
  const Scenario scenario =
      parse_scenario(fmt::format("schedule: {{name: {}, stages: {}, microbatches: {}{}}}\n", schedule,
                                 state.range(0), state.range(1), schedule_options),
                     "bench", ".")
          .value();
  const Experiment experiment = prepare(scenario).value();
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(simulate_scenario(scenario, options));
  clock.report(experiment.program);
}

void whole_sizes(benchmark::internal::Benchmark* benchmark) {
  pipeline_sizes(benchmark);
  benchmark->Args({16, 1024})->Args({64, 4096});
}

const bool figures_of_names_are_registered = [] {
  const auto add = [](std::string_view mode, const std::string& schedule, ProgramDigest digest,
                      const std::string& options = "") {
    const auto run = [schedule, digest, options](auto& state) {
      figures_of_name(state, schedule, digest, options);
    };
    return benchmark::RegisterBenchmark(fmt::format("figures/{}/{}", mode, schedule).c_str(), run);
  };
  const std::array<std::string, 4> in_all_sizes = {"gpipe", "1f1b", "zb-h1", "interleaved"};
  for (const std::string& schedule : in_all_sizes) {
    whole_sizes(add("whole", schedule, ProgramDigest::skip));
    whole_sizes(add("digest", schedule, ProgramDigest::find));
  }
  for (const ScheduleInfo& schedule : schedule_table()) {
    const std::string name(schedule.name);
    if (std::ranges::find(in_all_sizes, name) != in_all_sizes.end()) continue;
    add("whole", name, ProgramDigest::skip, takes_chunks(schedule) ? ", virtual_stages: 2" : "")
        ->Args({16, 1024})
        ->ArgNames({"K", "M"})
        ->Unit(benchmark::kMicrosecond);
  }
  return true;
}();

}  // namespace

// Measures the writing of a result with all actions as JSON text. The baseline first builds a tree with a
// JSON library, and then writes it.

namespace {

using Json = nlohmann::ordered_json;

/// Builds the list `timeline` as a tree and returns its text.
std::string timeline_by_tree(const Timeline& timeline) {
  Json list = Json::array();
  for (const Span& span : timeline.spans) {
    list.push_back({{"rank", span.rank},
                    {"action", to_text(span.action)},
                    {"stage", span.action.stage},
                    {"microbatch", span.action.microbatch},
                    {"replica", span.replica},
                    {"weight_version", span.action.weight_version},
                    {"start_ns", span.start_ns},
                    {"end_ns", span.end_ns}});
    if (span.released_ns != kNotReleased) list.back()["released_ns"] = span.released_ns;
  }
  return list.dump(2);
}

void timeline_json(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  const Result result = *simulate(experiment, {});
  const auto write = [&] {
    std::size_t bytes = 0;
    write_result_json(result, {.timeline = true}, [&](std::string_view lines) {
      bytes += lines.size();
      return true;
    });
    return bytes;
  };
  const std::string tree = timeline_by_tree(result.timeline);
  if (Json::parse(result_to_json(result, {.timeline = true})).at("timeline") != Json::parse(tree))
    return state.SkipWithError("the text and the tree say different timelines");
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(write());
  clock.report(experiment.program);
  const int runs = state.range(1) < 512 ? 50 : 1;
  state.counters["tree_x"] =
      mean_seconds(runs, [&] { return timeline_by_tree(result.timeline); }) / mean_seconds(runs, write);
}
BENCHMARK(timeline_json)->Name("timeline_json/1f1b")->Apply(pipeline_sizes);

}  // namespace

}  // namespace penstock
