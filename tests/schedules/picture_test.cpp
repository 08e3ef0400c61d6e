// Golden pictures: what each generator makes is what the top of its file shows.

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/generators.hpp"
#include "tests/schedules/picture.hpp"

namespace penstock {
namespace {

struct Golden {
  const char* schedule;
  const char* file;
  Shape shape;
  std::vector<std::string> rows;
};

const std::vector<Golden>& goldens() {
  static const std::vector<Golden> all = {
      {"naive",
       "naive.cpp",
       {.stages = 3, .microbatches = 2},
       {"rank 0   F0             B0 F1             B1", "rank 1      F0       B0       F1       B1",
        "rank 2         F0 B0             F1 B1"}},
      {"gpipe",
       "gpipe.cpp",
       {.stages = 3, .microbatches = 4},
       {"rank 0   F0 F1 F2 F3             B0 B1 B2 B3", "rank 1      F0 F1 F2 F3       B0 B1 B2 B3",
        "rank 2         F0 F1 F2 F3 B0 B1 B2 B3"}},
      {"1f1b",
       "one_f_one_b.cpp",
       {.stages = 3, .microbatches = 4},
       {"rank 0   F0 F1 F2       B0 F3 B1    B2    B3", "rank 1      F0 F1    B0 F2 B1 F3 B2    B3",
        "rank 2         F0 B0 F1 B1 F2 B2 F3 B3"}},
      {"1f1b-rr",
       "one_f_one_b_rr.cpp",
       {.stages = 3, .microbatches = 5},
       {"rank 0   F0 F1 F2       B0 F3 B1 F4 B2    B3    B4",
        "rank 1      F0 F1    B0 F2 B1 F3 B2 F4 B3    B4", "rank 2         F0 B0 F1 B1 F2 B2 F3 B3 F4 B4"}},
      {"interleaved",
       "interleaved.cpp",
       {.stages = 2, .microbatches = 2, .virtual_stages = 2},
       {"rank 0   0F0 0F1 2F0 2F1     2B0     2B1 0B0 0B1", "rank 1       1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1"}},
      {"zb-h1",
       "zb_h1.cpp",
       {.stages = 3, .microbatches = 4},
       {"rank 0   F0 F1 F2       I0 W0 F3 I1 W1 I2 W2 I3 W3",
        "rank 1      F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3",
        "rank 2         F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3"}},
      {"data-parallel",
       "data_parallel.cpp",
       {.stages = 2, .microbatches = 2},
       {"rank 0   F0 F0 B0 B0", "rank 1   F1 F1 B1 B1"}},
  };
  return all;
}

TEST(Picture, EveryScheduleHasOne) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    EXPECT_TRUE(std::ranges::any_of(goldens(), [&](const Golden& g) { return g.schedule == schedule.name; }))
        << schedule.name;
  }
}

TEST(Picture, IsWhatTheGeneratorMakes) {
  for (const Golden& golden : goldens()) {
    const auto program = generate(golden.schedule, golden.shape);
    ASSERT_TRUE(program) << program.error();
    EXPECT_EQ(picture(*program), golden.rows) << golden.schedule;
  }
}

TEST(Picture, StandsAtTheTopOfTheGeneratorsFile) {
  for (const Golden& golden : goldens()) {
    if (std::string(golden.schedule) == "data-parallel") continue;  // shows its reductions, too
    std::ifstream file(std::string(PENSTOCK_SOURCE_DIR "/schedules/") + golden.file);
    std::stringstream text;
    text << file.rdbuf();
    for (const std::string& row : golden.rows)
      EXPECT_THAT(text.str(), testing::HasSubstr("//   " + row + "\n")) << golden.file;
  }
}

}  // namespace
}  // namespace penstock
