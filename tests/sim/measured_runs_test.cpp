// Tests predictions of measured training steps: the measurements of the library, fits that find known
// constants again, and constants that the rows do not determine. The second half tests costs that are fitted
// to measured iterations.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/hold/fit_iterations.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/test_files.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

const MeasuredRuns& library_runs() {
  static const MeasuredRuns kRuns =
      read_measured_runs(source_path("scenarios/library/runs/training_steps.csv")).value();
  return kRuns;
}

MeasuredRuns those_of(const std::string& part_of_id) {
  MeasuredRuns part{.header = library_runs().header, .runs = {}};
  for (const MeasuredRun& run : library_runs().runs)
    if (run.id.find(part_of_id) != std::string::npos) part.runs.push_back(run);
  return part;
}

double mape_of(const RunsReport& report, const std::string& part_of_name) {
  double sum = 0;
  double rows = 0;
  for (const RunGroup& group : report.groups) {
    if (group.name.find(part_of_name) == std::string::npos) continue;
    sum += group.mape * static_cast<double>(group.rows);
    rows += static_cast<double>(group.rows);
  }
  return sum / rows;
}

// No constant is fitted. All constants are those of the devices.
TEST(MeasuredRuns, DevicesOwnConstantsPredictStepsAndMemory) {
  const RunsReport report = predict_runs(library_runs(), nullptr, {}).value();
  ASSERT_EQ(report.rows.size(), 32);
  EXPECT_LT(report.all->mape, 0.05);
  for (const GroupConstants& constants : report.constants) EXPECT_EQ(constants.rows, 0);
  for (const PredictedRun& row : report.rows) {
    SCOPED_TRACE(row.id);
    EXPECT_FALSE(row.fitted);
    if (!row.memory_error) continue;
    const bool is_dense = row.id.find("llama") != std::string::npos;
    EXPECT_LT(std::abs(*row.memory_error), is_dense ? 0.004 : 0.008);
  }
}

// Matrix products were measured on the same machine as the steps. No constant was fitted on the steps.
TEST(MeasuredRuns, AMachinesOwnProductsPredictItsSteps) {
  std::ifstream file(source_path("scenarios/library/kernels/products_B200.csv"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto own = std::make_shared<KernelTables>(*built_in_kernels(*find_device_type("b200-sxm")));
  ASSERT_TRUE(own->read_products(text));
  const MeasuredRuns runs =
      read_measured_runs(source_path("scenarios/library/runs/training_steps.csv"),
                         [&](const DeviceType& device) {
                           return device.name == "b200-sxm" ? own : built_in_kernels(device);
                         })
          .value();
  const RunsReport report = predict_runs(runs, nullptr, {}).value();
  const RunsReport without = predict_runs(library_runs(), nullptr, {}).value();
  EXPECT_LT(mape_of(report, "simumax b200-sxm llama"), 0.06);
  for (const char* rows : {"simumax b200-sxm llama", "simumax b200-sxm deepseek"})
    EXPECT_NE(mape_of(report, rows), mape_of(without, rows)) << "the products tell";
}

// A layer of experts takes longer than its kernels. One run of four microbatches determines this factor,
// together with the dense runs of the machine. Runs of 8 and 32 microbatches test it.
TEST(MeasuredRuns, OneRunTellsTheSoftwaresFactorOnExperts) {
  MeasuredRuns seen = those_of("simumax:llama");
  seen.runs.push_back(those_of("simumax:deepseekv2_tp1_ep8_pp1_dp8_l4_mbc4").runs.front());
  MeasuredRuns others = those_of("simumax:deepseek");
  std::erase_if(others.runs, [](const MeasuredRun& run) { return run.id.ends_with("mbc4_cef"); });
  ASSERT_EQ(others.runs.size(), 2);
  const RunsReport report = predict_runs(others, &seen, {}).value();
  EXPECT_LT(report.all->mape, 0.05);
  ASSERT_EQ(report.constants.size(), 1);
  const GroupConstants& constants = report.constants.front();
  EXPECT_EQ(constants.release, "1.2");
  EXPECT_EQ(constants.fitted, (std::vector<std::string>{"sustained", "collectives", "expert_factor"}));
  EXPECT_GT(constants.constants.expert_factor, 1.1);
  EXPECT_GT(predict_runs(others, nullptr, {}).value().all->mape, 0.1) << "1 is the device's own";
}

/// Returns the rows of more_training_steps.csv with this device and model, of all releases.
MeasuredRuns bridge_runs(std::string_view device, std::string_view model) {
  MeasuredRuns runs =
      read_measured_runs(source_path("scenarios/library/runs/more_training_steps.csv")).value();
  std::erase_if(runs.runs, [&](const MeasuredRun& run) {
    return run.source != "bridge-moe" || run.device != device || model_name(run.model) != model;
  });
  return runs;
}

// For each release, one row of a model with 30 B parameters on 8 GPUs determines the factor of the software.
// The test predicts a model with 235 B parameters on 256 GPUs with this factor.
TEST(MeasuredRuns, ExpertsOfOneModelTellTheReleaseForAnother) {
  const MeasuredRuns small = bridge_runs("gb200", "qwen3-30b-a3b");
  const MeasuredRuns large = bridge_runs("gb200", "qwen3-235b-a22b");
  ASSERT_EQ(small.runs.size(), 7);
  ASSERT_EQ(large.runs.size(), 7);
  const RunsReport report = predict_runs(large, &small, {}).value();
  EXPECT_LT(report.all->mape, 0.1);
  for (const GroupConstants& constants : report.constants) {
    SCOPED_TRACE(constants.release);
    EXPECT_EQ(constants.fitted, std::vector<std::string>{"expert_factor"});
    const bool has_whole_graphs = constants.release >= "26.06";
    EXPECT_NEAR(constants.constants.expert_factor, has_whole_graphs ? 0.9 : 1.5, 0.1);
  }
}

/// Returns the rows of some runs that have a release.
MeasuredRuns of_release(MeasuredRuns runs, std::string_view release) {
  std::erase_if(runs.runs, [&](const MeasuredRun& run) { return run.release != release; });
  return runs;
}

// 32 devices exchange over the network while they compute another microbatch. The measured step took 19.7 s.
// One row of the same release on the same device determines the factor of the software. If computation and
// exchanges ran one after the other, they would take more than 30 s.
TEST(MeasuredRuns, OverlappedExchangesAreNotAddedUp) {
  MeasuredRuns runs = bridge_runs("b200-sxm", "deepseek-v3");
  std::erase_if(runs.runs, [](const MeasuredRun& run) { return !run.scenario.shape.expert_overlap; });
  ASSERT_EQ(runs.runs.size(), 1);
  const MeasuredRuns anchor = of_release(bridge_runs("b200-sxm", "qwen3-30b-a3b"), "26.04.01");
  ASSERT_EQ(anchor.runs.size(), 1);
  EXPECT_NEAR(predict_runs(runs, &anchor, {}).value().rows.front().error, 0, 0.15);
  runs.runs.front().scenario.shape.expert_overlap = false;
  std::get<DeviceModel>(runs.runs.front().scenario.model).work.parallel.expert_overlap = false;
  EXPECT_GT(predict_runs(runs, &anchor, {}).value().rows.front().predicted_seconds, 30);
}

// The same model runs on the same devices in two ways. With sixteen stages, experts exchange over NVLink.
// With eight stages, they exchange over the network while the devices compute, and this is faster.
TEST(MeasuredRuns, OverlapOverTheNetworkBeatsMoreStagesOnNvlink) {
  const RunsReport report = predict_runs(bridge_runs("b200-sxm", "deepseek-v3"), nullptr, {}).value();
  ASSERT_EQ(report.rows.size(), 4);
  const auto shortest = std::ranges::min_element(report.rows, {}, &PredictedRun::measured_seconds);
  for (const PredictedRun& row : report.rows) {
    if (row.id == shortest->id) continue;
    EXPECT_GT(row.predicted_seconds, shortest->predicted_seconds) << row.id;
  }
}

// Without CUDA graphs, the host needs 8.8 ms for each layer of experts. One row on 8 B200 determines this
// time, and the test predicts rows on 16 H100 with it.
TEST(MeasuredRuns, WithoutCudaGraphsTheHostIsSlowerThanSmallExperts) {
  const MeasuredRuns rows = bridge_runs("h100-sxm", "qwen3-30b-a3b");
  ASSERT_EQ(rows.runs.size(), 5);
  const RunsReport report = predict_runs(rows, nullptr, {}).value();
  for (const PredictedRun& row : report.rows) {
    SCOPED_TRACE(row.id);
    EXPECT_DOUBLE_EQ(row.constants.host_layer_ms, 27.05e3 / (64 * 48));
    // The first release with this recipe took 51.3 s, and the next one took 28.9 s.
    if (row.measured_seconds > 50) continue;
    EXPECT_NEAR(row.error, 0, 0.07);
  }
  MeasuredRuns with_graphs = rows;
  for (MeasuredRun& run : with_graphs.runs)
    std::get<DeviceModel>(run.scenario.model).work.host_layer_seconds = 0;
  EXPECT_LT(predict_runs(with_graphs, nullptr, {}).value().all->bias, -0.35);
}

// A row in which the host is too slow determines the time of the host. Rows of other devices determine how
// fast the kernels of its release are.
TEST(MeasuredRuns, ARowWithoutCudaGraphsTellsTheTimeOfTheHost) {
  MeasuredRuns seen = of_release(bridge_runs("h100-sxm", "qwen3-30b-a3b"), "26.04");
  ASSERT_EQ(seen.runs.size(), 1);
  seen.runs.front().step_seconds *= 1.5;
  const MeasuredRuns elsewhere = of_release(bridge_runs("gb200", "qwen3-30b-a3b"), "26.04");
  std::ranges::copy(elsewhere.runs, std::back_inserter(seen.runs));
  const RunsReport report = predict_runs(seen, &seen, {}).value();
  ASSERT_EQ(report.constants.size(), 2);
  const GroupConstants& gb200 = report.constants.front();
  const GroupConstants& h100 = report.constants.back();
  EXPECT_EQ(gb200.fitted, std::vector<std::string>{"expert_factor"});
  EXPECT_EQ(h100.fitted, (std::vector<std::string>{"host_layer", "expert_factor"}));
  EXPECT_NEAR(report.rows.front().error, 0, 0.01);
  EXPECT_NEAR(h100.constants.host_layer_ms, 29.45e3 * 1.5 / (64 * 48), 1);
  EXPECT_NEAR(h100.constants.expert_factor, gb200.constants.expert_factor, 0.01);
}

// A row in fp8 determines the factor of the software for rows in bf16. Products in bf16 keep their own
// sustained factor.
TEST(MeasuredRuns, ExpertsInOnePrecisionTellTheReleaseForAnother) {
  const MeasuredRuns anchor = of_release(bridge_runs("b200-sxm", "qwen3-30b-a3b"), "26.04");
  const MeasuredRuns runs = of_release(bridge_runs("b200-sxm", "gpt-oss-120b"), "26.04");
  ASSERT_EQ(anchor.runs.size(), 1);
  ASSERT_EQ(runs.runs.size(), 1);
  const RunsReport report = predict_runs(runs, &anchor, {}).value();
  EXPECT_EQ(report.constants.front().precision, "bf16");
  EXPECT_EQ(report.constants.front().fitted, std::vector<std::string>{"expert_factor"});
  EXPECT_NEAR(report.rows.front().error, 0, 0.1);
  EXPECT_LT(predict_runs(runs, nullptr, {}).value().rows.front().error, -0.15) << "1 is the device's own";
}

TEST(MeasuredRuns, AReleaseWithoutRowsTakesThoseOfOthers) {
  MeasuredRuns seen = those_of("simumax:deepseek");
  MeasuredRuns next = seen;
  for (MeasuredRun& run : next.runs) run.release = "2.0";
  const RunsReport report = predict_runs(next, &seen, {}).value();
  EXPECT_EQ(report.constants.front().release, "2.0");
  EXPECT_EQ(report.constants.front().rows, 3);
  EXPECT_EQ(report.constants.front().constants,
            predict_runs(seen, &seen, {}).value().constants.front().constants);
}

TEST(MeasuredRuns, FittedConstantsPredictTheirOwnRows) {
  const RunsReport report = predict_runs(library_runs(), &library_runs(), {}).value();
  EXPECT_LT(report.all->mape, 0.035);
  EXPECT_LT(mape_of(report, "mlperf"), 0.015);
  EXPECT_LT(mape_of(report, "bridge"), 0.045);
  for (const PredictedRun& row : report.rows) EXPECT_TRUE(row.fitted);
}

// The tested rows were not used for the fit.
TEST(MeasuredRuns, ConstantsOfOneModelPredictAnother) {
  const MeasuredRuns gpt = those_of("v3.1");
  const MeasuredRuns llama = those_of("v5.0:eos");
  EXPECT_LT(predict_runs(llama, &gpt, {}).value().all->mape, 0.04);
}

TEST(MeasuredRuns, ConstantsOfOneReleasePredictTheNext) {
  EXPECT_LT(predict_runs(those_of("26.04"), &library_runs(), {}).value().all->mape, 0.06);
  EXPECT_LT(predict_runs(those_of("26.04"), nullptr, {}).value().all->mape, 0.08);
  const MeasuredRuns before = those_of("26.02");
  EXPECT_LT(predict_runs(those_of("26.04"), &before, {}).value().all->mape, 0.065);
}

// A user chooses a plan by the order of plans, so this order must be right. Plans whose rates differ by more
// than 5 % must be in the measured order, without a fit. Rates are in samples per second, because plans have
// different global batches.
TEST(MeasuredRuns, PlansThatDifferAreInTheMeasuredOrder) {
  const MeasuredRuns plans = those_of("simumax:llama3_70b_l12");
  const RunsReport report = predict_runs(plans, nullptr, {}).value();
  struct Plan {
    std::string id;
    std::int64_t tokens = 0;  // the tokens of a sample
    double measured = 0;      // the measured samples per second
    double predicted = 0;
  };
  std::vector<Plan> rates;
  for (std::size_t i = 0; i < plans.runs.size(); ++i) {
    const Scenario& scenario = plans.runs[i].scenario;
    const auto& work = std::get<DeviceModel>(scenario.model).work;
    const double samples = static_cast<double>(*scenario.batch.microbatches) * work.parallel.data;
    rates.push_back({plans.runs[i].id, work.sequence, samples / report.rows[i].measured_seconds,
                     samples / report.rows[i].predicted_seconds});
  }
  int pairs = 0;
  for (const Plan& a : rates) {
    for (const Plan& b : rates) {
      if (a.tokens != b.tokens || a.measured < 1.05 * b.measured) continue;
      ++pairs;
      EXPECT_GT(a.predicted, b.predicted) << a.id << " is faster than " << b.id;
    }
  }
  EXPECT_GE(pairs, 10);
}

/// Returns the rows of a file of the library whose id contains `part_of_id`.
MeasuredRuns rows_of(const std::string& file, const std::string& part_of_id) {
  MeasuredRuns rows = read_measured_runs(source_path("scenarios/library/runs/" + file)).value();
  std::erase_if(rows.runs,
                [&](const MeasuredRun& run) { return run.id.find(part_of_id) == std::string::npos; });
  return rows;
}

// On 64 to 2 048 H100, a ring of 2 devices with 4 stages took 11.0 s. Without a ring, 8 stages took 9.9 s.
TEST(MeasuredRuns, ARingIsNotFasterThanTwiceTheStages) {
  const MeasuredRuns rows = rows_of("more_training_steps.csv", "llama3.1-70b");
  const RunsReport report = predict_runs(rows, nullptr, {}).value();
  std::map<std::pair<std::int64_t, std::int32_t>, double>
      seconds;  // the measured step, by devices and context
  for (std::size_t i = 0; i < rows.runs.size(); ++i) {
    const auto& model = std::get<DeviceModel>(rows.runs[i].scenario.model);
    if (model.work.precision == GemmPrecision::fp8)
      seconds[{model.devices, model.work.parallel.context}] = report.rows[i].predicted_seconds;
  }
  for (const std::int64_t devices : {64, 128, 256, 512, 1024, 2048}) {
    const double margin = seconds.at({devices, 2}) / seconds.at({devices, 1}) - 1;
    EXPECT_GT(margin, 0) << devices;
    // The measured margins are 10 to 12 %. They also contain the difference between the two releases.
    RecordProperty(fmt::format("margin_{}", devices), fmt::format("{:+.2f} %", 100 * margin));
    std::cout << fmt::format("{} devices: a ring of 2 is predicted {:+.2f} % longer\n", devices,
                             100 * margin);
  }
}

// With the same work on each device, 512 H100 took 4 to 11 % longer than 128 H100, because rings of more
// devices have more steps. The predictions contain a part of this difference.
TEST(MeasuredRuns, MoreCopiesTakeLongerForTheSameWork) {
  const MeasuredRuns rows =
      read_measured_runs(source_path("scenarios/library/runs/sharded_training_steps.csv")).value();
  const RunsReport report = predict_runs(rows, nullptr, {}).value();
  std::map<std::string, std::map<std::int64_t, double>> seconds;  // the measured step, by model and devices
  for (std::size_t i = 0; i < rows.runs.size(); ++i) {
    const std::int64_t devices = std::get<DeviceModel>(rows.runs[i].scenario.model).devices;
    if (rows.runs[i].source == "llm-foundry" && devices >= 128)
      seconds[model_name(rows.runs[i].model)][devices] = report.rows[i].predicted_seconds;
  }
  ASSERT_EQ(seconds.size(), 3);
  for (const auto& [model, by_devices] : seconds) {
    SCOPED_TRACE(model);
    EXPECT_GT(by_devices.at(256), by_devices.at(128));
    EXPECT_GT(by_devices.at(512), by_devices.at(256));
    std::cout << fmt::format("{}: 512 devices are predicted {:+.2f} % longer than 128\n", model,
                             100 * (by_devices.at(512) / by_devices.at(128) - 1));
  }
}

// The kernels of these rows have scores, dropout masks and an unfused loss, which later software does not
// have.
TEST(MeasuredRuns, OldMegatronsRowsAreThoseOfItsKernels) {
  const MeasuredRuns rows = rows_of("more_training_steps.csv", "zb-t4");
  ASSERT_EQ(rows.runs.size(), 24);
  const RunsReport report = predict_runs(rows, nullptr, {}).value();
  EXPECT_LT(report.all->mape, 0.06);
  EXPECT_LT(report.all_memory->mape, 0.08);
}

// The authors' software updates each rank as soon as its own work is done. With ZB-2p, the ranks start one
// forward after the other and end likewise, so each step hides the start of the next one. With 1F1B, all
// ranks wait for the norm of the gradients.
TEST(MeasuredRuns, OldMegatronsZeroBubbleStepsOverlap) {
  for (const MeasuredRun& run : rows_of("more_training_steps.csv", "zb-t4-1.5B-m24").runs) {
    const RunPrices prices = RunPrices::make(run.scenario).value();
    const DeviceConstants constants = own_constants(run.scenario);
    const double makespan_s =
        1e-9 * static_cast<double>(simulate_scenario(run.scenario, {}).value().makespan_ns);
    const double step_s = prices.step_seconds(constants);
    if (!prices.splits_backward()) {
      EXPECT_NEAR(step_s, makespan_s, 1e-9) << run.id;
    } else if (run.scenario.schedule == "zb-2p") {
      const double forward_s = 1e-9 * static_cast<double>(prices.costs(constants).stages[1].forward_ns);
      EXPECT_NEAR(step_s, makespan_s - 7 * forward_s, 0.02 * makespan_s);
    } else {
      EXPECT_LE(step_s, makespan_s) << run.id;
    }
  }
}

// --- fitting ----------------------------------------------------------------------------------------------

/// Runs whose "measured" steps are predictions. The test checks that a fit finds the constants of these
/// predictions.
struct Invented {
  std::vector<RunPrices> prices;
  std::vector<TimedRun> runs;
};
Invented invented(const MeasuredRuns& configurations, const DeviceConstants& constants) {
  Invented made;
  made.prices.reserve(configurations.runs.size());
  for (const MeasuredRun& run : configurations.runs)
    made.prices.push_back(RunPrices::make(run.scenario).value());
  for (const RunPrices& prices : made.prices)
    made.runs.push_back({.prices = &prices, .measured_seconds = prices.step_seconds(constants)});
  return made;
}

TEST(FitConstants, FindsThemAgain) {
  const DeviceConstants hidden{.sustained = 1.22, .collectives = 1.8, .step_fraction = 0.3};
  const Invented made = invented(those_of("simumax:llama"), hidden);
  const FittedConstants fit =
      fit_constants(made.runs, {.sustained = 1.38, .collectives = 1.35, .step_fraction = 0.3});
  EXPECT_EQ(fit.fitted, (std::vector<std::string>{"sustained", "collectives"}));
  EXPECT_NEAR(fit.constants.sustained, 1.22, 2e-3);
  EXPECT_NEAR(fit.constants.collectives, 1.8, 2e-2);
  EXPECT_EQ(fit.constants.step_fraction, 0.3) << "on one node nothing depends on it";
}

// Rows with different numbers of chunks determine the time of an action, if the framework has such a time.
TEST(FitConstants, FindsTheTimeOfAnAction) {
  const Invented made = invented(rows_of("more_training_steps.csv", "zb-t4-1.5B"),
                                 {.sustained = 1.1, .collectives = 1.35, .action_ms = 0.7});
  const FittedConstants fit =
      fit_constants(made.runs, {.sustained = 1, .collectives = 1.35, .action_ms = 1.2});
  EXPECT_EQ(fit.fitted, (std::vector<std::string>{"sustained", "action_overhead"}));
  EXPECT_NEAR(fit.constants.sustained, 1.1, 1e-2);
  EXPECT_NEAR(fit.constants.action_ms, 0.7, 3e-2);
}

// A step of one microbatch takes a tenth of a second, so the fit can find a constant of 30 ms.
TEST(FitConstants, FindsTheTimeThatAStepHasBesideItsParts) {
  MeasuredRuns rows = those_of("simumax:llama3_70b_l12_tp4");
  rows.runs.front().scenario.batch.microbatches = 1;
  const Invented made = invented(rows, {.sustained = 1.3, .collectives = 1.35, .step_ms = 30});
  const FittedConstants fit = fit_constants(made.runs, {.sustained = 1.38, .collectives = 1.35});
  EXPECT_THAT(fit.fitted, testing::Contains("step_overhead"));
  EXPECT_NEAR(fit.constants.step_ms, 30, 3);
}

// The two frameworks have different kernels, so each has its own constant on the same devices.
TEST(FitConstants, EachFrameworkHasItsOwn) {
  MeasuredRuns both = those_of("26.04:LLAMA3_70B:H100");
  both.runs.push_back(both.runs.front());
  std::get<DeviceModel>(both.runs.back().scenario.model).work.framework = Framework::torchtitan;
  both.runs.back().step_seconds *= 2;
  const RunsReport report = predict_runs(both, &both, {}).value();
  ASSERT_EQ(report.constants.size(), 2);
  EXPECT_EQ(report.constants.front().framework, Framework::megatron_te);
  EXPECT_EQ(report.constants.front().rows, 1);
  EXPECT_THAT(report.constants.front().stopped, testing::IsEmpty());
  EXPECT_NEAR(report.rows.front().error, 0, 1e-3) << "the other framework's row does not count";
  EXPECT_EQ(report.constants.back().framework, Framework::torchtitan);
  EXPECT_EQ(report.constants.back().stopped, std::vector<std::string>{"sustained"});
  EXPECT_LT(report.rows.back().error, -0.1);
}

// Two rows of the same configuration determine only one constant, even if their times depend on several.
TEST(FitConstants, RowsThatDifferInNothingTellOneConstant) {
  MeasuredRuns twins = those_of("26.04:LLAMA3_70B:H100");
  twins.runs.push_back(twins.runs.front());
  const Invented made = invented(twins, {.sustained = 1.1, .collectives = 2, .step_fraction = 0.1});
  const DeviceConstants prior{.sustained = 1.35, .collectives = 1.35, .step_fraction = 0.3};
  const FittedConstants fit = fit_constants(made.runs, prior);
  EXPECT_EQ(fit.fitted, std::vector<std::string>{"sustained"});
  EXPECT_EQ(fit.constants.collectives, prior.collectives);
  EXPECT_EQ(fit.constants.step_fraction, prior.step_fraction);
}

TEST(FitConstants, StayWithinTheirBoundsAndKeepThePriorWithoutRows) {
  const DeviceConstants prior{.sustained = 1.35, .collectives = 1.35, .step_fraction = 0.3};
  EXPECT_EQ(fit_constants({}, prior).constants, prior);
  Invented made = invented(those_of("26.04:LLAMA3_70B:H100"), prior);
  EXPECT_THAT(fit_constants(made.runs, prior).stopped, testing::IsEmpty());
  made.runs.front().measured_seconds *= 10;
  const FittedConstants fit = fit_constants(made.runs, prior);
  EXPECT_EQ(fit.constants.sustained, 1.6);
  EXPECT_EQ(fit.stopped, std::vector<std::string>{"sustained"});
}

// A time of 0 is also at its bound, but no time below 0 is possible. So no note is needed.
TEST(FitConstants, DoNotStopAtATimeOfZero) {
  const Invented made = invented(rows_of("more_training_steps.csv", "zb-t4-1.5B"),
                                 {.sustained = 1.1, .collectives = 1.35, .action_ms = 0});
  const FittedConstants fit =
      fit_constants(made.runs, {.sustained = 1, .collectives = 1.35, .action_ms = 1.2});
  ASSERT_THAT(fit.fitted, testing::Contains("action_overhead"));
  EXPECT_NEAR(fit.constants.action_ms, 0, 3e-2);
  EXPECT_THAT(fit.stopped, testing::IsEmpty());
}

// A tape with new costs gives the same step time as the simulator.
TEST(RunPrices, AgreeWithTheSimulator) {
  for (const MeasuredRun& run : library_runs().runs) {
    SCOPED_TRACE(run.id);
    const RunPrices prices = RunPrices::make(run.scenario).value();
    const Result result = simulate_scenario(run.scenario, {}).value();
    EXPECT_DOUBLE_EQ(prices.step_seconds(own_constants(run.scenario)),
                     static_cast<double>(result.makespan_ns) * 1e-9);
  }
}

// --- files ------------------------------------------------------------------------------------------------

std::string fault_of(const std::string& row) {
  const ScratchFolder folder;
  const std::string file =
      folder
          .write("runs.csv",
                 "id,source,model,device,precision,devices,tensor,stages,virtual_stages,context,"
                 "context_exchange,expert,data,micro_batch_size,microbatches,sequence,layers,layer_split,"
                 "schedule,recompute,tensor_overlap,data_overlap,gradient_bytes,step_seconds,peak_gib\n" +
                     row + "\n")
          .string();
  const auto runs = read_measured_runs(file);
  if (runs) return "no fault";
  const std::string& text = runs.error();
  return text.substr(text.find(".csv") + 4);
}

TEST(MeasuredRunsFile, SaysWhichCellIsWrong) {
  EXPECT_EQ(fault_of("a,s,m.json,h900,fp8,8,1,1,1,1,,1,8,1,4,4096,4,even,1f1b,none,no,no,4,1.5,"),
            ":2: device: expected one of a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300, gb300, a800, "
            "h800, h20, l40s, mi300x, mi325x, tpu-v5p, or one with its memory as in \"h100 96 GB\", got "
            "\"h900\"");
  EXPECT_EQ(fault_of("a,s,m.json,h100,fp8,8,1,0,1,1,,1,8,1,4,4096,4,even,1f1b,none,no,no,4,1.5,"),
            ":2: stages: expected a whole number from 1 to 1073741824, got \"0\"");
  EXPECT_EQ(fault_of("a,s,m.json,h100,fp8,8,1,1,1,1,,1,8,1,4,4096,4,even,1f1b,none,no,maybe,4,1.5,"),
            ":2: data_overlap: expected yes or no, got \"maybe\"");
  EXPECT_EQ(fault_of("a,s,m.json,h100,fp8,8,1,1,1,1,,1,8,1,4,4096,4,even,1f1b,none,no,no,4,nan,"),
            ":2: step_seconds: expected a number above 0, got \"nan\"");
  EXPECT_EQ(fault_of("a,s,m.json,h100,fp8,8,1,1,1,1,,1,8,1,4,4096,4,odd,1f1b,none,no,no,4,1.5,"),
            ":2: layer_split: expected even, ends-one-less, balanced, a Megatron layout such as "
            "\"Et*3|t*4|t*3L\" or a list "
            "of layers a stage, got \"odd\"");
  EXPECT_EQ(fault_of("a,s,m.json,h100,fp8,8,1,1,1,1,,1,8,1,4,4096,4,even,2f2b,none,no,no,4,1.5,"),
            ":2: schedule: expected a schedule's name, as `penstock schedules` lists them, got \"2f2b\"");
  EXPECT_EQ(fault_of("a,s"), ":2: expected 25 cells as in the first row, got 2");
}

constexpr const char* kShortHeader =
    "source,model,device,devices,micro_batch_size,microbatches,sequence,precision,sharding,recompute,tensor,"
    "stages,schedule,step_seconds,note\n";

/// Returns the runs of a file with few columns and these rows. Its models are those of the library.
tl::expected<MeasuredRuns, std::string> short_runs(const std::string& rows) {
  return parse_measured_runs(kShortHeader + rows, "short.csv", [](const std::string& model) {
    return read_text_file(source_path("scenarios/library/models/" + model + ".json"), model);
  });
}

TEST(MeasuredRunsFile, NeedsNoColumnsWithUsualValues) {
  const MeasuredRuns runs =
      short_runs("s,llama-3.1-8b,h100-sxm,64,2,3,4096,bf16,3,none,2,4,1f1b,7.5,a note\n").value();
  ASSERT_EQ(runs.runs.size(), 1);
  const MeasuredRun& run = runs.runs.front();
  EXPECT_EQ(run.id, "line 2");
  const auto& model = std::get<DeviceModel>(run.scenario.model);
  EXPECT_EQ(model.copies, 8) << "64 devices / (2 x 4)";
  EXPECT_EQ(model.work.model.layers.size(), 32);
  EXPECT_EQ(run.scenario.shape.sharding, 3);
  EXPECT_EQ(run.cells.back(), "a note");
  EXPECT_EQ(predict_runs(runs, nullptr, {}).value().classes.front().name, "fully sharded, network");
}

TEST(MeasuredRunsFile, ReadsHowExpertsExchangeAndWhatIsRecomputed) {
  const MeasuredRuns runs =
      parse_measured_runs(
          "source,model,device,devices,micro_batch_size,microbatches,sequence,precision,recompute,tensor,"
          "stages,virtual_stages,layer_split,schedule,step_seconds,expert,expert_dispatch,fp8_dispatch,"
          "expert_overlap\n"
          "s,deepseek-v3,b200-sxm,64,1,16,4096,fp8,mla_up_proj+moe_act,1,2,4,balanced,interleaved,9,32,"
          "deepep,"
          "yes,yes\n"
          "s,deepseek-v3,b200-sxm,64,1,16,4096,fp8,core_attn,1,2,4,balanced,interleaved,9,32,,,\n",
          "rows.csv",
          [](const std::string& model) {
            return read_text_file(source_path("scenarios/library/models/" + model + ".json"), model);
          })
          .value();
  const auto work = [&](std::size_t row) -> const Workload& {
    return std::get<DeviceModel>(runs.runs[row].scenario.model).work;
  };
  EXPECT_EQ(work(0).parallel.expert_dispatch, ExpertDispatch::deepep);
  EXPECT_TRUE(work(0).parallel.fp8_dispatch);
  EXPECT_TRUE(work(0).parallel.expert_overlap);
  EXPECT_EQ(to_text(work(0).recompute), "mla_up_proj+moe_act");
  EXPECT_EQ(work(1).parallel.expert_dispatch, ExpertDispatch::alltoall);
  EXPECT_FALSE(work(1).parallel.expert_overlap);
  EXPECT_EQ(work(1).recompute, LayerRecompute::selective);
  const RunsReport report = predict_runs(runs, nullptr, {}).value();
  EXPECT_LT(report.rows[0].predicted_seconds, 0.8 * report.rows[1].predicted_seconds);
}

TEST(MeasuredRunsFile, LeavesOutOverlapsThatNoScheduleHas) {
  const MeasuredRuns runs =
      parse_measured_runs(
          "source,model,device,devices,micro_batch_size,microbatches,sequence,precision,recompute,tensor,"
          "stages,schedule,step_seconds,expert,layers,expert_overlap\n"
          "s,deepseek-v3,b200-sxm,64,1,16,4096,fp8,none,1,2,1f1b,9,32,8,yes\n"
          "s,deepseek-v3,b200-sxm,32,1,16,4096,fp8,none,1,1,1f1b,9,32,8,yes\n",
          "rows.csv",
          [](const std::string& model) {
            return read_text_file(source_path("scenarios/library/models/" + model + ".json"), model);
          })
          .value();
  ASSERT_EQ(runs.left_out.size(), 1);
  EXPECT_EQ(runs.left_out.front().why,
            "2: expert_overlap: parallel.expert_overlap: 1f1b on 2 ranks has no pairs of F and B that can "
            "overlap; take ep-1f1b, interleaved, dualpipe, dualpipe-v, or 1f1b on one rank");
  EXPECT_EQ(predict_runs(runs, nullptr, {}).value().rows.size(), 1);
}

// The column `cuda_graphs` matters only for models with experts, because their kernels are small.
TEST(MeasuredRunsFile, SaysWhetherCudaGraphsLaunchKernels) {
  const auto host_layer_s = [](const std::string& model, const std::string& graphs) {
    const std::string text =
        "source,model,device,devices,micro_batch_size,microbatches,sequence,precision,recompute,"
        "tensor,stages,schedule,step_seconds,cuda_graphs\ns," +
        model + ",h100,8,1,1,4096,bf16,none,1,1,1f1b,7.5," + graphs + "\n";
    const auto runs = parse_measured_runs(text, "graphs.csv", [](const std::string& name) {
      return read_text_file(source_path("scenarios/library/models/" + name + ".json"), name);
    });
    if (!runs) return runs.error();
    const auto& model_of_run = std::get<DeviceModel>(runs->runs.front().scenario.model);
    return fmt::format("{:.1f} ms", model_of_run.work.host_layer_seconds * 1e3);
  };
  EXPECT_EQ(host_layer_s("qwen3-30b-a3b", "no"), "8.8 ms");
  EXPECT_EQ(host_layer_s("qwen3-30b-a3b", "yes"), "0.0 ms");
  EXPECT_EQ(host_layer_s("qwen3-30b-a3b", ""), "0.0 ms");
  EXPECT_EQ(host_layer_s("llama-3.1-8b", "no"), "0.0 ms");
  EXPECT_EQ(host_layer_s("qwen3-30b-a3b", "some"),
            "graphs.csv:2: cuda_graphs: expected yes or no, got \"some\"");
}

TEST(MeasuredRunsFile, LeavesOutRowsThatNothingCanPredict) {
  const MeasuredRuns runs = short_runs(
                                "s,llama-3.1-8b,tpu-v9,8,1,1,4096,bf16,3,none,1,1,1f1b,7.5,\n"
                                "s,no-such-model,h100,8,1,1,4096,bf16,3,none,1,1,1f1b,7.5,\n"
                                "s,llama-3.1-8b,h100,8,1,1,4096,bf16,3,none,1,1,1f1b,7.5,\n")
                                .value();
  ASSERT_EQ(runs.runs.size(), 1);
  ASSERT_EQ(runs.left_out.size(), 2);
  EXPECT_EQ(
      runs.left_out[0].why,
      "2: device: expected one of a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300, gb300, a800, h800, "
      "h20, l40s, mi300x, mi325x, tpu-v5p, or one with its memory as in \"h100 96 GB\", got \"tpu-v9\"");
  EXPECT_EQ(runs.left_out[1].line, 3);
  EXPECT_EQ(runs.left_out[1].id, "line 3");
  EXPECT_EQ(runs.runs.front().id, "line 4");
}

// The framework decides which activations are stored. A row is left out if its framework has no prices.
TEST(MeasuredRunsFile, HasAColumnOfFrameworks) {
  const auto rows_with = [](const std::string& framework) {
    return parse_measured_runs(
        "source,model,device,devices,micro_batch_size,microbatches,sequence,precision,recompute,tensor,"
        "stages,"
        "schedule,step_seconds,framework,sequence_parallel\n"
        "s,llama-3.1-8b,h100,8,1,1,4096,bf16,none,1,1,1f1b,7.5,megatron-2021,no\n"
        "s,llama-3.1-8b,h100,8,1,2,4096,bf16,none,1,2,1f1b,7.5,torchtitan,\n"
        "s,llama-3.1-8b,h100,8,1,1,4096,bf16,none,1,1,1f1b,7.5," +
            framework + ",\n",
        "rows.csv", [](const std::string& model) {
          return read_text_file(source_path("scenarios/library/models/" + model + ".json"), model);
        });
  };
  const auto work_of = [](const MeasuredRun& run) { return std::get<DeviceModel>(run.scenario.model).work; };
  const MeasuredRuns known = rows_with("").value();
  EXPECT_EQ(work_of(known.runs[0]).framework, Framework::megatron_2021);
  EXPECT_FALSE(work_of(known.runs[0]).parallel.sequence_parallel);
  EXPECT_EQ(work_of(known.runs[1]).framework, Framework::torchtitan);
  EXPECT_EQ(known.runs[1].scenario.shape.gather, Gather::step) << "in a pipeline weights stay gathered";
  EXPECT_EQ(work_of(known.runs[2]).framework, Framework::megatron_te);
  EXPECT_TRUE(work_of(known.runs[2]).parallel.sequence_parallel);
  const MeasuredRuns partly = rows_with("jax").value();
  ASSERT_EQ(partly.left_out.size(), 1);
  EXPECT_EQ(partly.left_out[0].why,
            "4: framework: expected one of megatron-te, torchtitan, megatron-2021, llm-foundry, which are "
            "priced, got "
            "\"jax\"");
}

TEST(MeasuredRunsFile, ASourceMayNameTheFramework) {
  const auto work_with = [](const std::string& source) {
    const auto runs = short_runs(source + ",llama-3.1-8b,h100,8,1,1,4096,bf16,3,none,1,1,1f1b,7.5,\n");
    return std::get<DeviceModel>(runs.value().runs.front().scenario.model).work;
  };
  EXPECT_EQ(work_with("torchtitan").framework, Framework::torchtitan);
  EXPECT_FALSE(work_with("torchtitan").parallel.tensor_overlap) << "asynchronous tensor parallelism is off";
  EXPECT_EQ(work_with("llm-foundry").framework, Framework::llm_foundry);
  EXPECT_EQ(work_with("mlperf").framework, Framework::megatron_te);
  EXPECT_TRUE(work_with("mlperf").parallel.tensor_overlap);
}

// The devices of torchtitan's tables are H100 with 96 GB, slower memory and less power. The logs name devices
// as the driver does.
TEST(MeasuredRunsFile, ADeviceMayStateItsMemoryAndPower) {
  const MeasuredRuns runs =
      short_runs("s,llama-3.1-8b,h100 96 GB 2.4 TB/s 500 W,8,1,1,4096,bf16,3,none,1,1,1f1b,7.5,\n").value();
  const DeviceType& device = std::get<DeviceModel>(runs.runs.front().scenario.model).work.device;
  EXPECT_EQ(device.memory_bytes, std::int64_t{96} << 30);
  EXPECT_EQ(device.memory_bytes_per_second, 2.4e12);
  EXPECT_NEAR(device.sustained / find_device_type("h100")->sustained, std::cbrt(700.0 / 500), 1e-12);
  EXPECT_NEAR(device.attention_slowdown, std::cbrt(700.0 / 500), 1e-12)
      << "attention keeps the cores as busy";
  EXPECT_EQ(runs.runs.front().device, "h100-sxm 96 GB 500 W") << "another site than that of usual H100";
  EXPECT_EQ(described_device("h100 900 W")->type, *find_device_type("h100")) << "no limit";
  EXPECT_FALSE(described_device("h100 0 W"));

  const auto usual = described_device("NVIDIA H100 80GB HBM3");
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->type, *find_device_type("h100"));
  EXPECT_EQ(usual->name, "h100-sxm");
  EXPECT_FALSE(described_device("h100 96 apples"));
  EXPECT_FALSE(described_device("h900 80 GB"));
}

// With 1024 tokens, attention takes a short time. With 131072 tokens, it takes most of the step.
TEST(MeasuredRunsFile, LessPowerSlowsAttentionAndProductsAlike) {
  const auto longer = [](const std::string& sequence) {
    const auto seconds = [&](const std::string& device) {
      const std::string cells =
          fmt::format("s,llama-3.1-8b,{},8,1,1,{},bf16,3,full,1,1,1f1b,7.5,\n", device, sequence);
      return predict_runs(short_runs(cells).value(), nullptr, {}).value().rows.front().predicted_seconds;
    };
    return seconds("h100 400 W") / seconds("h100");
  };
  const double slower = std::cbrt(700.0 / 400);
  EXPECT_NEAR(longer("131072"), slower, 0.01);
  EXPECT_LE(longer("8192"), slower) << "memory is as fast as before";
}

TEST(MeasuredRunsFile, TheModelMayBeAText) {
  const std::string config =
      R"({""_name_or_path"":""small"",""model_type"":""llama"",""hidden_size"":256,""num_hidden_layers"":2,)"
      R"(""num_attention_heads"":4,""num_key_value_heads"":4,""intermediate_size"":512,""vocab_size"":1024})";
  const MeasuredRuns runs =
      short_runs("s,\"" + config + "\",h100,8,1,1,4096,bf16,3,none,1,1,1f1b,7.5,\n").value();
  EXPECT_EQ(model_name(runs.runs.front().model), "small");
  EXPECT_EQ(std::get<DeviceModel>(runs.runs.front().scenario.model).work.model.hidden, 256);
}

TEST(MeasuredRunsFile, AnOrderWithoutExpertsIsTheSameOrder) {
  const auto order_of = [](const std::string& word) {
    const std::string row =
        "order,source,model,device,devices,micro_batch_size,microbatches,sequence,precision,"
        "recompute,tensor,stages,schedule,step_seconds\n" +
        word + ",s,llama-3.1-8b,h100,16,1,4,4096,bf16,none,1,2,1f1b,7.5\n";
    const auto runs = parse_measured_runs(row, "order.csv", [](const std::string& model) {
      return read_text_file(source_path("scenarios/library/models/" + model + ".json"), model);
    });
    return std::get<DeviceModel>(runs.value().runs.front().scenario.model).work.parallel.order;
  };
  EXPECT_EQ(order_of("tp-cp-pp-dp"), order_of("tp-cp-ep-pp-dp"));
  EXPECT_NE(order_of("tp-cp-pp-dp"), order_of("tp-cp-ep-dp-pp"));
}

TEST(MeasuredRunsFile, RefusesDevicesThatCopiesDoNotFill) {
  EXPECT_EQ(short_runs("s,llama-3.1-8b,h100,12,1,1,4096,bf16,3,none,2,4,1f1b,7.5,\n").error(),
            "short.csv:2: devices: expected a multiple of tensor x context x stages, 8, got \"12\"");
  EXPECT_EQ(short_runs("s,llama-3.1-8b,h100,8,1,1,4096,bf16,4,none,2,4,1f1b,7.5,\n").error(),
            "short.csv:2: sharding: expected 0, 1, 2 or 3, got \"4\"");
}

/// Returns the names of the classes in a file of the library, with the number of rows of each.
std::map<std::string, std::size_t> classes_of_file(const std::string& name) {
  const MeasuredRuns runs = read_measured_runs(source_path("scenarios/library/runs/" + name)).value();
  std::map<std::string, std::size_t> sizes;
  const RunsReport report = predict_runs(runs, nullptr, {}).value();
  for (const RunGroup& group : report.classes) sizes[group.name] = group.rows;
  return sizes;
}

// Under DualPipe, every pair hides exchanges of experts. A step is therefore shorter than if no exchange were
// hidden.
TEST(OverlappedPairs, LetDualPipeGain) {
  for (const char* name : {"dualpipe", "dualpipe-v", "interleaved"}) {
    SCOPED_TRACE(name);
    const auto scenario = parse_scenario(
        fmt::format("model: {{huggingface: deepseek-v3.json, sequence: 4096, layers: 19}}\n"
                    "cluster: {{device: h100-sxm, nodes: 16}}\n"
                    "parallel: {{expert: 32, expert_dispatch: deepep, expert_overlap: true}}\n"
                    "schedule: {{name: {}, stages: 4, microbatches: 16, layer_split: balanced{}}}\n",
                    name, std::string_view(name) == "interleaved" ? ", virtual_stages: 2" : ""),
        "a.yaml", source_path("scenarios/library/models"));
    ASSERT_TRUE(scenario) << scenario.error();
    Experiment experiment = prepare(*scenario).value();
    const Ns paired_ns = simulate(experiment, {}).value().makespan_ns;
    for (StageCost& stage : experiment.costs.stages) stage.pair_hidden_ns = 0;
    const Ns plain_ns = simulate(experiment, {}).value().makespan_ns;
    EXPECT_LT(paired_ns, 0.95 * static_cast<double>(plain_ns));
  }
}

TEST(MeasuredRuns, TheLibraryHasRowsOfEveryClass) {
  using Sizes = std::map<std::string, std::size_t>;
  EXPECT_EQ(classes_of_file("training_steps.csv"), (Sizes{{"dense, no pipeline, one NVLink domain", 4},
                                                          {"dense, pipeline", 25},
                                                          {"experts, no pipeline", 3}}));
  EXPECT_EQ(classes_of_file("more_training_steps.csv"), (Sizes{{"dense, no pipeline, network", 27},
                                                               {"dense, no pipeline, one NVLink domain", 13},
                                                               {"dense, pipeline", 52},
                                                               {"experts, no pipeline", 30},
                                                               {"experts, pipeline", 21}}));
  EXPECT_EQ(classes_of_file("sharded_training_steps.csv"),
            (Sizes{{"fully sharded, network", 16}, {"fully sharded, one NVLink domain", 8}}));
}

// Costs that are fitted to measured iterations: fits that find known costs again, faulty files, and rows with
// several stages, which are not fitted.

// --- least squares ----------------------------------------------------------------------------------------

/// Returns the equations of a dense system.
std::vector<LinearEquation> equations(const std::vector<std::vector<double>>& rows,
                                      const std::vector<double>& values) {
  std::vector<LinearEquation> all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    LinearEquation equation{.terms = {}, .value = values[i]};
    for (std::size_t j = 0; j < rows[i].size(); ++j) equation.terms.emplace_back(j, rows[i][j]);
    all.push_back(std::move(equation));
  }
  return all;
}

double squares(const std::vector<std::vector<double>>& rows, const std::vector<double>& values,
               const std::vector<double>& at) {
  double sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double residual = -values[i];
    for (std::size_t j = 0; j < at.size(); ++j) residual += rows[i][j] * at[j];
    sum += residual * residual;
  }
  return sum;
}

TEST(LeastSquares, SolvesWhatHasASolution) {
  const auto x = non_negative_least_squares(equations({{1, 2}, {3, 1}, {1, 1}}, {5, 5, 3}), 2);
  EXPECT_NEAR(x[0], 1, 1e-12);
  EXPECT_NEAR(x[1], 2, 1e-12);
}

// The line through (1, 2), (2, 1.5), (3, 0.4) has a negative slope if the fit has no bounds.
TEST(LeastSquares, WhatWouldBeBelowZeroIsZeroAndTheOthersMakeTheBestOfIt) {
  const auto x = non_negative_least_squares(equations({{1, 1}, {1, 2}, {1, 3}}, {2, 1.5, 0.4}), 2);
  EXPECT_NEAR(x[0], 1.3, 1e-12);
  EXPECT_EQ(x[1], 0);
}

TEST(LeastSquares, ColumnsOfNothingAndNoEquationsAreZero) {
  EXPECT_EQ(non_negative_least_squares(equations({{0, 2}}, {4}), 2), (std::vector<double>{0, 2}));
  EXPECT_EQ(non_negative_least_squares({}, 2), (std::vector<double>{0, 0}));
  EXPECT_EQ(identifiable_unknowns(equations({{1, 2}, {2, 4}}, {1, 2}), 2), 1U);
}

