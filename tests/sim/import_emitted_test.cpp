// Tests that import is the inverse of emission. A plan is written as the arguments of a launcher and read
// back from them. It must then take exactly the same time.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "scenarios/import/importers.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/launchers.hpp"
#include "sim/choose/tuning_space.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/tune_request.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

/// A model of the tests on 16 devices, and the file with its sizes.
struct EmittedModel {
  std::string_view scenario;
  std::string_view config;
  std::int64_t layers = 0;
};

constexpr EmittedModel kLlama{.scenario =
                                  "model: {huggingface: llama-3.1-70b.json, sequence: 4096, layers: 8}\n"
                                  "cluster: {device: h100-sxm, nodes: 2}\n",
                              .config = "llama-3.1-70b.json",
                              .layers = 8};
constexpr EmittedModel kMixtral{.scenario =
                                    "model: {huggingface: mixtral-8x22b.json, sequence: 4096, layers: 6}\n"
                                    "cluster: {device: h100-sxm, nodes: 2}\n",
                                .config = "mixtral-8x22b.json",
                                .layers = 6};

constexpr std::int64_t kGlobalBatch = 32;

/// Returns changes of the scenario that do not concern the degrees of parallelism. Each change is applied to
/// about a third of the plans.
std::vector<std::function<void(TuneRequest&, Workload&)>> changes() {
  return {[](TuneRequest&, Workload& work) { work.parallel.sequence_parallel = false; },
          [](TuneRequest&, Workload& work) { work.parallel.tensor_overlap = false; },
          [](TuneRequest&, Workload& work) { work.parallel.data_overlap = false; },
          [](TuneRequest&, Workload& work) { work.parallel.bucket_size = 1'000'000; },
          [](TuneRequest&, Workload& work) { work.gradient_bytes = 2; },
          [](TuneRequest&, Workload& work) { work.precision = GemmPrecision::fp8; },
          [](TuneRequest&, Workload& work) { work.deferred_head = true; },
          [](TuneRequest&, Workload& work) { work.framework = Framework::torchtitan; },
          [](TuneRequest&, Workload& work) { work.parallel.expert_dispatch = ExpertDispatch::deepep; },
          [](TuneRequest& request, Workload& work) {
            request.base.optimizer = Optimizer::momentum;
            work.optimizer_bytes = 8;
          }};
}

/// Returns the plan with a list of layers in place of the balanced layers. Each stage has one layer, and the
/// last stage has the remaining ones.
TuneRequest with_rest_at_the_end(const TuneRequest& request, const Configuration& of, std::int64_t layers) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(of.stages) * of.virtual_stages, 1);
  if (static_cast<std::int64_t>(counts.size()) > layers) counts.front() = 0;
  counts.back() = layers - std::accumulate(counts.begin(), counts.end() - 1, std::int64_t{0});
  return with_layers(request, of, counts);
}

/// Returns the predicted time of the plan that the importer reads from the arguments.
std::int64_t imported_ns(const std::string& arguments, const EmittedModel& model) {
  const auto imported =
      import_configuration({.inputs = {{.name = "emitted", .text = arguments}},
                            .device = "h100-sxm",
                            .model = source_path("tests/scenarios/configs/" + std::string(model.config)),
                            .layers = model.layers});
  if (!imported) {
    ADD_FAILURE() << imported.error() << "\n" << arguments;
    return -1;
  }
  const auto scenario = parse_scenario(imported->yaml, "imported.yaml", "");
  if (!scenario) {
    ADD_FAILURE() << scenario.error() << "\n" << imported->yaml;
    return -1;
  }
  SimulateOptions options;
  options.steady = SteadyState::skip;
  const auto result = simulate_scenario(*scenario, options);
  if (!result) {
    ADD_FAILURE() << result.error().message << "\n" << imported->yaml;
    return -1;
  }
  return result->makespan_ns;
}

/// The argument that names a separate file with the order of a plan.
constexpr std::string_view kCsvArgument = "schedule_csv schedule.csv";

/// Returns the compute actions of the scenario's schedule as a file that torchtitan reads.
std::string csv_of(const Scenario& scenario) {
  const auto experiment = prepare(scenario, ProgramForm::lists);
  return experiment ? to_pytorch_csv(experiment->program).value() : experiment.error().message;
}

/// Emits, imports and simulates random plans of a model, until `wanted` plans have been compared.
void expect_inverse(Launcher launcher, const EmittedModel& model, std::size_t wanted) {
  TuneRequest usual = tune_request(model.scenario, kGlobalBatch);
  usual.launcher = launcher;
  const std::vector<Configuration> space = tuning_space(usual).value();
  std::mt19937 random(1);
  const ScratchFolder folder;
  std::size_t compared = 0;
  std::size_t with_csv = 0;
  for (std::size_t tries = 0; compared < wanted && tries < 100 * wanted; ++tries) {
    TuneRequest request = usual;
    const Configuration of = space[random() % space.size()];
    for (const auto& change : changes()) {
      if (random() % 3 == 0) change(request, std::get<DeviceModel>(request.base.model).work);
    }
    request = with_rest_at_the_end(request, of, model.layers);
    Workload work = model_of(request).work;
    set_choices(work, of);
    if (!beyond_launcher(launcher, {.request = request, .of = of, .work = work}).empty()) continue;
    std::string arguments = launch_arguments(launcher, request, of);
    if (const auto at = arguments.find(kCsvArgument); at != std::string::npos) {
      const auto file = folder.write("schedule.csv", csv_of(scenario_of(request, of)));
      arguments.replace(at, kCsvArgument.size(), "schedule_csv " + file.string());
      ++with_csv;
    }
    ++compared;
    EXPECT_EQ(imported_ns(arguments, model), simulated_configuration(request, of).makespan_ns) << arguments;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(compared, wanted);
  EXPECT_EQ(with_csv > 0, launcher == Launcher::torchtitan) << "orders in a separate file";
}

TEST(EmittedPlans, OfMegatronTakeTheSameTimeWhenImported) { expect_inverse(Launcher::megatron, kLlama, 80); }

TEST(EmittedPlans, OfMegatronWithExpertsTakeTheSameTimeWhenImported) {
  expect_inverse(Launcher::megatron, kMixtral, 40);
}

TEST(EmittedPlans, OfTorchtitanTakeTheSameTimeWhenImported) {
  expect_inverse(Launcher::torchtitan, kLlama, 80);
}

TEST(EmittedPlans, OfTorchtitanWithExpertsTakeTheSameTimeWhenImported) {
  expect_inverse(Launcher::torchtitan, kMixtral, 40);
}

}  // namespace
}  // namespace penstock
