// Tests explanations of idle time. The bills of a table of scenarios were computed by hand. For random
// programs, the parts of each interval must add up, and the graph of causes must give the same times as the
// engine. The account must equal a slow computation of its definition that does not use the graph.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "report/result/result_json.hpp"
#include "report/timeline/timeline.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/why/account.hpp"
#include "sim/why/explain.hpp"
#include "tests/scenarios/read_scenario.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/plain_account.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

Explanation explanation_of(const Experiment& experiment) {
  const auto run = caused_run(experiment);
  EXPECT_TRUE(run) << run.error().message;
  return explained(*run);
}

// --- the table
// ------------------------------------------------------------------------------------------------

constexpr std::string_view kCluster =
    "cluster: {preset: uniform, devices: 4, bandwidth: 10 GB/s, latency: 50 us}\n";

struct BillCase {
  std::string_view name;
  std::string scenario;
  double makespan_ms = 0;
  std::map<std::string, double> mean_ms{};  ///< mean idle time of each line that is not 0
};
std::ostream& operator<<(std::ostream& out, const BillCase& one) { return out << one.name; }

std::string uniform_scenario(std::string_view model, std::string_view schedule) {
  return fmt::format("model: {{stages: {{activation: 1 MB, {}}}}}\n{}schedule: {{stages: 4, {}}}\n", model,
                     kCluster, schedule);
}

std::vector<BillCase> bill_cases() {
  const std::string even = "forward: 1 ms, backward: 2 ms";
  return {
      {"1f1b",
       uniform_scenario(even, "name: 1f1b, microbatches: 8"),
       35.4,
       {{"fill", 3}, {"drain", 6}, {"bandwidth", 1.6}, {"latency", 0.8}}},
      {"slow_stage",
       uniform_scenario("forward: [1 ms, 1 ms, 1.5 ms, 1 ms], backward: [2 ms, 2 ms, 3 ms, 2 ms]",
                        "name: 1f1b, microbatches: 8"),
       44.7,
       {{"fill", 3.375}, {"drain", 6.75}, {"imbalance", 6.375}, {"bandwidth", 0.8}, {"latency", 0.4}}},
      {"interleaved",
       "model: {stages: {activation: 1 MB, forward: 0.5 ms, backward: 1 ms}}\n"
       "cluster: {preset: uniform, devices: 4, bandwidth: 10 GB/s, latency: 200 us}\n"
       "schedule: {name: interleaved, stages: 4, virtual_stages: 2, microbatches: 8}\n",
       32.7,
       {{"fill", 1.5}, {"drain", 3}, {"latency", 2.8}, {"bandwidth", 1.4}}},
      {"zb_h1",
       uniform_scenario("forward: [1 ms, 1 ms, 1 ms, 1.3 ms], backward_input: [1 ms, 1 ms, 1 ms, 1.2 ms], "
                        "backward_weight: [1 ms, 1 ms, 1 ms, 1.1 ms]",
                        "name: zb-h1, microbatches: 8"),
       32.3,
       {{"fill", 3.225}, {"order", 0.075}, {"imbalance", 2.9}, {"bandwidth", 0.6}, {"latency", 0.3}}},
      {"dualpipe",
       uniform_scenario("forward: 1 ms, backward_input: 1 ms, backward_weight: 1 ms, overlapped_pair: 2.6 ms",
                        "name: dualpipe, microbatches: 10"),
       31.85,
       {{"fill", 1},
        {"order", 0.6},
        {"bandwidth", 1.1},
        {"latency", 0.55},
        {"queue", 0.4},
        {"collective", 0.2}}},
      {"replicas",
       "model: {stages: {activation: 1 MB, forward: [2 ms, 1 ms], backward: [4 ms, 2 ms], weights: 10 MB}}\n"
       "cluster: {preset: uniform, devices: 3, bandwidth: 10 GB/s, latency: 50 us}\n"
       "schedule: {name: 1f1b-rr, stages: 2, microbatches: 12, replicas: [2, 1]}\n",
       48.1,
       {{"fill", 2}, {"drain", 4}, {"collective", 5.5}, {"bandwidth", 0.4}, {"latency", 0.2}}},
      {"slow_head",
       uniform_scenario("forward: [1 ms, 1 ms, 1 ms, 1.4 ms], backward: [2 ms, 2 ms, 2 ms, 2.2 ms]",
                        "name: 1f1b, microbatches: 8"),
       38.7,
       {{"fill", 3.3}, {"drain", 6.15}, {"imbalance", 3.15}, {"bandwidth", 0.6}, {"latency", 0.3}}},
      {"naive",
       uniform_scenario(even, "name: naive, microbatches: 4"),
       51.6,
       {{"fill", 3}, {"drain", 6}, {"order", 27}, {"bandwidth", 2.4}, {"latency", 1.2}}},
      {"long_microbatches",
       uniform_scenario(
           "forward: {microbatches: [1 ms, 3 ms, 1 ms, 1 ms, 2 ms, 1 ms, 1 ms, 1 ms]}, backward: 2 ms",
           "name: 1f1b, microbatches: 8"),
       44.1,
       {{"fill", 3}, {"drain", 6}, {"variation", 6}, {"bandwidth", 1.4}, {"latency", 0.7}}},
      {"launches",
       uniform_scenario(even, "name: 1f1b, microbatches: 8") + "host: {launch_overhead: 0.4 ms}\n",
       35.8,
       {{"fill", 3}, {"drain", 6}, {"bandwidth", 1.6}, {"latency", 0.8}, {"launch", 0.4}}},
      {"shared_links",
       "model: {stages: {activation: 4 MB, forward: 1 ms, backward: 2 ms, weights: 20 MB}}\n"
       "cluster: {preset: two-level, nodes: 2, devices_per_node: 4, intra_bandwidth: 100 GB/s, "
       "inter_bandwidth: 5 GB/s, intra_latency: 5 us, inter_latency: 30 us}\n"
       "schedule: {name: 1f1b, stages: 4, microbatches: 16, data_parallel: 2}\n",
       46.64,
       {{"fill", 3},
        {"drain", 6},
        {"bandwidth", 6.64},
        {"shared link", 6.48},
        {"latency", 0.31},
        {"collective", 0.21}}},
  };
}

