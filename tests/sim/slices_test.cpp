// Tests slices of a microbatch that have their own costs, and chunked prefill. Also tests that the two ends
// of a message state the same size.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/reference_engine.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Scenario sliced_scenario_of(const std::string& text) { return parse_scenario(text, "s.yaml", ".").value(); }

Experiment experiment_in(const std::string& text) {
  auto experiment = prepare(sliced_scenario_of(text));
  if (!experiment) throw std::runtime_error(experiment.error().message);
  return *std::move(experiment);
}

Result result_of(const std::string& text, const SimulateOptions& options = {}) {
  auto result = predict(sliced_scenario_of(text), options);
  if (!result) throw std::runtime_error(result.error().message);
  return result->result;
}

std::string error_of(const std::string& text) {
  const auto scenario = parse_scenario(text, "s.yaml", ".");
  if (!scenario) return scenario.error();
  const auto experiment = prepare(*scenario);
  return experiment ? "" : experiment.error().message;
}

/// Returns the compute actions of a rank with their times in ms, such as "0F0 0-1".
std::vector<std::string> spans_of(const Result& result, std::int32_t rank) {
  std::vector<std::string> spans;
  for (const Span& span : result.timeline.spans) {
    if (span.rank != rank || !is_compute(span.action.kind)) continue;
    spans.push_back(
        fmt::format("{} {}-{}", to_text(span.action), span.start_ns / 1'000'000, span.end_ns / 1'000'000));
  }
  return spans;
}

std::string sliced(const std::string& figures, const std::string& shape) {
  return fmt::format("model: {{stages: {{{}}}}}\nschedule: {{name: seq-1f1b, {}}}\n", figures, shape);
}

// The second slice attends to the first one and takes three times as long:
//
//   rank 0   F0F1----                  B1----------B0--      two characters = 1 ms
//   rank 1     F0    F1----B1----------B0--
TEST(SliceCosts, LaterSlicesTakeLonger) {
  const Result result =
      result_of(sliced("forward: {slices: [1 ms, 3 ms]}, backward: {slices: [2 ms, 6 ms]}, step: 0 ms",
                       "stages: 2, microbatches: 1, slices: 2"));
  EXPECT_THAT(spans_of(result, 0),
              ElementsAre("0F0 0-1", "0F1 1-4", "0B1 13-19", "0B0 19-21", "0STEP 21-21"));
  EXPECT_THAT(spans_of(result, 1), ElementsAre("1F0 1-2", "1F1 4-7", "1B1 7-13", "1B0 13-15", "1STEP 15-15"));
}

TEST(SliceCosts, OnOneRankAddUp) {
  EXPECT_EQ(result_of(sliced("forward: {slices: [1 ms, 3 ms]}, backward: {slices: [2 ms, 6 ms]}",
                             "stages: 1, microbatches: 1, slices: 2"))
                .makespan_ns,
            12'000'000);
  EXPECT_EQ(
      result_of(sliced("forward: {slices: [5 ms]}, backward: 2 ms", "stages: 1, microbatches: 1, slices: 1"))
          .makespan_ns,
      7'000'000);
}

// If a figure is not a list, it belongs to a whole microbatch. Each slice then has an equal part of it.
TEST(SliceCosts, StandBesideFiguresOfMicrobatches) {
  const Experiment experiment = experiment_in(
      sliced("forward: [{slices: [1 ns, 2 ns]}, {slices: [4 ns, 8 ns]}], backward: 10 ns, kept: "
             "{microbatches: [20 B, 40 B]}, activation: {slices: [3 B, 5 B, 7 B, 9 B]}",
             "stages: 2, microbatches: 2, slices: 2") +
      "training: {micro_batch_size: 1}\n");
  std::vector<std::string> units;
  for (std::int32_t unit = 0; unit < 4; ++unit) {
    const StageCost& first =
        experiment.costs.stage_of({.kind = ActionKind::forward, .stage = 0, .microbatch = unit});
    const StageCost& second =
        experiment.costs.stage_of({.kind = ActionKind::forward, .stage = 1, .microbatch = unit});
    units.push_back(fmt::format("F {} {} B {} kept {} sent {}", first.forward_ns, second.forward_ns,
                                first.backward_ns, first.kept,
                                experiment.costs.of_unit(unit).edges.front().activation));
  }
  EXPECT_THAT(units, ElementsAre("F 1 4 B 5 kept 10 sent 3", "F 2 8 B 5 kept 10 sent 5",
                                 "F 1 4 B 5 kept 20 sent 7", "F 2 8 B 5 kept 20 sent 9"));
}

