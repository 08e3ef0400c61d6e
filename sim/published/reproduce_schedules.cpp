// Compares predicted schedules with schedules that papers draw, operation by operation. The papers are
// PipeDream (SOSP'19), figures 2, 3, 4 and 8; PipeDream-2BW (ICML'21), figure 3; and Megatron-LM (SC'21),
// section 2.2, with two schedules. Microbatches are counted from 0.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/published/reproduce.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

namespace {

using Figures = std::vector<ReproducedFigure>;
// The operations of each worker as text, with starts and ends in units: "F0@0-1 B0@10-12".
using Drawing = std::vector<std::string>;

constexpr std::int32_t kStream = 64;  // number of minibatches; a stream of this length has a period
// The number of the fifth minibatch, counted from 0. Section 3.3 of the paper describes its weight versions.
constexpr std::int32_t kDrawnMinibatch = 4;

const Drawing kFigure2 = {
    "F0@0-1 B0@10-12 F1@12-13 B1@22-24",
    "F0@1-2 B0@8-10 F1@13-14 B1@20-22",
    "F0@2-3 B0@6-8 F1@14-15 B1@18-20",
    "F0@3-4 B0@4-6 F1@15-16 B1@16-18",
};
const Drawing kFigure3 = {
    "F0@0-1 F1@1-2 F2@2-3 F3@3-4 B0@13-15 B1@15-17 B2@17-19 B3@19-21",
    "F0@1-2 F1@2-3 F2@3-4 F3@4-5 B0@11-13 B1@13-15 B2@15-17 B3@17-19",
    "F0@2-3 F1@3-4 F2@4-5 F3@5-6 B0@9-11 B1@11-13 B2@13-15 B3@15-17",
    "F0@3-4 F1@4-5 F2@5-6 F3@6-7 B0@7-9 B1@9-11 B2@11-13 B3@13-15",
};
const Drawing kFigure4 = {
    "F0@0-1 F1@1-2 F2@2-3 F3@3-4 B0@10-12 F4@12-13 B1@13-15 F5@15-16 B2@16-18 F6@18-19 B3@19-21 F7@21-22 "
    "B4@22-24 B5@25-27 B6@28-30 B7@31-33",
    "F0@1-2 F1@2-3 F2@3-4 B0@8-10 F3@10-11 B1@11-13 F4@13-14 B2@14-16 F5@16-17 B3@17-19 F6@19-20 B4@20-22 "
    "F7@22-23 B5@23-25 B6@26-28 B7@29-31",
    "F0@2-3 F1@3-4 B0@6-8 F2@8-9 B1@9-11 F3@11-12 B2@12-14 F4@14-15 B3@15-17 F5@17-18 B4@18-20 F6@20-21 "
    "B5@21-23 F7@23-24 B6@24-26 B7@27-29",
    "F0@3-4 B0@4-6 F1@6-7 B1@7-9 F2@9-10 B2@10-12 F3@12-13 B3@13-15 F4@15-16 B4@16-18 F5@18-19 B5@19-21 "
    "F6@21-22 B6@22-24 F7@24-25 B7@25-27",
};
const Drawing kFigure8 = {
    "F0@0-2 F2@2-4 B0@4-6 F4@6-8 B2@8-10 F6@10-12 B4@12-14 B6@16-18",
    "F1@0-2 F3@2-4 B1@6-8 F5@8-10 B3@10-12 F7@12-14 B5@14-16 B7@18-20",
    "F0@2-3 B0@3-4 F1@4-5 B1@5-6 F2@6-7 B2@7-8 F3@8-9 B3@9-10 F4@10-11 B4@11-12 F5@12-13 B5@13-14 F6@14-15 "
    "B6@15-16 F7@16-17 B7@17-18",
};
const Drawing kFigure3Of2Bw = {
    "F0@0-1 F1@1-2 F2@2-3 F3@3-4 B0@7-9 B1@9-11 B2@11-13 B3@13-15",
    "F0@1-2 F1@2-3 F2@3-4 F3@4-5 B0@5-7 B1@7-9 B2@9-11 B3@11-13",
};

/// Counts the operations in the paper's drawing that the run executes on the same worker and at the same
/// times.
ReproducedFigure operations(const std::string& what, const Drawing& drawn, const Result& result) {
  std::set<std::string> predicted;
  for (const Span& span : result.timeline.spans) {
    // The text has the form of the drawings, so an operation matches only if its worker, start and end are
    // equal.
    predicted.insert(fmt::format("{} {}{}@{:g}-{:g}", span.rank, letters(span.action.kind),
                                 span.action.microbatch, static_cast<double>(span.start_ns) / kUnitNs,
                                 static_cast<double>(span.end_ns) / kUnitNs));
  }
  int all = 0;
  int met = 0;
  for (std::size_t worker = 0; worker < drawn.size(); ++worker) {
    std::istringstream words(drawn[worker]);
    for (std::string word; words >> word; ++all)
      met += predicted.contains(fmt::format("{} {}", worker, word)) ? 1 : 0;
  }
  return formula(what + ": operations that start and end as drawn", all, met);
}

/// Adds a figure for each worker. `published` and `predicted` have one value for each worker.
void add_by_worker(Figures& figures, const std::string& what, const std::vector<double>& published,
                   const std::vector<double>& predicted) {
  for (std::size_t worker = 0; worker < published.size(); ++worker) {
    figures.push_back(
        formula(fmt::format("{}, worker {}", what, worker + 1), published[worker], predicted.at(worker)));
  }
}

std::vector<double> minibatches_in_flight(const Result& result) {
  std::vector<double> peaks;
  std::ranges::transform(result.ranks, std::back_inserter(peaks), [](const RankReport& rank) {
    return static_cast<double>(rank.peak_live_activations);
  });
  return peaks;
}

std::vector<double> idle_units(const Result& result) {
  std::vector<double> idle;
  std::ranges::transform(result.ranks, std::back_inserter(idle),
                         [](const RankReport& rank) { return static_cast<double>(rank.idle_ns) / kUnitNs; });
  return idle;
}

std::vector<double> weight_versions(const Result& result) {
  std::vector<double> versions;
  std::ranges::transform(result.ranks, std::back_inserter(versions),
                         [](const RankReport& rank) { return static_cast<double>(rank.weight_versions); });
  return versions;
}

/// Returns, for each worker, the units of time between `from` and `to` in which it computes nothing.
std::vector<double> idle_between(const Result& result, double from, double to) {
  std::vector<double> idle(result.ranks.size(), to - from);
  for (const Span& span : result.timeline.spans) {
    // Only F and B count as computation. Messages and updates take no time here.
    if (span.action.kind != ActionKind::forward && span.action.kind != ActionKind::backward) continue;
    const double start = std::max(from, static_cast<double>(span.start_ns) / kUnitNs);
    const double end = std::min(to, static_cast<double>(span.end_ns) / kUnitNs);
    idle[static_cast<std::size_t>(span.rank)] -= std::max(0.0, end - start);
  }
  return idle;
}

/// Returns, for each worker, the weight version that the forward pass of the fifth minibatch uses.
std::vector<double> versions_of_the_fifth(const Result& result) {
  std::vector<double> versions(result.ranks.size(), 0);
  for (const Span& span : result.timeline.spans) {
    if (span.action.kind == ActionKind::forward && span.action.microbatch == kDrawnMinibatch)
      versions[static_cast<std::size_t>(span.rank)] = span.action.weight_version;
  }
  return versions;
}

// Each function below adds one drawing of a paper: its length, its bubble, all its operations, and the
// minibatches in flight on each worker.

void add_figure_2(Figures& figures) {
  const Result run = predicted_run("naive", {.stages = 4, .microbatches = 2}, equal_stages(4));
  figures.push_back(
      formula("figure 2, model parallelism, 4 workers, 2 minibatches: units", 24, makespan_units(run)));
  figures.push_back(formula("figure 2: utilisation", 0.25, 1 - run.bubble.idle_over_total));
  figures.push_back(operations("figure 2", kFigure2, run));
  add_by_worker(figures, "figure 2: minibatches in flight", {1, 1, 1, 1}, minibatches_in_flight(run));
}

void add_figure_3(Figures& figures) {
  const Result run = predicted_run("gpipe", {.stages = 4, .microbatches = 4}, equal_stages(4));
  figures.push_back(formula("figure 3, GPipe, 4 workers, 4 microbatches: units", 21, makespan_units(run)));
  figures.push_back(formula("figure 3: bubble (K-1)/(M+K-1)", 3.0 / 7, run.bubble.idle_over_total));
  figures.push_back(formula("figure 3: idle over busy time", 0.75, run.bubble.idle_over_ideal));
  figures.push_back(operations("figure 3", kFigure3, run));
  add_by_worker(figures, "figure 3: idle units", {9, 9, 9, 9}, idle_units(run));
  add_by_worker(figures, "figure 3: microbatches in flight", {4, 4, 4, 4}, minibatches_in_flight(run));
}

void add_figure_4(Figures& figures) {
  const Result run = predicted_run("1f1b-rr", {.stages = 4, .microbatches = kStream}, equal_stages(4));
  figures.push_back(formula("figure 4, 1F1B, 4 workers: units a minibatch", 3, period_units(run)));
  figures.push_back(operations("figure 4, first 8 minibatches", kFigure4, run));
  add_by_worker(figures, "figure 4: idle units before 10", {6, 5, 4, 3}, idle_between(run, 0, 10));
  add_by_worker(figures, "figure 4: idle units from 10 to 100", {0, 0, 0, 0}, idle_between(run, 10, 100));
  add_by_worker(figures, "figure 4: minibatches in flight", {4, 3, 2, 1}, minibatches_in_flight(run));
  add_by_worker(figures, "figure 4: weight versions", {4, 3, 2, 1}, weight_versions(run));
  add_by_worker(figures, "figure 4: updates in the weights of minibatch 5", {1, 2, 3, 4},
                versions_of_the_fifth(run));
}

void add_figure_8(Figures& figures) {
  const Shape shape{
      .stages = 2, .microbatches = kStream, .replicas = {2, 1}, .replica_sync = ReplicaSync::off};
  const Result run =
      predicted_run("1f1b-rr", shape, {{.forward = 2, .backward = 2}, {.forward = 1, .backward = 1}});
  figures.push_back(
      formula("figure 8, 1F1B-RR, stages on 2 and 1 workers: units a minibatch", 2, period_units(run)));
  figures.push_back(operations("figure 8, first 8 minibatches", kFigure8, run));
  add_by_worker(figures, "figure 8: idle units before 8", {0, 2, 2}, idle_between(run, 0, 8));
  add_by_worker(figures, "figure 8: idle units from 8 to 100", {0, 0, 0}, idle_between(run, 8, 100));
  add_by_worker(figures, "figure 8: minibatches in flight", {2, 2, 1}, minibatches_in_flight(run));
}

void add_figure_3_of_2bw(Figures& figures) {
  const Result run = predicted_run("gpipe", {.stages = 2, .microbatches = 4}, equal_stages(2));
  figures.push_back(
      formula("2BW's figure 3, GPipe, 2 workers, 4 microbatches: units", 15, makespan_units(run)));
  figures.push_back(formula("2BW's figure 3: bubble", 0.2, run.bubble.idle_over_total));
  figures.push_back(operations("2BW's figure 3", kFigure3Of2Bw, run));
  add_by_worker(figures, "2BW's figure 3: microbatches in flight", {4, 4}, minibatches_in_flight(run));
}

/// Adds the figures of a schedule of Megatron-LM. With v chunks on each device, the bubble is divided by v.
/// The time 8 (F + B) + (p - 1) (F + B) / v is 33 units for v = 1 and 28.5 units for v = 2.
void add_megatron(Figures& figures, const std::string& schedule, std::int32_t chunks, double units,
                  const std::vector<double>& in_flight) {
  constexpr double kBusyUnits = 24;  // compute time of a device: 8 microbatches with F = 1 and B = 2
  const UnitTimes chunk{.forward = 1.0 / chunks, .backward = 2.0 / chunks};
  const Result run = predicted_run(schedule, {.stages = 4, .microbatches = 8, .virtual_stages = chunks},
                                   equal_stages(4 * static_cast<std::size_t>(chunks), chunk));
  const std::string what = fmt::format("{}, 4 devices of {} chunks, 8 microbatches", schedule, chunks);
  figures.push_back(formula(what + ": units", units, makespan_units(run)));
  figures.push_back(formula(what + ": idle units of a device", units - kBusyUnits, idle_units(run).at(0)));
  figures.push_back(formula(what + ": idle over busy time (p-1)/(v m)", (units - kBusyUnits) / kBusyUnits,
                            run.bubble.idle_over_ideal));
  add_by_worker(figures, what + ": chunks in flight", in_flight, minibatches_in_flight(run));
}

}  // namespace

