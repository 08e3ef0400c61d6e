// Compares makespans, pauses and peaks of the schedules with formulas, and with figures of papers and public
// generators. f and b are the times of forward and backward, i and w those of the two halves of the backward,
// and c is the latency. There are K ranks, M microbatches and v chunks for each rank.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/result/metrics.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/scenarios/read_scenario.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using testing::Each;
using testing::ElementsAre;

/// Returns the durations of one stage. If `pair` is not given, an overlapped pair takes the sum of its two
/// actions.
StageCost times(Ns forward, Ns input, Ns weight, Ns pair = -1) {
  return {.forward_ns = forward,
          .backward_ns = input + weight,
          .backward_input_ns = input,
          .backward_weight_ns = weight,
          .overlapped_pair_ns = pair,
          .kept = 1};
}
const StageCost kEqualTimes = times(1, 1, 1);

/// The figures that the tests below compare.
struct Figures {
  Ns makespan = 0;
  Ns longest_span = 0;  ///< longest time from a rank's first start to its last end
  std::vector<Ns> idle{};
  std::vector<std::int64_t> peaks{};  ///< live activations
};

Figures figures(const std::string& schedule, const Shape& shape, const StageCost& cost, Ns latency_ns = 0) {
  const auto program = generate(schedule, shape);
  if (!program) throw std::runtime_error(program.error());
  const Experiment experiment =
      experiment_of(*program, uniform_costs(*program, cost),
                    uniform_links(program->rank_count(), kUnlimitedBandwidth, latency_ns));
  const Result result =
      summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs});
  Figures figures{.makespan = result.makespan_ns};
  for (const RankReport& rank : result.ranks) {
    figures.idle.push_back(rank.idle_ns);
    figures.peaks.push_back(rank.peak_live_activations);
    Ns first = result.makespan_ns;
    Ns last = 0;
    for (const Span& span : result.timeline.spans) {
      if (span.rank != rank.rank || !is_compute(span.action.kind) || span.action.kind == ActionKind::step)
        continue;
      first = std::min(first, span.start_ns);
      last = std::max(last, span.end_ns);
    }
    figures.longest_span = std::max(figures.longest_span, last - first);
  }
  return figures;
}

const std::vector<std::tuple<Ns, Ns, Ns>> kSplits = {{1, 1, 1}, {3, 3, 3}, {2, 5, 1}, {5, 2, 1},
                                                     {4, 3, 6}, {3, 6, 2}, {6, 4, 5}};

// --- one direction ---------------------------------------------------------------------------------------

TEST(ScheduleFigures, LoopedBfsHasInterleavingsBubbleForMOfAtLeastK) {
  for (std::int32_t k = 1; k <= 8; ++k) {
    for (std::int32_t m = k; m <= 16; ++m) {
      for (std::int32_t v = 1; v <= 4; ++v) {
        EXPECT_EQ(figures("looped-bfs", {.stages = k, .microbatches = m, .virtual_stages = v}, times(7, 5, 8))
                      .makespan,
                  (m * v + k - 1) * (7 + 13))
            << "K=" << k << " M=" << m << " v=" << v;
      }
    }
  }
}

TEST(ScheduleFigures, InterleavedZeroBubbleLeavesAThirdOfTheBubbleOfOneChunk) {
  for (const auto& [f, i, w] : kSplits) {
    for (std::int32_t k = 1; k <= 6; ++k) {
      for (std::int32_t v = 1; v <= 3; ++v) {
        const Shape shape{.stages = k, .microbatches = 2 * k, .virtual_stages = v};
        const Figures all = figures("interleaved-zero-bubble", shape, times(f, i, w));
        EXPECT_EQ(all.makespan, 2 * k * v * (f + i + w) + (k - 1) * std::max({f, i, f + i - w}))
            << "K=" << k << " v=" << v << " f,i,w=" << f << "," << i << "," << w;
        EXPECT_THAT(all.peaks, Each(v * k));
      }
    }
  }
}