// A third of 10 ns is rounded to the nearest nanosecond. If it were rounded up, three slices would take 12 ns
// instead of 10.
TEST(SliceCosts, PartsAreRoundedToTheNearest) {
  const auto makespan_of = [](std::int32_t slices) {
    return result_of(sliced("forward: 10 ns, backward: 0 ns, step: 0 ns",
                            fmt::format("stages: 1, microbatches: 1, slices: {}", slices)))
        .makespan_ns;
  };
  EXPECT_EQ(makespan_of(3), 9);
  EXPECT_EQ(makespan_of(4), 12);
}

TEST(SliceCosts, ScaleWithTheMicrobatch) {
  const std::string text =
      "model: {batch: 1, stages: {forward: {slices: [1 ns, 2 ns]}, backward: 0 ns, overhead: 100 ns}}\n"
      "schedule: {name: seq-1f1b, stages: 1, microbatches: 1, slices: 2}\ntraining: {micro_batch_size: 3}\n";
  EXPECT_EQ(result_of(text).makespan_ns, (100 + 3) + (100 + 6) + 2 * 100);
}

TEST(SliceCosts, AreWrittenAsTheyAreRead) {
  const Scenario scenario = sliced_scenario_of(
      sliced("forward: [{slices: [1 ns, 2 ns]}, {slices: [4 ns, 8 ns]}], backward: {slices: [3 ns, 5 ns]}",
             "stages: 2, microbatches: 2, slices: 2"));
  const std::string written = stages_to_yaml(std::get<StageFigures>(scenario.model), 1);
  EXPECT_THAT(written, HasSubstr("forward: [{slices: [1 ns, 2 ns]}, {slices: [4 ns, 8 ns]}]"));
  EXPECT_THAT(written, HasSubstr("backward: {slices: [3 ns, 5 ns]}"));
}

TEST(SliceCosts, MustBeOneForEachSlice) {
  EXPECT_THAT(error_of(sliced("forward: {slices: [1 ms, 3 ms, 5 ms]}, backward: 1 ms",
                              "stages: 1, microbatches: 1, slices: 2")),
              HasSubstr("model.stages.forward: 3 slices are listed, and a microbatch has 2 "
                        "(schedule.slices); list one value for each"));
  EXPECT_THAT(
      error_of(sliced("forward: {slices: [1 ms, 3 ms]}, backward: 1 ms", "stages: 1, microbatches: 1")),
      HasSubstr("2 slices are listed, and a microbatch has 1"));
  EXPECT_THAT(error_of(sliced("forward: [{slices: [1 ms, 3 ms]}, 2 ms], backward: 1 ms",
                              "microbatches: 1, slices: 2")),
              HasSubstr("model.stages.forward.1: expected {slices: [...]} of one value a slice"));
}

/// Returns a list of `count` unequal figures, such as "{slices: [3 us, 10 us]}".
std::string unequal_figures(std::int32_t count, std::int32_t seed, const char* unit) {
  std::string text;
  for (std::int32_t i = 0; i < count; ++i)
    text += fmt::format("{}{} {}", i > 0 ? ", " : "", (seed * 7 + i * i * 5 + i) % 23, unit);
  return fmt::format("{{slices: [{}]}}", text);
}

void expect_equal_times(const std::string& text) {
  const Ns reference = reference_engine(experiment_in(text)).makespan_ns;
  for (const SimulateOptions& options : {SimulateOptions{.engine = Engine::critical_path, .memory = {}},
                                         SimulateOptions{.engine = Engine::event, .memory = {}},
                                         SimulateOptions{.memory = {}, .timeline = TimelineKept::none}})
    EXPECT_EQ(result_of(text, options).makespan_ns, reference) << text;
}

