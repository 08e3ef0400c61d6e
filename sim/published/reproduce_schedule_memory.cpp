// What the rules of GPipe, 1F1B and 1F1B-RR keep: activations and weight versions of each worker. GPipe with
// re-materialisation keeps M inputs and one stage's inside (section 2.3), stage s of 1F1B keeps K - s
// microbatches, and as many weight versions where they are stashed (PipeDream, sections 3.2 and 3.3).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/published/reproduce.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

using Figures = std::vector<ReproducedFigure>;

constexpr Bytes kBoundary = 1;  // what a stage reads of a microbatch
constexpr Bytes kInside = 10;   // what it keeps of one from F to B

/// Equal stages; times do not matter beyond their order.
Result run_of(const std::string& schedule, const Shape& shape) {
  const auto program = generate(schedule, shape);
  if (!program) throw std::logic_error(program.error());
  const StageCost cost{
      .forward_ns = 1, .backward_ns = 2, .recompute_ns = 1, .kept = kInside, .input = kBoundary};
  auto result = simulate_uniform(*program, uniform_costs(*program, cost), 0, SteadyState::skip);
  if (!result) throw std::logic_error(result.error());
  return *std::move(result);
}

/// The peak, in bytes, of what a worker keeps between its operations.
double activations(const Result& result, std::size_t worker) {
  constexpr auto kActivations = static_cast<std::size_t>(MemoryCategory::activations);
  return static_cast<double>(result.ranks.at(worker).memory.peaks[kActivations]);
}

void add_gpipe(Figures& figures, std::int32_t stages, std::int32_t microbatches) {
  Shape shape{.stages = stages, .microbatches = microbatches};
  const std::string what = fmt::format("GPipe, K = {}, M = {}, first stage", stages, microbatches);
  const auto kept = static_cast<double>(kInside);
  figures.push_back(formula(what + ": bytes of M microbatches", microbatches * kept,
                            activations(run_of("gpipe", shape), 0)));
  shape.checkpoint = Checkpoint::always;
  figures.push_back(formula(what + ", re-materialised: bytes of M boundaries and one microbatch",
                            microbatches * static_cast<double>(kBoundary) + kept,
                            activations(run_of("gpipe", shape), 0)));
}

void add_one_f_one_b(Figures& figures, std::int32_t stages, std::int32_t microbatches) {
  const Result result = run_of("1f1b", {.stages = stages, .microbatches = microbatches});
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    figures.push_back(formula(
        fmt::format("1F1B, K = {}, M = {}, stage {}: microbatches min(M, K-s)", stages, microbatches, stage),
        static_cast<double>(std::min(microbatches, stages - stage)),
        activations(result, static_cast<std::size_t>(stage)) / kInside));
  }
}

/// `warmup`: W of each stage, as the released runtime has it, (workers from the stage on - 1) / its replicas.
void add_round_robin(Figures& figures, const std::vector<std::int32_t>& replicas,
                     const std::vector<std::int32_t>& warmup) {
  constexpr std::int32_t kMinibatches = 120;  // every stage's replicas share them evenly
  const Result result = run_of("1f1b-rr", {.stages = static_cast<std::int32_t>(replicas.size()),
                                           .microbatches = kMinibatches,
                                           .replicas = replicas});
  std::size_t worker = 0;
  for (std::size_t stage = 0; stage < replicas.size(); ++stage) {
    const std::string what = fmt::format("1F1B-RR {}, stage {}", fmt::join(replicas, "-"), stage);
    figures.push_back(formula(what + ": minibatches in flight W+1", warmup[stage] + 1.0,
                              activations(result, worker) / kInside));
    figures.push_back(formula(what + ": weight versions W+1", warmup[stage] + 1.0,
                              static_cast<double>(result.ranks.at(worker).weight_versions)));
    worker += static_cast<std::size_t>(replicas[stage]);
  }
}

}  // namespace

std::vector<ReproducedFigure> reproduce_schedule_memory() {
  Figures figures;
  add_gpipe(figures, 4, 4);
  add_gpipe(figures, 4, 16);
  add_one_f_one_b(figures, 4, 8);
  add_one_f_one_b(figures, 4, 2);
  add_round_robin(figures, {1, 1, 1, 1}, {3, 2, 1, 0});
  add_round_robin(figures, {2, 1}, {1, 0});
  add_round_robin(figures, {3, 1}, {1, 0});
  add_round_robin(figures, {2, 2}, {1, 0});
  add_round_robin(figures, {1, 2}, {2, 0});
  add_round_robin(figures, {4, 2, 2}, {1, 1, 0});
  add_round_robin(figures, {15, 1}, {1, 0});
  return figures;
}

}  // namespace penstock
