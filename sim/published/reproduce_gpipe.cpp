// Reproduces GPipe (Huang et al., NeurIPS'19), section 2.3, and torchgpipe, which implements it.
// reproduce_gpipe_tables.cpp predicts GPipe's tables. With K stages and M microbatches, all F together
// take M + K - 1 slots, and each rank is idle in K - 1 of them. The same holds for B. With recomputation
// R, the whole step takes
//
//   (M + K - 1) (F + B + R)                when R waits for the gradient
//   (M + K - 1) (F + B) + M R              when it does not
//
// With uneven stages, all F take sum F + (M - 1) max F, and all B take the corresponding time. Many cases are
// simulated and compared with these formulas.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "report/result/result.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/published/reproduce.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

/// Returns the time of a minibatch in units, which should be (M + K - 1) (W/M + o). W is the `work` of a
/// stage for all M microbatches, and o is the `overhead` of each microbatch. The time is least for M =
/// sqrt((K-1) W/o).
double time_with_overhead(std::int32_t stages, std::int32_t microbatches, double work, double overhead) {
  const double each = work / microbatches + overhead;
  const UnitTimes times{.forward = each / 4, .backward = each - each / 4};
  return makespan_units(predicted_run("gpipe", {.stages = stages, .microbatches = microbatches},
                                      equal_stages(static_cast<std::size_t>(stages), times)));
}

/// Returns the number of microbatches, up to 64, with the shortest time. If several have the same time,
/// returns the smallest.
std::int32_t best_microbatches(std::int32_t stages, double work, double overhead) {
  std::int32_t best = 1;
  for (std::int32_t m = 2; m <= 64; ++m) {
    if (time_with_overhead(stages, m, work, overhead) < time_with_overhead(stages, best, work, overhead))
      best = m;
  }
  return best;
}

/// Runs GPipe with recomputation on equal stages with F = 1, B = 2 and R = 1.
Result recomputed(std::int32_t stages, std::int32_t microbatches, RecomputeTiming timing) {
  return predicted_run(
      "gpipe",
      {.stages = stages, .microbatches = microbatches, .checkpoint = Checkpoint::always, .recompute = timing},
      equal_stages(static_cast<std::size_t>(stages)));
}

/// Returns the time of model parallelism without a pipeline, divided by the time of GPipe. F takes 1 unit,
/// and B takes 2.
double gain_over_naive(std::int32_t stages, std::int32_t microbatches) {
  const Shape shape{.stages = stages, .microbatches = microbatches};
  const std::vector<UnitTimes> times = equal_stages(static_cast<std::size_t>(stages));
  return makespan_units(predicted_run("naive", shape, times)) /
         makespan_units(predicted_run("gpipe", shape, times));
}

/// Returns the part of the step time that is recomputation: R / (F + B + R). It uses a single stage, which
/// never waits.
double part_recomputed() {
  const double without =
      makespan_units(predicted_run("gpipe", {.stages = 1, .microbatches = 4}, equal_stages(1)));
  return 1 - without / makespan_units(recomputed(1, 4, RecomputeTiming::late));
}

// --- whole grids of cases -------------------------------------------------------------------------------

/// Returns true if two times differ only by rounding. Each time is rounded to nanoseconds, which are
/// millionths of a unit. A sum contains at most some dozens of them.
bool is_near(double a, double b) { return std::abs(a - b) < 1e-4; }

/// Counts the cases in which the step takes the time that the formula gives. The cases are K = 1 to 6, M =
/// 1 to 8, and R (recomputation) from F / 4 to F.
ReproducedFigure recomputation_cases(RecomputeTiming timing) {
  const bool is_late = timing == RecomputeTiming::late;
  int cases = 0;
  int met = 0;
  for (std::int32_t k = 1; k <= 6; ++k) {
    for (std::int32_t m = 1; m <= 8; ++m) {
      for (const double r : {0.25, 0.5, 0.75, 1.0}) {
        const Shape shape{
            .stages = k, .microbatches = m, .checkpoint = Checkpoint::always, .recompute = timing};
        const double units = makespan_units(predicted_run(
            "gpipe", shape,
            equal_stages(static_cast<std::size_t>(k), {.forward = 1, .backward = 2, .recompute = r})));
        ++cases;
        met += is_near(units, is_late ? (m + k - 1) * (3 + r) : (m + k - 1) * 3 + m * r) ? 1 : 0;
      }
    }
  }
  return formula(fmt::format("recomputed {}, K = 1..6, M = 1..8, r = f/4..f: cases of the closed form",
                             is_late ? "late" : "early"),
                 cases, met);
}