// The engines and the slow reference agree on unequal slices, stages, messages and microbatches.
TEST(SliceCosts, GiveEqualTimesInAllEngines) {
  for (std::int32_t shape = 0; shape < 4 * 3 * 3; ++shape) {
    const std::int32_t slices = 1 + shape % 4;
    const std::int32_t stages = 1 + shape / 4 % 3;
    const std::int32_t microbatches = 1 + shape / 12;
    expect_equal_times(
        sliced(fmt::format("forward: {}, backward: {}, activation: {}, kept: {}",
                           unequal_figures(slices, 3 + stages, "us"),
                           unequal_figures(slices, 5 + microbatches, "us"), unequal_figures(slices, 2, "kB"),
                           unequal_figures(slices, 4, "kB")),
               fmt::format("stages: {}, microbatches: {}, slices: {}", stages, microbatches, slices)) +
        "cluster: {preset: uniform, bandwidth: 1 GB/s, latency: 3 us}\n");
  }
}

// --- slices of a sequence --------------------------------------------------------------------------------

const SliceTime kCausal = [](const Slice& slice) {
  return chunk_ns({.fixed_ns = 50, .token_ns = 2, .pair_ns = 0.5}, slice);
};

std::vector<std::int64_t> tokens_of(const SliceSizes& sizes, std::int64_t sequence, std::int64_t count,
                                    std::int64_t step = 1) {
  std::vector<std::int64_t> tokens;
  const std::vector<Slice> slices = slices_of(sizes, sequence, count, step, kCausal).value();
  tokens.reserve(slices.size());
  for (const Slice& slice : slices) tokens.push_back(slice.tokens);
  return tokens;
}

TEST(SliceSizes, CutASequence) {
  EXPECT_THAT(tokens_of({}, 10, 4), ElementsAre(2, 3, 2, 3));
  EXPECT_THAT(tokens_of({}, 21, 2, 4), ElementsAre(8, 13)) << "in steps of 4, the last has the rest";
  EXPECT_THAT(tokens_of({.rule = SliceSizes::Rule::fixed, .tokens = {4}}, 10, 3), ElementsAre(4, 4, 2));
  EXPECT_THAT(tokens_of({.rule = SliceSizes::Rule::listed, .tokens = {7, 3}}, 10, 2), ElementsAre(7, 3));
  EXPECT_THAT(tokens_of({.rule = SliceSizes::Rule::equal_time}, 10, 1), ElementsAre(10));
}

TEST(SliceSizes, ThatDoNotAddUpAreRefused) {
  EXPECT_EQ(slices_of({.rule = SliceSizes::Rule::listed, .tokens = {7, 2}}, 10, 2, 1, kCausal).error(),
            "slice_tokens: expected 2 slices with 10 tokens together, got 2 with 9");
  EXPECT_THAT(slices_of({.rule = SliceSizes::Rule::fixed, .tokens = {4}}, 10, 2, 1, kCausal).error(),
              HasSubstr("slices of 4 tokens cut a sequence of 10 into 3, got 2 slices"));
  EXPECT_THAT(slices_of({}, 3, 4, 1, kCausal).error(), HasSubstr("cannot be cut into 4 slices"));
}

// No other cut into the same number of slices has a shorter longest slice. The test tries all cuts of a short
// sequence.
TEST(SliceSizes, OfEqualTimeHaveTheShortestLongestSlice) {
  const auto longest = [](const std::vector<std::int64_t>& tokens) {
    double most = 0;
    std::int64_t before = 0;
    for (const std::int64_t count : tokens) {
      most = std::max(most, kCausal({.before = before, .tokens = count}));
      before += count;
    }
    return most;
  };
  for (std::int64_t sequence = 3; sequence <= 40; ++sequence) {
    double best = 1e9;
    for (std::int64_t a = 1; a < sequence - 1; ++a) {
      for (std::int64_t b = 1; a + b < sequence; ++b)
        best = std::min(best, longest({a, b, sequence - a - b}));
    }
    EXPECT_DOUBLE_EQ(longest(tokens_of({.rule = SliceSizes::Rule::equal_time}, sequence, 3)), best)
        << sequence;
  }
}