// If w <= f, a rank is idle for (K-1) max(0, f + i - 2w) between its first and last action (Qi et al.,
// section 2).
TEST(ScheduleFigures, ZbH2RunsWithoutAPauseWhereWeightsTakeHalfOfTheRest) {
  for (const auto& [f, i, w] : std::vector<std::tuple<Ns, Ns, Ns>>{
           {1, 1, 1}, {3, 3, 3}, {2, 5, 1}, {5, 2, 1}, {4, 4, 3}, {6, 4, 5}}) {
    for (std::int32_t k = 1; k <= 6; ++k) {
      const std::int32_t m = 2 * k + 1;
      const Figures all = figures("zb-h2", {.stages = k, .microbatches = m}, times(f, i, w));
      EXPECT_EQ(all.longest_span, m * (f + i + w) + (k - 1) * std::max<Ns>(0, f + i - 2 * w))
          << "K=" << k << " f,i,w=" << f << "," << i << "," << w;
      EXPECT_THAT(all.peaks, Each(2 * k - 1));
    }
  }
}

// With M <= K, 1F1B takes (M+K-1)(f+i+w), and ZB-H1 takes (M+K-1)(f+i) + w (Qi et al.).
TEST(ScheduleFigures, FewMicrobatchesLeaveOnlyTheLastWeightOutsideTheWayThrough) {
  for (std::int32_t k = 1; k <= 6; ++k) {
    for (std::int32_t m = 1; m <= k; ++m) {
      const Shape shape{.stages = k, .microbatches = m};
      EXPECT_EQ(figures("1f1b", shape, times(4, 4, 4)).makespan, (m + k - 1) * 12);
      EXPECT_EQ(figures("zb-h1", shape, times(4, 4, 4)).makespan, (m + k - 1) * 8 + 4) << k << " " << m;
    }
  }
}

// Source: Qi et al., Tables 1 and 2, with K = 4, M = 8 and F = I = W = 1.
TEST(ScheduleFigures, ZeroBubbleSpansOfFourStages) {
  const Shape shape{.stages = 4, .microbatches = 8};
  EXPECT_EQ(figures("1f1b", shape, kEqualTimes).longest_span, 33);
  EXPECT_EQ(figures("zb-h1", shape, kEqualTimes).longest_span, 27);
  EXPECT_EQ(figures("zb-h2", shape, kEqualTimes).longest_span, 24);
  EXPECT_EQ(figures("zb-h2", shape, kEqualTimes).makespan, 27);
}

// Source: Qi et al., Tables 1 and 2. Worker i, counted from 1, holds (K-i+1) M_B + (i-1) M_W with ZB-H1, and
// (2K-2i+1) M_B + (2i-2) M_W with ZB-H2. I releases M_B - M_W.
TEST(ScheduleFigures, ZeroBubbleKeepsTheStatedActivationBytes) {
  constexpr Bytes kBoth = 34;    // M_B
  constexpr Bytes kWeight = 32;  // M_W
  StageCost cost = kEqualTimes;
  cost.kept = kBoth;
  cost.released_by_input = kBoth - kWeight;
  for (std::int32_t k = 2; k <= 8; ++k) {
    for (std::int32_t depth = 1; depth <= 2; ++depth) {
      const Program program = *generate(depth == 1 ? "zb-h1" : "zb-h2", {.stages = k, .microbatches = 3 * k});
      const Experiment experiment =
          experiment_of(program, uniform_costs(program, cost), uniform_links(k, kUnlimitedBandwidth, 0));
      const auto memory = memory_of(*critical_path(experiment), experiment, {.samples = false});
      for (std::int32_t rank = 0; rank < k; ++rank) {
        EXPECT_EQ(memory.at(static_cast<std::size_t>(rank)).peak_bytes,
                  (depth * (k - 1 - rank) + 1) * kBoth + depth * rank * kWeight)
            << "depth " << depth << " rank " << rank << " of " << k;
      }
    }
  }
}

