// Tests claims that a configuration is faster than a measured run: the gain, the part of the step from which
// it comes, and whether the claim is believable.

#include "sim/choose/tune_questions.hpp"

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/read/document.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/hold/run_accuracy.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

/// Returns two configurations of one job. The second one is faster.
MeasuredRuns two_runs() {
  constexpr const char* kRows =
      "id,source,model,device,precision,devices,tensor,stages,micro_batch_size,microbatches,sequence,layers,"
      "schedule,"
      "recompute,step_seconds\n"
      "pipeline,us,llama-3.1-70b,b200-sxm,bf16,8,1,2,1,4,4096,12,1f1b,none,0.843\n"
      "tensor,us,llama-3.1-70b,b200-sxm,bf16,8,4,1,1,8,4096,12,1f1b,none,0.41\n";
  return parse_measured_runs(kRows, "runs.csv",
                             [](const std::string& model) {
                               return read_text_file(
                                   source_path("scenarios/library/models/" + model + ".json"), model);
                             })
      .value();
}

double sum_of_parts(const StepSeconds& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

TEST(BestClaims, GiveTheSavingOfEachPart) {
  const MeasuredRuns runs = two_runs();
  const auto rows = against_best(runs.runs).value();
  const auto claims = best_claims(runs, predict_runs(runs, nullptr, {}).value(), rows).value();
  ASSERT_EQ(claims.size(), 2U);
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const BestClaim& claim = claims[i];
    ASSERT_TRUE(rows[i].best) << rows[i].id;
    EXPECT_NEAR(sum_of_parts(claim.own), static_cast<double>(rows[i].step_ns) * 1e-9, 1e-8);
    EXPECT_NEAR(sum_of_parts(claim.best), static_cast<double>(rows[i].best_ns) * 1e-9, 1e-8);
    const auto through = static_cast<std::size_t>(claim.through);
    for (std::size_t part = 0; part < kStepParts; ++part)
      EXPECT_GE(claim.own[through] - claim.best[through], claim.own[part] - claim.best[part]);
  }
  EXPECT_FALSE(claims[0].is_best_measured);
  EXPECT_EQ(claims[0].note, "") << "the other run of the job is faster";
  EXPECT_TRUE(claims[1].is_best_measured);
  EXPECT_EQ(claims[1].note.empty(), rows[1].longer() <= kClaimToJustify);
}

TEST(BestClaims, AClaimWithoutPairsOrBeyondMeasuredChoicesIsNotBelievable) {
  MeasuredRuns runs = two_runs();
  runs.runs.erase(runs.runs.begin() + 1);
  const auto rows = against_best(runs.runs).value();
  ASSERT_GT(rows[0].longer(), kClaimToJustify);
  const BestClaim claim = best_claims(runs, predict_runs(runs, nullptr, {}).value(), rows).value().front();
  EXPECT_TRUE(claim.is_best_measured) << "no other run of its job";
  EXPECT_FALSE(claim.is_believable);
  EXPECT_THAT(claim.note, HasSubstr("not believable: no pair of configurations of one job was measured"));
  EXPECT_THAT(claim.note, HasSubstr("nobody measured its "));
}

TEST(BestClaims, ASearchThatRunsOutOfTimeSaysSo) {
  const MeasuredRuns runs = two_runs();
  const auto rows = against_best(runs.runs, {}, 1e-9).value();
  for (const AgainstBest& row : rows) {
    EXPECT_TRUE(row.stopped);
    EXPECT_LE(row.best_ns, row.step_ns);
  }
  EXPECT_TRUE(best_claims(runs, predict_runs(runs, nullptr, {}).value(), rows));
}

}  // namespace
}  // namespace penstock