class Bill : public testing::TestWithParam<BillCase> {};

TEST_P(Bill, NamesWhatTheHandFinds) {
  const Explanation why = explanation_of(prepared(GetParam().scenario));
  EXPECT_NEAR(static_cast<double>(why.makespan_ns), GetParam().makespan_ms * 1e6, 1000);
  std::map<std::string, double> mean_ms;
  for (const BillLine& line : why.bill) {
    const double mean = std::round(static_cast<double>(line.idle_ns) / why.ranks / 1000) / 1000;
    if (mean != 0) mean_ms[line.cause] = mean;
  }
  EXPECT_EQ(mean_ms, GetParam().mean_ms);
}

INSTANTIATE_TEST_SUITE_P(Table, Bill, testing::ValuesIn(bill_cases()),
                         [](const auto& one) { return std::string(one.param.name); });

/// Returns the interval before an action of a rank.
IdleInterval interval_before(const Explanation& why, std::int32_t rank, const std::string& action) {
  for (const IdleInterval& interval : why.intervals) {
    if (interval.rank == rank && interval.before == action) return interval;
  }
  ADD_FAILURE() << "rank " << rank << " is not idle before " << action;
  return {};
}

using Parts = std::map<std::string, Ns>;

/// Returns the causes that are not 0, in microseconds.
Parts parts_in_us(const IdleInterval& interval) {
  Parts parts;
  for (std::size_t c = 0; c < kIdleCauses; ++c) {
    if (interval.causes[c] != 0)
      parts[std::string(to_text(static_cast<IdleCause>(c)))] = interval.causes[c] / 1000;
  }
  return parts;
}

// 1F1B, K = 4, M = 8. Stage 2 takes 1.5 times as long, and rank 0 waits for it.
TEST(Why, AnIntervalHasTheCausesOfTheChainBehindIt) {
  const Explanation why = explanation_of(prepared(bill_cases()[1].scenario));
  const IdleInterval first = interval_before(why, 0, "0B0");
  EXPECT_EQ(first.end_ns - first.start_ns, 8'400'000);
  EXPECT_EQ(first.phase, IdlePhase::fill);
  EXPECT_EQ(first.ideal_ns, 6'750'000);
  EXPECT_EQ(parts_in_us(first), (Parts{{"imbalance", 750}, {"bandwidth", 600}, {"latency", 300}}));
  for (const char* action : {"0B1", "0B2", "0B3", "0B4"})
    EXPECT_EQ(parts_in_us(interval_before(why, 0, action)), (Parts{{"imbalance", 1500}})) << action;
  for (const char* action : {"3F3", "3F4", "3F5", "3F6", "3F7"})
    EXPECT_EQ(parts_in_us(interval_before(why, 3, action)), (Parts{{"imbalance", 1500}})) << action;
  for (const char* action : {"0B5", "0B6"}) {
    const IdleInterval late = interval_before(why, 0, action);
    EXPECT_EQ(late.phase, IdlePhase::drain);
    EXPECT_EQ(late.ideal_ns, 1'125'000);
    EXPECT_EQ(parts_in_us(late), (Parts{{"imbalance", 1375}})) << action;
  }
  // 2F4 computes until 20.6 ms. Its message takes 0.1 ms, and 0.05 ms of latency.
  const IdleInterval before_3f4 = interval_before(why, 3, "3F4");
  EXPECT_EQ(before_3f4.chain,
            (std::vector<ChainLink>{{19'250'000, 20'600'000, ChainKind::compute, 2, "2F4"},
                                    {20'600'000, 20'700'000, ChainKind::transfer, 2, "2SEND_F4"},
                                    {20'700'000, 20'750'000, ChainKind::latency, 2, "2SEND_F4"}}));
  EXPECT_FALSE(before_3f4.ready);
}

