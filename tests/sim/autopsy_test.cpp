// Tests autopsies of recorded runs. Each test writes a prediction as a table of events and makes an autopsy
// of this table. The autopsy must find the program, the times and the causes again, and must name planted
// faults. The last tests use traces of production pipelines, if the reference material has them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/compare/compare.hpp"
#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "report/result/result_json.hpp"
#include "report/timeline/timeline.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/autopsy/autopsy.hpp"
#include "sim/autopsy/recording.hpp"
#include "sim/autopsy/trace_formats.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/why/explain.hpp"
#include "tests/scenarios/read_scenario.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;

/// Returns a table of events with the actions of a timeline. `keep` chooses the actions.
std::string events_of(
    const Timeline& timeline,
    const std::function<bool(const Action&)>& keep = [](const Action&) { return true; }) {
  std::string text = "rank,action,start_ns,end_ns\n";
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const Span& span = timeline.spans[i];
    if (!keep(span.action)) continue;
    std::string action = to_text(span.action);
    if (span.action.overlaps_next) {
      while (timeline.spans[i].action.overlaps_next)
        action += fmt::format(";{}", to_text(timeline.spans[++i].action));
      action = fmt::format("({})OVERLAP_F_B", action);
    }
    text += fmt::format("{},{},{},{}\n", span.rank, action, span.start_ns, span.end_ns);
  }
  return text;
}

Recording recorded(std::string_view events, std::int64_t skip = 0) {
  auto rows = read_events(events, "events.csv");
  EXPECT_TRUE(rows) << rows.error();
  auto recording = recording_of(rows ? std::move(rows->rows) : std::vector<RecordedRow>{}, skip);
  EXPECT_TRUE(recording) << recording.error();
  return recording.value_or(Recording{});
}

MeantProgram meant(const std::string& schedule, const Shape& shape) {
  return {.name = schedule, .program = generate(schedule, shape).value(), .shape = shape};
}

Autopsy autopsied(std::string_view events, const AutopsyOptions& options = {}) {
  auto autopsy = autopsy_of(recorded(events), "events.csv", options);
  EXPECT_TRUE(autopsy) << autopsy.error();
  return autopsy ? *std::move(autopsy) : Autopsy{};
}

Result simulated(const std::string& scenario) { return *simulate(prepared(scenario), {}); }

/// Returns the lines of the bill with their times. Lines of zero are left out.
std::map<std::string, Ns> bill_of(const Explanation& why) {
  std::map<std::string, Ns> lines;
  for (const BillLine& line : why.bill) {
    if (line.idle_ns != 0) lines[line.cause] = line.idle_ns;
  }
  return lines;
}

constexpr std::string_view kCluster = "cluster: {preset: uniform, devices: 4, latency: 100 us}\n";

struct RecordedCase {
  std::string_view schedule;
  std::string_view model;
  std::string_view shape;
};
std::ostream& operator<<(std::ostream& out, const RecordedCase& one) { return out << one.schedule; }

std::string scenario_of(const RecordedCase& one) {
  return fmt::format("model: {{stages: {{{}}}}}\n{}schedule: {{name: {}, stages: 4, {}}}\n", one.model,
                     kCluster, one.schedule, one.shape);
}

class RecordedPrediction : public ::testing::TestWithParam<RecordedCase> {};

TEST_P(RecordedPrediction, ComesBackWithItsProgramTimesAndAccount) {
  const std::string scenario = scenario_of(GetParam());
  const Result result = simulated(scenario);
  const Autopsy autopsy = autopsied(events_of(result.timeline));
  EXPECT_EQ(autopsy.schedule, GetParam().schedule);
  EXPECT_EQ(autopsy.waiting, Waiting::ahead);
  EXPECT_EQ(autopsy.unexplained_ns, 0);
  ASSERT_EQ(autopsy.steps.size(), 1U);
  EXPECT_EQ(autopsy.steps[0].measured_ns, result.makespan_ns);
  EXPECT_EQ(autopsy.steps[0].replayed_ns, result.makespan_ns);
  EXPECT_EQ(autopsy.steps[0].without_gaps_ns, result.makespan_ns);
  const auto run = caused_run(prepared(scenario));
  ASSERT_TRUE(run);
  EXPECT_EQ(bill_of(autopsy.why), bill_of(explained(*run)));
}

