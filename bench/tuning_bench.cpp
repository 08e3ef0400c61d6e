// Measures a candidate of a search over configurations. It is priced and bounded, and then timed on a program
// that is already compiled, eight at once. The baseline is the simulation of each candidate's scenario. The
// model is Llama 3.1 8B on one node of H100, with eight stages of four layers and 32 microbatches.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/mean_seconds.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/ir/action.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/configuration_prices.hpp"
#include "sim/tuning/lower_bounds.hpp"
#include "sim/tuning/program_library.hpp"
#include "sim/tuning/timed_configurations.hpp"
#include "sim/tuning/tuning_space.hpp"

namespace penstock {
namespace {

constexpr std::string_view kScenario = R"(
model: {huggingface: llama-3.1-8b.json, sequence: 8192}
cluster: {device: h100-sxm, nodes: 4}
)";

/// The configurations of one program: 1F1B, p = 8, v = 1, M = 32, with all degrees that fill 32 devices.
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

/// Prices and bounds a candidate, as a search does for every one.
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

/// Times all candidates of the program an iteration, eight at once.
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

}  // namespace
}  // namespace penstock