// The last rank waits for stages that are shorter than in the ideal run, because stage 3 is long.
TEST(Why, ATextSaysWhyImbalanceMakesAWaitShorter) {
  const Explanation why = explanation_of(
      prepared(uniform_scenario("forward: [1 ms, 1 ms, 1 ms, 1.4 ms], backward: [2 ms, 2 ms, 2 ms, 2.2 ms]",
                                "name: 1f1b, microbatches: 8")));
  ASSERT_EQ(why.stage_imbalance.size(), 4U);
  EXPECT_LT(why.stage_imbalance[0], 0);
  EXPECT_GT(why.stage_imbalance[3], 0);
  const std::string waits = explanation_to_text(why, {.rank = 3, .action = ""});
  EXPECT_THAT(waits, testing::HasSubstr("of imbalance, since stage 0 is shorter"));
  EXPECT_THAT(explanation_to_text(why, {}),
              testing::HasSubstr("a negative time makes the waits of a rank shorter"));
}

// Without sizes the memory is not known. Levers that change the order then have no figures for memory.
TEST(Why, LeversOfTheOrderSayNothingOfUnknownMemory) {
  Explanation why;
  why.ranks = 1;
  why.makespan_ns = 1'000'000;
  why.peak = 0;
  why.levers = {{.lever = "schedule zb-h1", .makespan_ns = 900'000, .gain = 0.1, .peak = 0}};
  EXPECT_EQ(explanation_to_text(why, {}).find("on the fullest rank"), std::string::npos);
  const std::string json = whole_text([&](const TextSink& sink) { write_explanation_json(why, sink); });
  EXPECT_NE(json.find("\"gain_ns\": 100000"), std::string::npos) << json;
}

TEST(Why, RemovingACauseGivesWhatSimulatingWithoutItGives) {
  const Explanation why = explanation_of(prepared(bill_cases()[1].scenario));
  const auto line = [&](const char* cause) { return *std::ranges::find(why.bill, cause, &BillLine::cause); };
  const Ns balanced = makespan_ns(
      prepared(uniform_scenario("forward: 1.125 ms, backward: 2.25 ms", "name: 1f1b, microbatches: 8")));
  EXPECT_EQ(line("imbalance").without_ns, balanced);
  EXPECT_EQ(line("imbalance").items.front(), (CauseItem{"stage 2", 7'875'000}));
  EXPECT_EQ(why.ideal_ns, 11 * 3'375'000);
}

/// Returns the makespans of the levers that change costs, by name.
std::map<std::string, Ns> levers_of(const Experiment& experiment) {
  std::map<std::string, Ns> makespans;
  for (const Lever& lever : cost_levers(*caused_run(experiment), &experiment).levers)
    makespans[lever.lever] = lever.makespan_ns;
  return makespans;
}

Ns simulated_ns(const std::string& scenario) { return simulate(prepared(scenario), {})->makespan_ns; }

TEST(Why, ALeverIsTheSimulationOfItsChange) {
  const auto levers = levers_of(prepared(bill_cases()[1].scenario));
  EXPECT_EQ(levers.at("stage 2 10 % faster"),
            simulated_ns(
                uniform_scenario("forward: [1 ms, 1 ms, 1.35 ms, 1 ms], backward: [2 ms, 2 ms, 2.7 ms, 2 ms]",
                                 "name: 1f1b, microbatches: 8")));
  EXPECT_EQ(levers.at("stages as long as each other"), 39'525'000);
  EXPECT_EQ(levers.at("stage 0 10 % faster"),
            simulated_ns(uniform_scenario(
                "forward: [0.9 ms, 1 ms, 1.5 ms, 1 ms], backward: [1.8 ms, 2 ms, 3 ms, 2 ms]",
                "name: 1f1b, microbatches: 8")));
}

// The two actions of an overlapped pair belong to different stages, and only one of these becomes faster.
TEST(Why, ALeverOnAPairIsTheSimulationOfItsChange) {
  const auto scenario = [](std::string_view first, std::string_view last) {
    return fmt::format(
        "model: {{stages: {{forward: [{}], backward: [{}]}}}}\n"
        "schedule: {{name: dualpipe-v, stages: 2, microbatches: 8}}\n",
        first, last);
  };
  const auto levers = levers_of(prepared(scenario("1 ms, 4 ms, 1 ms, 1 ms", "2 ms, 2 ms, 2 ms, 10 ms")));
  EXPECT_EQ(levers.at("stage 0 10 % faster"),
            simulated_ns(scenario("0.9 ms, 4 ms, 1 ms, 1 ms", "1.8 ms, 2 ms, 2 ms, 10 ms")));
  EXPECT_EQ(levers.at("stage 3 10 % faster"),
            simulated_ns(scenario("1 ms, 4 ms, 1 ms, 0.9 ms", "2 ms, 2 ms, 2 ms, 9 ms")));
}

// Each stage takes the stated time for every v, so fewer chunks would mean a smaller model.
TEST(Why, ALeverDoesNotLeaveOutWork) {
  const auto levers_with = [](const std::string& model) {
    const Scenario scenario = read_scenario(
        model + "schedule: {name: interleaved, stages: 4, microbatches: 8, virtual_stages: 2}\n");
    const Experiment experiment = prepared(scenario);
    const auto run = caused_run(experiment);
    Explanation why = explained(*run, {});
    EXPECT_TRUE(add_levers(why, *run, scenario, experiment, {}, 50));
    std::string names;
    for (const Lever& lever : why.levers) names += lever.lever + "\n";
    return names;
  };
  EXPECT_THAT(levers_with("model: {stages: {forward: 2 ms, backward: 4 ms}}\n"),
              testing::Not(testing::HasSubstr("v = 1")));
  EXPECT_THAT(levers_with(""), testing::HasSubstr("v = 3 in place of 2"))
      << "a rank's share is divided among its chunks";
}

TEST(Why, ALeverOnSharedLinksIsTheSimulationOfItsChange) {
  const auto scenario = [](std::string_view inter_bandwidth, std::string_view forward) {
    return fmt::format(
        "model: {{stages: {{activation: 4 MB, forward: {}, backward: 2 ms}}}}\n"
        "cluster: {{preset: two-level, nodes: 2, devices_per_node: 4, inter_bandwidth: {}, inter_latency: 30 "
        "us}}\n"
        "schedule: {{name: 1f1b, stages: 4, microbatches: 16, data_parallel: 2}}\n",
        forward, inter_bandwidth);
  };
  const Experiment experiment = prepared(scenario("5 GB/s", "1 ms"));
  ASSERT_TRUE(links_are_shared(experiment));
  const auto levers = levers_of(experiment);
  EXPECT_EQ(levers.at("twice the bandwidth for every message"), simulated_ns(scenario("10 GB/s", "1 ms")));
  EXPECT_EQ(levers.at("no message shares a link"), last_end(critical_path_run(experiment)->times));
}

// Spans do not show that a message waited for another one on its link, or that a rank waited for its
// messages.
TEST(Why, APageOfAPredictionShowsCausesThatSpansDoNot) {
  const std::string stages = "model: {stages: {forward: 1 ms, backward: 2 ms, activation: 4 MB}}\n";
  const std::string shared =
      stages +
      "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, inter_bandwidth: 2 GB/s}\n"
      "schedule: {name: 1f1b, stages: 2, microbatches: 8, data_parallel: 2}\n";
  const std::string blocking = stages +
                               "cluster: {preset: uniform, bandwidth: 2 GB/s}\n"
                               "schedule: {name: 1f1b, stages: 4, microbatches: 8, blocking: true}\n";
  for (const auto& [text, cause] : {std::pair{shared, "shared link"}, std::pair{blocking, "blocking"}}) {
    SCOPED_TRACE(cause);
    const Scenario scenario = read_scenario(text);
    const auto result = simulate_scenario(scenario, {});
    ASSERT_TRUE(result);
    const auto page = explanation_for_page(*result, scenario, Engine::automatic);
    ASSERT_TRUE(page);
    EXPECT_EQ(mean_bill(*page), mean_bill(explained(*caused_run(prepared(scenario)))));
    EXPECT_NE(std::ranges::find(page->bill, cause, &BillLine::cause), page->bill.end());
  }
}

/// Expects that all parts add up: those of an interval to its length, those of a rank to its idle time, the
/// lines of the bill to all idle time, and the items of a cause to its part of the makespan.
void expect_exact_sums(const Explanation& why) {
  std::vector<Ns> idle(index(why.ranks), 0);
  std::vector<CauseTimes> causes(index(why.ranks));
  for (const IdleInterval& interval : why.intervals) {
    EXPECT_EQ(interval.ideal_ns + sum_of(interval.causes), interval.end_ns - interval.start_ns)
        << interval.before;
    idle[index(interval.rank)] += interval.end_ns - interval.start_ns;
    for (std::size_t c = 0; c < kIdleCauses; ++c) causes[index(interval.rank)][c] += interval.causes[c];
  }
  Ns all = 0;
  for (const RankIdle& rank : why.rank_idle) {
    EXPECT_EQ(rank.idle_ns, idle[index(rank.rank)]);
    EXPECT_EQ(rank.causes, causes[index(rank.rank)]);
    EXPECT_EQ(rank.ideal[0] + rank.ideal[1] + rank.ideal[2] + sum_of(rank.causes), rank.idle_ns);
    all += rank.idle_ns;
  }
  Ns billed = 0;
  for (const BillLine& line : why.bill) billed += line.idle_ns;
  EXPECT_EQ(billed, all);
  Ns makespan = why.ideal_ns;
  for (const BillLine& line : why.bill) {
    for (const CauseItem& item : line.items) makespan += item.makespan_ns;
  }
  // The part of each cause in the makespan is rounded.
  EXPECT_NEAR(static_cast<double>(makespan), static_cast<double>(why.makespan_ns), kIdleCauses);
  EXPECT_EQ(why.idle_ns(), all);
}

/// Returns the lines of a bill that are not 0. A result does not say how links are shared, so the line for
/// shared links is added to the line for bandwidth.
std::map<std::string, Ns> lines_of(const Explanation& why) {
  std::map<std::string, Ns> lines;
  for (const BillLine& line : why.bill) {
    if (line.idle_ns != 0) lines[line.cause == "shared link" ? "bandwidth" : line.cause] += line.idle_ns;
  }
  return lines;
}

TEST(WhyResult, ThePredictionOfAFileIsExplainedAsItsScenario) {
  for (const BillCase& one : bill_cases()) {
    // A result does not contain the costs of launches.
    if (one.name == "launches" || one.name == "shared_links") continue;
    const Experiment experiment = prepared(one.scenario);
    const auto read =
        result_from_json(result_to_json(*simulate(experiment, {}), {.timeline = true}), "r.json");
    ASSERT_TRUE(read) << read.error();
    const auto run = caused_run(*read);
    ASSERT_TRUE(run) << run.error();
    const Explanation why = explained(*run);
    EXPECT_EQ(why.makespan_ns, read->makespan_ns) << one.name;
    EXPECT_EQ(lines_of(why), lines_of(explanation_of(experiment))) << one.name;
    expect_exact_sums(why);
  }
}

// The last action of the run starts 5 us later than its input. Both ranks wait for it.
TEST(WhyResult, AnActionThatStartsLateIsALaunch) {
  Result measured =
      *simulate(uniform_experiment("1f1b", {.stages = 2, .microbatches = 2},
                                   {.forward_ns = 1'000'000, .backward_ns = 2'000'000, .latency_ns = 1000}),
                {});
  measured.kind = ResultKind::measured;
  for (Span& span : measured.timeline.spans) {
    span.released_ns = kNotReleased;
    if (to_text(span.action) == "0B1" || to_text(span.action) == "0STEP") {
      span.start_ns += 5000;
      span.end_ns += 5000;
    }
  }
  const Explanation why = explained(*caused_run(measured));
  expect_exact_sums(why);
  EXPECT_EQ(lines_of(why).at("launch"), Ns{2} * 5000);
  EXPECT_EQ(lines_of(why).at("latency"), Ns{2} * 2000);
}

TEST(WhyResult, ATimelineThatIsCutOffIsRefused) {
  Result result = *simulate(uniform_experiment("1f1b", {.stages = 2, .microbatches = 2}, {}), {});
  EXPECT_TRUE(caused_run(result));
  std::erase_if(result.timeline.spans, [](const Span& span) { return to_text(span.action) == "1RECV_F1"; });
  EXPECT_EQ(caused_run(result).error(),
            "timeline: expected each SEND to have its RECV, got 0SEND_F1 alone; was the run interrupted?");
  result.timeline.spans.front().action.microbatch = 1'000'000'000;
  EXPECT_THAT(caused_run(result).error(),
              testing::HasSubstr("expected an action of each of 1000000001 microbatches"));
  result.timeline.spans.clear();
  EXPECT_THAT(caused_run(result).error(), testing::HasSubstr("has no timeline"));
}

// --- the memory limit ------------------------------------------------------------------------------

/// Returns 1F1B with two ranks and four microbatches. F, I and W take 1 ms, and an activation has 8 MB, so
/// rank 0 holds 16 MB and rank 1 holds 8 MB.
std::string two_ranks(std::string_view memory) {
  return fmt::format(
      "model: {{stages: {{forward: 1 ms, backward_input: 1 ms, backward_weight: 1 ms, kept: 8 MB}}}}\n"
      "cluster: {{preset: uniform, devices: 2{}}}\nschedule: {{name: 1f1b, stages: 2, microbatches: 4}}\n",
      memory);
}

MemoryLimitCost memory_limit_cost_of(const std::string& text) {
  const Scenario scenario = read_scenario(text);
  Explanation why;
  const auto added = add_memory_limit_cost(why, scenario, prepared(scenario), 1);
  EXPECT_TRUE(added);
  EXPECT_TRUE(why.memory_limit) << (why.notes.empty() ? "" : why.notes.front());
  return why.memory_limit.value_or(MemoryLimitCost{});
}

TEST(WhyMemoryLimit, CostsTheDifferenceOfTheBestOrdersWithAndWithoutIt) {
  // With 8 MB rank 1 must run W before its next F:
  //   rank 0   F0 F1 .  I0 W0 F2 I1 W1 F3 I2 W2 .  I3 W3         14 ms
  //   rank 1      F0 I0 W0 F1 I1 W1 F2 I2 W2 F3 I3 W3
  // With more memory, I3 of rank 1 runs earlier, and rank 1 takes only 1 ms plus the 12 ms of its own work.
  const MemoryLimitCost unlimited = memory_limit_cost_of(two_ranks(""));
  EXPECT_EQ(unlimited.within_ns, 14'000'000);
  EXPECT_EQ(unlimited.with_all_ns, 13'000'000);
  EXPECT_EQ(unlimited.cost_ns(), 1'000'000);
  // On devices of 16 MB, rank 0 has no room for another activation, but rank 1 has room for one.
  EXPECT_LE(memory_limit_cost_of(two_ranks(", memory: 16 MB")).cost_ns(), 1'000'000);
}

TEST(WhyMemoryLimit, IsUnknownWithoutSizesOfActivations) {
  const Scenario scenario = read_scenario(
      "model: {stages: {forward: 1 ms, backward: 2 ms}}\ncluster: {preset: uniform, devices: 2}\n"
      "schedule: {name: 1f1b, stages: 2, microbatches: 4}\n");
  Explanation why;
  ASSERT_TRUE(add_memory_limit_cost(why, scenario, prepared(scenario), 1));
  EXPECT_FALSE(why.memory_limit);
  ASSERT_EQ(why.notes.size(), 1U);
  EXPECT_EQ(why.notes.front(),
            "the cost of the memory limit is not known: the scenario states no sizes of activations");
}

// --- random programs ---------------------------------------------------------------------------

/// Returns two nodes of `ranks` devices, which share the links between the nodes.
Cluster shared_links(std::int32_t ranks, Ns latency_inside_ns, Ns latency_between_ns) {
  return two_level_cluster({.nodes = 2,
                            .devices_per_node = ranks,
                            .intra_bytes_per_second = 2e9,
                            .intra_latency_ns = latency_inside_ns,
                            .inter_bytes_per_second = 5e8,
                            .inter_latency_ns = latency_between_ns,
                            .device_order = {}})
      .value();
}

/// Returns a random program. One in four has WAITs, and one in five has OFFLOADs. One in three has hosts that
/// launch, and one in three has links that several messages share.
Experiment random_run(std::uint32_t seed) {
  Experiment experiment = random_experiment(seed);
  if (seed % 4 == 0) add_waits(experiment.program, seed);
  if (seed % 5 == 0) offload_some(experiment, seed);
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t count) { return static_cast<std::int32_t>(random() % count); };
  if (below(3) == 0) experiment.costs.launch = {.overhead_ns = below(5), .most_ahead = below(4)};
  if (below(3) == 0) {
    const Ns inside_ns = 2 * below(3);
    experiment.cluster = shared_links(experiment.program.rank_count(), inside_ns, 2 * below(10));
  }
  return experiment;
}

/// Returns the number of random programs. It is the value of PENSTOCK_PROGRAMS, or `without` if the variable
/// is not set.
std::uint32_t number_of_programs(std::uint32_t without) {
  const char* const given = std::getenv("PENSTOCK_PROGRAMS");
  return given == nullptr ? without : static_cast<std::uint32_t>(std::stoul(given));
}

std::string described(const Experiment& experiment) {
  const ChannelOptions& channels = experiment.channels;
  return fmt::format("{}{} capacity {} eager {}\n{}", to_text(channels.model),
                     blocking_suffix(channels.blocking), channels.capacity, channels.eager_bytes,
                     to_text(experiment.program));
}

/// Expects that each chain fills its interval without gaps.
void expect_whole_chains(const Explanation& why) {
  for (const IdleInterval& interval : why.intervals) {
    Ns at = interval.start_ns;
    for (const ChainLink& link : interval.chain) {
      EXPECT_EQ(link.from_ns, at) << link.name;
      at = link.to_ns;
    }
    EXPECT_EQ(at, interval.chain.empty() ? interval.start_ns : interval.end_ns) << interval.before;
  }
}

/// Expects that the graph gives the same times as the engine, and that all sums are exact. Returns false if
/// the program hangs.
bool expect_explained(const Experiment& experiment) {
  const auto ran = run_engine(experiment, Engine::automatic);
  if (!ran) return false;
  const auto run = caused_run(experiment);
  EXPECT_TRUE(run);
  GraphTimes times(run->graph, run->costs);
  EXPECT_EQ(times.compute(RealParts::all(1, 1)), last_end(ran->times));
  for (CauseNode node = 0; node < run->graph.size(); ++node) {
    const auto subject = static_cast<std::size_t>(run->graph.subjects[node]);
    switch (run->graph.kinds[node]) {
      case NodeKind::compute:
      case NodeKind::step:
        EXPECT_EQ(times.start(node), ran->times.start[subject]);
        EXPECT_EQ(times.moments()[end_of(node)], ran->times.end[subject]);
        break;
      case NodeKind::transfer:
      case NodeKind::collective:
      case NodeKind::copy:
      case NodeKind::barrier:
        EXPECT_EQ(times.start(node), ran->times.message_start[subject]);
        EXPECT_EQ(times.moments()[end_of(node)], ran->times.message_end[subject]);
        break;
      case NodeKind::launch:
      case NodeKind::resident:
      case NodeKind::finish:
        break;
    }
  }
  const Explanation why = explained(*run);
  EXPECT_EQ(why.makespan_ns, last_end(ran->times));
  expect_exact_sums(why);
  expect_whole_chains(why);
  return true;
}

TEST(WhyRandom, AllPartsAddUpAndTheGraphGivesTheTimesOfTheEngine) {
  std::uint32_t explained_runs = 0;
  for (std::uint32_t seed = 1; seed <= number_of_programs(2000); ++seed) {
    const Experiment experiment = random_run(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << described(experiment));
    if (expect_explained(experiment)) ++explained_runs;
    if (seed % 4 == 0) {
      Experiment ordered = experiment;
      ordered.channels.launch_order = true;
      expect_explained(ordered);
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(explained_runs, number_of_programs(2000) * 9 / 10);
}

TEST(WhyRandom, AllPartsAddUpForEveryGenerator) {
  std::uint32_t seed = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    int explained_runs = 0;
    for (const std::int32_t stages : {2, 3, 4}) {
      for (const std::int32_t v : {1, 2}) {
        const auto program = generate(
            schedule.name, {.stages = stages, .microbatches = 4, .virtual_stages = v, .iterations = 2});
        if (!program) continue;
        for (const ChannelModel model : kChannelModels) {
          SCOPED_TRACE(testing::Message()
                       << schedule.name << " K=" << stages << " v=" << v << " " << to_text(model));
          Experiment experiment = experiment_of(*program, uneven_costs(*program, ++seed),
                                                uniform_links(program->rank_count(), 1e9, 3));
          experiment.channels = {.model = model};
          if (expect_explained(experiment)) ++explained_runs;
        }
      }
    }
    EXPECT_GT(explained_runs, 0) << schedule.name;
  }
}

/// Returns a random schedule of the table with a random shape and random channel options. One in three has
/// links that several messages share. Returns nothing if the schedule does not accept the shape.
std::optional<Experiment> random_schedule_run(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t count) { return static_cast<std::int32_t>(random() % count); };
  const auto schedules = schedule_table();
  const ScheduleInfo& schedule = schedules[index(below(static_cast<std::uint32_t>(schedules.size())))];
  const auto program = generate(schedule.name, {.stages = 1 + below(5),
                                                .microbatches = 1 + below(10),
                                                .virtual_stages = 1 + below(2),
                                                .iterations = 1 + below(2)});
  if (!program) return std::nullopt;
  Experiment experiment = experiment_of(*program, uneven_costs(*program, seed),
                                        uniform_links(program->rank_count(), 1e9, below(9)));
  constexpr std::array kBlocking = {Blocking::none, Blocking::none, Blocking::each, Blocking::batched};
  experiment.channels = {.model = kChannelModels[index(below(5))],
                         .blocking = kBlocking.at(index(below(4))),
                         .capacity = below(3) == 0 ? 1 + below(3) : 0,
                         .eager_bytes = below(3) == 0 ? below(50) : 0};
  if (below(3) == 0) experiment.cluster = shared_links(program->rank_count(), 2 * below(3), 2 * below(10));
  return experiment;
}

TEST(WhyRandom, AllPartsAddUpForRandomShapesOfAllSchedules) {
  std::uint32_t tried = 0;
  std::uint32_t explained_runs = 0;
  for (std::uint32_t seed = 1; tried < number_of_programs(1000); ++seed) {
    const auto experiment = random_schedule_run(seed);
    if (!experiment) continue;
    ++tried;
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << described(*experiment));
    if (expect_explained(*experiment)) ++explained_runs;
    if (testing::Test::HasFailure()) return;
  }
  // The other programs hang. With blocking or full channels, many schedules hang.
  EXPECT_GT(explained_runs, tried / 2);
}