std::vector<ReproducedFigure> reproduce_pipedream_figures() {
  Figures figures;
  add_figure_2(figures);
  add_figure_3(figures);
  add_figure_4(figures);
  add_figure_8(figures);
  add_figure_3_of_2bw(figures);
  return figures;
}

std::vector<ReproducedFigure> reproduce_megatron_schedule() {
  Figures figures;
  add_megatron(figures, "1f1b", 1, 33, {4, 3, 2, 1});
  add_megatron(figures, "interleaved", 2, 28.5, {11, 9, 7, 5});
  return figures;
}

// Compares the activations and weight versions that each worker holds with those that papers state for GPipe,
// 1F1B and 1F1B-RR. GPipe with recomputation holds M inputs and the activations of one microbatch (section
// 2.3). With 1F1B, stage s holds K - s microbatches, and with weight stashing as many weight versions
// (PipeDream, sections 3.2 and 3.3).

namespace {

using Figures = std::vector<ReproducedFigure>;

constexpr Bytes kBoundary = 1;  // bytes of a stage's input for one microbatch
constexpr Bytes kInside = 10;   // bytes of activations that a stage holds for one microbatch from F to B

/// Runs the schedule with equal stages. The figures do not depend on the exact times.
Result run_of(const std::string& schedule, const Shape& shape) {
  const auto program = generate(schedule, shape);
  if (!program) throw std::logic_error(program.error());
  const StageCost cost{
      .forward_ns = 1, .backward_ns = 2, .recompute_ns = 1, .kept = kInside, .input = kBoundary};
  auto result = simulate_uniform(*program, uniform_costs(*program, cost), 0, SteadyState::skip);
  if (!result) throw std::logic_error(result.error());
  return *std::move(result);
}

/// Returns the peak bytes of activations that a worker holds between its operations.
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

/// Adds figures of 1F1B-RR. `warmup` is the number of warm-up forward passes of each stage in the released
/// runtime. It is (n - 1) / r, where n is the number of workers from this stage to the last one, and r is
/// the number of replicas.
void add_round_robin(Figures& figures, const std::vector<std::int32_t>& replicas,
                     const std::vector<std::int32_t>& warmup) {
  constexpr std::int32_t kMinibatches = 120;  // divisible by the replicas of every stage
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
