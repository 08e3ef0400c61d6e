// Tests traces of PyTorch's profiler, dumps of Primus, and clocks of several hosts. The traces are made from
// predictions, so their actions and times are known.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "sim/autopsy/autopsy.hpp"
#include "sim/autopsy/recording.hpp"
#include "sim/autopsy/trace_formats.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/scenarios/read_scenario.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result traced_run() {
  return *simulate(
      prepared("model: {stages: {forward: [1 ms, 1.2 ms, 1 ms], backward: [2 ms, 2.4 ms, 2 ms]}}\n"
               "cluster: {preset: uniform, devices: 3, latency: 100 us}\n"
               "schedule: {name: 1f1b, stages: 3, microbatches: 4}\n"),
      {});
}

nlohmann::json host_event(const std::string& name, Ns start, Ns end, const std::string& category) {
  return {{"ph", "X"},
          {"cat", category},
          {"name", name},
          {"ts", static_cast<double>(start) / 1e3},
          {"dur", static_cast<double>(end - start) / 1e3}};
}

std::string trace_of(std::int64_t rank, const nlohmann::json& events) {
  return nlohmann::json(
             {{"distributedInfo", {{"rank", rank}}}, {"baseTimeNanoseconds", 0}, {"traceEvents", events}})
      .dump();
}

Autopsy autopsy_of_traces(const std::vector<std::string>& texts) {
  std::vector<RankTrace> traces;
  for (const std::string& text : texts) {
    EXPECT_TRUE(is_kineto(text));
    auto trace = read_kineto(text, "trace.json");
    EXPECT_TRUE(trace) << trace.error();
    traces.push_back(*std::move(trace));
  }
  auto rows = joined_traces(std::move(traces));
  EXPECT_TRUE(rows) << rows.error();
  auto recording = recording_of(std::move(rows->rows), 0);
  EXPECT_TRUE(recording) << recording.error();
  auto autopsy = autopsy_of(*std::move(recording), "traces", {});
  EXPECT_TRUE(autopsy) << autopsy.error();
  return *std::move(autopsy);
}

/// Returns the events of the compute actions of each rank as ranges of a trace.
std::vector<nlohmann::json> ranges_of(const Result& result, std::size_t ranks) {
  std::vector<nlohmann::json> events(ranks, nlohmann::json::array());
  for (const Span& span : result.timeline.spans) {
    if (is_compute(span.action.kind) && span.action.kind != ActionKind::step)
      events[index(span.rank)].push_back(
          host_event("PP:" + to_text(span.action), span.start_ns, span.end_ns, "user_annotation"));
  }
  return events;
}

TEST(ProfilerTrace, OfOneRankTellsItsTimesAndItsList) {
  const Result result = traced_run();
  const auto events = ranges_of(result, 3);
  const std::string text =
      nlohmann::json({{"distributedInfo", {{"rank", 1}, {"world_size", 3}}}, {"traceEvents", events[1]}})
          .dump();
  auto trace = read_kineto(text, "trace.json");
  ASSERT_TRUE(trace) << trace.error();
  const auto rows = joined_traces({*std::move(trace)});
  ASSERT_TRUE(rows) << rows.error();
  EXPECT_EQ(rows->world_size, 3);
  EXPECT_TRUE(is_partial(rows->rows, rows->world_size));
  const auto meant = generate("1f1b", {.stages = 3, .microbatches = 4});
  const PartialRecord record = partial_record(rows->rows, rows->world_size, &*meant);
  EXPECT_EQ(record.missing_ranks, (std::vector<std::int64_t>{0, 2}));
  ASSERT_EQ(record.ranks.size(), 1U);
  const PartialRank& rank = record.ranks[0];
  EXPECT_EQ(rank.rank, 1);
  EXPECT_EQ(rank.steps, 1);
  EXPECT_EQ(rank.busy_ns, 4 * 3'600'000);
  EXPECT_EQ(rank.medians, (std::vector<std::pair<std::string, Ns>>{{"F", 1'200'000}, {"B", 2'400'000}}));
  EXPECT_EQ(rank.as_meant, true);
  EXPECT_THAT(to_text(record), HasSubstr("1 of 3: the records of ranks 0, 2 and of stages 0 are missing"));
  const auto other = generate("gpipe", {.stages = 3, .microbatches = 4});
  const PartialRecord differs = partial_record(rows->rows, rows->world_size, &*other);
  EXPECT_EQ(differs.ranks[0].as_meant, false);
  EXPECT_THAT(differs.ranks[0].difference, HasSubstr("and 1F2 was meant"));
}

TEST(ProfilerTrace, OfAllStagesIsNotPartial) {
  const auto events = ranges_of(traced_run(), 3);
  std::vector<RankTrace> traces;
  for (std::int64_t rank = 0; rank < 3; ++rank)
    traces.push_back(
        read_kineto(trace_of(rank, events[index(static_cast<std::int32_t>(rank))]), "t").value());
  const auto rows = joined_traces(std::move(traces));
  ASSERT_TRUE(rows);
  EXPECT_FALSE(is_partial(rows->rows, 0));
  EXPECT_FALSE(is_partial(rows->rows, 24)) << "other ranks may hold parts of the same stages";
}

TEST(ProfilerTrace, HasTheActionsOfItsRanges) {
  const Result result = traced_run();
  std::vector<nlohmann::json> events(3, nlohmann::json::array());
  for (const Span& span : result.timeline.spans) {
    if (is_compute(span.action.kind) && span.action.kind != ActionKind::step)
      events[index(span.rank)].push_back(
          host_event("PP:" + to_text(span.action), span.start_ns, span.end_ns, "user_annotation"));
  }
  const Autopsy autopsy =
      autopsy_of_traces({trace_of(0, events[0]), trace_of(1, events[1]), trace_of(2, events[2])});
  EXPECT_EQ(autopsy.schedule, "1f1b");
  EXPECT_EQ(autopsy.steps[0].measured_ns, result.makespan_ns);
  EXPECT_EQ(autopsy.steps[0].replayed_ns, result.makespan_ns);
}

//   host   |PP:0RECV_B0|PP:0B0 -- waits --|-- works --|
//   gloo:recv   |--------------------|
TEST(ProfilerTrace, BeginsAnActionWhenTheMessageHasComeForWhichItsRangeWaits) {
  const auto trace =
      read_kineto(trace_of(0, {host_event("PP:0F0", 0, 1'000'000, "user_annotation"),
                               host_event("PP:0RECV_B0", 1'000'000, 1'010'000, "user_annotation"),
                               host_event("gloo:recv", 1'005'000, 93'000'000, "user_annotation"),
                               host_event("PP:0B0", 1'010'000, 97'000'000, "user_annotation")}),
                  "trace.json");
  ASSERT_TRUE(trace) << trace.error();
  ASSERT_EQ(trace->rows.size(), 3U);
  EXPECT_EQ(trace->rows[1].end_ns, 93'000'000);
  EXPECT_EQ(trace->rows[2].start_ns, 93'000'000);
  EXPECT_EQ(trace->rows[2].end_ns, 97'000'000);
}

