// Tests the JSON document of a result: its shape, that it is read back, and the messages about broken files.
// A result that breaks an invariant must be neither written nor read.

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/result/result.hpp"
#include "report/result/result_json.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "tests/report/sample_result.hpp"

namespace penstock {
namespace {

using Json = nlohmann::json;
constexpr ResultJsonOptions kEverything = {.timeline = true, .memory = true};

Result json_sample() {
  const sample::Shape shape = {.ranks = 3, .microbatches = 4, .transfer_ns = 1'234};
  return sample::result_of(sample::timeline_of(sample::one_f_one_b(shape), shape), shape);
}

/// Returns the document of the sample after `change` has changed it.
template <typename Change>
std::string changed_document(Change change) {
  Json document = Json::parse(result_to_json(json_sample(), kEverything));
  change(document);
  return document.dump();
}

std::string error_of(const std::string& text) {
  const auto result = result_from_json(text, "r.json");
  return result ? "no error" : result.error();
}

TEST(ResultJson, ReadsBackTheSameResultAndWritesTheSameBytes) {
  const Result result = json_sample();
  const std::string text = result_to_json(result, kEverything);
  const auto again = result_from_json(text, "r.json");
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(*again, result);
  EXPECT_EQ(result_to_json(*again, kEverything), text);
}

TEST(ResultJson, LongTextsGoOutInPiecesOfWholeLinesAsFarAsSomebodyReads) {
  const sample::Shape shape = {.ranks = 4, .microbatches = 1'000};
  const Result result = sample::result_of(sample::timeline_of(sample::one_f_one_b(shape), shape), shape);
  std::vector<std::string> pieces;
  write_result_json(result, {.timeline = true}, [&](std::string_view lines) {
    pieces.emplace_back(lines);
    return true;
  });
  ASSERT_GT(pieces.size(), 10);
  std::string all;
  for (const std::string& piece : pieces) {
    EXPECT_EQ(piece.back(), '\n');
    EXPECT_LT(piece.size(), std::size_t{1} << 18U);
    all += piece;
  }
  EXPECT_EQ(all, result_to_json(result, {.timeline = true}));
  EXPECT_EQ(result_from_json(all, "r.json")->timeline, result.timeline);
  std::size_t taken = 0;
  write_result_json(result, {.timeline = true}, [&](std::string_view) { return ++taken < 3; });
  EXPECT_EQ(taken, 3) << "nobody took more";
}

TEST(ResultJson, ReadsBackWhatIsWrittenOnlyWhereItSaysSomething) {
  Result result = json_sample();
  result.link_sharing = LinkSharing::left_out;
  result.program.pipeline_size = 3;
  for (RankReport& rank : result.ranks) rank.memory.unit = MemoryUnit::activations;
  const auto again = result_from_json(result_to_json(result, kEverything), "r.json");
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(*again, result);
}

// A chunk of a rank's part of the model stores a fraction of an activation.
TEST(ResultJson, HasPartsOfActivationsAsNumbers) {
  Result result = json_sample();
  RankMemory& memory = result.ranks[0].memory;
  memory.unit = MemoryUnit::activations;
  memory.peak_bytes = 11 * kActivationParts / 2;
  memory.capacity = 6 * kActivationParts;
  const std::string text = result_to_json(result, kEverything);
  const Json document = Json::parse(text);
  EXPECT_EQ(document["ranks"][0]["peak_bytes"], 5.5);
  EXPECT_TRUE(document["ranks"][0]["memory"]["capacity_bytes"].is_number_integer());
  EXPECT_EQ(document["ranks"][0]["memory"]["capacity_bytes"], 6);
  const auto again = result_from_json(text, "r.json");
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(again->ranks[0].memory, memory);
}

TEST(ResultJson, LeavesTheLongPartsOutUnlessAskedFor) {
  const Json document = Json::parse(result_to_json(json_sample()));
  EXPECT_FALSE(document.contains("timeline"));
  EXPECT_FALSE(document["ranks"][0]["memory"].contains("samples"));
  const auto again = result_from_json(result_to_json(json_sample()), "r.json");
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(again->timeline, Timeline());
  EXPECT_EQ(again->ranks[1].memory.peak_bytes, json_sample().ranks[1].memory.peak_bytes);
}

TEST(ResultJson, HasTheKeysThatScriptsRelyOn) {
  const Json document = Json::parse(result_to_json(json_sample(), kEverything));
  EXPECT_EQ(document["schema_version"], 1);
  EXPECT_EQ(document["kind"], "measured");
  EXPECT_EQ(document["makespan_ns"], json_sample().makespan_ns);
  EXPECT_EQ(document["program"]["schedule"], "1f1b");
  EXPECT_EQ(document["program"]["digest"], "00c0ffee");
  EXPECT_TRUE(document["bubble"]["longest_span_rate"].is_number());
  EXPECT_EQ(document["throughput"]["samples"], 16);
  EXPECT_EQ(document["ranks"][2]["rank"], 2);
  EXPECT_EQ(document["ranks"][0]["memory"]["peaks"]["optimizer_state"], Bytes{6} << 30);
  const Json expected = {{"rank", 0},    {"action", "0F0"},     {"stage", 0},    {"microbatch", 0},
                         {"replica", 0}, {"weight_version", 0}, {"start_ns", 0}, {"end_ns", 1'000'000}};
  EXPECT_EQ(document["timeline"][0], expected);
}

TEST(ResultJson, SaysNullForAMissingSteadyRateAndForUnlimitedMemory) {
  Result result = json_sample();
  result.throughput.steady_samples_per_second.reset();
  result.ranks[0].memory.capacity.reset();
  const std::string text = result_to_json(result, kEverything);
  EXPECT_TRUE(Json::parse(text)["throughput"]["steady_samples_per_second"].is_null());
  EXPECT_TRUE(Json::parse(text)["ranks"][0]["memory"]["capacity_bytes"].is_null());
  EXPECT_TRUE(Json::parse(text)["ranks"][0]["memory"]["usable_bytes"].is_null());
  EXPECT_EQ(result_from_json(text, "r.json"), result);
}

TEST(ResultJson, SaysWhatIsUsableBesideTheCapacity) {
  Result result = json_sample();
  RankMemory& memory = result.ranks[0].memory;
  memory.capacity = 1000;
  memory.reserved = 300;
  const std::string text = result_to_json(result, kEverything);
  Json document = Json::parse(text);
  EXPECT_EQ(document["ranks"][0]["memory"]["capacity_bytes"], 1000);
  EXPECT_EQ(document["ranks"][0]["memory"]["usable_bytes"], 700);
  EXPECT_EQ(result_from_json(text, "r.json"), result);
  // Files that are older than reserves lack this key.
  document["ranks"][0]["memory"].erase("usable_bytes");
  EXPECT_EQ(result_from_json(document.dump(), "r.json")->ranks[0].memory.reserved, 0);
}

TEST(ResultJson, NeverWritesNanOrInfinity) {
  Result result = json_sample();
  result.bubble.idle_over_ideal = std::numeric_limits<double>::quiet_NaN();
  result.throughput.samples_per_second = std::numeric_limits<double>::infinity();
  const std::string text = result_to_json(result, kEverything);
  EXPECT_TRUE(Json::parse(text)["throughput"]["samples_per_second"].is_null());
  const auto again = result_from_json(text, "r.json");
  ASSERT_TRUE(again) << again.error();
  EXPECT_TRUE(std::isnan(again->bubble.idle_over_ideal));
  EXPECT_EQ(result_to_json(*again, kEverything), text);
}

TEST(ResultJson, KeepsEveryBitOfADouble) {
  Result result = json_sample();
  result.throughput.samples_per_second = 0.1 + 0.2;
  const auto again = result_from_json(result_to_json(result), "r.json");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->throughput.samples_per_second, 0.1 + 0.2);
}

TEST(ResultJson, KeepsOverlappedPairsAndPeersAcrossSeveralStages) {
  Result result = json_sample();
  result.timeline.rank_count = 3;
  result.timeline.makespan_ns = 7;
  const Action send = {.kind = ActionKind::send_forward, .stage = 0, .microbatch = 1, .peer = 2};
  result.timeline.spans = {
      sample::span_of(0, {.kind = ActionKind::forward, .overlaps_next = true, .stage = 0, .microbatch = 5}, 0,
                      3),
      sample::span_of(0, {.kind = ActionKind::backward, .stage = 3, .microbatch = 2, .weight_version = 9}, 0,
                      3),
      sample::span_of(0, send, 3, 7), sample::span_of(2, {.kind = ActionKind::step, .stage = 1}, 7, 7)};
  const auto again = result_from_json(result_to_json(result, kEverything), "r.json");
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(again->timeline, result.timeline);
}

TEST(ResultJson, AnEmptyTimelineStaysEmpty) {
  Result result = json_sample();
  result.timeline = {3, 0, {}};
  const auto again = result_from_json(result_to_json(result, kEverything), "r.json");
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(again->timeline, result.timeline);
}

TEST(ResultJson, ANameThatIsNotUtf8DoesNotBreakTheDocument) {
  Result result = json_sample();
  result.scenario = "bad\xff name \"quoted\"\n";
  const auto again = result_from_json(result_to_json(result), "r.json");
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(again->scenario, "bad\xef\xbf\xbd name \"quoted\"\n");
}

TEST(ResultJson, CallsAnEmptyFileEmpty) {
  EXPECT_EQ(error_of(""), "r.json: the file is empty; expected a result as `simulate --json` prints it");
  EXPECT_EQ(error_of(" \n\t"), error_of(""));
}

TEST(ResultJson, NamesThePlaceOfASyntaxError) {
  EXPECT_EQ(error_of("{\n  \"kind\": ]\n}").substr(0, 39), "r.json: not JSON: at line 2, column 11:");
}

// A function that handles such a deep value recursively would overflow the stack.
TEST(ResultJson, RefusesAMillionBrackets) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_EQ(error_of(deep), "r.json: not JSON: arrays and objects are nested more than 100 deep");
  EXPECT_EQ(error_of("{\"kind\": " + deep + "}"), error_of(deep));
  // Brackets inside a string do not count.
  EXPECT_EQ(error_of(R"(["\"[[)" + std::string(1'000, '[') + "\"]"),
            "r.json: expected a result, which is a JSON object, got [\"\\\"" + std::string(36, '[') + "...");
}

TEST(ResultJson, RefusesWhatIsNotAnObject) {
  EXPECT_EQ(error_of("[1, 2]"), "r.json: expected a result, which is a JSON object, got [1,2]");
}

TEST(ResultJson, NamesTheKeyThatIsMissing) {
  EXPECT_EQ(
      error_of(changed_document([](Json& d) { d["ranks"][1].erase("busy_ns"); })),
      "r.json: ranks[1].busy_ns: expected an integer from 0 to 9223372036854775807, but the key is missing");
  EXPECT_EQ(error_of(changed_document([](Json& d) { d.erase("ranks"); })),
            "r.json: ranks: expected a list, but the key is missing");
}

TEST(ResultJson, NamesThePathTheExpectedAndTheFound) {
  EXPECT_EQ(error_of(changed_document([](Json& d) { d["program"]["schedule"] = 7; })),
            "r.json: program.schedule: expected a string, got 7");
  EXPECT_EQ(error_of(changed_document([](Json& d) { d["bubble"] = "large"; })),
            "r.json: bubble: expected an object, got \"large\"");
  EXPECT_EQ(error_of(changed_document([](Json& d) { d["kind"] = "guessed"; })),
            "r.json: kind: expected \"predicted\" or \"measured\", got \"guessed\"");
  EXPECT_EQ(error_of(changed_document([](Json& d) { d["schema_version"] = 2; })),
            "r.json: schema_version: expected 1, which this penstock reads, got 2");
  EXPECT_EQ(
      error_of(changed_document([](Json& d) { d["ranks"][0]["memory"]["at_peak"]["weights"] = 1.5; })),
      "r.json: ranks[0].memory.at_peak.weights: expected an integer from 0 to 9223372036854775807, got 1.5");
  EXPECT_EQ(error_of(changed_document([](Json& d) { d["ranks"][0]["sent_bytes"] = -1; })),
            "r.json: ranks[0].sent_bytes: expected an integer from 0 to 9223372036854775807, got -1");
  EXPECT_EQ(error_of(changed_document([](Json& d) { d["program"]["stages"] = 4294967297; })),
            "r.json: program.stages: expected an integer from 0 to 2147483647, got 4294967297");
  EXPECT_EQ(error_of(changed_document([](Json& d) { d["notes"] = {"a", 1}; })),
            "r.json: notes: expected a list of strings, got [\"a\",1]");
  EXPECT_EQ(
      error_of(changed_document([](Json& d) { d["makespan_ns"] = 18446744073709551615U; })),
      "r.json: makespan_ns: expected an integer from 0 to 9223372036854775807, got 18446744073709551615");
}

TEST(ResultJson, RefusesSpansThatCannotBe) {
  EXPECT_EQ(error_of(changed_document([](Json& d) { d["timeline"][2]["rank"] = 3; })),
            "r.json: timeline[2].rank: expected a rank below program.ranks, 3, got 3");
  EXPECT_EQ(error_of(changed_document(
                [](Json& d) { d["timeline"][0]["end_ns"] = 0, d["timeline"][0]["start_ns"] = 5; })),
            "r.json: timeline[0].end_ns: expected a time that is not before start_ns, got 0");
  EXPECT_EQ(error_of(changed_document([](Json& d) { d["timeline"][0]["action"] = "0F0 0F1"; })),
            "r.json: timeline[0].action: expected one action such as \"0F3\", got \"0F0 0F1\"");
  EXPECT_EQ(error_of(changed_document([](Json& d) { d["timeline"][0]["stage"] = 1; })),
            "r.json: timeline[0].stage: expected the stage of `action`, got 1");
}

// Tests that a result that breaks an invariant is neither written nor read.

/// Returns a result of two ranks that are busy for 60 and 90 of 100 ns.
Result possible() {
  Result result;
  result.makespan_ns = 100;
  result.program.schedule = "1f1b";
  result.program.ranks = result.program.stages = 2;
  result.program.microbatches = 1;
  for (const Ns busy_ns : {60, 90}) {
    RankReport rank;
    rank.rank = static_cast<std::int32_t>(result.ranks.size());
    rank.busy_ns = busy_ns;
    rank.idle_ns = 100 - busy_ns;
    result.ranks.push_back(rank);
  }
  result.bubble = {.idle_over_total = 0.25, .idle_over_ideal = 1.0 / 3, .longest_span_rate = 0.1};
  return result;
}

Span ending_at(Ns end_ns) {
  Span span;
  span.action = {.kind = ActionKind::forward, .stage = 0, .microbatch = 0};
  span.end_ns = end_ns;
  return span;
}

std::string fault_after(const std::function<void(Result&)>& change) {
  Result result = possible();
  change(result);
  return broken_invariant(result).value_or("none");
}

TEST(ResultInvariants, APossibleResultBreaksNone) { EXPECT_EQ(broken_invariant(possible()), std::nullopt); }

TEST(ResultInvariants, NobodyIsBusyForLongerThanTheMakespanNorForLessThanNothing) {
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[1].busy_ns = 101; }),
            "ranks[1].busy_ns: expected a time up to the makespan, 100, got 101");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[0].busy_ns = -1; }),
            "ranks[0].busy_ns: expected a time up to the makespan, 100, got -1");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[0].idle_ns = 101; }),
            "ranks[0].idle_ns: expected a time up to the makespan, 100, got 101");
}

