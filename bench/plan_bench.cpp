// How long PipeDream's partitioner takes on the published profiles.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "scenarios/load.hpp"
#include "scenarios/model.hpp"
#include "scenarios/pipedream_partition.hpp"
#include "scenarios/plan_options.hpp"

namespace penstock {
namespace {

LayerGraph library_model(const std::string& name) {
  const auto scenario =
      parse_scenario("model: " + name + ".yaml", name, PENSTOCK_SOURCE_DIR "/scenarios/library/models");
  return scenario ? std::get<LayerGraph>(scenario->model) : LayerGraph{};
}

/// ResNet-50 (176 layers, 241 downsets) on two servers of eight devices.
void plan_resnet50_on_8x2(benchmark::State& state) {
  const LayerGraph graph = library_model("resnet50");
  const std::vector<BandwidthLevel> levels = {{.components = 8, .bytes_per_second = 1e9},
                                              {.components = 2, .bytes_per_second = 1.25e9}};
  std::size_t stages = 0;
  for (auto _ : state) {
    const auto plan = plan_pipeline(graph, levels, {.objective = static_cast<PlanObjective>(state.range(0))});
    if (!plan) return state.SkipWithError(plan.error().c_str());
    stages = plan->stages.size();
  }
  state.counters["stages"] = static_cast<double>(stages);
}
BENCHMARK(plan_resnet50_on_8x2)
    ->Arg(static_cast<int>(PlanObjective::maximum))
    ->Arg(static_cast<int>(PlanObjective::sum))
    ->Unit(benchmark::kMillisecond);

/// GNMT-8 (37 layers, 48 downsets) on four servers of four devices of 16 GiB.
void plan_gnmt_on_4x4_within_memory(benchmark::State& state) {
  const LayerGraph graph = library_model("gnmt");
  const std::vector<BandwidthLevel> levels = {{.components = 4, .bytes_per_second = 1e10},
                                              {.components = 4, .bytes_per_second = 1.25e9}};
  for (auto _ : state) {
    const auto plan = plan_pipeline(graph, levels, {.memory_limit = Bytes{16} << 30}, 2);
    if (!plan) return state.SkipWithError(plan.error().c_str());
    benchmark::DoNotOptimize(plan->period_ns);
  }
}
BENCHMARK(plan_gnmt_on_4x4_within_memory)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock
