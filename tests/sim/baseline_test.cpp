// Tests checks against a baseline: a figure that is worse fails, and an improvement is only reported.

#include "sim/hold/baseline.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pugixml.hpp>

#include "schedules/ir/channel.hpp"
#include "tests/sim/baseline_fixture.hpp"

namespace penstock {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kNaive = "schedule: {name: naive, stages: 4, microbatches: 8}\n";
constexpr const char* kZeroBubble = "schedule: {name: zb-h1, stages: 4, microbatches: 8}\n";
constexpr const char* kWithoutBackward =
    "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
    "rank 0: 0F0 0F1 0B0 0STEP\nrank 1: 1F0 1B0 1F1 1B1 1STEP\n";

TEST_F(BaselineTest, AnUnchangedScheduleHasNoFindings) {
  write("a.yaml", kOneFOneB);
  const BaselineVerdict verdict = verdict_on(baseline_of({"a.yaml"}));
  EXPECT_THAT(verdict.findings, IsEmpty());
  EXPECT_FALSE(verdict.failed());
}

// With two chunks for each rank, a chunk holds half an activation.
TEST_F(BaselineTest, PartsOfActivationsAreWrittenAndReadAgain) {
  write("a.yaml", "schedule: {name: interleaved, stages: 4, virtual_stages: 2, microbatches: 8}\n");
  const Baseline baseline = baseline_of({"a.yaml"}, Holds::programs);
  EXPECT_EQ(baseline.entries.at(0).figures->run->peak_bytes, 5.5);
  EXPECT_THAT(to_json(baseline), HasSubstr("\"peak_bytes\": 5.5"));
  EXPECT_EQ(parse_baseline(to_json(baseline), "base.json"), baseline);
  EXPECT_THAT(verdict_on(baseline).findings, IsEmpty());
}

TEST_F(BaselineTest, MessagesThatNewlyCrossFail) {
  write("a.psched", kStraight);
  const Baseline baseline = baseline_of({"a.psched"});
  write("a.psched", kSwapped);
  const BaselineVerdict verdict = verdict_on(baseline);
  EXPECT_TRUE(verdict.failed());
  const auto figure = [](const char* name) {
    return AllOf(Field(&BaselineFinding::figure, name), Field(&BaselineFinding::failed, true));
  };
  EXPECT_THAT(verdict.findings, Contains(figure("messages cross under directed")));
  EXPECT_THAT(verdict.findings, Contains(figure("runs")));
  EXPECT_THAT(verdict.findings, testing::Not(Contains(figure("hangs under directed"))));
  EXPECT_THAT(verdict.reasons, Contains(HasSubstr("rank 0 sends 0SEND_F0 where rank 1 expects 1RECV_F1")));
  EXPECT_THAT(to_junit({verdict}), HasSubstr("messages cross under directed"));
}

TEST_F(BaselineTest, MessagesThatCrossAreWrittenAndReadAgain) {
  write("a.psched", kSwapped);
  const Baseline baseline = baseline_of({"a.psched"});
  EXPECT_EQ(baseline.entries.at(0).figures->crosses.size(), kChannelModels.size());
  EXPECT_EQ(parse_baseline(to_json(baseline), "base.json"), baseline);
  EXPECT_THAT(verdict_on(baseline).findings, IsEmpty());
  write("a.psched", kStraight);
  EXPECT_FALSE(verdict_on(baseline).findings.empty());
}

TEST_F(BaselineTest, ACrossingOfAModelThatDoesNotExistIsRefused) {
  write("a.psched", kSwapped);
  std::string text = to_json(baseline_of({"a.psched"}));
  text.replace(text.find("\"pair\"", text.find("\"crosses\"")), 6, "\"pairs\"");
  const auto read = parse_baseline(text, "base.json");
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error(), HasSubstr("entries[0].crosses: expected a channel model, got \"pairs\""));
}

TEST_F(BaselineTest, RemembersTheFiguresOfTheSimulation) {
  write("a.yaml", kOneFOneB);
  const BaselineFigures figures = baseline_of({"a.yaml"}).entries.at(0).figures.value();
  EXPECT_TRUE(figures.valid);
  EXPECT_EQ(figures.hangs.size(), kChannelModels.size());
  EXPECT_EQ(figures.digest.size(), 32U);
  EXPECT_EQ(figures.run->makespan_ns, 33'000'000);  // (M + K - 1) * 3 ms
  EXPECT_DOUBLE_EQ(figures.run->idle_over_total, 3.0 / 11);
  EXPECT_EQ(figures.run->peak_bytes, 4);
}