TEST(ProfilerTrace, TakesTheTimesOfKernelsThatRangesLaunched) {
  const auto with_correlation = [](nlohmann::json event, int correlation) {
    event["args"] = {{"correlation", correlation}};
    return event;
  };
  const auto trace = read_kineto(
      trace_of(0, {host_event("PP:0F0", 0, 100'000, "user_annotation"),
                   host_event("PP:0B0", 100'000, 200'000, "user_annotation"),
                   with_correlation(host_event("cudaLaunchKernel", 10'000, 11'000, "cuda_runtime"), 1),
                   with_correlation(host_event("cudaLaunchKernel", 20'000, 21'000, "cuda_runtime"), 2),
                   with_correlation(host_event("cudaLaunchKernel", 30'000, 31'000, "cuda_runtime"), 3),
                   with_correlation(host_event("cudaLaunchKernel", 110'000, 111'000, "cuda_runtime"), 4),
                   with_correlation(host_event("gemm", 50'000, 450'000, "kernel"), 1),
                   with_correlation(host_event("gemm", 460'000, 900'000, "kernel"), 2),
                   with_correlation(host_event("ncclDevKernel_AllReduce", 850'000, 950'000, "kernel"), 3),
                   with_correlation(host_event("gemm", 1'000'000, 3'000'000, "kernel"), 4)}),
      "trace.json");
  ASSERT_TRUE(trace) << trace.error();
  ASSERT_EQ(trace->rows.size(), 2U);
  EXPECT_EQ(trace->rows[0].start_ns, 50'000);
  EXPECT_EQ(trace->rows[0].end_ns, 900'000);
  EXPECT_EQ(trace->rows[1].end_ns, 3'000'000);
  // The intervals 50 to 450, 460 to 900 and 1000 to 3000 are computation. The communication from 900 to 950
  // is exposed.
  ASSERT_TRUE(trace->gpu);
  EXPECT_EQ(trace->gpu->window_ns, 2'950'000);
  EXPECT_EQ(trace->gpu->compute_ns, 2'840'000);
  EXPECT_EQ(trace->gpu->exposed_ns, 50'000);
  EXPECT_EQ(trace->gpu->idle_ns, 60'000);
}

TEST(ProfilerTrace, WithoutRangesHasThePassesBetweenCommunication) {
  const Result result = traced_run();
  std::vector<nlohmann::json> events(3, nlohmann::json::array());
  for (const Span& span : result.timeline.spans) {
    const auto number = [&](nlohmann::json event) {
      event["args"] = {{"Sequence number", 10 * span.action.microbatch}};
      return event;
    };
    const Ns middle = (span.start_ns + span.end_ns) / 2;
    nlohmann::json& own = events[index(span.rank)];
    if (span.action.kind == ActionKind::forward) {
      own.push_back(host_event("aten::linear", span.start_ns, middle, "cpu_op"));
      own.push_back(number(host_event("aten::addmm", span.start_ns + 1000, middle - 1000, "cpu_op")));
      own.push_back(host_event("aten::relu", middle, span.end_ns, "cpu_op"));
      own.push_back(host_event("c10d::send", span.end_ns, span.end_ns, "cpu_op"));
    } else if (span.action.kind == ActionKind::backward) {
      own.push_back(number(host_event("autograd::engine::evaluate_function: AddmmBackward0", span.start_ns,
                                      span.end_ns, "cpu_op")));
      own.push_back(host_event("c10d::send", span.end_ns, span.end_ns, "cpu_op"));
    }
  }
  for (nlohmann::json& own : events)
    own.push_back(
        host_event("aten::_fused_adam", result.makespan_ns + 1000, result.makespan_ns + 2000, "cpu_op"));
  const Autopsy autopsy =
      autopsy_of_traces({trace_of(0, events[0]), trace_of(1, events[1]), trace_of(2, events[2])});
  EXPECT_EQ(autopsy.schedule, "1f1b");
  EXPECT_EQ(autopsy.recording.microbatches, 4);
  EXPECT_EQ(autopsy.steps[0].measured_ns, result.makespan_ns);
}

TEST(ProfilerTrace, SaysWhatIsWrongWithIt) {
  EXPECT_THAT(read_kineto(R"({"traceEvents": [)", "trace_rank_0.json").error(),
              HasSubstr("expected a trace as JSON"));
  EXPECT_THAT(read_kineto(R"({"traceEvents": []})", "trace.json").error(), HasSubstr("expected the rank in"));
  EXPECT_THAT(joined_traces({RankTrace{}}).error(),
              HasSubstr("expected forward and backward passes, or ranges"));
}

TEST(FileName, HasARank) {
  EXPECT_EQ(rank_in_name("traces/trace_rank_13.json.gz"), 13);
  EXPECT_EQ(rank_in_name("rank7_trace.json"), 7);
  EXPECT_EQ(rank_in_name("ranks/trace.json"), std::nullopt);
}

// --- Primus
// -----------------------------------------------------------------------------------------------------

TEST(PrimusDump, HasItsPassesByMicrobatchAndChunk) {
  const std::vector<NamedText> files = {
      {"config.json", R"({"world_size": 2, "pp_size": 2, "vp_size": 2, "num_mbs": 1, "train_iters": 1})"},
      {"rank_0.json",
       R"({"5": {"memory": 12.5, "fwd_start": [0, 4], "fwd_end": [1, 5], "fwd_minibatch": [0, 0],
         "fwd_chunk": [0, 1], "bwd_start": [10, 20], "bwd_end": [12, 22], "bwd_minibatch": [0, 0], "bwd_chunk": [1, 0]}})"},
      {"rank_1.json",
       R"({"5": {"fwd_start": [2, 6], "fwd_end": [3, 7], "fwd_minibatch": [0, 0], "fwd_chunk": [0, 1],
         "bwd_start": [7, 15], "bwd_end": [9, 17], "bwd_minibatch": [0, 0], "bwd_chunk": [1, 0]}})"}};
  const auto rows = read_primus(files);
  ASSERT_TRUE(rows) << rows.error();
  std::vector<std::string> actions;
  for (const RecordedRow& row : rows->rows)
    actions.push_back(fmt::format("{}:{}", row.rank, to_text(row.actions[0])));
  EXPECT_THAT(actions, ElementsAre("0:0F0", "0:2F0", "0:2B0", "0:0B0", "1:1F0", "1:3F0", "1:3B0", "1:1B0"));
  EXPECT_THAT(rows->notes, ElementsAre("memory in the unit of the dumps: rank 0 12.5"));
}

TEST(PrimusDump, SaysWhatIsWrongWithIt) {
  EXPECT_THAT(read_primus({{"rank_0.json", R"({"1": {"fwd_start": [0], "fwd_end": []}})"}}).error(),
              HasSubstr("rank_0.json: iteration 1: expected as many fwd_end as fwd_start, got 0 and 1"));
  EXPECT_THAT(read_primus({{"dump.json", R"({"1": {}})"}}).error(),
              HasSubstr("expected a file name such as rank_3.json"));
}

// --- clocks
// -----------------------------------------------------------------------------------------------------

/// Returns the rows of a timeline. Each rank has a clock of its own.
std::vector<RecordedRow> rows_with_clocks(const Timeline& timeline, const std::vector<Ns>& offsets,
                                          double drift = 0) {
  std::vector<RecordedRow> rows;
  for (const Span& span : timeline.spans) {
    if (span.action.kind == ActionKind::step) continue;
    const auto own = [&](Ns time) {
      return time + offsets[index(span.rank)] +
             static_cast<Ns>(drift * static_cast<double>(span.rank) * static_cast<double>(time));
    };
    rows.push_back({.rank = span.rank,
                    .actions = {span.action},
                    .start_ns = own(span.start_ns),
                    .end_ns = own(span.end_ns)});
  }
  return rows;
}

TEST(Clocks, OfSeveralHostsArePutTogether) {
  const Result result = traced_run();
  constexpr Ns kHour = 3'600'000'000'000;
  const auto recording = recording_of(rows_with_clocks(result.timeline, {0, kHour, -5'000'000'000}), 0);
  ASSERT_TRUE(recording) << recording.error();
  ASSERT_TRUE(recording->clock_error_ns);
  // Messages take 100 us in both directions, so the bounds are at least 200 us apart. They are farther apart
  // if no message was waited for.
  EXPECT_LE(*recording->clock_error_ns, 1'000'000);
  EXPECT_THAT(recording->notes, ElementsAre(HasSubstr("the clock of rank 1 was 3600."),
                                            HasSubstr("the clock of rank 2 was 5.000 s behind")));
  const auto autopsy = autopsy_of(*recording, "traces", {});
  ASSERT_TRUE(autopsy) << autopsy.error();
  EXPECT_EQ(autopsy->result.clock_error_ns, recording->clock_error_ns);
  EXPECT_NEAR(static_cast<double>(autopsy->steps[0].measured_ns), static_cast<double>(result.makespan_ns),
              static_cast<double>(*recording->clock_error_ns));
}

TEST(Clocks, ThatAgreeAreLeftAsTheyAre) {
  const auto recording = recording_of(rows_with_clocks(traced_run().timeline, {0, 0, 0}), 0);
  ASSERT_TRUE(recording);
  EXPECT_FALSE(recording->clock_error_ns);
  EXPECT_THAT(recording->notes, ElementsAre());
}

TEST(Clocks, ThatDriftGetALineOverTheRecord) {
  // There are 40 microbatches of 3 s. Clocks gain or lose 1 ms in each second.
  const Result result = *simulate(prepared("model: {stages: {forward: 1 s, backward: 2 s}}\n"
                                           "cluster: {preset: uniform, devices: 3, latency: 1 ms}\n"
                                           "schedule: {name: 1f1b, stages: 3, microbatches: 40}\n"),
                                  {});
  const auto recording =
      recording_of(rows_with_clocks(result.timeline, {0, 20'000'000, -20'000'000}, 1e-3), 0);
  ASSERT_TRUE(recording) << recording.error();
  const auto autopsy = autopsy_of(*recording, "traces", {});
  ASSERT_TRUE(autopsy) << autopsy.error();
  EXPECT_NEAR(static_cast<double>(autopsy->steps[0].measured_ns) / static_cast<double>(result.makespan_ns), 1,
              2e-3);
}

}  // namespace
}  // namespace penstock