/// Counts the pipelines in which the step takes sum f + (M-1) max f + sum b + (M-1) max b. There are 300
/// pipelines with 2 to 6 uneven stages.
ReproducedFigure uneven_cases() {
  constexpr int kCases = 300;
  // The multiples of a number modulo a prime vary like random numbers, but are the same on all machines.
  int met = 0;
  for (int number = 0; number < kCases; ++number) {
    const int stages = 2 + number % 5;
    const std::int32_t microbatches = 1 + number % 7;
    std::vector<UnitTimes> times;
    UnitTimes sum{.forward = 0, .backward = 0};
    UnitTimes most{.forward = 0, .backward = 0};
    for (int stage = 0; stage < stages; ++stage) {
      const UnitTimes own{.forward = 1.0 + (number * (stage + 3)) % 11,
                          .backward = 1.0 + (number + stage * 5) % 13};
      times.push_back(own);
      sum = {.forward = sum.forward + own.forward, .backward = sum.backward + own.backward};
      most = {.forward = std::max(most.forward, own.forward),
              .backward = std::max(most.backward, own.backward)};
    }
    const double units =
        makespan_units(predicted_run("gpipe", {.stages = stages, .microbatches = microbatches}, times));
    met += is_near(units, sum.forward + sum.backward + (microbatches - 1) * (most.forward + most.backward))
               ? 1
               : 0;
  }
  return formula("uneven stages, K = 2..6, M = 1..7: cases of that form", kCases, met);
}

}  // namespace

std::vector<ReproducedFigure> reproduce_gpipe_schedule() {
  const std::vector<UnitTimes> uneven = {
      {.forward = 1, .backward = 2}, {.forward = 3, .backward = 5}, {.forward = 2, .backward = 2}};
  return {
      formula("best number of microbatches, K = 4, W = 48, overhead 1: sqrt((K-1)W/o)", 12,
              best_microbatches(4, 48, 1)),
      formula("its time: units", 75, time_with_overhead(4, 12, 48, 1)),
      formula("uneven stages, M = 6: sum f + (M-1) max f + sum b + (M-1) max b", 6 + 5 * 3 + 9 + 5 * 5,
              makespan_units(predicted_run("gpipe", {.stages = 3, .microbatches = 6}, uneven))),
      uneven_cases(),
      recomputation_cases(RecomputeTiming::early),
      recomputation_cases(RecomputeTiming::late),
      formula("recomputed early, K = 4, M = 8: (M+K-1)(f+b) + M r", 11 * 3 + 8,
              makespan_units(recomputed(4, 8, RecomputeTiming::early))),
      formula("recomputed late, K = 4, M = 8: (M+K-1)(f+b+r)", 11 * 4,
              makespan_units(recomputed(4, 8, RecomputeTiming::late))),
      formula(
          "K = 4, M = 8: bubble (K-1)/(M+K-1)", 3.0 / 11,
          predicted_run("gpipe", {.stages = 4, .microbatches = 8}, equal_stages(4)).bubble.idle_over_total),
      formula("naive model parallelism, 4 stages: utilisation 1/K", 0.25,
              1 - predicted_run("naive", {.stages = 4, .microbatches = 4}, equal_stages(4))
                      .bubble.idle_over_total),
      formula("naive over GPipe, 4 stages, M = 4: KM/(M+K-1)", 16.0 / 7, gain_over_naive(4, 4)),
      formula("naive over GPipe, 4 stages, M = 32: KM/(M+K-1)", 128.0 / 35, gain_over_naive(4, 32)),
      noted(at_most("recomputed early, K = 4, M = 8: bubble, below (K-1)/(M+K-1)", 3.0 / 11,
                    recomputed(4, 8, RecomputeTiming::early).bubble.idle_over_total),
            "the paper sees less bubble than the formula has, for recomputation fills it"),
      noted(at_least("section 3: part of a step that recomputes, up to 0.23", 0.23, part_recomputed()),
            "R as long as F and half as long as B; other work of a step is left out"),
  };
}

// Predicts the benchmarks of torchgpipe (arXiv 2004.09910): the cost of recomputation and the gain from
// microbatches. The layer times on its machine are not published, so only ratios of speeds are compared, and
// R = F and B = 2 F are assumed.