TEST(ScheduleFigures, SlicesShortenTheBubbleBySoManyTimes) {
  for (std::int32_t k = 1; k <= 8; ++k) {
    for (std::int32_t m = 1; m <= 8; ++m) {
      for (std::int32_t q = 1; q <= 4; ++q) {
        EXPECT_EQ(figures("seq-1f1b", {.stages = k, .microbatches = m, .slices = q}, times(7, 5, 8)).makespan,
                  (m * q + k - 1) * (7 + 13))
            << "K=" << k << " M=" << m << " q=" << q;
      }
    }
  }
}

// If a link takes at most half of the time of a microbatch's work, the latency only delays the first
// microbatch on its way through the pipeline and back.
TEST(ScheduleFigures, EagerOneFOneBHidesLatency) {
  for (std::int32_t k = 2; k <= 8; ++k) {
    for (std::int32_t m = 1; m <= 24; ++m) {
      for (const Ns latency : {Ns{0}, Ns{3}, Ns{10}}) {
        EXPECT_EQ(figures("eager-1f1b", {.stages = k, .microbatches = m}, times(7, 5, 8), latency).makespan,
                  (m + k - 1) * (7 + 13) + 2 * (k - 1) * latency)
            << "K=" << k << " M=" << m << " c=" << latency;
      }
    }
  }
}

// --- V shapes --------------------------------------------------------------------------------------------

TEST(ScheduleFigures, ZbvRunsWithoutAPauseFrom2KMinus1MicrobatchesOn) {
  for (std::int32_t k = 1; k <= 8; ++k) {
    for (std::int32_t m = 2 * k - 1; m <= 24; ++m) {
      const Figures all = figures("zbv-zero-bubble", {.stages = k, .microbatches = m}, kEqualTimes);
      EXPECT_EQ(all.longest_span, 6 * m) << "K=" << k << " M=" << m;
      EXPECT_EQ(all.makespan, 6 * m + k - 1) << "K=" << k << " M=" << m;
      EXPECT_THAT(all.peaks, Each(2 * k));
    }
  }
}

TEST(ScheduleFigures, ZbvWithFewMicrobatchesPauses) {
  const Figures all = figures("zbv-zero-bubble", {.stages = 4, .microbatches = 4}, kEqualTimes);
  EXPECT_EQ(all.makespan - 6 * 4, 6);
  EXPECT_THAT(all.peaks, ElementsAre(5, 6, 7, 8));
}

struct Row {
  const char* schedule;
  std::int32_t virtual_stages;
  Ns makespan4;  ///< K = 4, M = 8
  std::vector<std::int64_t> peaks4;
  Ns makespan8;  ///< K = 8, M = 16
};

// The programs are those of PyTorch 2.11 and of deepseek-ai/DualPipe (commit 3da1bbea). An independent
// simulation computed the figures, with F = I = W = 1, B = 2, and 3 for an overlapped pair. Each chunk is a
// stage.
TEST(ScheduleFigures, UnitTimesOfTheSchedulesOfPyTorch) {
  const std::vector<Row> rows = {
      {"gpipe", 1, 33, {8, 8, 8, 8}, 69},
      {"1f1b", 1, 33, {4, 3, 2, 1}, 69},
      {"looped-bfs", 2, 57, {16, 16, 16, 16}, 117},
      {"interleaved", 2, 57, {11, 9, 7, 5}, 117},
      {"interleaved-zero-bubble", 2, 51, {8, 8, 8, 8}, 103},
      {"zbv-zero-bubble", 2, 51, {8, 8, 8, 8}, 103},
      {"dualpipe-v", 2, 54, {9, 9, 9, 9}, 110},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.schedule);
    Shape shape{.stages = 4, .microbatches = 8, .virtual_stages = row.virtual_stages};
    const Figures four = figures(row.schedule, shape, times(1, 1, 1, 3));
    EXPECT_EQ(four.makespan, row.makespan4);
    EXPECT_EQ(four.peaks, row.peaks4);
    shape.stages = 8;
    shape.microbatches = 16;
    EXPECT_EQ(figures(row.schedule, shape, times(1, 1, 1, 3)).makespan, row.makespan8);
  }
  // With fewer microbatches than ranks, the bubble is 5 instead of 3.
  EXPECT_EQ(
      figures("interleaved-zero-bubble", {.stages = 4, .microbatches = 3, .virtual_stages = 2}, kEqualTimes)
          .makespan,
      3 * 2 * 3 + 5);
}

