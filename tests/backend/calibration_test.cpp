// Tests calibration on a machine with known times. The machine is a simulator that adds an overhead to every
// action and a latency to every hop. The calibrated times must predict other programs exactly.

#include "backend/calibration/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/calibration/calibration_samples.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/process_run.hpp"
#include "backend/threads/thread_run.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

const std::string kCluster = "cluster: {preset: uniform, bandwidth: 1 GB/s, latency: 100 us, memory: 1 GB}\n";

std::string scenario_text(const std::string& schedule, const std::string& cluster = kCluster) {
  return "model:\n"
         "  stages: {forward: [2 ms, 3 ms], backward_input: [1 ms, 2 ms], backward_weight: 3 ms, overhead: "
         "10 us,\n"
         "           step: 50 us, activation: 4 MB, gradient: 2 MB, kept: 5 MB, released_by_input: 1 MB,\n"
         "           weights: 7 MB, transient: 3 MB}\n" +
         cluster + "schedule: {name: " + schedule +
         ", stages: 2, microbatches: 6}\ntraining: {micro_batch_size: 2, optimizer: adam}\n";
}

Scenario scenario_of(const std::string& text) {
  auto scenario = parse_scenario(text, "s.yaml", ".");
  if (!scenario) throw std::runtime_error(scenario.error());
  return *std::move(scenario);
}

Experiment experiment_of(const Scenario& scenario) {
  auto experiment = prepare(scenario);
  if (!experiment) throw std::runtime_error(experiment.error().message);
  return *std::move(experiment);
}

/// The times that the machine adds to the scenario's times. The scenario itself has an overhead of 10 us. An
/// F of stage 0 therefore takes 2 ms + 80 us with 2 samples, and 4 ms + 80 us with 4 samples. A hop of 4 MB
/// takes 100 us + 30 us + 4 ms.
struct Machine {
  Ns overhead_ns = 70'000;
  Ns hop_ns = 30'000;

  Result run(Experiment experiment) const {
    for (StageCost& cost : experiment.costs.stages) {
      for (Ns* duration : {&cost.forward_ns, &cost.backward_ns, &cost.backward_input_ns,
                           &cost.backward_weight_ns, &cost.recompute_ns})
        *duration += overhead_ns;
    }
    const auto devices = experiment.cluster.device_count();
    const Route route = experiment.cluster.route(0, devices > 1 ? 1 : 0);
    experiment.cluster = uniform_cluster({.devices = devices,
                                          .bytes_per_second = route.bytes_per_second,
                                          .latency_ns = route.latency_ns + hop_ns})
                             .value();
    auto result = simulate(experiment, {.memory = {}, .steady = SteadyState::skip});
    if (!result) throw std::runtime_error(result.error().message);
    for (RankReport& rank : result->ranks) rank.memory = {};
    return *std::move(result);
  }
};

Calibration calibrated(const Scenario& scenario, const CalibrationOptions& options = {},
                       const Machine& machine = {}) {
  auto calibration = calibrate(scenario, options, [&](const Experiment& experiment) {
    return tl::expected<Result, UserError>(machine.run(experiment));
  });
  if (!calibration) throw std::runtime_error(calibration.error().message);
  return *std::move(calibration);
}

/// Returns the scenario with the model and the cluster of the cost file.
std::string with_costs(const std::string& schedule, const Calibration& calibration) {
  const std::string text = scenario_text(schedule);
  return cost_file(calibration) + text.substr(text.find("schedule:"));
}

