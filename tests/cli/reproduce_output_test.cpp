// The answer of `penstock reproduce`: what is published, predicted, how far apart, and the verdict.

#include "cli/commands/reproduce_output.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/published/reproduce.hpp"

namespace penstock {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

const Reproduction kExperiment{.name = "table-9", .source = "a paper", .setting = "free links"};

/// One experiment with one figure.
std::vector<Reproduced> with(const ReproducedFigure& figure) { return {{kExperiment, {figure}}}; }

TEST(ReproduceOutput, SaysTheErrorInPercentOfThePublishedFigure) {
  const auto all = with(within(0.2, "speed", 4, 4.5));
  EXPECT_THAT(reproductions_to_text(all), ContainsRegex("speed +4.0000 +4.5000 +\\+12.50 % +holds"));
  EXPECT_THAT(reproductions_to_markdown(all), HasSubstr("| speed | 4.0000 | 4.5000 | +12.50 % | holds |"));
  const auto figure = nlohmann::json::parse(reproductions_to_json(all))["experiments"][0]["figures"][0];
  EXPECT_DOUBLE_EQ(figure["relative_error"].get<double>(), 0.125);
}

TEST(ReproduceOutput, GivesBoundsASignedErrorToo) {
  EXPECT_THAT(reproductions_to_markdown(with(at_least("gain", 2, 3))), HasSubstr("| +50.00 % | holds |"));
  EXPECT_THAT(reproductions_to_markdown(with(at_most("memory", 2, 1))), HasSubstr("| -50.00 % | better |"));
}

// Columns that have no room beside each other stand below each other, with the name of the row in front.
TEST(ReproduceOutput, KeepsToTheWidthOfATerminal) {
  const auto all = with(within(0.2, "speed", 4, 4.5));
  EXPECT_THAT(reproductions_to_text(all), HasSubstr("figure  published  predicted     error  verdict\n"));
  EXPECT_THAT(reproductions_to_text(all, 30), HasSubstr("figure  published  predicted\n"));
  EXPECT_THAT(reproductions_to_text(all, 30), HasSubstr("figure     error  verdict\n"));
}

TEST(ReproduceOutput, LeavesTheSignOutWhereItWouldSayNothing) {
  EXPECT_THAT(reproductions_to_markdown(with(within(1e-3, "time", 4, 4 - 1e-12))), HasSubstr("| 0.00 % |"));
}

TEST(ReproduceOutput, SaysMissedBeyondTheTolerance) {
  const auto all = with(within(0.1, "speed", 4, 5));
  EXPECT_FALSE(all[0].holds());
  EXPECT_THAT(reproductions_to_text(all), HasSubstr("MISSED"));
  EXPECT_THAT(reproductions_to_text(all), HasSubstr("0 of 1 figures that are tested hold; 0 published ones"));
  EXPECT_THAT(reproductions_to_markdown(all), HasSubstr("| a paper | 1 | 0 | 0 | 0 | 0 | 0 |"));
  EXPECT_FALSE(nlohmann::json::parse(reproductions_to_json(all))["experiments"][0]["holds"].get<bool>());
}

TEST(ReproduceOutput, CountsNoFigureThatIsOnlyShown) {
  const auto all = with(shown("samples/s", 7));
  EXPECT_TRUE(all[0].holds());
  EXPECT_THAT(reproductions_to_markdown(all), HasSubstr("| samples/s | - | 7.0000 | - | ours |"));
  EXPECT_THAT(reproductions_to_text(all), HasSubstr("0 of 0 figures that are tested hold"));
  const auto figure = nlohmann::json::parse(reproductions_to_json(all))["experiments"][0]["figures"][0];
  EXPECT_TRUE(figure["published"].is_null());
  EXPECT_TRUE(figure["relative_error"].is_null());
  EXPECT_EQ(figure["claim"], "none");
  EXPECT_EQ(figure["class"], "scale");
  EXPECT_FALSE(figure["tested"].get<bool>());
  EXPECT_TRUE(nlohmann::json::parse(reproductions_to_json(all))["experiments"][0]["holds"].is_null());
  EXPECT_TRUE(figure["holds"].is_null()) << "what was not tested does not hold either";
}

TEST(ReproduceOutput, NamesAMisprintBesideItsError) {
  const auto all = with(untested("growth", 25, 22, "misprint"));
  EXPECT_THAT(reproductions_to_markdown(all),
              HasSubstr("| growth (misprint) | 25.0000 | 22.0000 | -12.00 % | missed |"));
  EXPECT_EQ(nlohmann::json::parse(reproductions_to_json(all))["experiments"][0]["figures"][0]["class"],
            "missed");
}

// A direction has no published number: nobody printed 1.
TEST(ReproduceOutput, ADirectionIsHeldButHasNoPublishedFigure) {
  const auto all = with(no_less("gain", 1.5));
  EXPECT_THAT(reproductions_to_markdown(all), HasSubstr("| gain | - | 1.5000 | - | direction |"));
  const auto figure = nlohmann::json::parse(reproductions_to_json(all))["experiments"][0]["figures"][0];
  EXPECT_EQ(figure["class"], "direction");
  EXPECT_TRUE(figure["published"].is_null());
  EXPECT_TRUE(figure["holds"].is_null());
  EXPECT_TRUE(figure["direction"]["as_claimed"].get<bool>());
  EXPECT_THAT(reproductions_to_text(with(no_less("gain", 0.9))), HasSubstr("REVERSED"));
  EXPECT_FALSE(with(no_more("bytes", 1.1))[0].holds());
}

}  // namespace
}  // namespace penstock
