// Tests how a sweep chooses the best points, and its text, CSV and JSON.

#include "report/result/sweep_table.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/report/sample_result.hpp"

namespace penstock {
namespace {

using Json = nlohmann::json;

/// Returns line `number` of the text, counted from 0.
std::string line_of(const std::string& text, int number) {
  std::istringstream lines(text);
  std::string line;
  for (int i = 0; i <= number; ++i) std::getline(lines, line);
  return line;
}

TEST(Sweep, TheBestFitsAndHasTheHighestRate) {
  const auto best = best_per_schedule(sample::small_sweep());
  ASSERT_EQ(best.size(), 2U);
  EXPECT_EQ(best[0].schedule, "gpipe");
  EXPECT_EQ(best[0].stages, 1);
  EXPECT_EQ(best[0].microbatches, 1);  // the point with M = 4 is equally fast but comes later
  EXPECT_EQ(best[1].stages, 2);
}

TEST(Sweep, TheSteadyRateRanksBeforeThatOfTheRun) {
  Sweep sweep = sample::small_sweep();
  sweep.rows[1].throughput.steady_samples_per_second = 1e6;
  EXPECT_EQ(best_per_schedule(sweep)[0], sweep.rows[1]);
  sweep.rows[1].status = SweepStatus::out_of_memory;
  EXPECT_EQ(best_per_schedule(sweep)[0], sweep.rows[0]);
}

TEST(Sweep, ARowWithoutASteadyRateNeverBeatsOneWithIt) {
  Sweep sweep = sample::small_sweep();
  sweep.rows[0].throughput.samples_per_second = 1e6;
  sweep.rows[6].throughput.steady_samples_per_second = 1;
  EXPECT_EQ(best_per_schedule(sweep)[0], sweep.rows[6]);
  EXPECT_TRUE(ranks_above(sweep.rows[6], sweep.rows[0]));
  EXPECT_FALSE(ranks_above(sweep.rows[0], sweep.rows[6]));
}

TEST(Sweep, AScheduleThatNeverFitsHasNoBest) {
  Sweep sweep = sample::small_sweep();
  for (SweepRow& row : sweep.rows) row.status = SweepStatus::out_of_memory;
  EXPECT_TRUE(best_per_schedule(sweep).empty());
  EXPECT_NE(sweep_table(sweep).find("\nno configuration ran and fits into memory\n"), std::string::npos);
}

TEST(SweepTable, IsAsWrittenHere) {
  Sweep sweep = sample::small_sweep();
  sweep.rows.resize(5);
  sweep.notes = {"times scale linearly"};
  EXPECT_EQ(
      sweep_table(sweep),
      "small\n"
      "\n"
      "schedule  K  v  M  micro batch  samples/update  makespan   bubble  closed form  samples/s  steady /s  "
      "peak memory  status\n"
      "gpipe     1  1  1            1               1  3.000 ms   0.00 %       0.00 %    333.333             "
      "  "
      " 1.00 GiB  ok\n"
      "gpipe     2  1  1            1               1  6.000 ms  50.00 %      50.00 %    166.667             "
      "  "
      " 1.00 GiB  ok\n"
      "gpipe     3  1  1                            1                                                        "
      "  "
      "           skipped: 3 stages need 3 devices, there are 2\n"
      "1f1b      1  1  1            1               1  3.000 ms   0.00 %                 333.333             "
      "  "
      " 1.00 GiB  out of memory: rank 0\n"
      "1f1b      2  1  1            1               1  6.000 ms  50.00 %                 166.667    333.333  "
      "  "
      " 1.00 GiB  ok\n"
      "\n"
      "best of each schedule by steady samples/s (by those of the run where there is no steady figure)\n"
      "schedule  K  v  M  micro batch  samples/update  makespan   bubble  closed form  samples/s  steady /s  "
      "peak memory  status\n"
      "gpipe     1  1  1            1               1  3.000 ms   0.00 %       0.00 %    333.333             "
      "  "
      " 1.00 GiB  ok\n"
      "1f1b      2  1  1            1               1  6.000 ms  50.00 %                 166.667    333.333  "
      "  "
      " 1.00 GiB  ok\n"
      "\n"
      "note: times scale linearly\n");
}

TEST(SweepCsv, HasALineARowAndEmptyFieldsForWhatWasNotRun) {
  const std::string csv = sweep_csv(sample::small_sweep());
  EXPECT_EQ(line_of(csv, 0),
            "schedule,stages,virtual_stages,microbatches,micro_batch_size,global_batch_size,status,reason,"
            "makespan_ns,"
            "idle_over_total,idle_over_ideal,longest_span_rate,closed_form_bubble,samples_per_second,"
            "steady_samples_per_second,samples_per_update,peak_bytes,peak_rank,cost_per_million_samples");
  EXPECT_EQ(line_of(csv, 2),
            "gpipe,2,1,1,1,1,ok,,6000000,0.5,1,0.25,0.5,166.66666666666666,,1,1073741824,0,");
  EXPECT_EQ(line_of(csv, 3), "gpipe,3,1,1,,1,skipped,\"3 stages need 3 devices, there are 2\",,,,,,,,,,,");
  EXPECT_EQ(line_of(csv, 5),
            "1f1b,2,1,1,1,1,ok,,6000000,0.5,1,0.25,,166.66666666666666,333.3333333333333,1,1073741824,0,");
}

TEST(SweepJson, HasTheColumnsOfTheCsvAsKeys) {
  const Json document = Json::parse(sweep_json(sample::small_sweep()));
  EXPECT_EQ(document["kind"], "sweep");
  EXPECT_EQ(document["rows"].size(), 10U);
  EXPECT_EQ(document["best"][1]["stages"], 2);
  EXPECT_EQ(document["rows"][1]["idle_over_total"], 0.5);
  EXPECT_TRUE(document["rows"][2]["makespan_ns"].is_null());
  EXPECT_EQ(document["rows"][3]["status"], "out_of_memory");
  EXPECT_EQ(document["rows"][3]["makespan_ns"], 3'000'000);
}

TEST(SweepJson, NeverHasNan) {
  Sweep sweep = sample::small_sweep();
  sweep.rows[0].throughput.samples_per_second = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(Json::parse(sweep_json(sweep))["rows"][0]["samples_per_second"].is_null());
  EXPECT_NE(line_of(sweep_csv(sweep), 1).find(",0.25,0,,,1,"), std::string::npos);
}

/// Returns why a row of small_sweep() is refused if `key` has this value, or an empty text if it is accepted.
std::string refusal_of(std::size_t row, const std::string& key, const Json& value) {
  SweepPoint point{.row = sample::small_sweep().rows.at(row), .notes = {}};
  if (was_simulated(point.row)) point.row.throughput.model.emplace();
  Json line = Json::parse(sweep_point_json(0, point));
  line["row"][key] = value;
  const auto read = sweep_point_of_json(line.dump());
  return read ? "" : read.error();
}

struct Figure {
  std::string key;
  std::vector<Json> possible;
  std::vector<Json> impossible;
  std::string expected;
};

TEST(SweepPoint, FiguresThatNoSimulationHasAreRefused) {
  const std::string part = "a part in [0, 1]";
  const std::string amount = "a number of at least 0";
  const std::string samples = "a number above 0";
  const std::string size = "an integer from 1 to 2147483647";
  for (const Figure& figure : {Figure{"stages", {1}, {0, -1, 1.5}, size},
                               {"virtual_stages", {1}, {0, -1}, size},
                               {"microbatches", {1}, {0, -1}, size},
                               {"micro_batch_size", {0.5, 3}, {0, -1.0, nullptr}, samples},
                               {"global_batch_size", {0.5, 3}, {0, -1.0, nullptr}, samples},
                               {"makespan_ns", {0}, {-1, 0.5}, "an integer from 0 to 9223372036854775807"},
                               {"idle_over_total", {0, 1}, {-0.5, 1.5, nullptr, "nan"}, part},
                               {"idle_over_ideal", {0, 7.5}, {-0.5, nullptr}, amount},
                               {"longest_span_rate", {0, 1}, {-0.5, 1.5, nullptr}, part},
                               {"closed_form_bubble", {0, 1, nullptr}, {-0.5, 1.5, "none"}, part},
                               {"samples_per_second", {0, 1e9}, {-0.5, nullptr}, amount},
                               {"steady_samples_per_second", {0, 1e9, nullptr}, {-0.5, true}, amount},
                               {"samples_per_update", {0.5, 3}, {0, -1.0, nullptr}, samples},
                               {"peak_bytes", {0}, {-1}, "an integer from 0 to 9223372036854775807"},
                               {"peak_rank", {0}, {-1}, "an integer from 0 to 2147483647"},
                               {"cost_per_million_samples", {0, 1e9, nullptr}, {-0.5}, amount},
                               {"tokens_per_second", {0, 1e9}, {-0.5, nullptr}, amount},
                               {"tokens_per_second_per_device", {0, 1e9}, {-0.5, nullptr}, amount},
                               {"model_flops_per_second_per_device", {0, 1e15}, {-0.5, nullptr}, amount},
                               {"mfu", {0, 0.4}, {-0.5, nullptr}, amount}}) {
    for (const Json& value : figure.possible) EXPECT_EQ(refusal_of(0, figure.key, value), "") << value;
    for (const Json& value : figure.impossible) {
      EXPECT_EQ(refusal_of(0, figure.key, value), "expected a point of a sweep: " + figure.key +
                                                      ": expected " + figure.expected + ", got " +
                                                      value.dump());
    }
  }
}

// The sizes of a skipped point are stored as the user gave them, because they may be the reason why it was
// skipped.
TEST(SweepPoint, ARowWithoutFiguresHasNoneToRefuse) {
  constexpr std::size_t kSkipped = 2;
  for (const char* const key : {"makespan_ns", "idle_over_total", "samples_per_second", "peak_bytes"})
    EXPECT_EQ(refusal_of(kSkipped, key, nullptr), "") << key;
  EXPECT_EQ(refusal_of(kSkipped, "micro_batch_size", nullptr), "");
  EXPECT_EQ(refusal_of(kSkipped, "microbatches", 0), "");
  EXPECT_EQ(refusal_of(kSkipped, "global_batch_size", 0),
            "expected a point of a sweep: global_batch_size: expected a number above 0, got 0");
}

}  // namespace
}  // namespace penstock
