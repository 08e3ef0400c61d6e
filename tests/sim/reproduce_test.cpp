// Every reproduction holds; and what does not hold is seen.

#include "sim/published/reproduce.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

struct Answer {
  std::string_view name;
  std::vector<ReproducedFigure> figures;
};

std::vector<Answer> answers() {
  std::vector<Answer> all;
  for (const Reproduction& reproduction : reproduction_table())
    all.push_back({reproduction.name, reproduction.run()});
  return all;
}

/// Every experiment with its figures; they are predicted once.
const std::vector<Answer>& all_answers() {
  static const std::vector<Answer> kAnswers = answers();
  return kAnswers;
}

TEST(Reproduce, EveryPublishedFigureHolds) {
  std::size_t tested = 0;
  for (const Answer& answer : all_answers()) {
    for (const ReproducedFigure& figure : answer.figures) {
      EXPECT_TRUE(figure.holds()) << answer.name << ": " << figure.what << ": published "
                                  << figure.published.value_or(0) << ", predicted " << figure.predicted;
      tested += figure.figure_class() == FigureClass::tested ? 1 : 0;
    }
  }
  EXPECT_GE(tested, 330U);
}

TEST(Reproduce, FiguresOfAnExperimentHaveDifferentNames) {
  for (const Answer& answer : all_answers()) {
    std::set<std::string> names;
    for (const ReproducedFigure& figure : answer.figures)
      EXPECT_TRUE(names.insert(figure.what).second) << figure.what;
  }
}

TEST(Reproduce, EveryTestedFigureFailsWhenItsPredictionMoves) {
  for (const Answer& answer : all_answers()) {
    for (ReproducedFigure figure : answer.figures) {
      if (figure.claim == Claim::none || figure.claim == Claim::fitted) continue;
      const double against = figure.bound ? *figure.bound : *figure.published;
      const double beyond = 1.01 * figure.tolerance + 1e-6 * std::abs(against) + 1e-12;
      figure.predicted = against + (figure.claim == Claim::at_least ? -beyond : beyond);
      EXPECT_FALSE(figure.holds()) << figure.what;
    }
  }
}

// A tolerance that is as wide as the figure tests nothing.
TEST(Reproduce, TolerancesAreASmallPartOfTheFigure) {
  for (const Answer& answer : all_answers()) {
    for (const ReproducedFigure& figure : answer.figures) {
      const double against = figure.bound ? *figure.bound : figure.published.value_or(0);
      EXPECT_LE(figure.tolerance, 0.15 * std::abs(against) + 1e-12) << figure.what;
    }
  }
}

TEST(Reproduce, EveryExperimentTestsSomethingAndSaysWhyAPrintedFigureIsNotTested) {
  for (const Answer& answer : all_answers()) {
    EXPECT_TRUE(std::ranges::any_of(answer.figures, [](const ReproducedFigure& figure) {
      return figure.figure_class() != FigureClass::scale;
    })) << answer.name;
    for (const ReproducedFigure& figure : answer.figures) {
      if (figure.claim == Claim::none && figure.published) {
        EXPECT_NE(figure.note, "") << figure.what;
      }
    }
  }
}

TEST(Reproduce, ADirectionHasABoundAndNoPublishedNumber) {
  for (const Answer& answer : all_answers()) {
    for (const ReproducedFigure& figure : answer.figures) {
      EXPECT_FALSE(figure.bound && figure.published) << figure.what;
      EXPECT_EQ(figure.figure_class() == FigureClass::direction, figure.bound.has_value()) << figure.what;
    }
  }
}

// No single part of the bandwidth explains PipeDream's table: what one was fitted on is never tested.
TEST(Reproduce, WhatAnEfficiencyWasFittedOnIsNotTested) {
  for (const ReproducedFigure& figure : reproduce_pipedream_table_1()) {
    if (figure.claim != Claim::fitted) continue;
    EXPECT_EQ(figure.figure_class(), FigureClass::fitted);
    EXPECT_NEAR(figure.predicted, *figure.published, 0.01) << figure.what;
  }
}

TEST(Reproduce, MeasuredStepsArePredictedWithConstantsOfOtherModels) {
  std::size_t tested = 0;
  for (const ReproducedFigure& figure : reproduce_measured_runs())
    tested += figure.figure_class() == FigureClass::tested ? 1 : 0;
  EXPECT_EQ(tested, 15U);
}

// 8 plain rows; links are free, and the optimizer is left out.
TEST(Reproduce, MeasuredStagesMakeTheMeasuredIteration) {
  const auto figures = reproduce_stage_times();
  ASSERT_EQ(figures.size(), 9U);
  EXPECT_LT(figures.back().predicted, 1.3) << figures.back().what;
}

TEST(Reproduce, NamesAreDifferent) {
  std::set<std::string_view> names;
  for (const Reproduction& reproduction : reproduction_table()) {
    EXPECT_TRUE(names.insert(reproduction.name).second) << reproduction.name;
  }
}

TEST(Reproduce, AFigureBeyondItsToleranceDoesNotHold) {
  ReproducedFigure figure{.what = "", .published = 1, .predicted = 1.2, .tolerance = 0.1};
  EXPECT_FALSE(figure.holds());
  figure.predicted = 0.5;
  EXPECT_FALSE(figure.holds());
  figure.claim = Claim::at_most;
  EXPECT_TRUE(figure.holds()) << "better than published";
  figure.claim = Claim::at_least;
  EXPECT_FALSE(figure.holds());
  figure.predicted = 5;
  EXPECT_TRUE(figure.holds()) << "a bound";
}

TEST(Reproduce, AFigureWithoutAClaimIsShownAndHolds) {
  EXPECT_TRUE(shown("", 7).holds());
  EXPECT_TRUE(untested("", 1, 7, "misprint").holds());
}

TEST(Reproduce, AClaimWithoutAPublishedFigureDoesNotHold) {
  EXPECT_FALSE((ReproducedFigure{.what = "", .predicted = 0}.holds()));
  EXPECT_FALSE((ReproducedFigure{.what = "", .predicted = 0, .claim = Claim::at_least}.holds()));
}

TEST(Reproduce, TheErrorIsRelativeToThePublishedFigureAndSigned) {
  EXPECT_DOUBLE_EQ(*within(0.5, "", 4, 5).relative_error(), 0.25);
  EXPECT_DOUBLE_EQ(*at_least("", 4, 3).relative_error(), -0.25);
  EXPECT_DOUBLE_EQ(*within(0.5, "", -4, -5).relative_error(), -0.25);
}

TEST(Reproduce, NothingPublishedOrZeroHasNoRelativeError) {
  EXPECT_FALSE(shown("", 5).relative_error());
  EXPECT_FALSE(within(0, "", 0, 5).relative_error());
}

}  // namespace
}  // namespace penstock
