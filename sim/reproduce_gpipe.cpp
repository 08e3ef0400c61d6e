// GPipe (Huang et al., NeurIPS'19): its schedule's closed forms, tables 1, 2 and 3.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "report/result.hpp"
#include "schedules/generators.hpp"
#include "schedules/program.hpp"
#include "sim/reproduce.hpp"
#include "sim/reproduce_runs.hpp"
#include "sim/stage_memory.hpp"

namespace penstock {
namespace {

// --- the schedule ---------------------------------------------------------------------------------------

/// Units of a minibatch with `work` a stage cut into M microbatches that cost `overhead` each beside it.
double time_with_overhead(std::int32_t stages, std::int32_t microbatches, double work, double overhead) {
  const double each = work / microbatches + overhead;
  const UnitTimes times{.forward = each / 4, .backward = each - each / 4};
  return makespan_units(predicted_run("gpipe", {.stages = stages, .microbatches = microbatches},
                                      equal_stages(static_cast<std::size_t>(stages), times)));
}

std::int32_t best_microbatches(std::int32_t stages, double work, double overhead) {
  std::int32_t best = 1;
  for (std::int32_t m = 2; m <= 64; ++m) {
    if (time_with_overhead(stages, m, work, overhead) < time_with_overhead(stages, best, work, overhead))
      best = m;
  }
  return best;
}

double recomputed(std::int32_t stages, std::int32_t microbatches, RecomputeTiming timing) {
  return makespan_units(predicted_run(
      "gpipe",
      {.stages = stages, .microbatches = microbatches, .checkpoint = Checkpoint::always, .recompute = timing},
      equal_stages(static_cast<std::size_t>(stages))));
}

// --- tables 2 and 3 -------------------------------------------------------------------------------------

/// Throughput of equal stages that share one minibatch's work.
double throughput(std::int32_t stages, std::int32_t microbatches) {
  const double share = 1000.0 / stages / microbatches;
  const UnitTimes times{.forward = share, .backward = 2 * share};
  return 1 / makespan_units(predicted_run("gpipe", {.stages = stages, .microbatches = microbatches},
                                          equal_stages(static_cast<std::size_t>(stages), times)));
}

// --- table 1 --------------------------------------------------------------------------------------------

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr std::int64_t kWidth = 2048;
constexpr std::int64_t kVocabulary = 32'000;
constexpr std::int64_t kEmbedding = 2 * kVocabulary * kWidth;  // of tokens, at both ends
constexpr std::int64_t kBlock = 12 * kWidth * kWidth;          // attention and an MLP of four times the width

std::int64_t parameters(std::int64_t layers) { return kEmbedding + layers * kBlock; }

/// Peak GiB of the fullest of `stages` devices with the layers shared out, largest shares first; RMSProp.
double peak_gib(std::int64_t layers, std::int32_t stages, double activations_gib) {
  double peak = 0;
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    const std::int64_t own = layers / stages + (stage < layers % stages ? 1 : 0);
    const bool first = stage == 0;
    const bool last = stage == stages - 1;
    const std::int64_t held = own * kBlock + (first ? kEmbedding / 2 : 0) + (last ? kEmbedding / 2 : 0);
    const StageState state{.weights = 4 * held,
                           .gradients = 4 * held,
                           .optimizer_state = 4 * held,
                           .activations = std::llround(static_cast<double>(own) * activations_gib * kGiB)};
    peak = std::max(peak, static_cast<double>(peak_of_one_stage(state)) / kGiB);
  }
  return peak;
}

double largest_that_fits(double activations_gib) {
  std::int64_t layers = 1;
  while (peak_gib(layers + 1, 1, activations_gib) <= 16) ++layers;
  return static_cast<double>(layers);
}

}  // namespace