TEST(ResultInvariants, TheSlackOfAMeasurementPassesNoLimitOfNumbers) {
  EXPECT_EQ(fault_after([](Result& r) {
              r.kind = ResultKind::measured;
              r.makespan_ns = std::numeric_limits<Ns>::max();
            }),
            "none");
}

TEST(ResultInvariants, BubblesAreParts) {
  EXPECT_EQ(fault_after([](Result& r) { r.bubble.idle_over_total = 2.11; }),
            "bubble.idle_over_total: expected a part in [0, 1], got 2.11");
  EXPECT_EQ(fault_after([](Result& r) { r.bubble.idle_over_total = -0.1; }),
            "bubble.idle_over_total: expected a part in [0, 1], got -0.1");
  EXPECT_EQ(
      fault_after([](Result& r) { r.bubble.longest_span_rate = std::numeric_limits<double>::quiet_NaN(); }),
      "bubble.longest_span_rate: expected a part in [0, 1], got nan");
  EXPECT_EQ(fault_after([](Result& r) { r.bubble.idle_over_ideal = -2; }),
            "bubble.idle_over_ideal: expected at least 0, got -2");
}

TEST(ResultInvariants, AmountsAreNotNegative) {
  EXPECT_EQ(fault_after([](Result& r) { r.makespan_ns = -9; }), "makespan_ns: expected at least 0, got -9");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[0].sent_bytes = -1; }),
            "ranks[0].sent_bytes: expected at least 0, got -1");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[0].memory.at_peak[0] = -2; }),
            "ranks[0].memory.at_peak.weights: expected at least 0, got -2");
  EXPECT_EQ(fault_after([](Result& r) { r.links.push_back({"a", -3}); }),
            "links[0].bytes: expected at least 0, got -3");
  EXPECT_EQ(fault_after([](Result& r) { r.clock_error_ns = -4; }),
            "clock_error_ns: expected at least 0, got -4");
}

