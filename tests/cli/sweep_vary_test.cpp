// Tests `sweep --vary KEY=VALUE,VALUE...`, which gives any key of a scenario several values. Each point must
// have the figures of `simulate --set` with the same values.

#include <cstddef>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/commands/sweep_variants.hpp"
#include "tests/cli/transcript.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

constexpr const char* kVariedScenario =
    "model: {stages: {forward: 2 ms, backward: 4 ms, activation: 8 MB}}\n"
    "cluster: {preset: uniform, bandwidth: 8 GB/s}\n"
    "schedule: {name: 1f1b, stages: 2, microbatches: 4}\n";

class SweepVary : public testing::Test {
 protected:
  SweepVary() { folder_.write("two.yaml", kVariedScenario); }

  std::string outcome(const std::string& command) const { return outcome_of(command, folder_.path()); }
  Json json(const std::string& command) const { return Json::parse(outcome(command)); }
  void expect_error(const std::string& arguments, const std::string& message) const {
    const std::string printed = outcome("penstock sweep two.yaml " + arguments);
    EXPECT_THAT(printed, HasSubstr(message)) << arguments;
    EXPECT_THAT(printed, HasSubstr("[exit 2]")) << arguments;
  }

  ScratchFolder folder_;
};

TEST_F(SweepVary, EveryPointIsThePredictionWithItsValues) {
  const Json swept = json(
      "penstock sweep two.yaml --vary cluster.bandwidth='8 GB/s, 4 GB/s' --vary training.iterations=1,2 "
      "--schedule 1f1b,gpipe --json");
  ASSERT_EQ(swept["rows"].size(), 8U);
  std::vector<std::string> order;
  for (const Json& row : swept["rows"]) {
    const std::string bandwidth = row["cluster.bandwidth"];
    const std::string iterations = row["training.iterations"];
    const std::string schedule = row["schedule"];
    order.push_back(bandwidth + " " + iterations + " " + schedule);
    const Json alone =
        json("penstock simulate two.yaml --json --schedule " + schedule + " --set cluster.bandwidth='" +
             bandwidth + "' --set training.iterations=" + iterations);
    EXPECT_EQ(row["makespan_ns"], alone["makespan_ns"]) << order.back();
  }
  EXPECT_THAT(order, ElementsAre("8 GB/s 1 1f1b", "8 GB/s 1 gpipe", "8 GB/s 2 1f1b", "8 GB/s 2 gpipe",
                                 "4 GB/s 1 1f1b", "4 GB/s 1 gpipe", "4 GB/s 2 1f1b", "4 GB/s 2 gpipe"));
}

TEST_F(SweepVary, TheKeyIsAColumnOfTextCsvAndPage) {
  const std::string text =
      outcome("penstock sweep two.yaml --vary cluster.bandwidth=8GB/s,4GB/s -o bw.csv -o bw.html");
  EXPECT_THAT(text, HasSubstr("cluster.bandwidth  schedule  K  v  M"));
  EXPECT_THAT(text, HasSubstr("4GB/s              1f1b      2  1  4"));
  EXPECT_THAT(test::text_of(folder_.path() / "bw.csv"),
              HasSubstr("cluster.bandwidth,schedule,stages,virtual_stages"));
  EXPECT_THAT(test::text_of(folder_.path() / "bw.csv"), HasSubstr("\n4GB/s,1f1b,2,1,4,"));
  const std::string page = test::text_of(folder_.path() / "bw.html");
  // All points have M = 4, so the charts show the samples/s over the bandwidth.
  EXPECT_THAT(page, HasSubstr("cluster.bandwidth [GB/s]"));
  EXPECT_THAT(page, HasSubstr("<th>4GB/s</th><th>8GB/s</th>"));
  EXPECT_THAT(page, HasSubstr("1f1b with K = 2, b = 1, cluster.bandwidth = 8GB/s and M = 4"));
}

TEST_F(SweepVary, TheFlagsOfTheGridAreShortFormsOfTheirKeys) {
  EXPECT_EQ(outcome("penstock sweep two.yaml --vary schedule.stages=2..4 --vary schedule.microbatches=4,8 "
                    "--vary schedule.name=gpipe,1f1b --json"),
            outcome("penstock sweep two.yaml --pp-size 2..4 --num-microbatches 4,8 --schedule gpipe,1f1b "
                    "--json"));
  expect_error("--vary schedule.stages=2,4 --pp-size 2",
               "--vary schedule.stages and --pp-size give the same list");
  expect_error("--vary schedule.stages=two", "--vary schedule.stages \"two\": expected numbers");
}

