// Compares the search for a plan with published plans, and then with all plans of random models. Moves,
// bounds and trials have their own tests.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "sim/choose/plan_search.hpp"
#include "sim/choose/plan_trials.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/plan_scenarios.hpp"

namespace penstock {

/// Returns a model with layers of random times and sizes, on servers with slow links.
inline std::string random_model(std::mt19937& random, std::int32_t layers, std::int32_t servers,
                                std::int32_t size) {
  const auto between = [&](std::int32_t least, std::int32_t most) {
    return std::uniform_int_distribution<std::int32_t>(least, most)(random);
  };
  std::string text = "model: {layers: [";
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    text += fmt::format("{}{{name: l{}, forward: {} us, backward: {} us, output: {} kB, weights: {} kB}}",
                        layer == 0 ? "" : ", ", layer, between(100, 4000), between(200, 8000),
                        between(10, 8000), between(0, 3) == 0 ? 0 : between(10, 30000));
  }
  text += fmt::format(
      "]}}\ncluster: {{preset: two-level, nodes: {}, devices_per_node: {}, intra_bandwidth: {} MB/s, "
      "inter_bandwidth: {} MB/s}}\n",
      servers, size, between(2000, 12000), between(500, 3000));
  return text + "training: {micro_batch_size: 1}\n";
}

// Moves, bounds and trials, and comparisons with published plans.