TEST(ResultInvariants, RatesAreNotNegative) {
  EXPECT_EQ(fault_after([](Result& r) { r.throughput.samples_per_second = -1; }),
            "throughput.samples_per_second: expected at least 0, got -1");
  EXPECT_EQ(fault_after([](Result& r) { r.throughput.steady_samples_per_second = -0.5; }),
            "throughput.steady_samples_per_second: expected at least 0, got -0.5");
  EXPECT_EQ(fault_after([](Result& r) { r.throughput.model = {.mfu = -0.4}; }),
            "throughput.mfu: expected at least 0, got -0.4");
}

// A measurement may use other devices than its model names.
TEST(ResultInvariants, NoPredictionPassesThePeak) {
  const auto with_mfu = [](ResultKind kind, double mfu) {
    return fault_after([&](Result& r) {
      r.kind = kind;
      r.throughput.model = {.mfu = mfu};
    });
  };
  EXPECT_EQ(with_mfu(ResultKind::predicted, 1), "none");
  EXPECT_EQ(with_mfu(ResultKind::predicted, 1.5),
            "throughput.mfu: expected a part of the devices' peak, at most 1, got 1.5");
  EXPECT_EQ(with_mfu(ResultKind::measured, 1.5), "none");
}

TEST(ResultInvariants, ThereIsAnEntryARank) {
  EXPECT_EQ(fault_after([](Result& r) { r.ranks.pop_back(); }),
            "ranks: expected as many as program.ranks says, 2, got 1");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[1].rank = 0; }), "ranks[1].rank: expected 1, got 0");
  EXPECT_EQ(fault_after([](Result& r) { r.program.pipeline_size = 3; }),
            "program.pipeline_size: expected at most program.ranks, 2, got 3");
  // Each of the four stages is on both ranks.
  const auto of_buckets = [](std::int32_t pipeline_size) {
    return fault_after([&](Result& r) {
      r.program.schedule = "data-parallel";
      r.program.stages = 4;
      r.program.pipeline_size = pipeline_size;
    });
  };
  EXPECT_EQ(of_buckets(4), "none");
  EXPECT_EQ(of_buckets(5), "program.pipeline_size: expected at most program.stages, 4, got 5");
}