// 8 samples are M = 4 microbatches of 2, or M = 8 of 1.
TEST_F(SweepVary, AVariedBatchSizeHoldsWhileMChanges) {
  const Json swept =
      json("penstock sweep two.yaml --vary training.global_batch_size=8,16 --num-microbatches 4,8 --json");
  std::vector<double> sizes;
  for (const Json& row : swept["rows"]) sizes.push_back(row["micro_batch_size"]);
  EXPECT_THAT(sizes, ElementsAre(2, 1, 4, 2));
}

TEST_F(SweepVary, AWrongKeyOrValueIsNamed) {
  expect_error("--vary cluster.bandwith=1GB/s",
               "--vary cluster.bandwith: unknown key; did you mean bandwidth");
  expect_error("--vary cluster.bandwidth=1GB/s,fast", "--vary cluster.bandwidth: expected");
  expect_error("--vary cluster.bandwidth=1GB/s,fast", "\"fast\"");
  expect_error("--vary cluster.bandwidth", "--vary: expected KEY=VALUE,VALUE...");
  expect_error("--vary cluster.bandwidth=1GB/s,", "--vary cluster.bandwidth: expected values with a comma");
  expect_error("--vary training.iterations=1 --vary training.iterations=2", "is given twice");
  expect_error("--vary training.iterations=1..5000 --vary training.micro_batch_size=1..5000",
               "have more than 100000 combinations");
}

// A prompt of 1000 tokens has no slices of 4096, but slices of equal time.
TEST_F(SweepVary, AnImpossibleCombinationIsASkippedPoint) {
  folder_.write("prompt.yaml",
                "model: {chunks: {prompt: 32768, fixed: 1 ms, per_token: 2 us}}\n"
                "schedule: {name: chunked-prefill, stages: 2, slices: 8}\n");
  const Json swept = json(
      "penstock sweep prompt.yaml --vary schedule.slice_tokens=equal-time,4096 --vary "
      "model.chunks.prompt=32768,1000 --json");
  ASSERT_EQ(swept["rows"].size(), 4U);
  for (const std::size_t possible : {0, 1, 2}) EXPECT_EQ(swept["rows"][possible]["status"], "ok");
  EXPECT_EQ(swept["rows"][3]["status"], "skipped");
  EXPECT_EQ(swept["rows"][3]["model.chunks.prompt"], "1000");
  EXPECT_THAT(swept["rows"][3]["reason"].get<std::string>(),
              HasSubstr("slices of 4096 tokens cut a sequence of 1000"));
}

TEST_F(SweepVary, ACommaInsideAListDoesNotDivideValues) {
  EXPECT_THAT(values_between_commas("[1 ms, 2 ms], {a: 1, b: 'x, y'} , 3 ms"),
              ElementsAre("[1 ms, 2 ms]", "{a: 1, b: 'x, y'}", "3 ms"));
  const Json swept =
      json("penstock sweep two.yaml --vary 'model.stages.forward=[2 ms, 2 ms],[1 ms, 3 ms]' --json");
  ASSERT_EQ(swept["rows"].size(), 2U);
  EXPECT_LT(swept["rows"][0]["makespan_ns"], swept["rows"][1]["makespan_ns"]);
}

TEST_F(SweepVary, GoesOnFromItsFileAndMergesItsShards) {
  const std::string sweep =
      "penstock sweep two.yaml --vary cluster.bandwidth=8GB/s,4GB/s --num-microbatches 2,4 --json";
  const std::string whole = outcome(sweep);
  EXPECT_EQ(outcome(sweep + " --resume kept"), whole);
  EXPECT_EQ(outcome(sweep + " --resume kept"), whole);
  EXPECT_EQ(outcome("penstock sweep --merge kept --json"), whole);
  EXPECT_THAT(outcome("penstock sweep two.yaml --vary cluster.bandwidth=8GB/s,2GB/s --num-microbatches 2,4 "
                      "--resume kept"),
              HasSubstr("the file is of another sweep"));
}

TEST_F(SweepVary, ForwardOnlyPointsHaveNoBackwards) {
  const Json swept = json("penstock sweep two.yaml --schedule 1f1b,zb-h1 --forward-only --json");
  EXPECT_EQ(swept["rows"][0]["makespan_ns"],
            json("penstock simulate two.yaml --forward-only --json")["makespan_ns"]);
  EXPECT_EQ(swept["rows"][1]["status"], "skipped");
  EXPECT_THAT(swept["rows"][1]["reason"].get<std::string>(), HasSubstr("forward"));
}

}  // namespace
}  // namespace penstock
