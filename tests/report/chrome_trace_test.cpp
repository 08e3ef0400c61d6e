// Tests the trace for Perfetto: it is valid JSON, times are exact, and the spans of a thread never overlap.

#include "report/result/result_json.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "tests/report/sample_result.hpp"

namespace penstock {
namespace {

using Json = nlohmann::json;

std::string trace_of(const Result& result) {
  return whole_text([&](const TextSink& sink) { write_chrome_trace(result, sink); });
}

/// Returns a result in which transfers take longer than any action, so that several of them are under way at
/// once.
Result trace_sample() {
  const sample::Shape shape = {.ranks = 4, .microbatches = 8, .transfer_ns = 2'500'001};
  return sample::result_of(sample::timeline_of(sample::one_f_one_b(shape), shape), shape);
}

std::vector<Json> events(const Result& result, const std::string& phase) {
  const Json trace = Json::parse(trace_of(result));
  std::vector<Json> found;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

/// Returns a time of a trace in ns. Traces have microseconds with three decimals.
Ns nanoseconds(const Json& microseconds) { return std::llround(microseconds.get<double>() * 1000); }

/// Returns the name of each thread, by process (rank) and thread number.
std::map<std::pair<int, int>, std::string> row_names(const Result& result) {
  std::map<std::pair<int, int>, std::string> names;
  for (const Json& event : events(result, "M")) {
    if (event["name"] == "thread_name") names[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  return names;
}

TEST(ChromeTrace, HasOneCompleteEventASpanWithItsExactTimes) {
  const Result result = trace_sample();
  const auto complete = events(result, "X");
  ASSERT_EQ(complete.size(), result.timeline.spans.size());
  // Starts count three times in this sum, so that the test fails if a start and a duration are exchanged.
  Ns traced = 0;
  Ns expected = 0;
  for (const Json& event : complete) traced += nanoseconds(event["ts"]) * 3 + nanoseconds(event["dur"]);
  for (const Span& span : result.timeline.spans) expected += span.start_ns * 3 + span.end_ns - span.start_ns;
  EXPECT_EQ(traced, expected);
}

TEST(ChromeTrace, MicrosecondsKeepEveryNanosecond) {
  Result result = trace_sample();
  result.timeline.spans = {
      sample::span_of(0, {.kind = ActionKind::forward, .stage = 0, .microbatch = 0, .weight_version = 4},
                      9'007'199'254'740'993, 9'007'199'254'741'000)};
  const std::string trace = trace_of(result);
  EXPECT_NE(
      trace.find(
          R"("ts":9007199254740.993,"dur":0.007,"args":{"stage":0,"microbatch":0,"weight_version":4}})"),
      std::string::npos);
}

TEST(ChromeTrace, NoTwoSpansOfARowOverlap) {
  std::map<std::pair<int, int>, std::vector<std::pair<Ns, Ns>>> rows;
  for (const Json& event : events(trace_sample(), "X")) {
    const Ns start_ns = nanoseconds(event["ts"]);
    rows[{event["pid"], event["tid"]}].emplace_back(start_ns, start_ns + nanoseconds(event["dur"]));
  }
  for (auto& [row, spans] : rows) {
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].second, spans[i].first);
  }
}

TEST(ChromeTrace, TransfersThatRunSideBySideGetRowsOfTheirOwn) {
  const auto names = row_names(trace_sample());
  EXPECT_EQ(names.at({0, 0}), "compute");
  EXPECT_EQ(names.at({0, 1000}), "send");
  EXPECT_EQ(names.at({0, 1001}), "send 2");
}

TEST(ChromeTrace, TheSecondLeafOfAPairHasASubRow) {
  Result result = trace_sample();
  Action first = {.kind = ActionKind::forward, .overlaps_next = true, .stage = 0, .microbatch = 1};
  result.timeline.spans = {
      sample::span_of(0, first, 0, 3),
      sample::span_of(0, {.kind = ActionKind::backward, .stage = 3, .microbatch = 0}, 0, 3),
      sample::span_of(0, {.kind = ActionKind::reduce_grad, .stage = 0}, 3, 4)};
  const auto names = row_names(result);
  EXPECT_EQ(names.at({0, 1}), "compute 2");
  EXPECT_EQ(names.at({0, 3000}), "collective");
}

TEST(ChromeTrace, NamesProcessesAfterRankAndDevice) {
  Result result = trace_sample();
  result.ranks[1].device = "GPU \"B\"";
  std::map<int, std::string> names;
  for (const Json& event : events(result, "M")) {
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
  }
  EXPECT_EQ(names.at(0), "rank 0 (H100-0)");
  EXPECT_EQ(names.at(1), "rank 1 (GPU \"B\")");
}

TEST(ChromeTrace, CountsMemoryByTheCategoriesInUse) {
  const Result result = trace_sample();
  const auto counters = events(result, "C");
  std::size_t samples = 0;
  for (const RankReport& rank : result.ranks) samples += rank.memory.samples.size();
  ASSERT_EQ(counters.size(), samples);
  EXPECT_EQ(counters[0]["args"],
            (Json{{"weights", Bytes{3} << 30}, {"optimizer_state", Bytes{6} << 30}, {"activations", 0}}));
}

/// Returns the span of the rank on which an arrow starts or ends: the one of this thread at this time.
Json span_at(const std::vector<Json>& spans, const Json& arrow) {
  const Ns at = nanoseconds(arrow["ts"]);
  for (const Json& span : spans) {
    const Ns start_ns = nanoseconds(span["ts"]);
    const bool is_same_row = span["pid"] == arrow["pid"] && span["tid"] == arrow["tid"];
    if (is_same_row && start_ns <= at && at < start_ns + nanoseconds(span["dur"])) return span;
  }
  return {{"name", "no span"}};
}

TEST(ChromeTrace, AnArrowGoesFromEachSendToItsReceive) {
  const Result result = trace_sample();
  const std::vector<Json> spans = events(result, "X");
  std::map<std::int64_t, Json> begins;
  for (const Json& begin : events(result, "s")) begins[begin["id"]] = begin;
  const std::vector<Json> ends = events(result, "f");
  // Four ranks exchange eight microbatches in both directions over three edges.
  ASSERT_EQ(begins.size(), 48U);
  ASSERT_EQ(ends.size(), 48U);
  for (const Json& end : ends) {
    const Json& begin = begins.at(end["id"]);
    const Json sent = span_at(spans, begin);
    const Json received = span_at(spans, end);
    EXPECT_LT(nanoseconds(begin["ts"]), nanoseconds(end["ts"]));
    EXPECT_EQ(end["bp"], "e") << "it ends in the span around it, not in the next one";
    EXPECT_EQ(std::string(sent["cat"]).substr(0, 5), "SEND_");
    EXPECT_EQ(std::string(received["cat"]), "RECV_" + std::string(sent["cat"]).substr(5));
    EXPECT_EQ(received["args"]["microbatch"], sent["args"]["microbatch"]);
    EXPECT_EQ(received["args"]["stage"], sent["args"]["peer_stage"]);
    EXPECT_EQ(received["args"]["peer_stage"], sent["args"]["stage"]);
  }
}

TEST(ChromeTrace, AnArrowEndsInALineBelowItsStart) {
  // A message of one nanosecond starts and ends at one time. Viewers then go by the order of the lines.
  const sample::Shape shape = {.ranks = 3, .microbatches = 4, .transfer_ns = 1};
  const Result result = sample::result_of(sample::timeline_of(sample::one_f_one_b(shape), shape), shape);
  const std::string trace = trace_of(result);
  ASSERT_NE(trace.find(R"({"ph":"f")"), std::string::npos);
  EXPECT_LT(trace.rfind(R"({"ph":"s")"), trace.find(R"({"ph":"f")"));
}

TEST(ChromeTrace, TheCounterOfMemoryNamesItsUnit) {
  Result result = trace_sample();
  EXPECT_EQ(events(result, "C")[0]["name"], "memory (bytes)");
  for (RankReport& rank : result.ranks) rank.memory.unit = MemoryUnit::activations;
  EXPECT_EQ(events(result, "C")[0]["name"], "memory (activations)");
}

TEST(ChromeTrace, AnEmptyResultIsAValidTrace) {
  EXPECT_EQ(Json::parse(trace_of({}))["traceEvents"], Json::array());
}

TEST(ChromeTrace, IsNotMadeFurtherThanSomebodyReads) {
  const sample::Shape shape = {.ranks = 4, .microbatches = 1'000};
  const Result result = sample::result_of(sample::timeline_of(sample::one_f_one_b(shape), shape), shape);
  std::size_t pieces = 0;
  write_chrome_trace(result, [&](std::string_view) { return ++pieces < 3; });
  EXPECT_EQ(pieces, 3);
}

TEST(TimelineRows, LanesAreAsFewAsPossible) {
  const std::vector<Span> spans = {sample::span_of(0, {}, 0, 10), sample::span_of(0, {}, 5, 7),
                                   sample::span_of(0, {}, 7, 9), sample::span_of(0, {}, 10, 12),
                                   sample::span_of(0, {}, 6, 11)};
  EXPECT_EQ(lanes_of(spans), (std::vector<std::int32_t>{0, 1, 1, 0, 2}));
}

}  // namespace
}  // namespace penstock