namespace {

constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

SearchedPlan searched(const Scenario& scenario, const PlanOptions& options = {.memory_limit = kUnlimited}) {
  auto found = search_plan(scenario, options);
  EXPECT_TRUE(found) << found.error();
  return found.value_or(SearchedPlan{});
}

double steady_rate(const Scenario& scenario) {
  const auto result =
      simulate_scenario(scenario, {.memory = {.samples = false}, .timeline = TimelineKept::none});
  if (!result) return 0;
  return result->throughput.steady_samples_per_second.value_or(0);
}

double rate_of(const SearchedPlan& found) { return steady_rate(found.planned.scenario); }

// --- the space -------------------------------------------------------------------------------------------

TEST(PlanChoices, AreAsManyAsCutsAndReplications) {
  EXPECT_EQ(count_choices({.layers = 8, .devices = 6}, 1 << 20), 1287);
  EXPECT_EQ(count_choices({.layers = 12, .devices = 8}, 1 << 20), 50'388);
  EXPECT_EQ(std::ssize(all_choices({.layers = 8, .devices = 6})), 1287);
  const PlanSpace straight{.layers = 5, .devices = 3, .form = PlanForm::straight};
  EXPECT_EQ(count_choices(straight, 1000), 1 + 4 + 6);
  EXPECT_EQ(std::ssize(all_choices(straight)), 1 + 4 + 6);
}

// The warm-ups are (7 - 1) / 4, (3 - 1) / 1 and (2 - 1) / 2: the minibatches that reach a stage before its
// first minibatch returns.
TEST(PlanChoices, RunForwardsAheadAsTheScheduleDoes) {
  PlanChoice choice{.cuts = {3, 5}, .replicas = {4, 1, 2}};
  EXPECT_EQ(warmup_of(choice, 0, 3), 1);
  EXPECT_EQ(warmup_of(choice, 1, 2), 2);
  EXPECT_EQ(warmup_of(choice, 2, 0), 0);
  choice.deeper = 1;
  EXPECT_EQ(warmup_of(choice, 1, 2), 3);
}

TEST(PlanChoices, StayPlansUnderEveryMove) {
  const PlanSpace space{.layers = 7, .devices = 6};
  for (const PlanChoice& choice : all_choices(space)) {
    for (const PlanChoice& next : neighbours(choice, space)) {
      EXPECT_EQ(next.cuts.size() + 1, next.replicas.size());
      EXPECT_TRUE(std::ranges::is_sorted(next.cuts, std::less_equal<>()));
      EXPECT_TRUE(next.cuts.empty() || (next.cuts.front() > 0 && next.cuts.back() < space.layers));
      EXPECT_GT(*std::ranges::min_element(next.replicas), 0);
      EXPECT_LE(next.device_count(), space.devices);
    }
  }
}

TEST(PlanBound, IsNeverAboveTheSimulation) {
  std::mt19937 random(5);
  for (int sample = 0; sample < 6; ++sample) {
    const Scenario scenario = read(random_model(random, 5, 2, 2));
    const auto task = planning_task(scenario, {.memory_limit = kUnlimited}).value();
    PlanTrials trials(scenario, task);
    for (PlanChoice choice : all_choices({.layers = 5, .devices = 4})) {
      for (const PlanPlacement placement : {PlanPlacement::in_order, PlanPlacement::spread}) {
        choice.placement = placement;
        EXPECT_LE(trials.bound_ns(choice), trials.of(choice).period_ns) << configuration_of(choice);
      }
    }
  }
}

TEST(PlanBound, RulesOutNothingThatKeepsTheMemoryLimit) {
  std::mt19937 random(6);
  int ruled_out = 0;
  for (int sample = 0; sample < 6; ++sample) {
    const Scenario scenario = read(random_model(random, 5, 2, 2));
    auto task = planning_task(scenario, {.memory_limit = kUnlimited}).value();
    std::vector<PlanChoice> choices = all_choices({.layers = 5, .devices = 4});
    for (std::size_t i = 0; i < choices.size(); ++i) {
      choices[i].deeper = static_cast<std::int32_t>(i % 2);
      if (reduces(choices[i])) choices[i].buckets = i % 3 == 0 ? 2 : 0;
    }
    PlanTrials measured(scenario, task);
    std::vector<Bytes> peaks;
    for (const PlanChoice& choice : choices) peaks.push_back(measured.peak_bytes(choice));
    // With a plan's own peak as the limit, the plan fits.
    for (std::size_t i = 0; i < choices.size(); i += 7) {
      task.options.memory_limit = peaks[i];
      PlanTrials trials(scenario, task);
      for (std::size_t j = 0; j < choices.size(); ++j) {
        if (trials.may_fit(choices[j])) continue;
        EXPECT_GT(peaks[j], peaks[i]) << configuration_of(choices[j]);
        ++ruled_out;
      }
    }
  }
  EXPECT_GT(ruled_out, 200);
}

TEST(PlanTrials, AskMemoryApartWithTheSameAnswer) {
  std::mt19937 random(7);
  const Scenario scenario = read(random_model(random, 5, 2, 2));
  const auto task = planning_task(scenario, {.memory_limit = kUnlimited}).value();
  PlanTrials apart(scenario, task);
  PlanTrials together(scenario, task);
  for (const PlanChoice& choice : all_choices({.layers = 5, .devices = 4})) {
    const double period_ns = apart.of(choice).period_ns;
    EXPECT_FALSE(apart.of(choice).peak_bytes);
    EXPECT_EQ(together.with_memory(choice).period_ns, period_ns);
    EXPECT_EQ(together.of(choice).peak_bytes, apart.peak_bytes(choice));
  }
}

// With 43, 41, 37 and 7 replicas, the same pairs occur again only after 456 617 minibatches.
TEST(PlanTrials, LeaveOutAStreamThatIsBeyondTheEngines) {
  const Scenario scenario = read("model: gnmt.yaml\ncluster: {preset: uniform, devices: 128}\n");
  const auto task = planning_task(scenario, {.memory_limit = kUnlimited}).value();
  PlanTrials trials(scenario, task);
  EXPECT_TRUE(std::isinf(trials.of({.cuts = {5, 10, 20}, .replicas = {43, 41, 37, 7}}).period_ns));
  EXPECT_FALSE(std::isinf(trials.of({.cuts = {5, 10, 20}, .replicas = {4, 4, 2, 1}}).period_ns));
}

/// A model with three layers. The output of the first layer is so large that, after a cut behind it, a stream
/// would send more than 2^62 bytes.
const std::string kWideFirstLayer =
    "model: {layers: [{name: a, forward: 1 us, backward: 1 us, output: 3e16 B, kept: 1 kB},\n"
    "  {name: b, forward: 1 us, backward: 1 us, output: 1 kB}, {name: c, forward: 1 us, backward: 1 us}]}\n"
    "cluster: {preset: uniform, devices: 2}\n";

TEST(PlanTrials, LeaveOutACutWhoseBytesAreBeyond64Bits) {
  const Scenario scenario = read(kWideFirstLayer);
  const auto task = planning_task(scenario, {.memory_limit = kUnlimited}).value();
  PlanTrials trials(scenario, task);
  EXPECT_FALSE(std::isinf(trials.of({.cuts = {2}, .replicas = {1, 1}}).period_ns));
  EXPECT_TRUE(std::isinf(trials.of({.cuts = {1}, .replicas = {1, 1}}).period_ns));
}

TEST(PlanTrials, OfACutThatIsLeftOutNothingFollowsForOthers) {
  const Scenario scenario = read(kWideFirstLayer);
  const auto task = planning_task(scenario, {.memory_limit = kUnlimited}).value();
  PlanTrials trials(scenario, task);
  EXPECT_TRUE(std::isinf(trials.of({.cuts = {1}, .replicas = {1, 1}}).period_ns));
  EXPECT_FALSE(std::isinf(trials.of({.cuts = {2}, .replicas = {1, 1}}).period_ns));
}

// --- what a plan says ------------------------------------------------------------------------------------

const std::string kVgg16OnA =
    "model: vgg16.yaml\ncluster: {preset: pipedream-a, nodes: 4}\n"
    "training: {micro_batch_size: 64, optimizer: momentum}\n";

TEST(PlanSearch, PlansVgg16OnFourServersNoWorseThanThePublishedConfiguration) {
  const SearchedPlan found = searched(read(kVgg16OnA));
  EXPECT_GE(rate_of(found), 2282);  // the rate of 15-1 without buckets; 12-3-1 has 1009
  // No tried candidate is faster than the chosen plan.
  const double period_ns = 64e9 / rate_of(found);
  for (const PlanCandidate& candidate : found.candidates)
    EXPECT_GE(candidate.simulated_ns, period_ns * (1 - 1e-9)) << candidate.name;
  for (const char* name : {"data parallel", "straight", "even 8 x 2", "two stages 15-1 at 31"}) {
    EXPECT_TRUE(std::ranges::any_of(found.candidates, [&](const auto& one) { return one.name == name; }))
        << name;
  }
}

TEST(PlanSearch, WritesAScenarioThatSimulatesAsThePlanSays) {
  const Scenario scenario = read(
      "model: alexnet.yaml\ncluster: {preset: pipedream-a, nodes: 2}\n"
      "training: {micro_batch_size: 256, optimizer: momentum}\n");
  const auto evaluation = evaluate_plan(searched(scenario).planned);
  ASSERT_TRUE(evaluation) << evaluation.error();
  const auto text = scenario_to_yaml(evaluation->planned.scenario, "");
  ASSERT_TRUE(text) << text.error();
  const auto again = parse_scenario(*text, "plan.yaml", ".");
  ASSERT_TRUE(again) << again.error();
  EXPECT_DOUBLE_EQ(steady_rate(*again), evaluation->samples_per_second());
}

// --- updates with a flush (DAPPLE's problem) -------------------------------------------------------------

constexpr PlanOptions kFlush = {.update = PlanUpdate::flush, .memory_limit = kUnlimited};

TEST(PlanWithFlush, IsNeverBelowItsBoundAndIsTheBestOfAllPlans) {
  std::mt19937 random(7);
  for (int sample = 0; sample < 4; ++sample) {
    const Scenario scenario = read(fmt::format("{}schedule: {{name: 1f1b, stages: 1, microbatches: {}}}\n",
                                               random_model(random, 4, 2, 2), 5 + sample));
    const auto task = planning_task(scenario, kFlush).value();
    PlanTrials trials(scenario, task);
    double best = std::numeric_limits<double>::infinity();
    for (const PlanChoice& choice : all_choices({.layers = 4, .devices = 4})) {
      EXPECT_LE(trials.bound_ns(choice), trials.of(choice).period_ns) << configuration_of(choice);
      best = std::min(best, trials.of(choice).period_ns);
    }
    const auto evaluation = evaluate_plan(searched(scenario, kFlush).planned);
    ASSERT_TRUE(evaluation) << evaluation.error();
    EXPECT_LE(evaluation->simulated_period_ns, best * (1 + 1e-9));
  }
}

TEST(PlanWithFlush, WritesAScenarioOf1F1BThatSimulatesAsThePlanSays) {
  const Scenario scenario = read(
      "model: alexnet.yaml\ncluster: {preset: pipedream-a, nodes: 2}\n"
      "schedule: {name: 1f1b, stages: 1, microbatches: 8}\n"
      "training: {micro_batch_size: 32, optimizer: momentum}\n");
  const auto evaluation = evaluate_plan(searched(scenario, kFlush).planned);
  ASSERT_TRUE(evaluation) << evaluation.error();
  EXPECT_EQ(evaluation->planned.scenario.schedule, "1f1b");
  EXPECT_EQ(evaluation->planned.microbatches, 8);
  const auto text = scenario_to_yaml(evaluation->planned.scenario, "");
  ASSERT_TRUE(text) << text.error();
  const auto again = parse_scenario(*text, "plan.yaml", ".");
  ASSERT_TRUE(again) << again.error();
  EXPECT_DOUBLE_EQ(steady_rate(*again), evaluation->samples_per_second());
}

// Three layers of 1, 4 and 1 on four devices: the layer of 4 on two devices is as fast as the others are on
// one device, apart from the reduction.
TEST(PlanWithFlush, ReplicatesTheSlowStageUnlessItsWeightsAreTooLarge) {
  const auto configuration = [](const char* weights) {
    const Scenario scenario = read(fmt::format(
        "model: {{layers: [{{name: a, forward: 2 ms, backward: 4 ms, output: 1 kB, weights: 400 MB}}, "
        "{{name: b, forward: 4 ms, backward: 8 ms, output: 1 kB, weights: {}}}, "
        "{{name: c, forward: 2 ms, backward: 4 ms, output: 1 kB, weights: 400 MB}}]}}\n"
        "cluster: {{preset: uniform, devices: 4, bandwidth: 10 GB/s}}\n"
        "schedule: {{name: 1f1b, stages: 1, microbatches: 12}}\ntraining: {{micro_batch_size: 1}}\n",
        weights));
    return evaluate_plan(searched(scenario, kFlush).planned).value().configuration();
  };
  EXPECT_EQ(configuration("1 kB"), "1-2-1");
  EXPECT_EQ(configuration("4 GB"), "1-1-1");
}

TEST(PlanWithFlush, NeedsTheNumberOfMicrobatches) {
  const auto found = search_plan(read("model: alexnet.yaml\ncluster: {preset: pipedream-a, nodes: 1}\n"
                                      "training: {micro_batch_size: 32}\n"),
                                 kFlush);
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().find("microbatches"), std::string::npos) << found.error();
}

TEST(PlanSearch, TakesTheFewestDevicesOfEquallyFastPlans) {
  // The reduction of the layer takes longer than the time that a second device saves.
  const SearchedPlan found =
      searched(read("model: {layers: [{name: a, forward: 1 us, backward: 1 us, weights: 1 GB}]}\n"
                    "cluster: {preset: uniform, devices: 4, bandwidth: 1 GB/s}\n"));
  ASSERT_EQ(found.planned.plan.stages.size(), 1);
  EXPECT_EQ(found.planned.plan.stages.front().devices.size(), 1);
}

TEST(PlanSearch, KeepsTheMemoryLimitAsSimulated) {
  const Scenario scenario = read(kVgg16OnA);
  const SearchedPlan roomy = searched(scenario);
  const auto peak_of = [](const SearchedPlan& found) { return evaluate_plan(found.planned)->peak_bytes(); };
  const Bytes limit = peak_of(roomy) * 3 / 4;
  const SearchedPlan tight = searched(scenario, {.memory_limit = limit});
  EXPECT_LE(peak_of(tight), limit);
  EXPECT_LE(rate_of(tight), rate_of(roomy));
  const auto none = search_plan(scenario, {.memory_limit = 1 << 20});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().find("is larger than a device"), std::string::npos) << none.error();
}