/// Returns the time that each cause adds to the makespan, as computed from the account.
PlainShares shares_of(const CausedRun& run) {
  const Account account = account_of(run.graph, run.flat, run.costs, 64);
  PlainShares shares{};
  for (CauseNode node = 0; node < run.graph.size(); ++node) {
    const auto causes = causes_of(run.graph.kinds[node]);
    const auto& added = run.costs.nodes[node].added_ns;
    for (std::size_t i = 0; i < causes.size(); ++i) {
      shares[static_cast<std::size_t>(causes[i])] +=
          account.moment_weights[end_of(node)] * static_cast<double>(added[i]);
    }
    shares[static_cast<std::size_t>(IdleCause::queue)] +=
        account.moment_weights[release_of(node)] * static_cast<double>(added[0] + added[1]);
  }
  return shares;
}

TEST(WhyRandom, TheSharesAreThoseOfTheDefinition) {
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    const Experiment experiment = random_run(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << described(experiment));
    const auto ran = run_engine(experiment, Engine::automatic);
    if (!ran) continue;
    constexpr std::int32_t kSamples = 200;
    const PlainShares plain = plain_shares(experiment, ran->flat, ran->times, kSamples);
    const PlainShares fast = shares_of(*caused_run(experiment));
    for (std::size_t c = 0; c < kIdleCauses; ++c) {
      // The plain mean may differ by up to one step at each change of the chain of causes.
      const double tolerance = 4 * static_cast<double>(last_end(ran->times)) / kSamples;
      EXPECT_NEAR(plain[c], fast[c], tolerance) << to_text(static_cast<IdleCause>(c));
    }
    if (testing::Test::HasFailure()) return;
  }
}

