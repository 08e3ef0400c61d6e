// Whatever is simulated, the result can be: over random experiments, and over random scenarios whose times
// and sizes go beyond what 64 bits count.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "report/result/result.hpp"
#include "report/result/result_invariants.hpp"
#include "report/result/result_json.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/baseline/longest_path.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/random_experiment.hpp"

namespace penstock {
namespace {

const SimulateOptions kWhole = {.memory = {.samples = false}, .steady = SteadyState::skip};

void check_result(const Result& result) {
  RC_ASSERT(broken_invariant(result).value_or("") == "");
  RC_ASSERT(result_from_json(result_to_json(result), "r.json").has_value());
  const Ns ends_ns = std::ranges::max(result.timeline.spans, {}, &Span::end_ns).end_ns;
  RC_ASSERT(ends_ns == result.makespan_ns);
}

TEST(ResultProperties, ARandomExperimentHasAResultThatCanBe) {
  EXPECT_TRUE(rc::check([](std::uint32_t seed) {
    const Experiment experiment = random_experiment(seed);
    const auto result = simulate(experiment, kWhole);
    RC_ASSERT(result.has_value());
    check_result(*result);
  }));
}

TEST(ResultProperties, ALongestPathGoesForwardInTimeAndEndsWithTheLastAction) {
  EXPECT_TRUE(rc::check([](std::uint32_t seed) {
    const Experiment experiment = random_experiment(seed);
    const auto result = simulate(experiment, kWhole);
    const std::vector<PathStep> path = longest_path(result->timeline, experiment.program);
    RC_ASSERT(!path.empty());
    for (std::size_t i = 1; i < path.size(); ++i) RC_ASSERT(path[i].start_ns >= path[i - 1].end_ns);
    Ns sum = 0;
    for (const PathShare& share : change_of({}, path).shares) sum += share.after_ns;
    RC_ASSERT(sum == path.back().end_ns);
  }));
}

/// "7e12": any magnitude up to beyond 64 bits.
std::string amount() {
  const int digits = *rc::gen::inRange(1, 10);
  const int exponent =
      *rc::gen::weightedOneOf<int>({{8, rc::gen::inRange(0, 7)}, {2, rc::gen::inRange(7, 21)}});
  return fmt::format("{}e{}", digits, exponent);
}

std::string random_scenario() {
  const auto table = schedule_table();
  const auto& schedule = table[*rc::gen::inRange<std::size_t>(0, table.size())];
  const int stages = *rc::gen::inRange(1, 7);
  return fmt::format(
      "model: {{stages: {{forward: {} ns, backward: {} ns, activation: {} B, kept: {} B, weights: {} B}}}}\n"
      "cluster: {{preset: uniform, devices: {}, bandwidth: {} B/s, latency: {} ns}}\n"
      "schedule: {{name: {}, stages: {}, microbatches: {}}}\n"
      "training: {{micro_batch_size: {}, iterations: {}}}\n",
      amount(), amount(), amount(), amount(), amount(), stages, amount(), amount(), schedule.name, stages,
      *rc::gen::inRange(1, 13), *rc::gen::inRange(1, 5), *rc::gen::inRange(1, 4));
}

TEST(ResultProperties, AScenarioOfAnyMagnitudeIsRefusedOrHasAResultThatCanBe) {
  int simulated = 0;
  int refused = 0;
  EXPECT_TRUE(rc::check([&] {
    const std::string text = random_scenario();
    RC_LOG() << text;
    const auto scenario = parse_scenario(text, "random", "");
    const auto experiment =
        scenario ? prepare(*scenario) : tl::unexpected(UserError{.message = scenario.error()});
    if (!experiment) {
      // Others are for shapes that the schedule does not take.
      const std::string& why = experiment.error().message;
      if (why.find("64 bits") != std::string::npos || why.find("too large") != std::string::npos) ++refused;
      return;
    }
    const auto result = simulate(*experiment, kWhole);
    if (!result) return;
    ++simulated;
    check_result(*result);
  }));
  // The seed differs from run to run, and so do the counts.
  EXPECT_GE(simulated, 1);
  EXPECT_GE(refused, 1);
}

TEST(ResultProperties, ASearchIsNotBegunWithTimesThatItCannotAddUp) {
  const auto error_of = [](const std::string& text) {
    const auto scenario = parse_scenario(text, "search.yaml", "");
    EXPECT_TRUE(scenario);
    const auto experiment = prepare(*scenario);
    return experiment ? std::string("none") : experiment.error().message;
  };
  EXPECT_NE(error_of("model: {stages: {forward: 4e3 ns, backward: 2e18 ns}}\n"
                     "schedule: {name: zb-1p, stages: 2, microbatches: 9}\n")
                .find("64 bits of nanoseconds"),
            std::string::npos);
  EXPECT_NE(error_of("model: {stages: {forward: 7e7 ns, backward: 8e3 ns, kept: 4e18 B}}\n"
                     "schedule: {name: zb-1p, stages: 4, microbatches: 6}\n")
                .find("kept of stage"),
            std::string::npos);
  EXPECT_NE(error_of("model: {stages: {forward: 6e3 ns, backward: 9e3 ns}}\n"
                     "cluster: {preset: uniform, devices: 6, latency: 1e17 ns}\n"
                     "schedule: {name: synthesized, stages: 6, microbatches: 4}\n")
                .find("the schedule searches its order by the model's times"),
            std::string::npos);
}

}  // namespace
}  // namespace penstock
