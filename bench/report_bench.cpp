// Measures writing a result with every action as JSON, piece by piece. The baseline builds the same spans as
// a tree of a JSON library.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "bench/mean_seconds.hpp"
#include "bench/sizes.hpp"
#include "report/result/result.hpp"
#include "report/result/result_json.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the list `timeline`, built as a tree and then written as text.
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