// --- chunked prefill -------------------------------------------------------------------------------------

std::string prefill(const std::string& chunks, const std::string& shape) {
  return fmt::format("model: {{chunks: {{{}}}}}\nschedule: {{name: chunked-prefill, {}}}\n", chunks, shape);
}

constexpr const char* kChunks =
    "prompt: 1000, fixed: 5 us, per_earlier_token: 2 ns, per_token: 100 ns, per_pair: 0.25 ns";

// t(L, x) = c + g L + b x + a (2 L x + x^2), with L = 250 i and x = 250.
TEST(ChunkedPrefill, LaterChunksTakeLonger) {
  const Experiment experiment = experiment_in(prefill(kChunks, "stages: 1, slices: 4"));
  std::vector<Ns> times;
  times.reserve(4);
  for (std::int32_t unit = 0; unit < 4; ++unit)
    times.push_back(experiment.costs.of_unit(unit).stages.front().forward_ns);
  EXPECT_THAT(times, ElementsAre(5000 + 0 + 25000 + 15625, 5000 + 500 + 25000 + 46875,
                                 5000 + 1000 + 25000 + 78125, 5000 + 1500 + 25000 + 109375));
}

// The chunks pass K equal stages one after the other. Each chunk is longer than the one before it, and waits
// for it:
//
//   rank 0  c0-c1--c2---c3----             sum of all + (K - 1) x the longest
//   rank 1     c0-.c1--.c2---.c3----
void expect_closed_form(std::int32_t stages, std::int32_t chunks) {
  const ChunkModel model{.prompt = 1000, .fixed_ns = 5000, .earlier_ns = 2, .token_ns = 100, .pair_ns = 0.25};
  Ns sum = 0;
  Ns longest = 0;
  const std::vector<Slice> cut = slices_of({}, 1000, chunks, 1, {}).value();
  for (const Slice& chunk : cut) {
    const Ns time = std::llround(chunk_ns(model, chunk));
    sum += time;
    longest = std::max(longest, time);
  }
  const Result result = result_of(prefill(kChunks, fmt::format("stages: {}, slices: {}", stages, chunks)));
  EXPECT_EQ(result.makespan_ns, sum + (stages - 1) * longest) << stages << " stages, " << chunks;
  ASSERT_TRUE(result.throughput.prefill);
  EXPECT_EQ(result.throughput.prefill->first_token_ns, static_cast<double>(result.makespan_ns));
  EXPECT_DOUBLE_EQ(*result.throughput.prefill->tokens_per_second,
                   1000 * 1e9 / static_cast<double>(result.makespan_ns));
}

TEST(ChunkedPrefill, TakesTheSumOfTheChunksAndTheLongestOnceForEachLaterStage) {
  for (const std::int32_t stages : {1, 2, 5, 8}) {
    for (const std::int32_t chunks : {1, 2, 3, 10}) expect_closed_form(stages, chunks);
  }
}

// The second prompt follows the first one. On a single stage, the first prompt ends after the sum of its
// chunks, and the second one after twice this sum.
TEST(ChunkedPrefill, SaysWhenThePromptsHaveTheirFirstTokens) {
  const std::string text = prefill(kChunks, "stages: 1, microbatches: 2, slice_tokens: 400");
  const Result result = result_of(text);
  const double first = result.throughput.prefill->first_token_ns;
  EXPECT_EQ(2 * first, static_cast<double>(result.makespan_ns));
  EXPECT_EQ(result.throughput.prefill->mean_first_token_ns, 1.5 * first);
  EXPECT_EQ(*result.throughput.prefill->tokens_per_second,
            2000 * 1e9 / static_cast<double>(result.makespan_ns));
  for (const SimulateOptions& options : {SimulateOptions{.memory = {}, .timeline = TimelineKept::none},
                                         SimulateOptions{.memory = {},
                                                         .steady = SteadyState::skip,
                                                         .timeline = TimelineKept::none,
                                                         .figures = WantedFigures::of_rows},
                                         SimulateOptions{.engine = Engine::event, .memory = {}}})
    EXPECT_EQ(result_of(text, options).throughput.prefill, result.throughput.prefill);
}

