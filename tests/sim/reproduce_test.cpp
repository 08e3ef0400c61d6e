// Every reproduction holds; and what does not hold is seen.

#include "sim/reproduce.hpp"

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Reproduce, EveryPublishedFigureHolds) {
  std::size_t figures = 0;
  for (const Reproduction& reproduction : reproduction_table()) {
    for (const ReproducedFigure& figure : reproduction.run()) {
      EXPECT_TRUE(figure.holds()) << reproduction.name << ": " << figure.what << ": published "
                                  << figure.published << ", predicted " << figure.predicted;
      ++figures;
    }
  }
  EXPECT_GE(figures, 120U);
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

}  // namespace
}  // namespace penstock