/// For each cause, its share of the makespan and the gain from removing it, both as fractions of the
/// makespan.
struct SharesAndGains {
  std::vector<double> shares;
  std::vector<double> gains;

  void add(const CausedRun& run) {
    const PlainShares of_run = shares_of(run);
    GraphTimes times(run.graph, run.costs);
    const auto makespan = static_cast<double>(times.compute(RealParts::all(1, 1)));
    if (makespan == 0) return;
    for (std::size_t c = 0; c < kIdleCauses; ++c) {
      RealParts parts = RealParts::all(1, 1);
      parts.of[c] = 0;
      const double gain = makespan - static_cast<double>(times.compute(parts));
      // Parts below 1 % are left out, because the random costs are small whole numbers.
      if (std::abs(of_run[c]) < 0.01 * makespan && std::abs(gain) < 0.01 * makespan) continue;
      shares.push_back(of_run[c] / makespan);
      gains.push_back(gain / makespan);
    }
  }
  /// Returns the fraction of pairs whose signs are equal.
  double equal_signs() const {
    double equal = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) equal += shares[i] * gains[i] > 0 ? 1 : 0;
    return equal / static_cast<double>(shares.size());
  }
  double correlation() const {
    const auto count = static_cast<double>(shares.size());
    const double mean_share = std::accumulate(shares.begin(), shares.end(), 0.0) / count;
    const double mean_gain = std::accumulate(gains.begin(), gains.end(), 0.0) / count;
    double both = 0;
    double of_shares = 0;
    double of_gains = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      both += (shares[i] - mean_share) * (gains[i] - mean_gain);
      of_shares += (shares[i] - mean_share) * (shares[i] - mean_share);
      of_gains += (gains[i] - mean_gain) * (gains[i] - mean_gain);
    }
    return both / std::sqrt(of_shares * of_gains);
  }
};

// The share of a cause does not predict the gain from removing the cause. But a user who removes the largest
// share first must not be misled. Shares and gains must have the same sign, and large shares must be large
// gains.
TEST(WhyRandom, SharesHaveTheSignAndTheOrderOfWhatIf) {
  SharesAndGains all;
  std::uint32_t explained_runs = 0;
  for (std::uint32_t seed = 1; explained_runs < 300; ++seed) {
    const auto experiment = random_schedule_run(seed);
    if (!experiment) continue;
    const auto run = caused_run(*experiment);
    if (!run) continue;
    ++explained_runs;
    all.add(*run);
  }
  EXPECT_GT(all.shares.size(), 300U);
  EXPECT_GE(all.equal_signs(), 0.95) << all.shares.size() << " pairs";
  EXPECT_GE(all.correlation(), 0.95) << all.shares.size() << " pairs";
}

}  // namespace
}  // namespace penstock