// --- two directions --------------------------------------------------------------------------------------

// Source: DeepSeek-V3, Table 2. The bubble is (K/2 - 1)(F&B + B - 3W), and a rank holds K + 1 activations.
TEST(ScheduleFigures, DualPipesPublishedBubbleHoldsForEqualHalves) {
  for (std::int32_t k = 2; k <= 8; k += 2) {
    for (std::int32_t m = 2 * k; m <= 24; m += 2) {
      const Figures all = figures("dualpipe", {.stages = k, .microbatches = m}, times(1, 1, 1, 3));
      EXPECT_THAT(all.idle, Each((k / 2 - 1) * (3 + 2 - 3))) << "K=" << k << " M=" << m;
      EXPECT_THAT(all.peaks, Each(k + 1)) << "K=" << k << " M=" << m;
    }
  }
  const Figures eight = figures("dualpipe", {.stages = 8, .microbatches = 20}, times(1, 1, 1, 3));
  EXPECT_EQ(eight.makespan, 66);
  EXPECT_THAT(eight.idle, Each(6));
  const Figures four = figures("dualpipe", {.stages = 4, .microbatches = 10}, times(1, 1, 1, 3));
  EXPECT_EQ(four.makespan, 32);
  EXPECT_THAT(four.idle, Each(2));
}

TEST(ScheduleFigures, DualPipesBubbleIsThatOfItsMiddleWherePairsAreFaster) {
  // F = W = 1 and F&B = 2.5, in units of a half. The bubble is 4.5 on the middle ranks and 3.5 on the ranks
  // at the ends.
  const Figures all = figures("dualpipe", {.stages = 8, .microbatches = 20}, times(2, 2, 2, 5));
  EXPECT_EQ(all.idle.front(), 7);
  EXPECT_EQ(all.idle.back(), 7);
  EXPECT_EQ(all.idle[3], 9);
  EXPECT_EQ(all.idle[4], 9);
  EXPECT_EQ(*std::ranges::max_element(all.idle), 9);
}

// For these cases, the published formula gives 9, 12 and 18.
TEST(ScheduleFigures, DualPipeVsPublishedBubbleIsWrongForUnequalHalves) {
  const auto bubble = [](Ns f, Ns i, Ns w) {
    const Figures all = figures("dualpipe-v", {.stages = 4, .microbatches = 8}, times(f, i, w));
    return *std::ranges::max_element(all.idle);
  };
  EXPECT_EQ(bubble(2, 1, 1), 12);
  EXPECT_EQ(bubble(1, 2, 1), 11);
  EXPECT_EQ(bubble(3, 2, 1), 21);
}