TEST(Calibration, FindsTheOverheadTheRatesAndTheLink) {
  const Calibration calibration =
      calibrated(scenario_of(scenario_text("1f1b")), {.kinds = CalibrationKinds::all});
  EXPECT_EQ(calibration.model.overhead.values, (std::vector<Ns>{80'000, 80'000}));
  EXPECT_EQ(calibration.model.forward.values, (std::vector<Ns>{2'000'000, 3'000'000}));
  EXPECT_EQ(calibration.model.backward.values, (std::vector<Ns>{4'000'000, 5'000'000}));
  EXPECT_EQ(calibration.model.backward_input.values, (std::vector<Ns>{1'000'000, 2'000'000}));
  EXPECT_EQ(calibration.model.step.values, (std::vector<Ns>{50'000, 50'000}));
  EXPECT_EQ(calibration.busy_launch.median_ns, 0);
  ASSERT_EQ(calibration.links.size(), 1U);
  EXPECT_TRUE(calibration.links[0].bandwidth_measured);
  EXPECT_EQ(calibration.links[0].latency_ns, 130'000);
  EXPECT_NEAR(calibration.links[0].bytes_per_second, 1e9, 1);
  EXPECT_EQ(calibration.own_micro_batch_size, 2);
}

TEST(Calibration, ItsFilePredictsOtherSchedulesOfTheMachineToTheNanosecond) {
  const Calibration calibration =
      calibrated(scenario_of(scenario_text("1f1b")), {.kinds = CalibrationKinds::all});
  for (const char* schedule : {"naive", "gpipe", "1f1b", "zb-h1", "zb-h2"}) {
    const Result expected = Machine().run(experiment_of(scenario_of(scenario_text(schedule))));
    const auto predicted = simulate(experiment_of(scenario_of(with_costs(schedule, calibration))), {});
    ASSERT_TRUE(predicted);
    EXPECT_EQ(predicted->makespan_ns, expected.makespan_ns) << schedule;
    EXPECT_EQ(predicted->program.digest, expected.program.digest);
  }
}

TEST(Calibration, TheLaunchOfAnActionIsPartOfTheOverheadAndNotOfTheLink) {
  // Every action begins 10 us later than it could, but ends at the same time as before.
  constexpr Ns kLaunch = 10'000;
  const auto calibration =
      calibrate(scenario_of(scenario_text("1f1b")), {}, [](const Experiment& experiment) {
        Result result = Machine().run(experiment);
        for (Span& span : result.timeline.spans) {
          if (is_compute(span.action.kind)) span.start_ns += kLaunch;
        }
        return tl::expected<Result, UserError>(std::move(result));
      });
  ASSERT_TRUE(calibration);
  EXPECT_EQ(calibration->alone_launch.median_ns, kLaunch);
  EXPECT_EQ(calibration->busy_launch.median_ns, kLaunch);
  EXPECT_EQ(calibration->stages[0][0].sizes[0].busy.median_ns, 2'080'000 - kLaunch);
  EXPECT_EQ(calibration->model.overhead.values, (std::vector<Ns>{80'000, 80'000}));
  EXPECT_EQ(calibration->model.forward.values, (std::vector<Ns>{2'000'000, 3'000'000}));
  EXPECT_EQ(calibration->model.step.values[0], 50'000);
  EXPECT_EQ(calibration->links[0].latency_ns, 130'000);
}

TEST(Calibration, ItsFileHoldsForOtherSizesOfTheMicrobatch) {
  const Calibration calibration = calibrated(scenario_of(scenario_text("1f1b")));
  Scenario stated = scenario_of(scenario_text("1f1b"));
  Scenario found = scenario_of(with_costs("1f1b", calibration));
  stated.batch.micro_batch_size = found.batch.micro_batch_size = 7;
  const auto predicted = simulate(experiment_of(found), {});
  ASSERT_TRUE(predicted);
  EXPECT_EQ(predicted->makespan_ns, Machine().run(experiment_of(stated)).makespan_ns);
}

TEST(Calibration, BytesAreTheScenarios) {
  const Calibration calibration = calibrated(scenario_of(scenario_text("1f1b")));
  const CostTable stated = experiment_of(scenario_of(scenario_text("1f1b"))).costs;
  const Experiment found = experiment_of(scenario_of(with_costs("1f1b", calibration)));
  EXPECT_EQ(found.costs.edges, stated.edges);
  for (std::size_t stage = 0; stage < 2; ++stage) {
    const StageCost& a = found.costs.stages[stage];
    const StageCost& b = stated.stages[stage];
    EXPECT_EQ((std::vector<Bytes>{a.kept, a.released_by_input, a.weights, a.gradients, a.optimizer_state,
                                  a.transient}),
              (std::vector<Bytes>{b.kept, b.released_by_input, b.weights, b.gradients, b.optimizer_state,
                                  b.transient}));
  }
  EXPECT_EQ(found.cluster.devices()[0].memory_bytes, 1'000'000'000);
}

TEST(Calibration, MeasuresOnlyWhatTheScheduleNeedsUnlessAsked) {
  const auto kinds = [](const std::string& schedule, CalibrationKinds wanted) {
    const Calibration calibration = calibrated(scenario_of(scenario_text(schedule)), {.kinds = wanted});
    std::vector<ActionKind> found;
    for (const KindCalibration& kind : calibration.stages[1]) found.push_back(kind.kind);
    return found;
  };
  using enum ActionKind;
  EXPECT_EQ(kinds("1f1b", CalibrationKinds::needed), (std::vector{forward, backward, step}));
  EXPECT_EQ(kinds("zb-h1", CalibrationKinds::needed),
            (std::vector{forward, backward_input, backward_weight, step}));
  EXPECT_EQ(kinds("1f1b", CalibrationKinds::all),
            (std::vector{forward, backward, backward_input, backward_weight, step}));
  EXPECT_EQ(kinds("gpipe, checkpoint: always", CalibrationKinds::needed),
            (std::vector{forward, backward, recompute, step}));
}

TEST(Calibration, EveryKindHasItsSamplesAloneAndBusyAtEachSize) {
  const Calibration calibration =
      calibrated(scenario_of(scenario_text("1f1b")),
                 {.multiples = {3, 1, 2, 5}, .warmup = 2, .samples = 11, .kinds = CalibrationKinds::all});
  for (const auto& stage : calibration.stages) {
    for (const KindCalibration& kind : stage) {
      ASSERT_EQ(kind.sizes.size(), 4U);
      EXPECT_EQ(kind.sizes[3].micro_batch_size, 10);
      for (const KindAtSize& size : kind.sizes) {
        EXPECT_EQ(size.alone.samples, 11) << letters(kind.kind);
        EXPECT_EQ(size.busy.samples, kind.kind == ActionKind::step ? 0 : 11) << letters(kind.kind);
      }
    }
  }
}

// The scenario states no bytes. The modules say that each sample sends 2 MB, which the machine's links carry.
TEST(Calibration, TheBytesOfMessagesAreThoseOfTheModules) {
  const std::string text =
      "model: {stages: {forward: [2 ms, 3 ms], backward: [3 ms, 5 ms]}}\n"
      "cluster: {preset: uniform, bandwidth: 1 GB/s, latency: 100 us}\n"
      "schedule: {name: 1f1b, stages: 2, microbatches: 6}\n";
  const auto bytes_of = [](const Experiment& experiment) {
    const auto samples = static_cast<Bytes>(experiment.samples_per_microbatch);
    return std::vector<StageBytes>(2, {.activation = 2'000'000 * samples, .gradient = 2'000'000 * samples});
  };
  const auto calibration = calibrate(
      scenario_of(text), {},
      [&](Experiment experiment) {
        experiment.costs =
            with_stage_bytes(std::move(experiment.costs), experiment.program, bytes_of(experiment));
        return tl::expected<Result, UserError>(Machine().run(std::move(experiment)));
      },
      bytes_of);
  ASSERT_TRUE(calibration);
  ASSERT_EQ(calibration->links.size(), 1U);
  EXPECT_TRUE(calibration->links[0].bandwidth_measured);
  EXPECT_NEAR(calibration->links[0].bytes_per_second, 1e9, 1e3);
  EXPECT_EQ(calibration->links[0].latency_ns, 130'000);
  EXPECT_EQ(calibration->links[0].points.front().bytes, 2'000'000);
}

// A machine on which an I or a W beside B takes a tenth longer, as where ranks share bandwidth.
TEST(Calibration, IAndWAreNotMeasuredBesideBUnlessTheScheduleHasAllThree) {
  const auto run = [](Experiment experiment) {
    const NeededKinds kinds = needed_kinds(experiment.program);
    for (StageCost& cost : experiment.costs.stages) {
      if (!kinds.whole_backward || !kinds.split_backward) continue;
      cost.backward_input_ns += cost.backward_input_ns / 10;
      cost.backward_weight_ns += cost.backward_weight_ns / 10;
    }
    return tl::expected<Result, UserError>(Machine().run(std::move(experiment)));
  };
  const auto calibration =
      calibrate(scenario_of(scenario_text("1f1b")), {.kinds = CalibrationKinds::all}, run);
  ASSERT_TRUE(calibration);
  const KindCalibration& input = calibration->stages[0][2];
  EXPECT_EQ(input.kind, ActionKind::backward_input);
  EXPECT_EQ(input.sizes[0].alone.mean_ns, 1'080'000);
  EXPECT_EQ(input.sizes[0].busy.mean_ns, 1'080'000);
  EXPECT_EQ(calibration->model.backward_input.values, (std::vector<Ns>{1'000'000, 2'000'000}));
}

// Of four forwards of a stage one takes 0.8 ms longer: n forwards take n times the mean, 0.2 ms above the
// median.
TEST(Calibration, AModelHasMeansBecausePredictionsAreSums) {
  const auto calibration = calibrate(
      scenario_of(scenario_text("1f1b")), {.samples = 40, .steady = 1}, [](const Experiment& experiment) {
        Result result = Machine().run(experiment);
        for (Span& span : result.timeline.spans) {
          if (span.action.kind == ActionKind::forward && span.action.microbatch % 4 == 0)
            span.end_ns += 800'000;
        }
        return tl::expected<Result, UserError>(std::move(result));
      });
  ASSERT_TRUE(calibration);
  const KindAtSize& own = calibration->stages[0][0].sizes[0];
  EXPECT_EQ(own.busy.median_ns, 2'080'000);
  EXPECT_EQ(own.busy.mean_ns, 2'280'000);
  EXPECT_EQ(calibration->model.forward.values[0] + calibration->model.overhead.values[0], 2'280'000);
}

TEST(Calibration, BIsExactWhereTheScheduleHasBAndIAndWWhereItHasThose) {
  // On this machine, a whole backward takes 20 % less than its two halves.
  const auto calibrated_for = [](const std::string& schedule) {
    auto calibration = calibrate(
        scenario_of(scenario_text(schedule)), {.kinds = CalibrationKinds::all}, [](Experiment experiment) {
          for (StageCost& cost : experiment.costs.stages) cost.backward_ns = cost.backward_ns * 8 / 10;
          return tl::expected<Result, UserError>(Machine().run(std::move(experiment)));
        });
    return *std::move(calibration);
  };
  const Calibration of_1f1b = calibrated_for("1f1b");
  const auto duration = [](const PerStage<Ns>& figure, const Calibration& of) {
    return figure.values[0] + of.model.overhead.values[0];
  };
  EXPECT_NEAR(static_cast<double>(duration(of_1f1b.model.backward, of_1f1b)), 0.8 * 4'010'000 + 70'000, 2);
  EXPECT_TRUE(std::ranges::any_of(of_1f1b.notes, [](const std::string& note) {
    return note.find("a model's B is I + W, which is off by up to") != std::string::npos;
  }));
  const Calibration of_zb = calibrated_for("zb-h1");
  EXPECT_NEAR(static_cast<double>(duration(of_zb.model.backward_input, of_zb)), 1'080'000, 2);
  EXPECT_NEAR(static_cast<double>(duration(of_zb.model.backward_weight, of_zb)), 3'080'000, 2);
  EXPECT_FALSE(of_zb.model.backward.given());
}

TEST(Calibration, AFreeLinkKeepsItsBandwidthAndGetsTheHopAsLatency) {
  const Calibration calibration =
      calibrated(scenario_of(scenario_text("1f1b", "cluster: {preset: uniform, devices: 2}\n")));
  ASSERT_EQ(calibration.links.size(), 1U);
  EXPECT_FALSE(calibration.links[0].bandwidth_measured);
  EXPECT_TRUE(std::isinf(calibration.links[0].bytes_per_second));
  EXPECT_EQ(calibration.links[0].latency_ns, 30'000);
  EXPECT_NE(cost_file(calibration).find("bandwidth: unlimited, latency: 30 us"), std::string::npos);
}

TEST(Calibration, TwoLevelClustersHaveTheirLinksInsideServersAndBetweenThem) {
  const std::string cluster =
      "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, intra_bandwidth: 10 GB/s, intra_latency: "
      "10 us, "
      "inter_bandwidth: 1 GB/s, inter_latency: 200 us}\n";
  const Scenario scenario =
      scenario_of("model: {stages: {forward: 1 ms, backward: 2 ms, activation: 8 MB}}\n" + cluster +
                  "schedule: {name: 1f1b, stages: 4, microbatches: 4}\n");
  const auto calibration = calibrate(scenario, {}, [](const Experiment& experiment) {
    auto result =
        simulate(experiment, {.engine = Engine::critical_path, .memory = {}, .steady = SteadyState::skip});
    return tl::expected<Result, UserError>(*std::move(result));
  });
  ASSERT_TRUE(calibration) << calibration.error().message;
  ASSERT_EQ(calibration->links.size(), 2U);
  const auto& found = std::get<TwoLevelCluster>(calibration->cluster->shape);
  EXPECT_EQ(found.intra_latency_ns, 10'000);
  EXPECT_EQ(found.inter_latency_ns, 200'000);
  EXPECT_NEAR(found.intra_bytes_per_second, 10e9, 10);
  EXPECT_NEAR(found.inter_bytes_per_second, 1e9, 1);
}

TEST(Calibration, AClusterGivenLinkByLinkIsLeftToTheScenario) {
  const Calibration calibration = calibrated(scenario_of(
      scenario_text("1f1b", "cluster: {devices: [a, b], links: [{between: [a, b], bandwidth: 1 GB/s}]}\n")));
  EXPECT_FALSE(calibration.cluster);
  const std::string file = cost_file(calibration);
  EXPECT_EQ(file.find("\ncluster:"), std::string::npos);
  EXPECT_NE(file.find("keep the scenario's"), std::string::npos);
}

TEST(Calibration, AnUnsteadyRunIsRepeatedAndTheSteadiestCounts) {
  int runs = 0;
  const auto calibration =
      calibrate(scenario_of(scenario_text("1f1b")), {.attempts = 3}, [&](const Experiment& experiment) {
        Result result = Machine().run(experiment);
        // In the first run of each three, the times scatter widely.
        if (runs++ % 3 == 0) {
          for (std::size_t i = 0; i < result.timeline.spans.size(); i += 2)
            result.timeline.spans[i].end_ns += 900'000;
        }
        return tl::expected<Result, UserError>(std::move(result));
      });
  ASSERT_TRUE(calibration);
  EXPECT_EQ(runs, 9) << "six measurements, of which three had to be repeated";
  EXPECT_EQ(calibration->model.forward.values, (std::vector<Ns>{2'000'000, 3'000'000}));
}

TEST(Calibration, ANoteSaysThatItNeverGotSteady) {
  const auto calibration =
      calibrate(scenario_of(scenario_text("1f1b")), {.attempts = 1}, [](const Experiment& experiment) {
        Result result = Machine().run(experiment);
        for (std::size_t i = 0; i < result.timeline.spans.size(); i += 2)
          result.timeline.spans[i].end_ns += 900'000;
        return tl::expected<Result, UserError>(std::move(result));
      });
  ASSERT_TRUE(calibration);
  EXPECT_NE(calibration_to_table(*calibration).find("calibrate again at a quiet moment"), std::string::npos);
}

TEST(Calibration, FewerThanThreeSizesAreRefusedAndAFailedRunIsHandedOn) {
  const auto never = [](const Experiment&) -> tl::expected<Result, UserError> {
    return user_error(ErrorKind::not_available, "no device");
  };
  const auto few = calibrate(scenario_of(scenario_text("1f1b")), {.multiples = {1, 2, 2}}, never);
  ASSERT_FALSE(few);
  EXPECT_NE(few.error().message.find("three or more different sizes"), std::string::npos);
  const auto failed = calibrate(scenario_of(scenario_text("1f1b")), {}, never);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "no device");
  EXPECT_EQ(failed.error().kind, ErrorKind::not_available);
}

TEST(Calibration, MemoryOfTheBusyRunIsKeptWhereModulesAccountForIt) {
  const auto calibration =
      calibrate(scenario_of(scenario_text("1f1b")), {}, [](const Experiment& experiment) {
        Result result = Machine().run(experiment);
        for (RankReport& rank : result.ranks) rank.memory.peak_bytes = 1024 * (rank.rank + 1);
        return tl::expected<Result, UserError>(std::move(result));
      });
  ASSERT_TRUE(calibration);
  EXPECT_EQ(calibration->peak_bytes, (std::vector<Bytes>{1024, 2048}));
  EXPECT_NE(cost_file(*calibration).find("at the smallest size: 1.00 KiB 2.00 KiB"), std::string::npos);
  EXPECT_TRUE(calibrated(scenario_of(scenario_text("1f1b"))).peak_bytes.empty());
}

TEST(Calibration, JsonHasBothLoadsOfEveryKind) {
  const Calibration calibration = calibrated(scenario_of(scenario_text("1f1b")));
  const auto json = nlohmann::json::parse(calibration_to_json(calibration));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["micro_batch_size"], 2);
  EXPECT_EQ(json["stages"][1][0]["kind"], "F");
  EXPECT_EQ(json["stages"][1][0]["sizes"][2]["micro_batch_size"], 8);
  EXPECT_EQ(json["stages"][1][0]["sizes"][0]["alone"]["median_ns"], 3'080'000);
  EXPECT_EQ(json["stages"][1][0]["sizes"][0]["busy"]["median_ns"], 3'080'000);
  EXPECT_NEAR(json["stages"][1][0]["busy"]["overhead_ns"].get<double>(), 80'000, 1);
  EXPECT_EQ(json["links"][0]["latency_ns"], 130'000);
}

// --- the programs of a calibration ----------------------------------------------------------------

TEST(CalibrationProgram, IsValidForEveryPlacementAndNeverTheOneThatIsPredicted) {
  for (const auto& [schedule, virtual_stages] :
       {std::pair{"naive", 1}, std::pair{"gpipe", 1}, std::pair{"1f1b", 1}, std::pair{"interleaved", 2},
        std::pair{"zb-v", 1}, std::pair{"dualpipe", 1}, std::pair{"chimera", 1}, std::pair{"hanayo", 2}}) {
    const auto like = generate(schedule, {.stages = 4, .microbatches = 8, .virtual_stages = virtual_stages});
    ASSERT_TRUE(like) << like.error();
    for (const CalibrationLoad load : {CalibrationLoad::alone, CalibrationLoad::busy}) {
      const auto program = calibration_program(
          *like, {.load = load, .microbatches = 7, .backward = BackwardForm::both, .recomputes = true});
      ASSERT_TRUE(program) << program.error();
      EXPECT_TRUE(validate(*program)) << schedule << ": " << validate(*program).error();
      EXPECT_TRUE(lower(*program)) << schedule;
      EXPECT_EQ(program->rank_count(), like->rank_count());
      EXPECT_EQ(program->stage_count(), like->stage_count());
      EXPECT_NE(program->ranks, like->ranks);
    }
  }
}

TEST(CalibrationProgram, ReplicasKeepTheirRanksButOnlyTheFirstWorks) {
  const auto like = generate("1f1b-rr", {.stages = 2, .microbatches = 4, .replicas = {2, 1}});
  ASSERT_TRUE(like) << like.error();
  const auto program = calibration_program(*like, {.microbatches = 2});
  ASSERT_TRUE(program) << program.error();
  EXPECT_EQ(program->rank_count(), 3);
  EXPECT_TRUE(program->ranks[1].empty());
  EXPECT_TRUE(validate(*program)) << validate(*program).error();
}

// --- this machine ---------------------------------------------------------------------------------

Scenario short_scenario() {
  return scenario_of(
      "model: {stages: {forward: 1 ms, backward: 1 ms}}\nschedule: {name: 1f1b, stages: 2, microbatches: "
      "2}\n");
}

tl::expected<Calibration, UserError> calibrated_by(
    const std::function<tl::expected<std::optional<Result>, UserError>(const Experiment&,
                                                                       const PaceOfLinks&)>& run) {
  return calibrate(short_scenario(), {.warmup = 1, .samples = 4, .attempts = 1},
                   [&](const Experiment& experiment) -> tl::expected<Result, UserError> {
                     auto result = run(experiment, [](const FlatProgram&) { return LinkPace{}; });
                     if (!result) return tl::unexpected(result.error());
                     return **std::move(result);
                   });
}

TEST(Calibration, RunsInThreads) {
  const auto calibration = calibrated_by([](const Experiment& experiment, const PaceOfLinks& pace) {
    auto result = run_on_threads(experiment, pace, {.warmup = 0, .repeats = 1}, OccupyFamily(experiment, {}));
    return result.map([](Result found) { return std::optional(std::move(found)); });
  });
  ASSERT_TRUE(calibration) << calibration.error().message;
  EXPECT_EQ(calibration->engine, "cpu-thread");
  EXPECT_GE(calibration->stages[1][0].sizes[0].busy.median_ns, 1'000'000);
  EXPECT_GE(calibration->stages[1][0].sizes[2].busy.median_ns, 4'000'000);
}

TEST(Calibration, RunsInProcesses) {
  const auto calibration = calibrated_by([](const Experiment& experiment, const PaceOfLinks& pace) {
    return run_on_processes(experiment, pace, {.warmup = 0, .repeats = 1}, OccupyFamily(experiment, {}), {});
  });
  ASSERT_TRUE(calibration) << calibration.error().message;
  EXPECT_EQ(calibration->engine, "cpu-process");
  EXPECT_GE(calibration->stages[1][0].sizes[0].busy.median_ns, 1'000'000);
  EXPECT_GE(calibration->stages[1][0].sizes[2].busy.median_ns, 4'000'000);
  EXPECT_FALSE(calibration->links.empty());
}

// --- the arithmetic -------------------------------------------------------------------------------

TEST(LineFit, GoesThroughPointsOnALine) {
  const Line line = fit_line({{1, 12}, {2, 14}, {4, 18}});
  EXPECT_NEAR(line.constant, 10, 1e-9);
  EXPECT_NEAR(line.slope, 2, 1e-9);
  EXPECT_NEAR(line.slope_error, 0, 1e-6);
}

TEST(LineFit, LeavesTheLeastSquaresBesideALine) {
  // Computed by hand: the means are 2 and 11/3, the slope is (5/3 + 1/3) / 2, and the residuals are -2/3, 4/3
  // and -2/3.
  const Line line = fit_line({{1, 2}, {2, 5}, {3, 4}});
  EXPECT_NEAR(line.slope, 1, 1e-12);
  EXPECT_NEAR(line.constant, 5.0 / 3, 1e-12);
  EXPECT_NEAR(line.slope_error, std::sqrt(8.0 / 3 / 2), 1e-12);
}

TEST(LineFit, PointsAtOnePlaceGiveALevelLine) {
  EXPECT_EQ(fit_line({{3, 1}, {3, 2}}), (Line{.constant = 1.5}));
  EXPECT_EQ(fit_line({}), Line{});
}

TEST(Spread, HasTheMedianTheMeanAndTheMiddleHalf) {
  EXPECT_EQ(spread_of({50, 10, 40, 20, 30}),
            (Spread{.median_ns = 30, .mean_ns = 30, .middle_half_ns = 20, .samples = 5}));
  EXPECT_EQ(spread_of({4, 2}), (Spread{.median_ns = 2, .mean_ns = 3, .middle_half_ns = 2, .samples = 2}));
  EXPECT_EQ(spread_of({}), Spread{});
}

}  // namespace
}  // namespace penstock