TEST_F(BaselineTest, AWorseScheduleFails) {
  write("a.yaml", kOneFOneB);
  const Baseline baseline = baseline_of({"a.yaml"});
  write("a.yaml", kNaive);
  const BaselineVerdict verdict = verdict_on(baseline);
  EXPECT_TRUE(verdict.failed());
  EXPECT_THAT(
      verdict.findings,
      ElementsAre(Field(&BaselineFinding::figure, "digest"),
                  BaselineFinding{"makespan_ns", "33.000 ms", "96.000 ms (+190.9 %)", true, 33e6, 96e6},
                  BaselineFinding{"idle_over_total", "27.27 %", "75.00 %", true, 0.2727272727272727, 0.75},
                  BaselineFinding{"peak_bytes", "4 activations", "1 activation (-75 %)", false, 4, 1}));
}

// The rates are those of a model on named devices. On a slower device, the rates decrease by the same factor
// by which the step time increases.
TEST_F(BaselineTest, RatesOfAModelOnDevicesAreRememberedAndFailWithTheMakespan) {
  const auto on_devices = [](const std::string& sustained) {
    return "model: {transformer: {layers: 4, hidden: 1024, heads: 16, sequence: 1024, vocabulary: 32000}}\n"
           "cluster: {device: h100-sxm, sustained: " +
           sustained + "}\nschedule: {name: 1f1b, stages: 2, microbatches: 4}\nparallel: {data: 1}\n";
  };
  write("a.yaml", on_devices("1.2"));
  Baseline baseline = baseline_of({"a.yaml"});
  const auto& run = baseline.entries.at(0).figures->run;
  ASSERT_TRUE(run->rates);
  EXPECT_NEAR(run->rates->tokens_per_second, 4 * 1024 / (static_cast<double>(run->makespan_ns) * 1e-9), 1e-3);
  EXPECT_EQ(parse_baseline(to_json(baseline), "base.json").value(), baseline);
  EXPECT_THAT(verdict_on(baseline).findings, IsEmpty());
  write("a.yaml", on_devices("1.4"));
  const auto failed = [&](const std::string& figure) {
    const auto findings = verdict_on(baseline).findings;
    const auto found = std::ranges::find(findings, figure, &BaselineFinding::figure);
    return found != findings.end() && found->failed;
  };
  EXPECT_TRUE(failed("makespan_ns"));
  EXPECT_TRUE(failed("mfu"));
  EXPECT_TRUE(failed("tokens_per_second_per_device"));
  baseline.tolerance.makespan = 0.5;
  EXPECT_FALSE(failed("mfu"));
}

TEST_F(BaselineTest, ABetterScheduleIsReportedAndPasses) {
  write("a.yaml", kOneFOneB);
  const Baseline baseline = baseline_of({"a.yaml"});
  write("a.yaml", kZeroBubble);
  const BaselineVerdict verdict = verdict_on(baseline);
  EXPECT_FALSE(verdict.failed());
  EXPECT_EQ(verdict.findings.at(1),
            (BaselineFinding{"makespan_ns", "33.000 ms", "27.000 ms (-18.18 %)", false, 33e6, 27e6}));
}

TEST_F(BaselineTest, AFigureWithinItsToleranceIsReportedAndPasses) {
  write("a.yaml", kOneFOneB);
  Baseline baseline = baseline_of({"a.yaml"});
  baseline.entries.at(0).figures->run->makespan_ns = 32'000'000;
  baseline.tolerance.makespan = 0.04;  // 33 / 32 is 3.1 % more
  EXPECT_FALSE(verdict_on(baseline).failed());
  EXPECT_EQ(verdict_on(baseline).findings.size(), 1U);
  baseline.tolerance.makespan = 0.03;
  EXPECT_TRUE(verdict_on(baseline).failed());
}

TEST_F(BaselineTest, TheToleranceOfTheBubbleIsAbsolute) {
  write("a.yaml", kOneFOneB);
  Baseline baseline = baseline_of({"a.yaml"});
  baseline.entries.at(0).figures->run->idle_over_total -= 0.01;
  baseline.tolerance.bubble = 0.011;
  EXPECT_FALSE(verdict_on(baseline).failed());
  baseline.tolerance.bubble = 0.009;
  EXPECT_TRUE(verdict_on(baseline).failed());
}