TEST(ChunkedPrefill, OfEqualTimesIsQuickerThanOfEqualChunks) {
  const Result even = result_of(prefill(kChunks, "stages: 8, slices: 8"));
  const std::string text = prefill(kChunks, "stages: 8, slices: 8, slice_tokens: equal-time");
  const Experiment experiment = experiment_in(text);
  Ns least = experiment.costs.of_unit(0).stages.front().forward_ns;
  Ns most = least;
  for (std::int32_t unit = 1; unit < 8; ++unit) {
    const Ns time = experiment.costs.of_unit(unit).stages.front().forward_ns;
    least = std::min(least, time);
    most = std::max(most, time);
  }
  EXPECT_LT(static_cast<double>(most), 1.06 * static_cast<double>(least));
  EXPECT_LT(result_of(text).makespan_ns, even.makespan_ns * 9 / 10);
}

// Keys and values of a prompt are stored until the run ends. Each token sends 2 bytes.
TEST(ChunkedPrefill, HoldsKeysAndValues) {
  const Result result = result_of(
      prefill(std::string(kChunks) + ", activation: 2 B, kept: 3 B, weights: 70 B", "stages: 2, slices: 4"));
  EXPECT_EQ(result.ranks[1].memory.at_peak[static_cast<std::size_t>(MemoryCategory::activations)], 3000);
  EXPECT_EQ(result.ranks[1].memory.at_peak[static_cast<std::size_t>(MemoryCategory::weights)], 70);
  EXPECT_EQ(result.ranks[0].sent_bytes, 2000);
}

TEST(ChunkedPrefill, IsRefusedWithBackwardsOrWithoutTokens) {
  EXPECT_THAT(error_of("model: {chunks: {prompt: 8, per_token: 1 us}}\n"
                       "schedule: {name: seq-1f1b, stages: 2, slices: 2}\n"),
              HasSubstr("model.chunks: has forward passes alone: expected schedule.name chunked-prefill"));
  EXPECT_THAT(error_of(prefill("prompt: 8, per_token: 1 us", "stages: 2, forward_only: false")),
              HasSubstr("schedule.forward_only: prefill has no backward passes"));
  EXPECT_THAT(error_of(prefill("prompt: 8", "stages: 2")),
              HasSubstr("model.chunks.per_token: expected a duration"));
  EXPECT_THAT(error_of(sliced("forward: 1 ms, backward: 1 ms", "stages: 1, slice_tokens: 8")),
              HasSubstr("schedule.slice_tokens: goes with a model that is priced by its tokens"));
  EXPECT_THAT(error_of(prefill("prompt: 8, per_token: 1 us", "stages: 2, slice_tokens: sideways")),
              HasSubstr("expected even, equal-time, the tokens of a slice, or a list of them"));
}

// --- models on devices -----------------------------------------------------------------------------------

std::string on_devices(const std::string& schedule) {
  return "model: {huggingface: llama-3.1-8b, sequence: 32768}\ncluster: {device: h100-sxm, nodes: 1}\n"
         "parallel: {tensor: 2, data: 1}\nschedule: {stages: 4, " +
         schedule + "}\n";
}

std::vector<Ns> forward_times(const Experiment& experiment, std::int32_t count) {
  std::vector<Ns> times;
  times.reserve(static_cast<std::size_t>(count));
  for (std::int32_t unit = 0; unit < count; ++unit) {
    const Action forward{.kind = ActionKind::forward, .stage = 1, .microbatch = unit};
    times.push_back(experiment.costs.stage_of(forward).forward_ns);
  }
  return times;
}