namespace {

/// Returns the number of microbatches per unit of time. The F and B of a microbatch take 3 units in all
/// stages together, and each stage takes an equal part.
double rate(std::int32_t stages, std::int32_t microbatches, Checkpoint checkpoint) {
  const double share = 1.0 / stages;
  const Shape shape{.stages = stages,
                    .microbatches = microbatches,
                    .checkpoint = checkpoint,
                    .recompute = RecomputeTiming::late};
  const UnitTimes times{.forward = share, .backward = 2 * share, .recompute = share};
  return microbatches /
         makespan_units(predicted_run("gpipe", shape, equal_stages(static_cast<std::size_t>(stages), times)));
}

/// Returns the speed relative to one device without recomputation. For example, it is 6 / 7 = 0.857 on one
/// device that recomputes one of two microbatches.
double speed_up(std::int32_t stages, std::int32_t microbatches, Checkpoint checkpoint) {
  return rate(stages, microbatches, checkpoint) / rate(1, 1, Checkpoint::never);
}

}  // namespace

std::vector<ReproducedFigure> reproduce_torchgpipe() {
  const auto gain = [](std::int32_t stages) {
    return rate(stages, 32, Checkpoint::except_last) / rate(stages, 4, Checkpoint::except_last);
  };
  return {
      equal(Tolerance::ratio, "U-Net, 1 device, 2 microbatches, all but the last recomputed: speed", 0.858,
            speed_up(1, 2, Checkpoint::except_last)),
      equal(Tolerance::ratio, "ResNet-101, 1 device, 2 microbatches, all but the last recomputed: speed",
            0.853, speed_up(1, 2, Checkpoint::except_last)),
      equal(Tolerance::ratio, "AmoebaNet-D (18, 256), 4 devices: M = 32 over M = 4", 72.412 / 44.543,
            gain(4)),
      equal(Tolerance::ratio, "AmoebaNet-D (18, 256), 2 devices: M = 32 over M = 4", 47.386 / 41.133,
            gain(2)),
      at_least("AmoebaNet-D (18, 256), 8 devices: M = 32 over M = 4", 132.413 / 70.065, gain(8)),
      equal(Tolerance::ratio, "AmoebaNet-D (18, 256), M = 1: 4 devices over 2", 26.827 / 26.733,
            rate(4, 1, Checkpoint::always) / rate(2, 1, Checkpoint::always)),
      equal(Tolerance::ratio, "AmoebaNet-D (18, 256), M = 1: 8 devices over 2", 24.918 / 26.733,
            rate(8, 1, Checkpoint::always) / rate(2, 1, Checkpoint::always)),
      at_least("ResNet-101, 2 devices, M = 1667: speed-up", 1.414, speed_up(2, 1667, Checkpoint::always)),
      at_least("ResNet-101, 4 devices, M = 256: speed-up", 2.774, speed_up(4, 256, Checkpoint::always)),
      at_least("ResNet-101, 8 devices, M = 150: speed-up", 4.294, speed_up(8, 150, Checkpoint::always)),
      at_least("U-Net, 2 devices, M = 32: speed-up", 1.246, speed_up(2, 32, Checkpoint::except_last)),
      at_least("U-Net, 4 devices, M = 16: speed-up", 2.352, speed_up(4, 16, Checkpoint::except_last)),
      at_least("U-Net, 8 devices, M = 40: speed-up", 3.105, speed_up(8, 40, Checkpoint::except_last)),
      equal(Tolerance::size, "AmoebaNet-D (18, 208), 81.5 M parameters at 12 bytes: GiB", 0.91,
            12 * 81.5e6 / kBytesPerGibibyte),
      equal(Tolerance::size, "AmoebaNet-D (18, 416), 319.0 M parameters at 12 bytes: GiB", 3.57,
            12 * 319.0e6 / kBytesPerGibibyte),
      equal(Tolerance::size, "AmoebaNet-D (18, 544), 542.7 M parameters at 12 bytes: GiB", 6.07,
            12 * 542.7e6 / kBytesPerGibibyte),
      equal(Tolerance::size, "AmoebaNet-D (36, 544), 1.06 B parameters at 12 bytes: GiB", 11.8,
            12 * 1.06e9 / kBytesPerGibibyte),
      equal(Tolerance::size, "AmoebaNet-D (72, 512), 1.84 B parameters at 12 bytes: GiB", 20.62,
            12 * 1.84e9 / kBytesPerGibibyte),
  };
}

}  // namespace penstock