// The stages become faster, but the latency of the links stays. So the bubble is a larger part of a shorter
// run.
TEST_F(BaselineTest, ALargerBubbleWithLessIdleTimePasses) {
  const auto with_stages = [](const std::string& times) {
    return "schedule: {name: 1f1b, stages: 4, microbatches: 8}\nmodel: {stages: {" + times +
           ", activation: 1 MB}}\ncluster: {preset: uniform, latency: 1 ms}\n";
  };
  write("a.yaml", with_stages("forward: 4 ms, backward: 8 ms"));
  const Baseline slow = baseline_of({"a.yaml"});
  write("a.yaml", with_stages("forward: 3 ms, backward: 6 ms"));
  const BaselineVerdict verdict = verdict_on(slow);
  EXPECT_FALSE(verdict.failed());
  EXPECT_EQ(verdict.findings.size(), 2U) << "makespan and bubble";
  const Baseline fast = baseline_of({"a.yaml"});
  write("a.yaml", with_stages("forward: 4 ms, backward: 8 ms"));
  EXPECT_TRUE(verdict_on(fast).failed()) << "the makespan has grown";
}

TEST_F(BaselineTest, APeakFromNothingFailsWithoutAPercentage) {
  write("a.yaml", kOneFOneB);
  Baseline baseline = baseline_of({"a.yaml"});
  baseline.entries.at(0).figures->run->peak_bytes = 0;
  EXPECT_THAT(verdict_on(baseline).findings,
              ElementsAre(BaselineFinding{"peak_bytes", "0 activations", "4 activations", true, 0, 4}));
}

TEST_F(BaselineTest, AnotherProgramIsReportedAndFailsOnlyWhereTheDigestIsHeld) {
  write("a.yaml", kOneFOneB);
  Baseline baseline = baseline_of({"a.yaml"});
  baseline.entries.at(0).figures->digest = "0123";
  EXPECT_FALSE(verdict_on(baseline).failed());
  EXPECT_EQ(verdict_on(baseline).findings.at(0).figure, "digest");
  baseline.tolerance.digest = true;
  EXPECT_TRUE(verdict_on(baseline).failed());
  EXPECT_EQ(verdict_on(baseline).findings.at(0).figure, "digest");
}

TEST_F(BaselineTest, WhatWasInvalidHasNoDigestThatCouldBeHeld) {
  write("a.yaml", kOneFOneB);
  Baseline baseline = baseline_of({"a.yaml"});
  baseline.entries.at(0).figures = BaselineFigures{.valid = false};
  baseline.tolerance.digest = true;
  const BaselineVerdict verdict = verdict_on(baseline);
  EXPECT_FALSE(verdict.failed());
  EXPECT_THAT(verdict.findings, ElementsAre(BaselineFinding{"valid", "false", "true", false},
                                            BaselineFinding{"runs", "false", "true", false}));
}

TEST_F(BaselineTest, WhatIsStillInvalidStillFails) {
  write("a.psched", kWithoutBackward);
  const Baseline baseline = baseline_of({"a.psched"});
  ASSERT_FALSE(baseline.entries.at(0).figures->valid);
  EXPECT_TRUE(verdict_on(baseline).failed());
  EXPECT_EQ(verdict_on(baseline).findings.at(0).figure, "valid");
  const auto accepted = accepted_by(Baseline{}, baseline);
  EXPECT_THAT(accepted.at(0).reasons, ElementsAre("it is not valid, so every check of it fails"));
}

TEST_F(BaselineTest, LessWorkIsNoImprovement) {
  write("a.yaml", kOneFOneB);
  const Baseline baseline = baseline_of({"a.yaml"});
  write("a.yaml", "schedule: {name: 1f1b, stages: 4, microbatches: 2}\n");
  EXPECT_TRUE(verdict_on(baseline).failed());
  EXPECT_THAT(verdict_on(baseline).findings, Contains(BaselineFinding{"forwards", "32", "8", true}));
}

TEST_F(BaselineTest, ANewHangFailsUnderEveryChannelModelThatHasIt) {
  write("a.psched", kStraight);
  const Baseline baseline = baseline_of({"a.psched"});
  write("a.psched", kCrossed);
  const BaselineVerdict verdict = verdict_on(baseline);
  EXPECT_TRUE(verdict.failed());
  EXPECT_EQ(verdict.findings.at(0), (BaselineFinding{"hangs under rank", "false", "true", true}));
  EXPECT_EQ(verdict.findings.at(1), (BaselineFinding{"hangs under pair", "false", "true", true}));
}