// Slices of a model on devices are priced by their positions in the sequence. Because of attention, the times
// increase by equal differences. All slices together take about as long as the whole sequence.
TEST(SlicesOnDevices, TakeLongerTheLaterTheyAre) {
  const std::vector<Ns> times =
      forward_times(experiment_in(on_devices("name: seq-1f1b, microbatches: 2, slices: 4")), 8);
  const Ns whole = forward_times(experiment_in(on_devices("name: 1f1b, microbatches: 2")), 1).front();
  EXPECT_TRUE(std::ranges::is_sorted(times.begin(), times.begin() + 4));
  EXPECT_GT(times[3], times[0] * 5 / 4);
  EXPECT_EQ(std::vector<Ns>(times.begin(), times.begin() + 4),
            std::vector<Ns>(times.begin() + 4, times.end()));
  const Ns sum = std::accumulate(times.begin(), times.begin() + 4, Ns{0});
  EXPECT_NEAR(static_cast<double>(sum), static_cast<double>(whole), 0.05 * static_cast<double>(whole));
}

TEST(SlicesOnDevices, OfEqualTimeAreShorterTheLaterTheyAre) {
  const Experiment experiment =
      experiment_in(on_devices("name: seq-1f1b, microbatches: 1, slices: 4, slice_tokens: equal-time"));
  const std::vector<Ns> times = forward_times(experiment, 4);
  const auto [least, most] = std::ranges::minmax(times);
  EXPECT_LT(static_cast<double>(most), 1.05 * static_cast<double>(least));
  EXPECT_THAT(experiment.notes, ::testing::Contains(HasSubstr("each slice is priced at its own place")));
}

TEST(SlicesOnDevices, ArePrefillWithoutBackwards) {
  const Result result = result_of(on_devices("name: chunked-prefill, microbatches: 1, slice_tokens: 4096"));
  ASSERT_TRUE(result.throughput.prefill);
  EXPECT_EQ(result.throughput.prefill->first_token_ns, static_cast<double>(result.makespan_ns));
  EXPECT_DOUBLE_EQ(*result.throughput.prefill->tokens_per_second, result.throughput.model->tokens_per_second);
}

// --- sizes of the two ends of a message ------------------------------------------------------------------

std::string with_sizes(const std::string& sizes) {
  return fmt::format(
      "model: {{stages: {{forward: 1 ms, backward: 2 ms, {}}}}}\n"
      "schedule: {{name: 1f1b, stages: 2, microbatches: 2}}\n",
      sizes);
}

TEST(MessageSizes, ThatAgreeAreTakenAsSent) {
  EXPECT_EQ(error_of(with_sizes("activation: [4 MB, 1 MB], expected_activation: [9 MB, 4 MB]")), "")
      << "stage 0 receives no activation";
  EXPECT_EQ(error_of(with_sizes("activation: 4 MB, gradient: 2 MB, expected_gradient: 2 MB")), "");
}

TEST(MessageSizes, ThatDifferAreAnErrorThatNamesBothEnds) {
  EXPECT_EQ(error_of(with_sizes("activation: 4 MB, expected_activation: 2 MB")),
            "s.yaml:1:88: model.stages.expected_activation: the two ends of a message state unlike sizes: "
            "0SEND_F0 on rank 0 sends 4000000 B, and 1RECV_F0 on rank 1 expects 2000000 B; make both equal");
  EXPECT_THAT(error_of(with_sizes("activation: 4 MB, expected_gradient: {microbatches: [4 MB, 5 MB]}")),
              HasSubstr("1SEND_B1 on rank 1 sends 4000000 B, and 0RECV_B1 on rank 0 expects 5000000 B"));
  const auto refused = prepare(sliced_scenario_of(with_sizes("activation: 4 MB, expected_activation: 2 MB")));
  EXPECT_EQ(refused.error().kind, ErrorKind::check_failed);
}

TEST(MessageSizes, OfStagesOnOneRankNeedNotAgree) {
  EXPECT_EQ(error_of("model: {stages: {forward: 1 ms, backward: 2 ms, activation: 4 MB, expected_activation: "
                     "2 MB}}\nschedule: {name: 1f1b, stages: 1, microbatches: 2}\n"),
            "");
}

}  // namespace
}  // namespace penstock