// The budget of a search is a number of simulated actions, because plans for many devices need long streams.
// If the budget is used up, the search returns the best of the tried plans.
TEST(PlanSearch, EndsWhereItsActionsAreSpentAndSaysWhatItLeftOut) {
  const Scenario scenario = read(kVgg16OnA);
  const SearchedPlan all = searched(scenario);
  EXPECT_FALSE(all.ran_out);
  EXPECT_EQ(all.left_out, 0);
  const std::int64_t starts = all.pruned + std::ssize(all.candidates);
  const PlanBudget budget{.actions = all.actions / 8};
  const auto some = search_plan(scenario, {.memory_limit = kUnlimited}, budget);
  ASSERT_TRUE(some) << some.error();
  EXPECT_TRUE(some->ran_out);
  EXPECT_FALSE(some->tried_all);
  EXPECT_LT(some->actions, all.actions / 2);
  EXPECT_LT(some->simulations, all.simulations);
  EXPECT_LE(some->pruned + some->left_out + std::ssize(some->candidates), starts);
  EXPECT_GT(rate_of(*some), 0);
  EXPECT_LE(rate_of(*some), rate_of(all));
  const auto least = search_plan(scenario, {.memory_limit = kUnlimited}, {.actions = 1});
  ASSERT_TRUE(least) << least.error();
  EXPECT_GT(least->left_out, 0);
  EXPECT_GT(std::ssize(least->candidates), 2) << "one start of each kind";
}