TEST_F(BaselineTest, AHangThatIsGoneIsReportedAndPasses) {
  write("a.psched", kCrossed);
  const Baseline baseline = baseline_of({"a.psched"});
  write("a.psched", kStraight);
  const BaselineVerdict verdict = verdict_on(baseline);
  EXPECT_EQ(verdict.findings.at(0), (BaselineFinding{"hangs under rank", "true", "false", false}));
  EXPECT_FALSE(verdict.findings.at(0).failed);
}

TEST_F(BaselineTest, AProgramThatHangsUnderItsOwnChannelsHasNoFiguresOfARun) {
  write("a.psched", kCrossed);
  write("a.yaml", "schedule: {program: a.psched, channel: pair}\n");
  const Baseline hanging = baseline_of({"a.yaml"});
  EXPECT_FALSE(hanging.entries.at(0).figures->run);
  EXPECT_FALSE(verdict_on(hanging).failed()) << "it hung before, too";
  write("a.yaml", "schedule: {program: a.psched}\n");
  const Baseline running = baseline_of({"a.yaml"});
  write("a.yaml", "schedule: {program: a.psched, channel: pair}\n");
  EXPECT_THAT(verdict_on(running).findings,
              ElementsAre(AllOf(
                  Field(&BaselineFinding::figure, "runs"), Field(&BaselineFinding::failed, true),
                  Field(&BaselineFinding::actual,
                        AllOf(StartsWith("false: hangs under pair"),
                              HasSubstr("the last for the first: rank 0, position 4: 0RECV_B0 waits for "
                                        "0SEND_F1 on rank 0, position 3; rank 0"))))));
}

TEST_F(BaselineTest, AProgramThatBecameInvalidFailsWithTheRuleThatItBreaks) {
  write("a.psched", kStraight);
  const Baseline baseline = baseline_of({"a.psched"});
  write("a.psched", kWithoutBackward);
  const BaselineVerdict verdict = verdict_on(baseline);
  EXPECT_TRUE(verdict.failed());
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings.at(0).figure, "valid");
  EXPECT_THAT(verdict.findings.at(0).actual, HasSubstr("0B1 is missing"));
}

TEST_F(BaselineTest, AMissingFileIsAnError) {
  write("a.yaml", kOneFOneB);
  const Baseline baseline = baseline_of({"a.yaml"});
  std::filesystem::remove(directory_ / "a.yaml");
  EXPECT_TRUE(verdict_on(baseline).failed());
  EXPECT_THAT(verdict_on(baseline).error.value_or(""), HasSubstr("a.yaml: the file does not exist"));
  EXPECT_FALSE(updated(baseline, directory_));
}

TEST_F(BaselineTest, AnEntryWithoutFiguresIsAnError) {
  write("a.yaml", kOneFOneB);
  EXPECT_THAT(verdict_on({.tolerance = {}, .entries = {{"a.yaml", std::nullopt}}}).error.value_or(""),
              HasSubstr("without figures"));
}

TEST_F(BaselineTest, ReadsBackWhatItWrote) {
  write("a.yaml", kOneFOneB);
  write("a.psched", kCrossed);
  write("b.psched", kWithoutBackward);
  Baseline baseline = baseline_of({"a.yaml", "a.psched", "b.psched"});
  baseline.tolerance = {.makespan = 0.01, .bubble = 0.001, .peak_bytes = 0.5, .digest = true};
  baseline.entries.push_back({"listed.yaml", std::nullopt});
  const auto again = parse_baseline(to_json(baseline), "base.json");
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(*again, baseline);
  EXPECT_EQ(to_json(*again), to_json(baseline));
}

struct WrongFile {
  std::string text;
  std::string message;
};

/// Returns the text of a baseline with one program that runs. `figures` are the figures of the run.
std::string run_of(const std::string& figures) {
  return R"({"schema_version": 1, "entries": [{"scenario": "a", "valid": true, "hangs": {"rank": false,
          "pair": false, "direction": false, "directed": false, "boundary": false}, "digest": "", "forwards": 4, )" +
         figures + "}]}";
}

class WrongBaseline : public testing::TestWithParam<WrongFile> {};

