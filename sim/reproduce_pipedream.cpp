// The schedules that the PipeDream paper draws.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "report/result.hpp"
#include "schedules/action.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/generators.hpp"
#include "sim/reproduce.hpp"
#include "sim/simulate.hpp"
#include "sim/uniform_run.hpp"

namespace penstock {
namespace {

constexpr Ns kUnit = 1'000'000;

struct UnitTimes {
  Ns forward = 0;
  Ns backward = 0;
};

CostTable costs_of(const std::vector<UnitTimes>& stages) {
  CostTable costs;
  for (const UnitTimes& stage : stages) {
    costs.stages.push_back({.forward_ns = stage.forward * kUnit, .backward_ns = stage.backward * kUnit});
  }
  return costs;
}

/// The program of a shape that its generator takes, on free links; F and B of each stage in units.
Result predicted(const std::string& schedule, const Shape& shape, const std::vector<UnitTimes>& stages) {
  auto program = generate(schedule, shape);
  if (!program) throw std::logic_error(program.error());
  auto result = simulate_uniform(*program, costs_of(stages), 0, SteadyState::find);
  if (!result) throw std::logic_error(result.error());
  return *std::move(result);
}

std::vector<UnitTimes> equal_stages(std::size_t count) {
  return {count, UnitTimes{.forward = 1, .backward = 2}};
}

double makespan(const Result& result) {
  return static_cast<double>(result.makespan_ns) / static_cast<double>(kUnit);
}

/// Units from one minibatch that leaves to the next.
double period(const Result& result) {
  const std::optional<double> rate = result.throughput.steady_samples_per_second;
  return rate ? 1e9 / static_cast<double>(kUnit) / *rate : 0;
}

}  // namespace

std::vector<ReproducedFigure> reproduce_pipedream_figures() {
  constexpr std::int32_t kStream = 64;  // long enough to show its period
  return {
      {"figure 2, model parallelism, 4 workers, 2 minibatches: units", 24,
       makespan(predicted("naive", {.stages = 4, .microbatches = 2}, equal_stages(4)))},
      {"figure 3, GPipe, 4 workers, 4 microbatches: units", 21,
       makespan(predicted("gpipe", {.stages = 4, .microbatches = 4}, equal_stages(4)))},
      {"figure 4, 1F1B, 4 workers: units a minibatch", 3,
       period(predicted("1f1b-rr", {.stages = 4, .microbatches = kStream}, equal_stages(4))), 1e-9},
      {"figure 8, 1F1B-RR, stages on 2 and 1 workers: units a minibatch", 2,
       period(predicted(
           "1f1b-rr",
           {.stages = 2, .microbatches = kStream, .replicas = {2, 1}, .replica_sync = ReplicaSync::off},
           {{.forward = 2, .backward = 2}, {.forward = 1, .backward = 1}})),
       1e-9},
  };
}

}  // namespace penstock