// Each rank has one queue with room for one message, so in some plans ranks wait for each other in a cycle.
// Messages share links here, so the event engine runs the other plans.
TEST(PlanSearch, LeavesOutPlansThatHang) {
  Scenario scenario =
      read("model: gnmt.yaml\ncluster: {preset: pipedream-a, nodes: 1}\ntraining: {micro_batch_size: 64}\n");
  const auto hangs = [](const PlanCandidate& one) { return std::isinf(one.simulated_ns); };
  EXPECT_TRUE(std::ranges::none_of(searched(scenario).candidates, hangs));
  scenario.channels = {.model = ChannelModel::rank, .capacity = 1};
  const SearchedPlan found = searched(scenario);
  EXPECT_GT(rate_of(found), 0);
  EXPECT_TRUE(std::ranges::any_of(found.candidates, hangs));
}

TEST(PlanSearch, PlansAStraightPipelineWhereOneIsAskedFor) {
  const SearchedPlan found =
      searched(read(kVgg16OnA), {.form = PlanForm::straight, .memory_limit = kUnlimited});
  for (const PlannedStage& stage : found.planned.plan.stages) EXPECT_EQ(stage.devices.size(), 1);
}

// Compares the search with all plans of random models, ranked by `simulate`. If the search can try all plans,
// it must find the best one. Otherwise its loss must be small. By default, the test uses few models:
//
//     PENSTOCK_PLANS=200 sim_tests --gtest_filter='PlansOfRandomModels.*'
//
// uses 200 small models and 20 large ones, and prints the losses.

constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max();

/// The simulated figures of a plan.
struct Simulated {
  double samples_per_second = 0;
  Bytes peak = 0;
};

Simulated simulated(const Scenario& scenario) {
  const auto result =
      simulate_scenario(scenario, {.memory = {.samples = false}, .timeline = TimelineKept::none});
  EXPECT_TRUE(result) << result.error().message;
  if (!result) return {};
  return {.samples_per_second = result->throughput.steady_samples_per_second.value_or(0),
          .peak = highest_peak_bytes(*result)};
}

/// Returns the scenario of a choice as a user would write it: with cuts and replicas, and the devices in
/// order. The number of minibatches is a multiple of all replicas, and large enough that the pipeline is full
/// and memory reaches its peak.
Scenario written(Scenario scenario, const PlanChoice& choice) {
  std::int32_t multiple = 1;
  for (const std::int32_t replicas : choice.replicas) multiple = std::lcm(multiple, replicas);
  scenario.schedule = "1f1b-rr";
  scenario.partition = {.rule = Partition::Rule::cuts, .cuts = choice.cuts};
  scenario.shape = {.stages = static_cast<std::int32_t>(choice.stages()),
                    .replicas = choice.replicas,
                    .routing = Routing::global};
  scenario.batch.microbatches = multiple * (1 + 2 * choice.device_count() / multiple);
  return scenario;
}

/// Returns the simulated figures of all plans of the model.
std::vector<Simulated> all_plans(const Scenario& scenario, const PlanSpace& space) {
  std::vector<Simulated> plans;
  for (const PlanChoice& choice : all_choices(space)) plans.push_back(simulated(written(scenario, choice)));
  return plans;
}