TEST(ResultInvariants, NothingEndsAfterTheMakespan) {
  EXPECT_EQ(fault_after([](Result& r) {
              r.timeline = {.rank_count = 2, .makespan_ns = 100, .spans = {ending_at(100), ending_at(101)}};
            }),
            "timeline[1].end_ns: expected a time up to the makespan, 100, got 101");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[1].memory.peak_time_ns = 101; }),
            "ranks[1].memory.peak_time_ns: expected a time up to the makespan, 100, got 101");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[1].memory.samples = {{.time_ns = 1}, {.time_ns = 200}}; }),
            "ranks[1].memory.samples[1].time_ns: expected a time up to the makespan, 100, got 200");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[0].exposed_communication_ns = 101; }),
            "ranks[0].exposed_communication_ns: expected a time up to the makespan, 100, got 101");
}

TEST(ResultInvariants, ADocumentThatBreaksOneIsNotRead) {
  Result result = possible();
  ASSERT_TRUE(result_from_json(result_to_json(result), "a.json"))
      << result_from_json(result_to_json(result), "a.json").error();
  result.bubble.idle_over_total = 2.11;
  EXPECT_EQ(result_from_json(result_to_json(result), "a.json").error(),
            "a.json: bubble.idle_over_total: expected a part in [0, 1], got 2.11; no run can have such a "
            "result; make it again");
  result = possible();
  result.timeline = {.rank_count = 2, .makespan_ns = 100, .spans = {ending_at(1'000'000'000'000'000'000)}};
  EXPECT_EQ(result_from_json(result_to_json(result, {.timeline = true}), "a.json").error(),
            "a.json: timeline[0].end_ns: expected a time up to the makespan, 100, got 1000000000000000000; "
            "no run can have such a result; make it again");
}

}  // namespace
}  // namespace penstock