// Source: Li and Hoefler, SC'21, Table 2. If F and B take equally long, the bubble is (D-2)/(2N+D-2) of the
// time. A rank holds D/2+1 to D activations.
TEST(ScheduleFigures, ChimeraTakes2MPlusDMinus2Slots) {
  for (std::int32_t d = 2; d <= 8; d += 2) {
    for (std::int32_t units = 1; units <= 4; ++units) {
      const std::int32_t m = units * d;
      const Figures all = figures("chimera", {.stages = d, .microbatches = m}, times(2, 1, 1));
      EXPECT_EQ(all.makespan, 2 * (2 * m + d - 2)) << "D=" << d << " M=" << m;
      EXPECT_THAT(all.idle, Each(2 * (d - 2)));
      for (std::int32_t rank = 0; rank < d; ++rank)
        EXPECT_EQ(all.peaks[static_cast<std::size_t>(rank)], d / 2 + 1 + std::min(rank, d - 1 - rank));
    }
  }
  const auto slots = [](std::int32_t d, std::int32_t n) {
    return figures("chimera", {.stages = d, .microbatches = n}, times(2, 1, 1)).makespan / 2;
  };
  EXPECT_EQ(slots(4, 4), 10);
  EXPECT_EQ(slots(4, 8), 18);
  EXPECT_EQ(slots(8, 8), 22);
  EXPECT_EQ(slots(8, 16), 38);
}

TEST(ScheduleFigures, HanayoHasChimerasBubbleWithoutASecondCopyOfTheWeights) {
  for (std::int32_t k = 1; k <= 6; ++k) {
    for (std::int32_t units = 1; units <= 3; ++units) {
      for (std::int32_t waves = 1; waves <= 3; ++waves) {
        const Shape shape{.stages = k, .microbatches = units * k, .virtual_stages = 2 * waves};
        const Figures all = figures("hanayo", shape, times(2, 1, 1));
        EXPECT_EQ(all.makespan, 2 * (4 * waves * k * units + 2 * k - 2))
            << "K=" << k << " M=" << units * k << " waves=" << waves;
        for (std::int32_t rank = 0; rank < k; ++rank)
          EXPECT_EQ(all.peaks[static_cast<std::size_t>(rank)], (2 * waves - 1) * k + 1 + rank);
      }
    }
    if (k == 1) continue;
    EXPECT_EQ(
        figures("hanayo", {.stages = k, .microbatches = k, .virtual_stages = 2}, times(2, 1, 1)).makespan,
        figures("chimera", {.stages = 2 * k, .microbatches = 2 * k}, times(2, 1, 1)).makespan);
  }
}

// The backwards of a microbatch start when its forwards have passed all ranks. On each rank they follow those
// of the microbatch before it.
TEST(ScheduleFigures, GemsTakesTurnsWithOneActivationARank) {
  for (std::int32_t k = 1; k <= 8; ++k) {
    for (std::int32_t m = 1; m <= 8; ++m) {
      const Figures all = figures("gems", {.stages = k, .microbatches = m}, times(7, 5, 8));
      EXPECT_EQ(all.makespan, k * 7 + (m - 1) * (k * 13 + 7) + k * 13) << "K=" << k << " M=" << m;
      EXPECT_THAT(all.peaks, Each(1));
    }
  }
}

// Source: Chimera, Table 2. With b = 2f, GEMS is idle for (D-1)/(D+1/2) of the time.
TEST(ScheduleFigures, GemsReachesTheBubbleThatChimerasAuthorsState) {
  for (const std::int32_t k : {2, 4, 8, 16}) {
    const auto time = [&](std::int32_t m) {
      return figures("gems", {.stages = k, .microbatches = m}, kEqualTimes).makespan;
    };
    const auto pair = static_cast<double>(time(10) - time(8));
    EXPECT_DOUBLE_EQ(1 - 6 / pair, (k - 1) / (k + 0.5)) << k;
  }
}

// --- the figures of sail-sg/zero-bubble-pipeline-parallelism ---------------------------------------------

struct PublishedCase {
  const char* schedule;
  Shape shape;
  StageCost cost;
  Ns latency;
  Ns makespan;
  std::vector<std::int64_t> peaks;
};