TEST_P(RecordedPrediction, IsPredictedAgainByItsScenario) {
  const Result result = simulated(scenario_of(GetParam()));
  const Autopsy autopsy = autopsied(events_of(result.timeline));
  const Result again = simulated(autopsy.scenario);
  EXPECT_EQ(again.makespan_ns, result.makespan_ns) << autopsy.scenario;
  // Both results have the same program, so they can be compared.
  const auto comparison = compare_results(again, autopsy.result, {});
  EXPECT_TRUE(comparison) << comparison.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, RecordedPrediction,
    ::testing::Values(
        RecordedCase{"1f1b", "forward: [1 ms, 1 ms, 1.5 ms, 1 ms], backward: [2 ms, 2 ms, 3 ms, 2 ms]",
                     "microbatches: 8"},
        RecordedCase{"gpipe", "forward: [[1 ms, 2 ms], 1 ms, 1 ms, 1 ms], backward: 2 ms", "microbatches: 6"},
        RecordedCase{"interleaved", "forward: 0.5 ms, backward: 1 ms", "microbatches: 8, virtual_stages: 2"},
        RecordedCase{"zb-h1",
                     "forward: [1 ms, 1 ms, 1 ms, 1.3 ms], backward_input: 1 ms, backward_weight: 1 ms",
                     "microbatches: 8"}));

TEST(Autopsy, TakesMessagesFromTheListsIfNoneAreRecorded) {
  const Result result = simulated(
      scenario_of({"1f1b", "forward: 1 ms, backward: [2 ms, 2 ms, 2 ms, 2.4 ms]", "microbatches: 8"}));
  const Autopsy autopsy =
      autopsied(events_of(result.timeline, [](const Action& action) { return is_compute(action.kind); }));
  EXPECT_EQ(autopsy.schedule, "1f1b");
  EXPECT_EQ(autopsy.steps[0].replayed_ns, result.makespan_ns);
  EXPECT_EQ(simulated(autopsy.scenario).makespan_ns, result.makespan_ns) << autopsy.scenario;
}

//   rank 0   0F0 |0SEND_F0| 0F1 |0SEND_F1 0RECV_B0|.........| 0B0 |0RECV_B1|....| 0B1
//   rank 1       |1RECV_F0| 1F0 1B0                |1SEND_B0 1RECV_F1| 1F1 1B1 |1SEND_B1|
constexpr std::string_view kBatched =
    "rank,action,start_us,end_us\n"
    "0,0F0,0,10\n0,0SEND_F0,10,11\n0,0F1,11,21\n0,0SEND_F1,21,42\n0,0RECV_B0,21,42\n0,0B0,42,62\n"
    "0,0RECV_B1,62,73\n0,0B1,73,93\n"
    "1,1RECV_F0,0,11\n1,1F0,11,21\n1,1B0,21,41\n1,1SEND_B0,41,42\n1,1RECV_F1,41,42\n1,1F1,42,52\n1,1B1,52,"
    "72\n"
    "1,1SEND_B1,72,73\n";