// These are the conditions of Karush, Kuhn and Tucker. At the solution, no change of a single unknown within
// its bounds makes the residual smaller.
TEST(LeastSquares, NoStepFromTheAnswerIsBetter) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::vector<double>> rows(8, std::vector<double>(5));
    std::vector<double> values(8);
    for (auto& row : rows)
      for (double& entry : row) entry = normal(random);
    for (double& value : values) value = normal(random);
    const auto x = non_negative_least_squares(equations(rows, values), 5);
    const double least = squares(rows, values, x);
    for (std::size_t j = 0; j < x.size(); ++j) {
      EXPECT_GE(x[j], 0);
      for (const double step : {-1e-3, 1e-3}) {
        auto moved = x;
        moved[j] += step;
        if (moved[j] < 0) continue;
        EXPECT_GE(squares(rows, values, moved), least) << "trial " << trial;
      }
    }
  }
}

// --- fitting ----------------------------------------------------------------------------------------------

std::string iterations_file() { return source_path("scenarios/library/runs/vtrain_iterations.csv"); }
const Iterations& library_iterations() {
  static const Iterations kRows = read_iterations(iterations_file()).value();
  return kRows;
}

IterationCosts hidden_costs() {
  return {.source = "made up",
          .vocabulary = 1000,
          .layers = {{{.hidden = 64, .heads = 4, .sequence = 32, .tensor = 1, .micro_batch_size = 1},
                      {.layer_ns = 2'000'000, .ends_ns = 1'000'000}},
                     {{.hidden = 64, .heads = 4, .sequence = 32, .tensor = 1, .micro_batch_size = 2},
                      {.layer_ns = 3'000'000, .ends_ns = 1'500'000}},
                     // A second tensor degree is needed. Otherwise the numbers of parameters and layers would
                     // be proportional.
                     {{.hidden = 64, .heads = 4, .sequence = 32, .tensor = 4, .micro_batch_size = 1},
                      {.layer_ns = 800'000, .ends_ns = 300'000}}},
          .step = {.constant_ns = 700'000,
                   .layer_ns = 50'000,
                   .million_parameters_ns = 400'000,
                   .million_reduced_ns = {{64, 900'000}}}};
}

/// Returns iterations whose times are computed from these costs.
std::vector<Iteration> made_by(const IterationCosts& costs) {
  std::vector<Iteration> rows;
  for (const auto& [kind, times] : costs.layers) {
    for (const std::int64_t layers : {2, 4, 8}) {
      for (const std::int64_t microbatches : {1, 4}) {
        for (const std::int32_t data : {1, 2, 8}) {
          const double n =
              (64.0 * (1000 + 32) + static_cast<double>(layers) * (12 * 64 * 64 + 13 * 64)) / kind.tensor;
          const double ring = 2.0 * (data - 1) / data;
          const double ns =
              static_cast<double>(microbatches) *
                  (static_cast<double>(layers * times.layer_ns) + static_cast<double>(times.ends_ns)) +
              700e3 + static_cast<double>(layers) * 50e3 + n / 1e6 * (400e3 + ring * 900e3);
          rows.push_back({.kind = kind,
                          .layers = layers,
                          .data = data,
                          .microbatches = microbatches,
                          .seconds = ns * 1e-9,
                          .cells = {}});
        }
      }
    }
  }
  return rows;
}

TEST(FitIterations, FindsCostsAgain) {
  IterationCosts found = costs_of_iterations(made_by(hidden_costs()), 1000);
  found.source = "made up";
  const IterationCosts hidden = hidden_costs();
  for (const auto& [kind, times] : hidden.layers) {
    EXPECT_NEAR(static_cast<double>(found.layers.at(kind).layer_ns), static_cast<double>(times.layer_ns), 2);
    EXPECT_NEAR(static_cast<double>(found.layers.at(kind).ends_ns), static_cast<double>(times.ends_ns), 2);
  }
  EXPECT_NEAR(static_cast<double>(found.step.constant_ns), 700e3, 20);
  EXPECT_NEAR(static_cast<double>(found.step.layer_ns), 50e3, 20);
  EXPECT_NEAR(static_cast<double>(found.step.million_parameters_ns), 400e3, 200);
  EXPECT_NEAR(static_cast<double>(found.step.million_reduced_ns.at(64)), 900e3, 20);
}

// Costs are fitted only on rows with one stage. For pipelines, the engine predicts the rest.
TEST(FitIterations, RowsOfSeveralStagesAreWithinOneAndAHalfPercent) {
  const FitReport report = fit_iterations(library_iterations(), {.vocabulary = 51'200}).value();
  EXPECT_EQ(report.runs.rows.size(), 675U);
  EXPECT_EQ(report.constants, 69U);
  ASSERT_TRUE(report.held_out);
  EXPECT_EQ(report.held_out->rows, 330U);
  EXPECT_LT(report.held_out->mape, 0.0108);
  EXPECT_LT(report.left_out->mape, 0.005);
  EXPECT_TRUE(report.unpriced.empty());
}

// The NVLink of an A100 has 300 GB/s, of which three quarters are reached.
TEST(FitIterations, MessagesOverNvlinkBringFourStagesWithinOneAndAHalfPercent) {
  const FitReport report =
      fit_iterations(library_iterations(), {.vocabulary = 51'200, .link_bytes_per_second = 225e9}).value();
  EXPECT_LT(report.held_out->mape, 0.0105);
  for (const RunGroup& group : report.runs.groups) EXPECT_LT(group.mape, 0.015) << group.name;
}

// For one stage, the engine predicts the sum that was fitted. For 1F1B on K equal stages, it predicts the
// time of M + K - 1 microbatches on a stage.
TEST(FitIterations, PredictionsAreTheEngines) {
  IterationCosts costs = hidden_costs();
  for (auto& [kind, times] : costs.layers) times.ends_ns = 0;
  costs.step = {.million_reduced_ns = {{64, 0}}};
  Iterations rows{.file = "made up", .header = {}, .rows = {}};
  for (const std::int32_t stages : {1, 2, 4}) {
    rows.rows.push_back({.kind = costs.layers.begin()->first,
                         .layers = 8,
                         .stages = stages,
                         .microbatches = 6,
                         .seconds = (6.0 + stages - 1) * 8 / stages * 0.002,
                         .cells = {}});
  }
  const auto runs = runs_with(rows, std::make_shared<const IterationCosts>(costs));
  const RunsReport report = predict_iterations(runs, {true, false, false}).value();
  for (const PredictedRun& row : report.rows) EXPECT_NEAR(row.error, 0, 1e-9);
}

TEST(FitIterations, RowsOfNoOtherStageCannotBeFitted) {
  Iterations rows{.file = "a.csv", .header = {}, .rows = {made_by(hidden_costs()).front()}};
  rows.rows.front().stages = 2;
  EXPECT_EQ(fit_iterations(rows, {.vocabulary = 1000}).error(),
            "a.csv: expected rows of one stage, on which costs are fitted, got none");
}

TEST(FitIterations, ARowWhoseLayersNobodyMeasuredIsNamedAndNotGuessed) {
  Iterations rows{.file = "a.csv", .header = {}, .rows = made_by(hidden_costs())};
  Iteration other = rows.rows.front();
  other.kind.hidden = 128;
  other.stages = 2;
  other.line = 99;
  rows.rows.push_back(other);
  EXPECT_EQ(fit_iterations(rows, {.vocabulary = 1000})->unpriced, std::vector<std::size_t>{99});
}

// --- files ------------------------------------------------------------------------------------------------

/// Returns the error message for a file, without the file's name.
std::string fit_refusal(const std::string& text) {
  const ScratchFolder folder;
  const std::string file = folder.write("rows.csv", text);
  const auto read = read_iterations(file);
  return read ? "no error" : read.error().substr(file.size() + 1);
}

constexpr const char* kHeader =
    "devices,global_batch_size,micro_batch_size,hidden,heads,layers,sequence,tensor,data,stages,step_"
    "seconds\n";

TEST(Iterations, WrongRowsAreNamedByLineAndColumn) {
  const auto row = [](const std::string& cells) { return fit_refusal(kHeader + cells); };
  EXPECT_EQ(row("2,16,8,64,4,8,32,1,1,2,0.5\n"), "no error");
  EXPECT_EQ(row("2,16,8,64,4,8,32,1,1,2,0\n"),
            "2: step_seconds: expected a number above 0 and up to 1000000, got \"0\"");
  // This number of nanoseconds does not fit in an integer.
  EXPECT_EQ(row("2,16,8,64,4,8,32,1,1,2,1e10\n"),
            "2: step_seconds: expected a number above 0 and up to 1000000, got \"1e10\"");
  EXPECT_EQ(row("2,16,8,x,4,8,32,1,1,2,0.5\n"),
            "2: hidden: expected a whole number from 1 to 1048576, got \"x\"");
  EXPECT_EQ(row("2,15,8,64,4,8,32,1,1,2,0.5\n"),
            "2: global_batch_size: expected a multiple of micro_batch_size x data = 8, got 15");
  EXPECT_EQ(row("2,16,8,64,4,7,32,1,1,2,0.5\n"), "2: layers: expected a multiple of stages = 2, got 7");
  EXPECT_EQ(row("3,16,8,64,4,8,32,1,1,2,0.5\n"), "2: devices: expected tensor x data x stages = 2, got 3");
  EXPECT_EQ(row("2,16,8\n"), "2: expected 11 cells as in the first row, got 3");
  EXPECT_EQ(fit_refusal("a,b\n1,2\n"),
            "1: expected a column \"global_batch_size\" (or \"global batch\"), got a, b");
  EXPECT_EQ(fit_refusal(kHeader), " expected names of columns and rows below them, got 1 rows");
}

// The file has vTrain's names, milliseconds, and a header that begins with '#'.
TEST(Iterations, NamesOfVTrainAreRead) {
  const Iteration& first = library_iterations().rows.front();
  EXPECT_EQ(first.kind,
            (FittedLayer{.hidden = 1024, .heads = 16, .sequence = 1024, .tensor = 1, .micro_batch_size = 8}));
  EXPECT_EQ(first.stages, 2);
  EXPECT_EQ(first.microbatches, 2);
  EXPECT_NEAR(first.seconds, 0.372160408, 1e-12);
}

TEST(IterationCosts, WhatIsWrittenIsWhatIsRead) {
  const ScratchFolder folder;
  const std::string file = folder.write("costs.json", iteration_costs_to_json(hidden_costs()));
  EXPECT_EQ(load_iteration_costs(file, file).value(), hidden_costs());
}

// If a scenario names the file of costs, simulate_scenario() gives the same time as the costs of the fit.
TEST(IterationCosts, AScenarioTakesThem) {
  const ScratchFolder folder;
  const std::string file = folder.write("costs.json", iteration_costs_to_json(hidden_costs()));
  const auto scenario = parse_scenario("model: {fitted: " + file +
                                           ", hidden: 64, heads: 4, layers: 8, sequence: 32}\n"
                                           "parallel: {data: 2}\n"
                                           "schedule: {name: 1f1b, stages: 2}\n"
                                           "training: {micro_batch_size: 2, global_batch_size: 16}\n",
                                       "a.yaml", "");
  ASSERT_TRUE(scenario) << scenario.error();
  const Result result = simulate_scenario(*scenario, {}).value();
  // There are 4 microbatches. The last stage, with 4 layers and the head, is the busiest. The first stage
  // adds one microbatch for filling and draining.
  const Ns stage = Ns{4} * 3'000'000;
  const Ns last = stage + 1'500'000;
  const ModelPartSize first_part{.layers = 4, .has_embedding = true};
  const ModelPartSize last_part{.layers = 4, .has_head = true};
  const FittedLayer kind{.hidden = 64, .heads = 4, .sequence = 32, .tensor = 1, .micro_batch_size = 2};
  const Ns step = std::max(step_ns(hidden_costs(), kind, first_part, 2) + stage - stage / 3,
                           step_ns(hidden_costs(), kind, last_part, 2));
  EXPECT_EQ(result.makespan_ns, stage / 3 + 4 * last + step);
  EXPECT_NEAR(result.throughput.samples, 16, 1e-9);
}

TEST(IterationCosts, WhatIsMissingIsNamed) {
  const auto refused = [](const std::string& model) {
    const auto scenario =
        parse_scenario("model: " + model, "a.yaml", source_path("tests/scenarios/must_fail"));
    return scenario ? "no error" : scenario.error();
  };
  EXPECT_EQ(refused("{fitted: none.json, hidden: 64, heads: 4, layers: 8, sequence: 32}"),
            "a.yaml:1:17: model.fitted: none.json: the file does not exist");
  EXPECT_TRUE(refused("{fitted: none.json, hidden: 64, heads: 4, layers: 8}")
                  .starts_with("a.yaml:1:8: model.sequence: expected a whole number, got nothing\n"));
}

}  // namespace
}  // namespace penstock