// The figures come from the generators of commit 39f2c186, with times in thousandths.
TEST(ScheduleFigures, OneFOneBAndInterleavedAsTheZeroBubbleGeneratorsTimeThem) {
  const StageCost equal = times(1000, 1000, 1000);
  const StageCost measured = times(4959, 5217, 3519);
  const Shape four{.stages = 4, .microbatches = 8};
  const Shape four_twice{.stages = 4, .microbatches = 8, .virtual_stages = 2};
  const std::vector<PublishedCase> cases = {
      {"1f1b", four, equal, 0, 33'000, {4, 3, 2, 1}},
      {"1f1b", four, measured, 213, 154'053, {4, 3, 2, 1}},
      {"interleaved", four_twice, equal, 0, 57'000, {11, 9, 7, 5}},
      {"interleaved", four_twice, measured, 213, 263'187, {11, 9, 7, 5}},
  };
  for (const PublishedCase& test_case : cases) {
    const Figures all = figures(test_case.schedule, test_case.shape, test_case.cost, test_case.latency);
    EXPECT_EQ(all.makespan, test_case.makespan) << test_case.schedule;
    EXPECT_EQ(all.peaks, test_case.peaks) << test_case.schedule;
  }
}

TEST(ScheduleFigures, EveryRowOfTheZeroBubbleGeneratorsForTheseSchedules) {
  const std::filesystem::path path = source_path("../shared/reference/zero_bubble/expected.json");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the zero-bubble figures are not beside this checkout";
  std::ifstream file(path);
  const nlohmann::json rows = nlohmann::json::parse(file);
  int cases = 0;
  for (const auto& row : rows.at("cases")) {
    const std::string schedule = row.at("schedule");
    if (schedule != "1f1b" && schedule != "interleaved") continue;
    const std::int32_t ranks = row.at("p");
    const Shape shape{.stages = ranks,
                      .microbatches = row.at("m"),
                      .virtual_stages = row.at("layer_groups").get<std::int32_t>() / ranks};
    const Figures all =
        figures(schedule, shape, times(row.at("f"), row.at("b"), row.at("w")), row.at("c").get<Ns>());
    EXPECT_EQ(all.makespan, row.at("makespan").get<Ns>()) << row.dump();
    EXPECT_EQ(all.longest_span, row.at("maxspan").get<Ns>()) << row.dump();
    EXPECT_EQ(all.peaks, row.at("peak_F_minus_W_per_device").get<std::vector<std::int64_t>>()) << row.dump();
    ++cases;
  }
  EXPECT_EQ(cases, 12);
}

// The figures of the schedule table equal those of a simulation, also for schedules that search their order.
// With v = 3 and an M above K that is not a multiple of K, the order before the search is a poor one.
TEST(ScheduleFigures, AreThoseOfASimulation) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const auto& [stages, microbatches, chunks] :
         {std::tuple{4, 6, 3}, {4, 8, 2}, {5, 4, 2}, {2, 8, 1}}) {
      const Shape shape =
          shape_for(schedule, {.stages = stages, .microbatches = microbatches, .virtual_stages = chunks});
      const auto figures = figures_of(schedule, shape);
      if (!figures) continue;
      SCOPED_TRACE(testing::Message()
                   << schedule.name << " " << stages << " " << microbatches << " " << chunks);
      const auto experiment = prepare(read_scenario(fmt::format(
          "schedule: {{name: {}, stages: {}, microbatches: {}{}}}\n", schedule.name, stages, microbatches,
          takes_chunks(schedule) ? fmt::format(", virtual_stages: {}", chunks) : "")));
      ASSERT_TRUE(experiment) << experiment.error().message;
      const auto result = simulate(*experiment, {});
      ASSERT_TRUE(result) << result.error().message;
      EXPECT_DOUBLE_EQ(figures->idle_over_total, result->bubble.idle_over_total);
      EXPECT_DOUBLE_EQ(figures->longest_span_rate, result->bubble.longest_span_rate);
      EXPECT_EQ(figures->result.ranks.size(), result->ranks.size());
      for (std::size_t rank = 0; rank < result->ranks.size(); ++rank) {
        EXPECT_EQ(figures->result.ranks[rank].peak_live_activations,
                  result->ranks[rank].peak_live_activations);
      }
    }
  }
}

}  // namespace
}  // namespace penstock