TEST(Autopsy, FindsThatRanksWaitForAllMessagesBetweenTwoActions) {
  const Autopsy autopsy = autopsied(kBatched);
  EXPECT_EQ(autopsy.waiting, Waiting::batched);
  EXPECT_EQ(autopsy.unexplained_ns, 0);
  // If messages were issued ahead, 0F1 would start 1 us late, and 0SEND_F1 would start 20 us after the end of
  // 0F1.
  ASSERT_TRUE(autopsy.other_unexplained_ns);
  EXPECT_GT(*autopsy.other_unexplained_ns, 20'000);
  EXPECT_EQ(autopsy.steps[0].replayed_ns, 93'000);
  EXPECT_EQ(autopsy.schedule, "1f1b");
  EXPECT_THAT(autopsy.scenario, HasSubstr("blocking: batched"));
  EXPECT_EQ(simulated(autopsy.scenario).makespan_ns, 93'000) << autopsy.scenario;
}

// --- planted faults
// ---------------------------------------------------------------------------------------------

TEST(Autopsy, BlamesASlowStage) {
  const Result result = simulated(
      scenario_of({"1f1b", "forward: [1 ms, 1 ms, 1.6 ms, 1 ms], backward: [2 ms, 2 ms, 3.2 ms, 2 ms]",
                   "microbatches: 8"}));
  const Autopsy autopsy = autopsied(events_of(result.timeline));
  ASSERT_FALSE(autopsy.blame.empty());
  EXPECT_EQ(autopsy.blame[0].cause, IdleCause::imbalance);
  EXPECT_EQ(autopsy.blame[0].stage, 2);
  EXPECT_EQ(autopsy.blame[0].rank, (RankName{.copy = 0, .rank = 2}));
  EXPECT_THAT(autopsy.blame[0].detail, HasSubstr("F 1.600 ms where others take 1.000 ms"));
}

// Rank 1 holds stages 1 and 5, and both are slow.
TEST(Autopsy, BlamesTheRankOfTwoSlowStages) {
  const Result result =
      simulated(scenario_of({"interleaved",
                             "forward: [1 ms, 1.6 ms, 1 ms, 1 ms, 1 ms, 1.6 ms, 1 ms, 1 ms], "
                             "backward: [2 ms, 3.2 ms, 2 ms, 2 ms, 2 ms, 3.2 ms, 2 ms, 2 ms]",
                             "microbatches: 8, virtual_stages: 2"}));
  const Autopsy autopsy = autopsied(events_of(result.timeline));
  ASSERT_GE(autopsy.blame.size(), 2U);
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_EQ(autopsy.blame[i].cause, IdleCause::imbalance);
    EXPECT_EQ(autopsy.blame[i].rank, (RankName{.copy = 0, .rank = 1}));
  }
}

TEST(Autopsy, BlamesARankOfEachCopyForAStageThatIsSlowInAll) {
  const Result result = simulated(
      "model: {stages: {forward: [1 ms, 1.6 ms], backward: [2 ms, 3.2 ms]}}\n"
      "cluster: {preset: uniform, devices: 4, latency: 100 us}\n"
      "schedule: {name: 1f1b, stages: 2, microbatches: 8, data_parallel: 2, replica_sync: false}\n");
  // Rank r of copy c is rank 2 r + c of the job, and microbatch m of copy c is microbatch 2 m + c.
  std::string rows = "copy,rank,action,start_ns,end_ns\n";
  for (const Span& span : result.timeline.spans) {
    Action own = span.action;
    if (own.microbatch >= 0) own.microbatch /= 2;
    if (is_compute(own.kind) && own.kind != ActionKind::step)
      rows += fmt::format("{},{},{},{},{}\n", span.rank % 2, span.rank / 2, to_text(own), span.start_ns,
                          span.end_ns);
  }
  const Autopsy autopsy = autopsied(rows);
  ASSERT_FALSE(autopsy.blame.empty());
  EXPECT_EQ(autopsy.blame[0].stage, 1);
  ASSERT_TRUE(autopsy.blame[0].rank);
  EXPECT_EQ(autopsy.blame[0].rank->rank, 1);
  EXPECT_TRUE(autopsy.blame[0].in_all_copies);
  EXPECT_THAT(autopsy_to_text(autopsy), HasSubstr("stage 1, rank 1 of each copy"));
}

TEST(Autopsy, BlamesOneLateAction) {
  Result result = simulated(scenario_of({"1f1b", "forward: 1 ms, backward: 2 ms", "microbatches: 8"}));
  // 2B3 takes 15 ms longer, and everything that starts after it is delayed.
  const auto late =
      std::ranges::find(result.timeline.spans, "2B3", [](const Span& span) { return to_text(span.action); });
  const Ns from = late->end_ns;
  for (Span& span : result.timeline.spans) {
    if (span.start_ns >= from) span.start_ns += 15'000'000;
    if (span.end_ns >= from) span.end_ns += 15'000'000;
  }
  const Autopsy autopsy =
      autopsied(events_of(result.timeline, [](const Action& action) { return is_compute(action.kind); }));
  ASSERT_FALSE(autopsy.blame.empty());
  EXPECT_EQ(autopsy.blame[0].cause, IdleCause::variation);
  EXPECT_EQ(autopsy.blame[0].action, "2B3");
  EXPECT_EQ(autopsy.blame[0].rank, (RankName{.copy = 0, .rank = 2}));
  EXPECT_EQ(autopsy.blame[0].microbatch, 3);
}

/// Returns the rows of a step. The action `late` starts 15 ms later than in the timeline, and ends at the
/// same time.
std::string rows_of_step(const Timeline& timeline, int step, std::string_view late) {
  std::string rows;
  for (const Span& span : timeline.spans) {
    if (!is_compute(span.action.kind) || span.action.kind == ActionKind::step) continue;
    const Ns wait = to_text(span.action) == late ? 15'000'000 : 0;
    rows += fmt::format("{},{},{},{},{}\n", step, span.rank, to_text(span.action), span.start_ns + wait,
                        span.end_ns);
  }
  return rows;
}

// 2B3 of the second of three steps starts 15 ms late, because its host was busy. The simulation has an action
// that takes 15 ms longer. Only the end of this action is in the record.
TEST(Autopsy, BlamesOneLateStartInItsOwnStep) {
  for (const char* schedule : {"1f1b", "gpipe"}) {
    const auto run = [&](std::string_view microbatch3) {
      return simulated(scenario_of(
          {schedule,
           fmt::format(
               "forward: 1 ms, backward: [2 ms, 2 ms, [2 ms, 2 ms, 2 ms, {}, 2 ms, 2 ms, 2 ms, 2 ms], 2 ms]",
               microbatch3),
           "microbatches: 8"}));
    };
    const Result usual = run("2 ms");
    const std::string events = "step,rank,action,start_ns,end_ns\n" + rows_of_step(usual.timeline, 4, "") +
                               rows_of_step(run("17 ms").timeline, 5, "2B3") +
                               rows_of_step(usual.timeline, 6, "");
    const Autopsy autopsy = autopsied(events);
    ASSERT_FALSE(autopsy.blame.empty()) << schedule;
    const Blame& blame = autopsy.blame[0];
    EXPECT_EQ(blame.cause, IdleCause::launch) << schedule;
    EXPECT_EQ(blame.action, "2B3") << schedule;
    EXPECT_EQ(blame.step, 5) << schedule;
    EXPECT_EQ(blame.stage, 2) << schedule;
    EXPECT_EQ(blame.microbatch, 3) << schedule;
    EXPECT_EQ(blame.rank, (RankName{.copy = 0, .rank = 2})) << schedule;
    EXPECT_NEAR(static_cast<double>(blame.ns), 15e6, 2e6) << schedule;
    EXPECT_THAT(blame.detail, HasSubstr("starts 15.000 ms after it could, where others start 0 ns"))
        << schedule;
  }
}

// Every action of rank 1 starts 1 ms late, so no single action is to blame.
TEST(Autopsy, BlamesTheRankWhoseActionsAllStartLate) {
  const Result result = simulated(
      "model: {stages: {forward: 1 ms, backward: 2 ms}}\ncluster: {preset: uniform, devices: 1}\n"
      "schedule: {name: 1f1b, stages: 1, microbatches: 8}\n");
  std::string events = "rank,action,start_ns,end_ns\n";
  Ns moved = 0;
  for (const Span& span : result.timeline.spans) {
    if (span.action.kind == ActionKind::step) continue;
    events += fmt::format("0,{},{},{}\n", to_text(span.action), span.start_ns + moved, span.end_ns + moved);
    moved += 1'000'000;
  }
  const Autopsy autopsy = autopsied(events);
  ASSERT_FALSE(autopsy.blame.empty());
  EXPECT_EQ(autopsy.blame[0].cause, IdleCause::launch);
  EXPECT_EQ(autopsy.blame[0].action, "");
  EXPECT_NEAR(static_cast<double>(autopsy.blame[0].ns), 15e6, 1e5);
}

// The step ends with the reduction of gradients across copies, which waits for the slower copy. The ranks of
// the other copy must not be blamed.
TEST(Autopsy, BlamesTheSlowActionAndNotTheRanksThatReduceWithIt) {
  const Result result = simulated(
      "model: {stages: {forward: 20 ms, backward: [[40 ms, 40 ms, 40 ms, 40 ms, 340 ms, 40 ms], 40 ms, 40 "
      "ms], "
      "activation: 4 MB, weights: 100 MB}}\n"
      "cluster: {preset: uniform, devices: 6, bandwidth: 10 GB/s, latency: 100 us}\n"
      "schedule: {name: 1f1b, stages: 3, microbatches: 6, blocking: batched, data_parallel: 2}\n");
  const std::string events = events_of(result.timeline);
  ASSERT_THAT(events, HasSubstr("REDUCE_GRAD"));
  const Autopsy autopsy = autopsied(events);
  EXPECT_EQ(autopsy.recording.copies, 2);
  EXPECT_EQ(autopsy.unexplained_ns, 0);
  EXPECT_EQ(autopsy.result.makespan_ns, result.makespan_ns);
  ASSERT_FALSE(autopsy.blame.empty());
  EXPECT_EQ(autopsy.blame[0].cause, IdleCause::variation);
  EXPECT_EQ(autopsy.blame[0].action, "0B2");
  EXPECT_EQ(autopsy.blame[0].rank->copy, 0);
  EXPECT_NEAR(static_cast<double>(autopsy.blame[0].ns), 300e6, 3e6);
  for (const Blame& blame : autopsy.blame) EXPECT_NE(blame.cause, IdleCause::launch);
  const auto collective = std::ranges::find(autopsy.blame, IdleCause::collective, &Blame::cause);
  ASSERT_NE(collective, autopsy.blame.end());
  EXPECT_NEAR(static_cast<double>(collective->ns), 10.2e6, 1e5);
}

TEST(Autopsy, BlamesARankThatIsSlowerThanItsCopies) {
  // Microbatches 1, 3, 5, 7 run on the second copy, whose stage 1 takes twice as long.
  const Result result = simulated(
      "model: {stages: {forward: [1 ms, [1 ms, 2 ms]], backward: [2 ms, [2 ms, 4 ms]]}}\n"
      "cluster: {preset: uniform, devices: 4, latency: 100 us}\n"
      "schedule: {name: 1f1b, stages: 2, microbatches: 8, data_parallel: 2, replica_sync: false}\n");
  const Autopsy autopsy = autopsied(events_of(result.timeline));
  EXPECT_EQ(autopsy.recording.copies, 2);
  EXPECT_EQ(autopsy.schedule, "1f1b");
  ASSERT_FALSE(autopsy.blame.empty());
  EXPECT_EQ(autopsy.blame[0].cause, IdleCause::slow_rank);
  EXPECT_EQ(autopsy.blame[0].stage, 1);
  EXPECT_EQ(autopsy.blame[0].rank, (RankName{.copy = 1, .rank = 3}));
  EXPECT_THAT(autopsy.blame[0].detail, HasSubstr("F 2.00, B 2.00 times its copies"));
  EXPECT_EQ(simulated(autopsy.scenario).makespan_ns, result.makespan_ns) << autopsy.scenario;
}

// A single mean over both copies would hide the slow rank.
TEST(Autopsy, WritesMeansOfEachCopy) {
  const Result result = simulated(
      "model: {stages: {forward: [1 ms, [1 ms, 2 ms, 1 ms, 2.2 ms]], backward: [2 ms, [2 ms, 4 ms]]}}\n"
      "cluster: {preset: uniform, devices: 4, latency: 100 us}\n"
      "schedule: {name: 1f1b, stages: 2, microbatches: 8, data_parallel: 2, replica_sync: false}\n");
  const Autopsy autopsy = autopsied(events_of(result.timeline), {.means = true});
  EXPECT_THAT(autopsy.scenario, HasSubstr("forward: [1 ms, [1 ms, 2.1 ms]]"));
  EXPECT_NEAR(
      static_cast<double>(simulated(autopsy.scenario).makespan_ns) / static_cast<double>(result.makespan_ns),
      1, 0.01)
      << autopsy.scenario;
}

// Some messages take longer than others: those between ranks 1 and 2 of the first copy, and all messages of
// the second copy.
TEST(Autopsy, GivesEachPairOfRanksItsOwnLatency) {
  for (const char* waiting : {"", ", blocking: batched"}) {
    const std::string links =
        "cluster:\n  devices: [rank0, rank1, rank2, rank3, rank4, rank5, rank6, rank7]\n  links:\n"
        "    - {between: [rank0, rank2], latency: 100 us}\n    - {between: [rank1, rank3], latency: 700 us}\n"
        "    - {between: [rank2, rank4], latency: 400 us}\n    - {between: [rank3, rank5], latency: 700 us}\n"
        "    - {between: [rank4, rank6], latency: 100 us}\n    - {between: [rank5, rank7], latency: 700 "
        "us}\n";
    const Result result = simulated(
        "model: {stages: {forward: [1 ms, 1.5 ms, 2 ms, 1 ms], backward: 3 ms}}\n" + links +
        "    - {between: [rank0, rank1], latency: 0 us}\nschedule: {name: 1f1b, stages: 4, microbatches: 12, "
        "data_parallel: 2, replica_sync: false" +
        waiting + "}\n");
    const Autopsy autopsy = autopsied(events_of(result.timeline));
    EXPECT_THAT(autopsy.scenario, HasSubstr(links));
    EXPECT_EQ(simulated(autopsy.scenario).makespan_ns, result.makespan_ns) << autopsy.scenario;
  }
}

// The link from the last rank to the first has the least latency, so messages use it. But it is also narrow.
// If the scenario stated latencies alone, a route over rank 1 would be faster.
TEST(Autopsy, WritesOneLatencyIfARouteOverOtherRanksWouldBeQuicker) {
  const Result result = simulated(
      "model: {stages: {forward: 1 ms, backward: 2 ms, activation: 1 MB}}\n"
      "cluster:\n  devices: [rank0, rank1, rank2]\n  links:\n"
      "    - {between: [rank0, rank1], latency: 100 us}\n    - {between: [rank1, rank2], latency: 100 us}\n"
      "    - {between: [rank0, rank2], latency: 50 us, bandwidth: 1 GB/s}\n"
      "schedule: {name: interleaved, stages: 3, microbatches: 3, virtual_stages: 2, blocking: batched}\n");
  const Autopsy autopsy = autopsied(events_of(result.timeline));
  EXPECT_THAT(autopsy.scenario, HasSubstr("cluster: {preset: uniform, devices: 3, latency: "));
}

TEST(Autopsy, NamesTheFirstActionOfEachRankThatWasNotMeant) {
  const Result result = simulated(scenario_of({"gpipe", "forward: 1 ms, backward: 2 ms", "microbatches: 4"}));
  const AutopsyOptions options{.meant = meant("1f1b", {.stages = 4, .microbatches = 4})};
  const Autopsy autopsy = autopsied(events_of(result.timeline), options);
  EXPECT_FALSE(autopsy.as_meant());
  EXPECT_EQ(autopsy.schedule, "gpipe");
  ASSERT_EQ(autopsy.steps[0].differences.size(), 3U);  // K = M, so that rank 0 runs the same
  const ListDifference& last = autopsy.steps[0].differences[2];
  EXPECT_EQ(last.rank.rank, 3);
  EXPECT_EQ(last.position, 1);
  EXPECT_EQ(last.ran, "3F1");
  EXPECT_EQ(last.meant, "3B0");
}

TEST(Autopsy, WritesListsOfNoScheduleAsAProgram) {
  Result result = simulated(scenario_of({"1f1b", "forward: 1 ms, backward: 2 ms", "microbatches: 4"}));
  const auto is = [](const char* name) {
    return [name](const Span& span) { return to_text(span.action) == name; };
  };
  auto& spans = result.timeline.spans;
  std::swap(std::ranges::find_if(spans, is("0F1"))->action, std::ranges::find_if(spans, is("0F2"))->action);
  const Autopsy autopsy =
      autopsied(events_of(result.timeline, [](const Action& action) { return is_compute(action.kind); }));
  EXPECT_EQ(autopsy.schedule, "");
  EXPECT_THAT(autopsy.scenario, HasSubstr(fmt::format("schedule: {{program: {}}}", kListsFile)));
}

// --- the record
// -------------------------------------------------------------------------------------------------

TEST(RecordedEvents, BeginAStepWhereAnActionComesAgain) {
  const Recording recording = recorded(
      "rank,kind,stage,microbatch,start_ms,duration_ms\n"
      "0,F,0,0,0,1\n0,B,0,0,1,2\n0,F,0,0,10,1\n0,B,0,0,11,2\n0,F,0,0,20,1.5\n0,B,0,0,22,2\n");
  ASSERT_EQ(recording.steps.size(), 3U);
  EXPECT_EQ(recording.steps[2].lists[0][0].end_ns, 1'500'000);
  EXPECT_EQ(recording.steps[2].lists[0][1].start_ns, 2'000'000);
}

TEST(RecordedEvents, AreWrittenAndReadAgain) {
  const Recording recording = recorded(kBatched);
  EXPECT_EQ(recorded(events_to_csv(recording)).steps, recording.steps);
}

TEST(RecordedEvents, LeaveOutStepsThatAreCut) {
  const Recording recording = recorded(
      "step,rank,action,start_us,end_us\n7,0,0F0,0,1\n7,0,0B0,1,2\n8,0,0F0,5,6\n8,0,0B0,6,7\n9,0,0F0,10,"
      "11\n");
  EXPECT_EQ(recording.steps.size(), 2U);
  EXPECT_THAT(recording.notes,
              ::testing::ElementsAre(HasSubstr("1 step left out, because actions are missing there: 9")));
}

std::string refused_record(std::string_view events) {
  auto rows = read_events(events, "events.csv");
  if (!rows) return rows.error();
  const auto recording = recording_of(std::move(rows->rows), 0);
  return recording ? "no error" : recording.error();
}

TEST(RecordedEvents, SayWhatIsWrongWithThem) {
  EXPECT_THAT(refused_record("rank,action,begin,end\n0,0F0,1,2\n"),
              HasSubstr("events.csv:1: expected the times in columns such as start_us and end_us"));
  EXPECT_THAT(refused_record("rank,start_us,end_us\n0,1,2\n"), HasSubstr("expected a column \"action\""));
  EXPECT_THAT(refused_record("rank,action,start_us,end_us\n0,0X0,1,2\n"),
              HasSubstr("events.csv:2: expected an action such as 3F5"));
  EXPECT_THAT(refused_record("rank,action,start_us,end_us\n0,0F0,5,2\n"),
              HasSubstr("events.csv:2: expected an end that is not before the start"));
  EXPECT_THAT(refused_record("rank,action,start_us,end_us\n0,0F0,nan,2\n"),
              HasSubstr("start_us: expected a time"));
  EXPECT_THAT(refused_record("rank,action,start_us,end_us\nx,0F0,1,2\n"),
              HasSubstr("rank: expected a whole number"));
  EXPECT_THAT(refused_record("rank,action,start_us,end_us\n0,0F0,1,2\n0,0B0,2,3\n1,1F0,1,2\n"),
              HasSubstr("there is no 1B0 of copy 0: is the record of a rank missing?"));
  EXPECT_THAT(refused_record("rank,action,start_us,end_us\n0,0F0,1,2\n0,999999F999999,2,3\n"),
              HasSubstr("expected each of 1000000 microbatches"));
  EXPECT_THAT(refused_record("rank,action,start_us,end_us\n"),
              HasSubstr("expected recorded actions, got none"));
}

TEST(Autopsy, IsAMeasuredResultAsJson) {
  const Autopsy autopsy = autopsied(kBatched);
  const std::string text = whole_text([&](const TextSink& sink) { write_autopsy_json(autopsy, sink); });
  const auto result = result_from_json(text, "autopsy.json");
  ASSERT_TRUE(result) << result.error();
  EXPECT_EQ(*result, autopsy.result);
  EXPECT_EQ(result->kind, ResultKind::measured);
  const auto document = nlohmann::json::parse(text);
  EXPECT_EQ(document["steps"][0]["measured_ns"], 93'000);
  EXPECT_EQ(document["waiting"]["batched_unexplained_ns"], 0);
  EXPECT_EQ(document["scenario"], autopsy.scenario);
  // `explain` reads the result and gives the same bill.
  const auto run = caused_run(*result);
  ASSERT_TRUE(run) << run.error();
  EXPECT_EQ(bill_of(explained(*run)), bill_of(autopsy.why));
}

TEST(Autopsy, HasAPageWithItsBlameAndItsSteps) {
  const Result result = simulated(
      scenario_of({"1f1b", "forward: [1 ms, 1 ms, 1.6 ms, 1 ms], backward: [2 ms, 2 ms, 3.2 ms, 2 ms]",
                   "microbatches: 8"}));
  const Autopsy autopsy =
      autopsied(events_of(result.timeline), {.meant = meant("gpipe", {.stages = 4, .microbatches = 8})});
  const std::string page = autopsy_to_html(autopsy);
  for (const char* part :
       {"<h2>Recorded run</h2>", "slowdown: ", "<h2>What is to blame</h2>", "stage 2, rank 2",
        "<h2>Steps</h2>", "first difference", "<h2>Why ranks are idle</h2>", "<div class=\"viewer\">"})
    EXPECT_THAT(page, HasSubstr(part));
}

// --- production pipelines
// ---------------------------------------------------------------------------------------

struct ProductionCase {
  std::string_view file;
  std::size_t pipelines = 0;
  IdleCause cause = IdleCause::imbalance;
  std::int32_t stage = 0;
  double seconds_ms = 0;
  double slowdown = 0;
};
std::ostream& operator<<(std::ostream& out, const ProductionCase& one) { return out << one.file; }

class Production : public ::testing::TestWithParam<ProductionCase> {};

/// Returns the median over the steps of the time of the slowest copy.
double median_of_steps(const Autopsy& autopsy) {
  std::map<std::int64_t, Ns> slowest;
  for (const StepVerdict& step : autopsy.steps)
    slowest[step.step] = std::max(slowest[step.step], step.measured_ns);
  std::vector<Ns> times;
  for (const auto& [step, time] : slowest) times.push_back(time);
  std::ranges::sort(times);
  return static_cast<double>(times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
}

TEST_P(Production, IsReplayedPredictedAndExplained) {
  const auto file = test::kReference / "traces" / GetParam().file;
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there";
  const auto text = read_trace_file(file, "trace");
  ASSERT_TRUE(text) << text.error();
  const Autopsy autopsy = autopsied(
      *text, {.meant = meant("1f1b", {.stages = 4, .microbatches = GetParam().stage == 3 ? 4 : 32})});
  EXPECT_EQ(autopsy.steps.size(), GetParam().pipelines);
  EXPECT_TRUE(autopsy.as_meant());
  EXPECT_EQ(autopsy.waiting, Waiting::batched);
  for (const StepVerdict& step : autopsy.steps) {
    const auto measured = static_cast<double>(step.measured_ns);
    EXPECT_NEAR(static_cast<double>(step.replayed_ns) / measured, 1, 2e-4) << step.step;
    EXPECT_NEAR(static_cast<double>(step.without_gaps_ns) / measured, 1, 3e-4) << step.step;
  }
  EXPECT_NEAR(autopsy.slowdown, GetParam().slowdown, 0.01);
  EXPECT_EQ(autopsy.blame[0].cause, GetParam().cause);
  EXPECT_EQ(autopsy.blame[0].stage, GetParam().stage);
  EXPECT_NEAR(static_cast<double>(autopsy.blame[0].ns) / 1e6, GetParam().seconds_ms,
              GetParam().seconds_ms * 0.03);
  // The scenario has the medians over the steps, so it predicts the median step.
  EXPECT_NEAR(static_cast<double>(simulated(autopsy.scenario).makespan_ns) / median_of_steps(autopsy), 1,
              0.001);
}

// With a single mean over both copies, the prediction of the larger trace was 41 % too short, because only
// one copy has a slow rank.
TEST_P(Production, IsPredictedByTheMeansOfEachStageAndCopy) {
  const auto file = test::kReference / "traces" / GetParam().file;
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there";
  const auto text = read_trace_file(file, "trace");
  ASSERT_TRUE(text) << text.error();
  const Autopsy autopsy = autopsied(*text, {.means = true});
  EXPECT_NEAR(static_cast<double>(simulated(autopsy.scenario).makespan_ns) / median_of_steps(autopsy), 1,
              0.05);
}

// Messages between ranks 0 and 1 of the first copy take three times as long as the others. With a single
// latency for all pairs of ranks, the prediction of this copy is 0.17 % too short.
TEST_P(Production, IsPredictedWithinATenthOfAPercentCopyByCopy) {
  const auto file = test::kReference / "traces" / GetParam().file;
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there";
  const auto text = read_trace_file(file, "trace");
  ASSERT_TRUE(text) << text.error();
  std::map<std::string, std::string> pipelines;
  std::istringstream lines(*text);
  std::string header;
  std::getline(lines, header);
  for (std::string line; std::getline(lines, line);)
    pipelines[line.substr(0, line.find(',', line.find(',') + 1))] += line + "\n";
  ASSERT_EQ(pipelines.size(), GetParam().pipelines);
  for (const auto& [pipeline, rows] : pipelines) {
    const Autopsy autopsy = autopsied(header + "\n" + rows);
    EXPECT_EQ(autopsy.waiting, Waiting::batched);
    const auto predicted = static_cast<double>(simulated(autopsy.scenario).makespan_ns);
    EXPECT_NEAR(predicted / median_of_steps(autopsy), 1, 0.001) << pipeline;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Traces, Production,
    ::testing::Values(ProductionCase{"production-pp4-m4.csv", 64, IdleCause::imbalance, 3, 394, 1.18},
                      ProductionCase{"production-pp4-m32.csv.gz", 8, IdleCause::slow_rank, 0, 24'000, 1.97}));

}  // namespace
}  // namespace penstock
