// What rank 0 believes of the processes that share a sweep with it: points of their shares, each once. Three
// processes share a grid of seven points, of which the third is known from before:
//
//   point     0  1  2  3  4  5  6
//   process   0  1  2  0  1  2  0
//                   known

#include "cli/commands/sweep_shares.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/process_group.hpp"
#include "report/result/sweep_table.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t kLongestLine = 2'000;

/// As the processes tell it.
std::string line_of(std::size_t number) {
  SweepPoint point;
  point.row.schedule = "1f1b";
  point.row.stages = 2;
  point.row.micro_batch_size = 1;
  point.row.global_batch_size = 1;
  point.row.samples_per_update = 1;
  return sweep_point_json(number, point);
}

class TellingSweepShares : public testing::Test {
 protected:
  void say(int rank, const std::string& text) {
    shares_.take({.rank = rank, .what = Heard::What::said, .text = text}, is_interrupted_);
  }
  void happens(int rank, Heard::What what) { shares_.take({.rank = rank, .what = what}, is_interrupted_); }

  std::string loss() const { return shares_.loss().value_or("nobody"); }

  std::vector<std::size_t> taken_{};
  bool is_interrupted_ = false;
  SweepShares shares_{3,
                      {false, false, true, false, false, false, false},
                      [this](std::size_t number, const SweepPoint&) { taken_.push_back(number); },
                      kLongestLine};
};

TEST_F(TellingSweepShares, PointsComeInPortionsAndAllAreDone) {
  const std::string lines = line_of(1) + line_of(4);
  for (std::size_t at = 0; at < lines.size(); at += 100) say(1, "r" + lines.substr(at, 100));
  say(1, "d");
  EXPECT_FALSE(shares_.all_done());
  say(2, "r" + line_of(5));
  say(2, "d");
  EXPECT_TRUE(shares_.all_done());
  EXPECT_THAT(taken_, ElementsAre(1, 4, 5));
  EXPECT_EQ(loss(), "nobody");
}

TEST_F(TellingSweepShares, WhatIsNotOfTheShareIsNotTaken) {
  for (const auto& [number, why] : {std::pair<std::size_t, std::string_view>{5, "another's"},
                                    {0, "rank 0's"},
                                    {2, "known"},
                                    {7, "behind the grid"},
                                    {std::size_t{1} << 62, "far behind it"}}) {
    SweepShares shares(3, {false, false, true, false, false, false, false},
                       [&](std::size_t, const SweepPoint&) { ADD_FAILURE() << why; });
    shares.take({.rank = number == 2 ? 2 : 1, .text = "r" + line_of(number)}, false);
    EXPECT_THAT(shares.loss().value_or("nobody"),
                HasSubstr("has sent point " + std::to_string(number) + ", which is none of its own"));
  }
}

TEST_F(TellingSweepShares, APointThatComesTwiceIsTakenOnce) {
  say(1, "r" + line_of(4) + line_of(4));
  EXPECT_THAT(taken_, ElementsAre(4));
  EXPECT_EQ(loss(),
            "process 1 of 3 has sent point 4, which is none of its own: 1 of its 2 points are missing");
}

TEST_F(TellingSweepShares, ALineThatIsNoPointLosesItsSender) {
  say(2, "r{\"point\":5}\n");
  EXPECT_THAT(taken_, IsEmpty());
  EXPECT_THAT(loss(), HasSubstr("process 2 of 3 has sent no point ("));
}

TEST_F(TellingSweepShares, AFigureThatCannotBeLosesItsSender) {
  std::string line = line_of(5);
  const std::string update = "\"samples_per_update\":1.0";
  line.replace(line.find(update), update.size(), "\"samples_per_update\":-1.0");
  say(2, "r" + line);
  EXPECT_THAT(taken_, IsEmpty());
  EXPECT_THAT(loss(), HasSubstr("samples_per_update: expected a number above 0, got -1.0"));
}

TEST_F(TellingSweepShares, ALineWithoutEndIsNotHeld) {
  for (std::size_t said = 0; said <= kLongestLine; said += 500) {
    EXPECT_EQ(loss(), "nobody") << said;
    say(1, "r" + std::string(500, ' '));
  }
  EXPECT_THAT(loss(), HasSubstr("process 1 of 3 has sent a line that is longer than any of a point"));
}

TEST_F(TellingSweepShares, NobodyIsDoneWhosePointsAreMissing) {
  say(1, "r" + line_of(1));
  say(1, "d");
  EXPECT_EQ(loss(), "process 1 of 3 says that it is done: 1 of its 2 points are missing");
}

TEST_F(TellingSweepShares, AWordThatNobodyKnowsLosesItsSender) {
  for (const std::string& text : {std::string(), std::string("e"), std::string("x"), std::string(1, '\0')}) {
    SweepShares shares(2, {false, false}, [](std::size_t, const SweepPoint&) {});
    shares.take({.rank = 1, .text = text}, false);
    EXPECT_EQ(shares.loss().value_or("nobody"),
              "process 1 of 2 has sent what nobody says who shares a sweep: 1 of its 1 points are missing");
  }
}

TEST_F(TellingSweepShares, WhoEndsOrIsSilentBeforeAllIsToldIsLost) {
  say(1, "r" + line_of(1) + line_of(4));
  say(1, "d");
  happens(1, Heard::What::ended);
  EXPECT_EQ(loss(), "nobody") << "it has told all";
  happens(2, Heard::What::silent);
  EXPECT_EQ(loss(), "process 2 of 3 has been silent for 20 s: 1 of its 1 points are missing");
  EXPECT_TRUE(shares_.all_gone());
}

TEST_F(TellingSweepShares, WhoEndsSinceAllShallIsNot) {
  shares_.let_all_end();
  happens(1, Heard::What::ended);
  say(2, "b");
  EXPECT_EQ(loss(), "nobody");
  EXPECT_TRUE(shares_.all_gone());
}

TEST_F(TellingSweepShares, AnInterruptOfOneLosesItAndOneOfAllNobody) {
  is_interrupted_ = true;
  say(1, "i");
  EXPECT_EQ(loss(), "nobody");
  is_interrupted_ = false;
  say(2, "i");
  EXPECT_EQ(loss(), "process 2 of 3 was interrupted: 1 of its 1 points are missing");
  EXPECT_TRUE(shares_.all_gone());
}

}  // namespace
}  // namespace penstock
