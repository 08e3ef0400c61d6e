// Measures PipeDream's partitioner on the published profiles. The time of a stage is the maximum of its
// computation and its reduction (`maximum`), or their sum as in the released code (`sum`). For ResNet-50 on
// two servers of eight devices, the plain recurrence (plain_recurrence.cpp) must find the same period. plan_x
// is its time relative to the partitioner.

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "bench/measure.hpp"
#include "bench/plain_recurrence.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/ir/action.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/configuration_figures.hpp"
#include "sim/choose/configuration_prices.hpp"
#include "sim/choose/plan_search.hpp"
#include "sim/choose/tuning_space.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

namespace {

LayerGraph library_model(const std::string& name) {
  const auto scenario =
      parse_scenario("model: " + name + ".yaml", name, PENSTOCK_SOURCE_DIR "/scenarios/library/models");
  return scenario ? std::get<LayerGraph>(scenario->model) : LayerGraph{};
}

/// Returns two servers of eight devices.
const std::vector<BandwidthLevel>& two_servers() {
  static const std::vector<BandwidthLevel> levels = {{.components = 8, .bytes_per_second = 1e9},
                                                     {.components = 2, .bytes_per_second = 1.25e9}};
  return levels;
}

/// Plans ResNet-50 (176 layers, 241 downsets) on two servers of eight devices.
void plan_resnet50_on_8x2(benchmark::State& state) {
  const LayerGraph graph = library_model("resnet50");
  const std::vector<BandwidthLevel>& levels = two_servers();
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

/// Measures the baseline, the plain recurrence, on the same graph and cluster. The counter is its time
/// relative to the partitioner, measured in this run.
void baseline_plan_resnet50_on_8x2(benchmark::State& state) {
  const LayerGraph graph = library_model("resnet50");
  const auto plan_ns = [&] { return plan_pipeline(graph, two_servers(), {})->period_ns; };
  const auto plain_ns = [&] { return plain_recurrence_period_ns(graph, two_servers()); };
  if (std::abs(plan_ns() - plain_ns()) > 1e-9 * plan_ns())
    return state.SkipWithError("the partitioner and the plain recurrence have different periods");
  for (auto _ : state) benchmark::DoNotOptimize(plain_ns());
  state.counters["plan_x"] = mean_seconds(1, plain_ns) / mean_seconds(10, plan_ns);
}
BENCHMARK(baseline_plan_resnet50_on_8x2)->Unit(benchmark::kMillisecond);

/// Plans GNMT-8 (37 layers, 48 downsets) on four servers of four devices with 16 GiB.
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

/// Measures the search by simulation for 16 devices in four servers. The argument is the model.
void search_plan_on_4x4(benchmark::State& state) {
  constexpr std::array kModels = {"vgg16", "gnmt"};
  const char* model = kModels[static_cast<std::size_t>(state.range(0))];
  const auto scenario =
      parse_scenario(fmt::format("model: {}.yaml\ncluster: {{preset: pipedream-a, nodes: 4}}\n"
                                 "training: {{micro_batch_size: 64, optimizer: momentum}}\n",
                                 model),
                     model, PENSTOCK_SOURCE_DIR "/scenarios/library/models");
  double simulations = 0;
  double samples_per_second = 0;
  for (auto _ : state) {
    const auto found = search_plan(*scenario, {});
    if (!found) return state.SkipWithError(found.error().c_str());
    simulations = static_cast<double>(found->simulations);
    samples_per_second = evaluate_plan(found->planned)->samples_per_second();
  }
  state.counters["simulations"] = simulations;
  state.counters["plan_samples_per_second"] = samples_per_second;
}
BENCHMARK(search_plan_on_4x4)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace

// Measures the steps for a candidate of a search over configurations: its costs, its lower bound, and its
// time on a compiled program, with eight candidates at once. The baseline simulates the scenario of each
// candidate. The model is Llama 3.1 8B on one node of H100, with eight stages of four layers and 32
// microbatches.

namespace {

constexpr std::string_view kScenario = R"(
model: {huggingface: llama-3.1-8b.json, sequence: 8192}
cluster: {device: h100-sxm, nodes: 4}
)";

/// The configurations that share one program: 1F1B, p = 8, v = 1, M = 32, with all degrees of parallelism
/// that use 32 devices.
struct Candidates {
  TuneRequest request;
  std::vector<Configuration> space;
};

Candidates candidates() {
  Candidates made;
  const std::string models = std::string(PENSTOCK_SOURCE_DIR) + "/scenarios/library/models";
  made.request.base = parse_scenario(kScenario, "bench", models).value();
  made.request.global_batch_size = 128;
  made.request.schedules = {"1f1b"};
  made.request.choices.stages = {8};
  made.space = tuning_space(made.request).value();
  std::erase_if(made.space, [](const Configuration& of) { return of.microbatches != 32; });
  return made;
}

/// Computes the costs and the lower bound of a candidate, as a search does for each candidate.
Ns price_and_bound(ConfigurationPrices& prices, ProgramLibrary& programs, const Configuration& of) {
  const ScheduleOutline& outline = **programs.outline(of);
  return lower_bounds(prices.of(of, outline), outline, of.microbatches).step_ns;
}

void bounded(benchmark::State& state) {
  const Candidates of = candidates();
  ConfigurationPrices prices(of.request);
  ProgramLibrary programs(of.request);
  std::size_t next = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(price_and_bound(prices, programs, of.space[next++ % of.space.size()]));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(bounded)->Name("tune/priced_and_bounded")->Unit(benchmark::kMicrosecond);

/// In each iteration, computes the times of all candidates of the program, eight at once.
void timed(benchmark::State& state) {
  const Candidates of = candidates();
  ConfigurationPrices prices(of.request);
  ProgramLibrary programs(of.request);
  const auto program = programs.program(of.space.front()).value();
  const auto time_all = [&] {
    std::vector<PricedConfiguration> priced;
    priced.reserve(of.space.size());
    for (const Configuration& one : of.space) priced.push_back(prices.of(one, **programs.outline(one)));
    return step_times(*program, priced);
  };
  for (auto _ : state) benchmark::DoNotOptimize(time_all());
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(of.space.size()));
  SimulateOptions options;
  options.steady = SteadyState::skip;
  const double alone =
      mean_seconds(20, [&] { return simulate_scenario(scenario_of(of.request, of.space.front()), options); });
  const double together = mean_seconds(20, time_all) / static_cast<double>(of.space.size());
  state.counters["candidates"] = static_cast<double>(of.space.size());
  state.counters["times_simulate"] = alone / together;
}
BENCHMARK(timed)->Name("tune/timed")->Unit(benchmark::kMicrosecond);

/// In each iteration, computes the peak of each candidate. `times_step_times` is the time of the peaks
/// divided by the time of all step times.
void measured(benchmark::State& state) {
  const Candidates of = candidates();
  ConfigurationPrices prices(of.request);
  ProgramLibrary programs(of.request);
  const auto program = programs.program(of.space.front()).value();
  std::vector<PricedConfiguration> priced;
  priced.reserve(of.space.size());
  for (const Configuration& one : of.space) priced.push_back(prices.of(one, **programs.outline(one)));
  for (auto _ : state) benchmark::DoNotOptimize(peak_bytes(*program, priced));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(of.space.size()));
  const double peaks = mean_seconds(20, [&] { return peak_bytes(*program, priced); });
  state.counters["times_step_times"] = peaks / mean_seconds(20, [&] { return step_times(*program, priced); });
}
BENCHMARK(measured)->Name("tune/peaks")->Unit(benchmark::kMicrosecond);

}  // namespace

}  // namespace penstock
