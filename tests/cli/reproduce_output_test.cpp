// Tests the answer of `penstock reproduce`: the published figure, the prediction, the error and the verdict.

#include "cli/measured/reproduce_command.hpp"

#include <cstddef>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/published/reproduce.hpp"

namespace penstock {
namespace {

using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;

const Reproduction kExperiment{.name = "table-9", .source = "a paper", .setting = "free links"};

/// Returns one experiment with this figure.
std::vector<Reproduced> with(const ReproducedFigure& figure) { return {{kExperiment, {figure}}}; }

nlohmann::json json_of(const std::vector<Reproduced>& all) {
  return nlohmann::json::parse(reproductions_to_json(all));
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.size() - 1;
  return text.substr(text.rfind('\n', end - 1) + 1, end - text.rfind('\n', end - 1) - 1);
}

TEST(ReproduceOutput, SaysClassToleranceErrorAndVerdict) {
  const auto all = with(equal(Tolerance::ratio, "speed", 4, 4.125));
  EXPECT_THAT(reproductions_to_text(all),
              ContainsRegex("speed +equal +4.0000 +5 % \\(ratio\\) +4.1250 +\\+3.12 % +yes"));
  EXPECT_THAT(reproductions_to_markdown(all),
              HasSubstr("| speed | equal | 4.0000 | 5 % (ratio) | 4.1250 | +3.12 % | yes |"));
  const auto figure = json_of(all)["figures"][0];
  EXPECT_EQ(figure["name"], "speed");
  EXPECT_EQ(figure["experiment"], "table-9");
  EXPECT_EQ(figure["class"], "equal");
  EXPECT_DOUBLE_EQ(figure["relative_error"].get<double>(), 0.03125);
  EXPECT_DOUBLE_EQ(figure["tolerance"].get<double>(), 0.2);
  EXPECT_TRUE(figure["holds"].get<bool>());
}

TEST(ReproduceOutput, SaysTheBoundAndNoTolerance) {
  EXPECT_THAT(reproductions_to_markdown(with(at_least("gain", 2, 3))),
              HasSubstr("| gain | bound | 2.0000 | at least 2 | 3.0000 | +50.00 % | yes |"));
  EXPECT_THAT(reproductions_to_markdown(with(with_decimals(4, at_most("rate", 0.1585, 0.1)))),
              HasSubstr("| at most 0.1585 + 0.00005 (rounding) |"));
  const auto figure = json_of(with(at_most("memory", 2, 1)))["figures"][0];
  EXPECT_EQ(figure["bound"]["side"], "at_most");
  EXPECT_EQ(figure["bound"]["value"], 2);
}

// Columns that do not fit side by side go below each other. Each part repeats the name of the row.
TEST(ReproduceOutput, KeepsToTheWidthOfATerminal) {
  const auto all = with(equal(Tolerance::ratio, "speed", 4, 4.1));
  EXPECT_THAT(reproductions_to_text(all),
              HasSubstr("figure  class  published  allowed      predicted    error  holds\n"));
  EXPECT_THAT(reproductions_to_text(all, 30), HasSubstr("figure  class  published\n"));
}

TEST(ReproduceOutput, LeavesTheSignOutWhereItWouldSayNothing) {
  EXPECT_THAT(reproductions_to_markdown(with(equal(Tolerance::ratio, "time", 4, 4 - 1e-12))),
              HasSubstr("| 0.00 % |"));
}

TEST(ReproduceOutput, EndsWithTheCountsAndTheMisses) {
  const std::vector<Reproduced> all = {
      {kExperiment,
       {equal(Tolerance::ratio, "speed", 4, 5), equal(Tolerance::ratio, "gain", 4, 4),
        missed(Tolerance::size, "growth", 25, 22, "misprint"), no_less("order", 1.5),
        formula("units", 24, 24), fitted("part", 5, 5, "fitted on it"), shown("samples/s", 7)}}};
  EXPECT_EQ(last_line(reproductions_to_text(all)),
            "predicted 1 of 3 printed figures within tolerance; 1 are bounds; 1 are closed forms; the misses "
            "are 2 of table-9");
  EXPECT_EQ(last_line(reproductions_overview(all)), last_line(reproductions_to_text(all)));
  EXPECT_THAT(reproductions_overview(all),
              HasSubstr("experiment  printed  within  bounds  closed forms  missed\n"
                        "table-9           3       1       1             1       2\n"));
  EXPECT_THAT(reproductions_overview(all), HasSubstr("table-9: speed"));
  EXPECT_THAT(reproductions_overview(all), testing::Not(HasSubstr("gain")));
  const auto summary = json_of(all)["summary"];
  EXPECT_EQ(summary["printed"], 3);
  EXPECT_EQ(summary["within"], 1);
  EXPECT_EQ(summary["bounds"], 1);
  EXPECT_EQ(summary["formulas"], 1);
  EXPECT_EQ(summary["missed"], 2);
  EXPECT_EQ(json_of(all)["figures"].size(), 5U);
  EXPECT_EQ(json_of(all)["context"].size(), 2U) << "what makes no claim is apart";
  EXPECT_FALSE(all[0].holds());
}

TEST(ReproduceOutput, SaysThatThereAreNoMisses) {
  EXPECT_THAT(last_line(reproductions_to_text(with(formula("units", 24, 24)))),
              EndsWith("0 of 0 printed figures within tolerance; 0 are bounds; 1 are closed forms; there are "
                       "no misses"));
}

TEST(ReproduceOutput, ListsEachMissWithItsExperiment) {
  EXPECT_THAT(
      reproductions_to_text(with(equal(Tolerance::ratio, "speed", 4, 5))),
      ContainsRegex("The misses:.*table-9: speed +equal +4.0000 +5 % \\(ratio\\) +5.0000 +\\+25.00 % +NO"));
}

// Otherwise a failed bound or a failed closed form could stay unseen.
TEST(ReproduceOutput, CountsABrokenBoundAndABrokenDrawingAsMisses) {
  for (const ReproducedFigure& figure : {no_less("gain", 0.9), formula("units", 24, 23)}) {
    EXPECT_FALSE(with(figure)[0].holds());
    EXPECT_THAT(last_line(reproductions_to_text(with(figure))), EndsWith("the misses are 1 of table-9"));
  }
}

TEST(ReproduceOutput, HoldsNoFigureThatIsOnlyShown) {
  const auto all = with(shown("samples/s", 7));
  EXPECT_TRUE(all[0].holds());
  EXPECT_THAT(reproductions_to_markdown(all), HasSubstr("| samples/s | ours | - | - | 7.0000 | - | - |"));
  const auto figure = json_of(all)["context"][0];
  EXPECT_TRUE(figure["published"].is_null());
  EXPECT_FALSE(figure.contains("holds")) << "it makes no claim";
}

TEST(ReproduceOutput, NamesAMisprintBesideItsError) {
  EXPECT_THAT(reproductions_to_markdown(with(missed(Tolerance::size, "growth", 25, 22, "misprint"))),
              HasSubstr("| growth (misprint) | missed | 25.0000 | 1 % (size) | 22.0000 | -12.00 % | NO |"));
}

}  // namespace
}  // namespace penstock