TEST_P(WrongBaseline, IsRefusedWithItsPlace) {
  const auto baseline = parse_baseline(GetParam().text, "base.json");
  ASSERT_FALSE(baseline);
  EXPECT_EQ(baseline.error(), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Files, WrongBaseline,
    testing::Values(
        WrongFile{"[]", "base.json: expected a baseline, a JSON object"},
        WrongFile{"{}", "base.json: schema_version: expected 1, got nothing"},
        WrongFile{R"({"schema_version": 1})", "base.json: entries: expected a list, got nothing"},
        WrongFile{R"({"schema_version": 1, "entries": [3]})",
                  "base.json: entries[0]: expected an object, got 3"},
        WrongFile{R"({"schema_version": 1, "entries": [{"scenario": ""}]})",
                  R"(base.json: entries[0].scenario: expected the name of a file, got "")"},
        WrongFile{R"({"schema_version": 1, "tolerance": {"makespan": -1}, "entries": []})",
                  "base.json: tolerance.makespan: expected a number of at least 0, such as 0.01, got -1"},
        WrongFile{
            R"({"schema_version": 1, "entries": [{"scenario": "a", "valid": true, "hangs": {"pairs": true}}]})",
            "base.json: entries[0].hangs.pairs: expected a channel model with true or false, got true"},
        WrongFile{
            R"({"schema_version": 1, "entries": [{"scenario": "a", "valid": true, "hangs": {"rank": true}}]})",
            "base.json: entries[0].hangs.pair: expected true or false, got nothing"},
        WrongFile{run_of(R"("makespan_ns": 1.5)"),
                  "base.json: entries[0].makespan_ns: expected a whole number of at least 0, got 1.5"},
        WrongFile{run_of(R"("makespan_ns": 1, "idle_over_total": 2.11, "peak_bytes": 0)"),
                  "base.json: entries[0].idle_over_total: expected a number from 0 to 1, got 2.11"},
        WrongFile{
            run_of(R"("program": ["x"], "peak": {"rank": 0, "action": "0F0", "weight": 1})"),
            "base.json: entries[0].peak.weight: expected rank, action, a category of memory or the unit "
            "activations, got 1"},
        WrongFile{run_of(R"("program": ["x"], "peak": {"rank": 4294967296, "action": "0F0"})"),
                  "base.json: entries[0].peak.rank: expected a rank, got 4294967296"},
        WrongFile{R"({"schema_version": 1, "entries": [], "entries": [{"scenario": "a"}]})",
                  "base.json: the key \"entries\" stands twice in one object, as after a merge: keep one of "
                  "them"}));

TEST(BaselineFile, SaysWhereItIsNoJson) {
  const auto baseline = parse_baseline("{\n  \"schema_version\": 1,\n}\n", "base.json");
  ASSERT_FALSE(baseline);
  EXPECT_THAT(baseline.error(), StartsWith("base.json: is no JSON: at line 3, column 1"));
}

TEST(BaselineFile, RefusesAMillionBrackets) {
  const auto baseline = parse_baseline("{\"entries\": " + std::string(1'000'000, '['), "base.json");
  ASSERT_FALSE(baseline);
  EXPECT_EQ(baseline.error(), "base.json: is no JSON: arrays and objects are nested more than 100 deep");
}

TEST(BaselineFile, RefusesATimeOfMoreThan63Bits) {
  const auto baseline = parse_baseline(run_of(R"("makespan_ns": 18446744073709551615)"), "base.json");
  ASSERT_FALSE(baseline);
  EXPECT_EQ(
      baseline.error(),
      "base.json: entries[0].makespan_ns: expected a whole number of at least 0, got 18446744073709551615");
}

TEST(BaselineFile, SaysThatAnEmptyFileIsEmpty) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / fmt::format("penstock-empty-{}.json", ::getpid());
  std::ofstream(file).flush();
  const auto baseline = read_baseline(file);
  ASSERT_FALSE(baseline);
  EXPECT_THAT(baseline.error(), HasSubstr("the file is empty"));
  std::filesystem::remove(file);
}