std::vector<ReproducedFigure> reproduce_gpipe_schedule() {
  const std::vector<UnitTimes> uneven = {
      {.forward = 1, .backward = 2}, {.forward = 3, .backward = 5}, {.forward = 2, .backward = 2}};
  return {
      {"best number of microbatches, K = 4, W = 48, overhead 1: sqrt((K-1)W/o)", 12,
       static_cast<double>(best_microbatches(4, 48, 1))},
      {"its time: units", 75, time_with_overhead(4, 12, 48, 1), 1e-3},
      {"uneven stages, M = 6: sum f + (M-1) max f + sum b + (M-1) max b", 6 + 5 * 3 + 9 + 5 * 5,
       makespan_units(predicted_run("gpipe", {.stages = 3, .microbatches = 6}, uneven))},
      {"recomputed early, K = 4, M = 8: (M+K-1)(f+b) + M r", 11 * 3 + 8,
       recomputed(4, 8, RecomputeTiming::early)},
      {"recomputed late, K = 4, M = 8: (M+K-1)(f+b+r)", 11 * 4, recomputed(4, 8, RecomputeTiming::late)},
      {"K = 4, M = 8: bubble (K-1)/(M+K-1)", 3.0 / 11,
       predicted_run("gpipe", {.stages = 4, .microbatches = 8}, equal_stages(4)).bubble.idle_over_total,
       1e-9},
      {"naive model parallelism, 4 stages: utilisation 1/K", 0.25,
       1 - predicted_run("naive", {.stages = 4, .microbatches = 4}, equal_stages(4)).bubble.idle_over_total,
       1e-9},
  };
}

std::vector<ReproducedFigure> reproduce_gpipe_speed() {
  std::vector<ReproducedFigure> figures = {
      within(0.06, "table 2, Transformer, M = 32: K = 4 over K = 2", 3.4 / 1.8,
             throughput(4, 32) / throughput(2, 32)),
      within(0.06, "table 3, Transformer, M = 32: K = 4 over K = 2", 1.8,
             throughput(4, 32) / throughput(2, 32)),
      {"table 2, Transformer, M = 1: K = 4 over K = 2", 1.07, throughput(4, 1) / throughput(2, 1), 0.15},
  };
  figures.back().note =
      "without microbatches more stages gain nothing; published 1 to 1.38, as its batch grew";
  struct Row {
    std::int32_t stages;
    double published;
  };
  for (const Row& row : {Row{2, 1.21 / 1.07}, Row{4, 1.84 / 1.26}, Row{8, 3.48 / 1.72}}) {
    const double predicted = throughput(row.stages, 32) / throughput(row.stages, 4);
    const std::string what = fmt::format("table 2, AmoebaNet, K = {}: M = 32 over M = 4", row.stages);
    figures.push_back(at_least(what, row.published, predicted));
    figures.push_back(within(0.12, what + ", within 12 %", row.published, predicted));
  }
  return figures;
}

std::vector<ReproducedFigure> reproduce_gpipe_memory() {
  std::vector<ReproducedFigure> figures;
  struct Size {
    std::int64_t layers;
    double millions;
  };
  for (const Size& size : {Size{3, 282.2}, {13, 785.8}, {103, 5300}, {415, 21'000}, {1663, 83'900}}) {
    figures.push_back(within(0.003, fmt::format("L = {}: millions of parameters", size.layers), size.millions,
                             static_cast<double>(parameters(size.layers)) / 1e6));
  }
  struct Memory {
    std::int64_t layers;
    double gib;
  };
  for (const Memory& memory : {Memory{3, 3.15}, {13, 8.8}, {103, 59.5}, {415, 235.1}, {1663, 937.9}}) {
    figures.push_back(within(0.01, fmt::format("L = {}: GiB of model parameters", memory.layers), memory.gib,
                             12 * static_cast<double>(parameters(memory.layers)) / kGiB));
    if (memory.layers == 3) figures.back().note = "misprint: the two memory rows of Naive-1 are swapped";
  }
  figures.push_back({"largest L on one device, nothing recomputed", 3, largest_that_fits(3.9)});
  figures.push_back({"largest L on one device, re-materialised", 13, largest_that_fits(0.492)});
  for (const std::int32_t stages : {8, 32, 128}) {
    const std::int64_t layers = std::int64_t{13} * stages - 1;
    figures.push_back(
        {.what = fmt::format("L = {} on {} devices: GiB of the fullest, at most 16", layers, stages),
         .published = 16,
         .predicted = peak_gib(layers, stages, 0.492),
         .claim = Claim::at_most});
  }
  figures.push_back(within(0.005, "Pipeline-128 over Naive-1: parameters", 298,
                           static_cast<double>(parameters(1663)) / static_cast<double>(parameters(3))));
  figures.back().note = "the text says 298x; its \"25x\" for AmoebaNet is 22.0x in the table's parameters";
  return figures;
}

}  // namespace penstock