double best_rate(const std::vector<Simulated>& plans, Bytes limit) {
  double best = 0;
  for (const Simulated& plan : plans) {
    if (plan.peak <= limit) best = std::max(best, plan.samples_per_second);
  }
  return best;
}

/// Returns a memory limit that data parallelism exceeds and some other plan respects, if there is such a
/// plan.
Bytes limit_without_data_parallelism(const Scenario& scenario, const std::vector<Simulated>& plans,
                                     std::int32_t devices) {
  const Bytes copies = simulated(written(scenario, {.cuts = {}, .replicas = {devices}})).peak;
  Bytes least = copies;
  for (const Simulated& plan : plans) least = std::min(least, plan.peak);
  return least + (copies - least) / 2;
}

/// The loss of the found plan, relative to the best of all plans. 0.01 means that its rate is 1 % lower.
struct Loss {
  double part = 0;
  SearchedPlan found;
};
Loss loss_of(const Scenario& scenario, const std::vector<Simulated>& plans, Bytes limit) {
  auto found = search_plan(scenario, {.memory_limit = limit});
  EXPECT_TRUE(found) << found.error();
  if (!found) return {.part = 1, .found = {}};
  const Simulated plan = simulated(found->planned.scenario);
  EXPECT_LE(plan.peak, limit);
  return {.part = std::max(0.0, 1 - plan.samples_per_second / best_rate(plans, limit)),
          .found = *std::move(found)};
}

std::size_t models(std::size_t usual, std::size_t part) {
  const char* given = std::getenv("PENSTOCK_PLANS");
  return given == nullptr ? usual : std::stoul(given) / part;
}

TEST(PlansOfRandomModels, AreTheBestOfAllWhereAllCanBeTried) {
  std::mt19937 random(20260307);
  for (std::size_t sample = 0; sample < models(8, 1); ++sample) {
    SCOPED_TRACE(sample);
    const auto layers = static_cast<std::int32_t>(2 + sample % 7);
    const auto size = static_cast<std::int32_t>(1 + sample % 3);
    const Scenario scenario = read(random_model(random, layers, 2, size));
    const auto plans = all_plans(scenario, {.layers = layers, .devices = 2 * size});
    for (const Bytes limit : {kNoLimit, limit_without_data_parallelism(scenario, plans, 2 * size)}) {
      const Loss loss = loss_of(scenario, plans, limit);
      EXPECT_TRUE(loss.found.tried_all);
      EXPECT_LT(loss.part, 1e-9) << "memory limit " << limit;
    }
  }
}

TEST(PlansOfRandomModels, LoseLittleWhereTheyAreTooMany) {
  // 12 layers on 8 devices have 50,388 plans. By default, the test uses 10 layers on 6 devices, which have
  // 5,005 plans.
  const bool is_long = std::getenv("PENSTOCK_PLANS") != nullptr;
  const PlanSpace space{.layers = is_long ? 12 : 10, .devices = is_long ? 8 : 6};
  std::mt19937 random(11);
  std::vector<double> losses;
  for (std::size_t sample = 0; sample < models(1, 10); ++sample) {
    SCOPED_TRACE(sample);
    const Scenario scenario = read(random_model(random, space.layers, 2, space.devices / 2));
    const auto plans = all_plans(scenario, space);
    for (const Bytes limit : {kNoLimit, limit_without_data_parallelism(scenario, plans, space.devices)}) {
      const Loss loss = loss_of(scenario, plans, limit);
      EXPECT_FALSE(loss.found.tried_all);
      EXPECT_LE(loss.found.simulations, 3000);
      EXPECT_LE(loss.part, 0.03) << "memory limit " << limit;
      losses.push_back(loss.part);
      if (is_long)
        std::cout << "  model " << sample << ", limit " << limit << ": " << loss.found.simulations
                  << " simulations, " << loss.part * 100 << " % lost" << std::endl;
    }
  }
  const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  if (is_long) std::cout << "  mean " << mean * 100 << " %\n";
  EXPECT_LE(mean, 0.005);
}

}  // namespace
}  // namespace penstock