TEST(Junit, IsWellFormedWhateverTheNamesHold) {
  const std::vector<BaselineVerdict> verdicts = {
      {.scenario = "good.yaml", .findings = {}, .error = {}},
      {.scenario = "better.yaml", .findings = {{"makespan_ns", "2", "1", false}}, .error = {}},
      {.scenario = "<worse> & \"quoted\".yaml", .findings = {{"makespan_ns", "1", "2", true}}, .error = {}},
      {.scenario = "gone.yaml", .findings = {}, .error = "the file\x01 does <not> exist \xff"}};
  pugi::xml_document document;
  const std::string text = to_junit(verdicts);
  ASSERT_TRUE(document.load_string(text.c_str())) << text;
  const pugi::xml_node suite = document.child("testsuites").child("testsuite");
  EXPECT_EQ(suite.attribute("tests").as_int(), 4);
  EXPECT_EQ(suite.attribute("failures").as_int(), 1);
  EXPECT_EQ(suite.attribute("errors").as_int(), 1);
  const auto test = [&](const char* name) { return suite.find_child_by_attribute("testcase", "name", name); };
  EXPECT_TRUE(test("good.yaml").first_child().empty());
  EXPECT_STREQ(test("better.yaml").first_child().name(), "system-out");
  EXPECT_STREQ(test("<worse> & \"quoted\".yaml").first_child().name(), "failure");
  EXPECT_STREQ(test("gone.yaml").child("error").text().get(), "the file? does <not> exist \xef\xbf\xbd");
  EXPECT_THAT(text, Not(HasSubstr("&#")));
}

TEST_F(BaselineTest, OnlyAMeasuredFileThatIsNotThereIsSaidToBeGone) {
  write("a.yaml", kOneFOneB);
  const Baseline baseline = baseline_of({"a.yaml"});
  write("a.yaml", "bogus: 1\n");
  const auto wrong = updated(baseline, directory_);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error(), Not(HasSubstr("gone for good")));
  std::filesystem::remove(directory_ / "a.yaml");
  const auto gone = updated(baseline, directory_);
  ASSERT_FALSE(gone);
  EXPECT_THAT(gone.error(), HasSubstr("gone for good"));
}

// In files of torch 2.11, the forwards on the last rank of 1F1B are numbered from 1. Penstock reads them as
// numbered from 0.
TEST_F(BaselineTest, WhatWasRepairedWhileReadingIsSaid) {
  write("dump.csv", "0F0,,,0F1,0B0,0B1\n,1F1,1B0,1F2,1B1,\n");
  const BaselineVerdict verdict = verdict_on(baseline_of({"dump.csv"}));
  EXPECT_FALSE(verdict.failed());
  EXPECT_THAT(verdict.notes,
              ElementsAre(HasSubstr("its forwards are numbered 1 to 2 and were read as 0 to 1")));
}

TEST_F(BaselineTest, AnUpdateSaysWhatItAcceptsBetterAndWorse) {
  write("a.yaml", kOneFOneB);
  const Baseline before = baseline_of({"a.yaml"});
  write("a.yaml", kNaive);
  write("b.yaml", kOneFOneB);
  const auto accepted = accepted_by(before, baseline_of({"a.yaml", "b.yaml"}));
  ASSERT_EQ(accepted.size(), 2U);
  EXPECT_THAT(accepted[0].findings, Contains(BaselineFinding{"makespan_ns", "33.000 ms",
                                                             "96.000 ms (+190.9 %)", true, 33e6, 96e6}));
  EXPECT_THAT(accepted[0].findings,
              Contains(BaselineFinding{"peak_bytes", "4 activations", "1 activation (-75 %)", false, 4, 1}));
  EXPECT_EQ(accepted[1].error, "is new");
}

TEST_F(BaselineTest, KeysThatNobodyReadsAreErrors) {
  const auto error_of = [](const std::string& text) {
    const auto read = parse_baseline(text, "base.json");
    return read ? "read" : read.error();
  };
  EXPECT_EQ(
      error_of(R"({"schema_version": 1, "entries": [], "tolerence": {}})"),
      "base.json: tolerence: expected one of the keys schema_version, tolerance, programs, entries, got {}");
  EXPECT_THAT(error_of(R"({"schema_version": 1, "tolerance": {"peak": 1}, "entries": []})"),
              StartsWith("base.json: tolerance.peak: expected one of the keys makespan, bubble, "));
  EXPECT_THAT(error_of(R"({"schema_version": 1, "entries": [{"scenario": "a", "makespan": 1}]})"),
              StartsWith("base.json: entries[0].makespan: expected one of the keys scenario, valid, "));
  EXPECT_THAT(error_of(R"({"schema_version": 1, "entries": [1e999]})"), HasSubstr("number overflow"));
}

}  // namespace
}  // namespace penstock
