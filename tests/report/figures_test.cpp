// Tests the tables and the CSV of one result. The second part tests the page of all figures, which is made
// from the rows in report/result/figure_rows.cpp. PENSTOCK_UPDATE_GOLDENS=1 writes this page.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/print/memory_category.hpp"
#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/result/result_json.hpp"
#include "report/result/sweep_table.hpp"
#include "schedules/ir/cost_table.hpp"
#include "tests/report/sample_result.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

/// Returns the result of the pipeline that sample_result.cpp draws, unless the test gives another shape.
Result figures_sample(const sample::Shape& shape = {.ranks = 2, .microbatches = 2}) {
  return sample::result_of(sample::timeline_of(sample::one_f_one_b(shape), shape), shape);
}

TEST(ResultTable, SaysEverythingInReadableUnits) {
  Result result = figures_sample();
  result.ranks[0].memory.capacity = Bytes{10} << 30;
  EXPECT_EQ(
      result_to_table(result),
      "scenario    vgg16.yaml\n"
      "schedule    1f1b, K = 2 (2 stages), M = 2, 2 iterations\n"
      "result      measured by cpu-thread, channel model pair, blocking transfers, capacity 2, eager below "
      "4.00 KiB\n"
      "makespan    9.000 ms\n"
      "bubble      33.33 % of the total, 50.00 % of the ideal, 12.50 % of the longest span\n"
      "throughput  888.889 samples/s over the run, 333.333 samples/s steady\n"
      "samples     8, 4 per update\n"
      "sent        512.00 MiB, 64.00 MiB per sample\n"
      "digest      00c0ffee\n"
      "\n"
      "rank  device      busy      idle  exposed comm            peak memory  live act.  weight versions"
      "        sent    received\n"
      "   0  H100-0  6.000 ms  3.000 ms    750.000 us  10.25 GiB > 10.00 GiB          2                1"
      "  256.00 MiB  255.00 MiB\n"
      "   1  H100-1  6.000 ms  3.000 ms    750.000 us               9.62 GiB          1                1"
      "  256.00 MiB  255.00 MiB\n"
      "\n"
      "peak of each kind of memory\n"
      "rank   weights  optimizer state  activations\n"
      "   0  3.00 GiB         6.00 GiB     1.25 GiB\n"
      "   1  3.00 GiB         6.00 GiB   640.00 MiB\n"
      "\n"
      "link       bytes  per sample\n"
      "0>1   256.00 MiB   32.00 MiB\n"
      "1>2   192.00 MiB   24.00 MiB\n"
      "\n"
      "out of memory: rank 0 (H100-0) needs 10.25 GiB and has 10.00 GiB; the peak is reached at 1.000 "
      "ms in 0F1\n"
      "\n"
      "note: the profile was taken at one batch size\n");
}

TEST(ResultTable, LeavesOutWhatIsNotThere) {
  Result result;
  result.program.schedule = "gpipe";
  EXPECT_EQ(result_to_table(result),
            "schedule    gpipe, K = 0 (0 stages), M = 0, 1 iteration\n"
            "result      predicted\n"
            "makespan    0 ns\n"
            "bubble      0.00 % of the total, 0.00 % of the ideal, 0.00 % of the longest span\n"
            "throughput  0.00000 samples/s over the run\n"
            "samples     0, 0 per update\n"
            "sent        0 B\n");
}

TEST(ResultTable, NamesKTheStagesOfThePipelineWhateverTheRanksHold) {
  Result result = figures_sample();
  const auto shape = [&](std::int32_t ranks, std::int32_t stages) {
    result.program.ranks = ranks;
    result.program.stages = stages;
    const std::string figure = headlines(result)[1].figure;
    return figure.substr(0, figure.find(", M"));
  };
  EXPECT_EQ(shape(3, 2), "1f1b, K = 2 stages on 3 ranks");  // with replicas
  EXPECT_EQ(shape(2, 1), "1f1b, K = 1 stage on 2 ranks");
  EXPECT_EQ(shape(4, 4), "1f1b, K = 4 (4 stages)");
  EXPECT_EQ(shape(4, 8), "1f1b, K = 4 (8 stages)");  // two stages on a rank
  result.program.pipeline_size = 4;
  EXPECT_EQ(shape(16, 4), "1f1b, K = 4 stages on 16 ranks");  // with copies of the pipeline
  EXPECT_EQ(shape(16, 32), "1f1b, K = 4 (32 stages) on 16 ranks");
}

TEST(ResultTable, LeavesTheOutOfMemorySentencesToOthersButMarksTheRank) {
  Result result = figures_sample();
  result.ranks[0].memory.capacity = Bytes{10} << 30;
  const std::string table = result_to_table(result, {.out_of_memory = OutOfMemoryLines::left_out});
  EXPECT_EQ(table.find("out of memory"), std::string::npos);
  EXPECT_NE(table.find("10.25 GiB > 10.00 GiB"), std::string::npos);
  EXPECT_EQ(rank_figures(result).rows[0][5].value, 10.25 * (1 << 30));
}

TEST(ResultTable, WhatIsReservedIsNotUsable) {
  Result result = figures_sample();
  RankMemory& memory = result.ranks[0].memory;
  memory.capacity = Bytes{11} << 30;
  EXPECT_FALSE(memory.out_of_memory());
  EXPECT_EQ(result_to_table(result).find("usable"), std::string::npos) << "nothing is reserved";
  memory.reserved = Bytes{1} << 30;
  EXPECT_TRUE(memory.out_of_memory());
  EXPECT_EQ(memory.lacking(), Bytes{256} << 20);
  const std::string table = result_to_table(result);
  EXPECT_NE(table.find("memory      10.2 of 10.0 GiB usable on rank 0"), std::string::npos) << table;
  EXPECT_NE(table.find("10.25 GiB > 10.00 GiB"), std::string::npos);
  EXPECT_NE(table.find("needs 10.25 GiB and has 10.00 GiB usable of 11.00 GiB"), std::string::npos);
}

TEST(ResultTable, CountedActivationsAreNoBytes) {
  Result result = figures_sample();
  RankMemory& memory = result.ranks[0].memory;
  memory.unit = MemoryUnit::activations;
  memory.peak_bytes = 8 * kActivationParts;
  EXPECT_EQ(rank_figures(result).rows[0][5].text, "8 activations");
  EXPECT_EQ(rank_figures(result).rows[0][5].value, 8);
  memory.capacity = kActivationParts;
  EXPECT_EQ(
      out_of_memory_lines(result).front(),
      "rank 0 (H100-0) needs 8 activations and has 1 activation; the peak is reached at 1.000 ms in 0F1");
}

TEST(ResultTable, HasNoDeviceColumnWithoutDevices) {
  Result result = figures_sample();
  for (RankReport& rank : result.ranks) rank.device.clear();
  EXPECT_EQ(rank_figures(result).columns[1], "busy");
  result.ranks[1].device = "A100";
  EXPECT_EQ(rank_figures(result).columns[1], "device");
  EXPECT_EQ(rank_figures(result).rows[0][1].text, "");
}

TEST(ResultFigures, APeakFromTheStartHasNoAction) {
  Result result = figures_sample();
  RankMemory& memory = result.ranks[1].memory;
  memory.capacity = 1;
  memory.peak_action.clear();
  EXPECT_EQ(out_of_memory_lines(result).back(),
            "rank 1 (H100-1) needs 9.62 GiB and has 1 B; the peak is reached from the start");
}

TEST(ResultFigures, ExactlyFullIsNotOutOfMemory) {
  Result result = figures_sample();
  for (RankReport& rank : result.ranks) rank.memory.capacity = rank.memory.peak_bytes;
  EXPECT_TRUE(out_of_memory_lines(result).empty());
}

TEST(Table, NumbersAreFlushRightAndTextFlushLeft) {
  const Table table = {
      .columns = {"name", "n"},
      .rows = {{{"a", std::nullopt}, {"100", 100}}, {{"long name", std::nullopt}, {"", std::nullopt}}}};
  EXPECT_EQ(table_to_text(table), "name         n\na          100\nlong name\n");
}

TEST(Table, ColumnsThatDoNotFitFollowBelowBesideTheFirstOne) {
  const Table table = {.columns = {"rank", "busy", "idle", "peak"},
                       .rows = {{{"0", 0}, {"1 ms", 1}, {"2 ms", 2}, {"3 GiB", 3}},
                                {{"1", 1}, {"4 ms", 4}, {"5 ms", 5}, {"6 GiB", 6}}}};
  EXPECT_EQ(table_to_text(table, 16),
            "rank  busy  idle\n   0  1 ms  2 ms\n   1  4 ms  5 ms\n\n"
            "rank   peak\n   0  3 GiB\n   1  6 GiB\n");
  EXPECT_EQ(table_to_text(table, 100), table_to_text(table));
  EXPECT_EQ(table_to_text(table, 1),
            "rank  busy\n   0  1 ms\n   1  4 ms\n\nrank  idle\n   0  2 ms\n   1  5 ms\n\n"
            "rank   peak\n   0  3 GiB\n   1  6 GiB\n")
      << "one column beside the first always has room";
}

TEST(Table, AllKeyColumnsStandInEveryPartOfATableThatIsFolded) {
  const Table table = {.columns = {"schedule", "K", "M", "busy", "idle"},
                       .rows = {{{"1f1b", {}}, {"4", 4}, {"8", 8}, {"1 ms", 1}, {"2 ms", 2}},
                                {{"1f1b", {}}, {"4", 4}, {"9", 9}, {"3 ms", 3}, {"4 ms", 4}}},
                       .keys = 3};
  EXPECT_EQ(table_to_text(table, 24),
            "schedule  K  M  busy\n"
            "1f1b      4  8  1 ms\n"
            "1f1b      4  9  3 ms\n\n"
            "schedule  K  M  idle\n"
            "1f1b      4  8  2 ms\n"
            "1f1b      4  9  4 ms\n");
}

TEST(Table, KeysThatLeaveNoRoomGiveWayToTheFirstThatTellRowsApart) {
  const Table table = {.columns = {"#", "schedule", "layers", "time"},
                       .rows = {{{"1", 1}, {"1f1b", {}}, {"even", {}}, {"1 ms", 1}},
                                {{"2", 2}, {"1f1b", {}}, {"even", {}}, {"2 ms", 2}}},
                       .keys = 3};
  EXPECT_EQ(table_to_text(table, 20),
            "#  schedule  layers\n"
            "1  1f1b      even\n"
            "2  1f1b      even\n\n"
            "#  time\n"
            "1  1 ms\n"
            "2  2 ms\n");
}

TEST(Table, ANameEndsNoLine) {
  const Table table = {.columns = {"name", "n"},
                       .rows = {{{"a\nb\x1b[8m", std::nullopt}, {"1", 1}}, {{"c", std::nullopt}, {"2", 2}}}};
  EXPECT_EQ(table_to_text(table),
            "name           n\n"
            "a\\x0ab\\x1b[8m  1\n"
            "c              2\n");
}

TEST(ResultTable, NamesEndNoLine) {
  Result result = figures_sample();
  const std::string before = result_to_table(result);
  result.scenario += "\nmakespan    1 ns";
  result.ranks.front().device += "\n0";
  result.notes.emplace_back("one\ntwo");
  const std::string text = result_to_table(result);
  const auto lines = [](const std::string& of) { return std::ranges::count(of, '\n'); };
  EXPECT_EQ(lines(text), lines(before) + (figures_sample().notes.empty() ? 2 : 1)) << text;
}

TEST(Table, HtmlIsEscapedAndCarriesTheSortingValue) {
  // The script sorts by a text that shows the value with a unit. Other values are attributes.
  const Table table = {.columns = {"a<b", "c"},
                       .rows = {{{"1.00 KiB", 1024}, {"two", 2}}, {{"0.000 ms", 4}, {"12.50 %", 0.125}}}};
  EXPECT_EQ(table_to_html(table),
            "<table class=\"figures r1 r2\">\n<thead><tr><th class=\"number\">a&lt;b</th><th "
            "class=\"number\">c</th></tr></thead>\n<tbody>\n"
            "<tr><td>1.00 KiB</td><td data-value=\"2\">two</td></tr>\n"
            "<tr><td data-value=\"4\">0.000 ms</td><td>12.50 %</td></tr>\n</tbody>\n</table>\n");
}

TEST(ResultCsv, HasALineASpan) {
  Timeline timeline = {1, 5, {}};
  timeline.spans = {
      sample::span_of(0, {.kind = ActionKind::forward, .stage = 1, .microbatch = 2, .weight_version = 3}, 0,
                      5),
      sample::span_of(0, {.kind = ActionKind::step, .stage = 1}, 5, 5)};
  const auto csv_of = [](const Timeline& shown) {
    return whole_text([&](const TextSink& sink) { write_timeline_csv(shown, sink); });
  };
  EXPECT_EQ(csv_of(timeline),
            "rank,action,stage,microbatch,replica,weight_version,start_ns,end_ns\n"
            "0,1F2,1,2,0,3,0,5\n"
            "0,1STEP,1,,0,0,5,5\n");
  EXPECT_EQ(csv_of({}), "rank,action,stage,microbatch,replica,weight_version,start_ns,end_ns\n");
}

TEST(ResultCsv, HasALineARank) {
  Result result = figures_sample();
  result.ranks.resize(1);
  result.ranks[0].device = "H100, \"big\"";
  result.ranks[0].memory.capacity.reset();
  EXPECT_EQ(
      ranks_to_csv(result),
      "rank,device,busy_ns,idle_ns,exposed_communication_ns,peak_bytes,peak_live_activations,weight_versions,"
      "sent_bytes,received_bytes,capacity_bytes,usable_bytes,out_of_memory,peak_weights,peak_weight_versions,"
      "peak_"
      "gradients,"
      "peak_optimizer_state,peak_activations,peak_send_buffers,peak_receive_buffers,peak_transient\n"
      "0,\"H100, \"\"big\"\"\",6000000,3000000,750000,11005853696,2,1,268435456,267386880,,,false,"
      "3221225472,0,0,6442450944,1342177280,0,0,0\n");
}

constexpr std::string_view kIntroduction = R"(# Figures of a result

`penstock simulate` and `run` print these figures. Keys are those of `--json` and of the CSV of ranks; times are whole
nanoseconds, bytes are whole numbers, and parts are fractions of 1. A figure that does not exist is null or absent.
)";

std::string unit_text(FigureUnit unit) {
  switch (unit) {
    case FigureUnit::nanoseconds:
      return "ns";
    case FigureUnit::bytes:
      return "bytes";
    case FigureUnit::memory:
      return "bytes, or activations without a model";
    case FigureUnit::count:
      return "number";
    case FigureUnit::part:
      return "part of 1";
    case FigureUnit::per_second:
      return "a second";
    case FigureUnit::flops:
      return "FLOP/s";
    case FigureUnit::money:
      return "the price's money";
  }
  return "";
}

std::string bound_text(FigureBound bound) {
  switch (bound) {
    case FigureBound::not_negative:
      return "0 or more";
    case FigureBound::within_run:
      return "0 to the makespan";
    case FigureBound::up_to_makespan:
      return "up to the makespan";
    case FigureBound::part:
      return "0 to 1";
    case FigureBound::part_if_predicted:
      return "0 to 1 if predicted";
  }
  return "";
}

std::string page() {
  std::string text(kIntroduction);
  text += "\n## Of the run\n\n| key | unit | range | meaning |\n|---|---|---|---|\n";
  for (const RunFigure& figure : figures_of_runs()) {
    text += fmt::format("| `{}.{}` | {} | {} | {} |\n", figure.section, figure.key, unit_text(figure.unit),
                        bound_text(figure.bound), figure.meaning);
  }
  text +=
      "\n## Of each rank\n\n| key in `ranks` | in tables | unit | range | meaning |\n|---|---|---|---|---|\n";
  for (const RankFigure& figure : figures_of_ranks()) {
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", figure.key, figure.title, unit_text(figure.unit),
                        bound_text(figure.bound), figure.meaning);
  }
  return text +
         fmt::format(
             "\n## Categories of memory\n\nKeys of `at_peak`, `peaks` and `samples` in the memory of a "
             "rank:\n\n* `{}`\n",
             fmt::join(words_of<MemoryCategory>(), "`\n* `"));
}

TEST(FigurePages, TheReferenceListsAllFigures) {
  const std::filesystem::path file = source_path("docs/reference/figures.md");
  if (std::getenv("PENSTOCK_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(file, std::ios::binary) << page();
    GTEST_SKIP() << file << " written";
  }
  std::ostringstream found;
  found << std::ifstream(file, std::ios::binary).rdbuf();
  EXPECT_EQ(found.str(), page()) << "PENSTOCK_UPDATE_GOLDENS=1 writes " << file;
}

TEST(FigureRows, EachFigureSaysItsMeaningInOneShortSentence) {
  for (const RunFigure& figure : figures_of_runs()) {
    EXPECT_TRUE(figure.meaning.ends_with('.')) << figure.key;
    EXPECT_LE(figure.meaning.size(), 160) << figure.key;
  }
  for (const RankFigure& figure : figures_of_ranks()) {
    EXPECT_TRUE(figure.meaning.ends_with('.')) << figure.key;
    EXPECT_LE(figure.meaning.size(), 160) << figure.key;
  }
}

TEST(FigureRows, AFigureOfARankStandsInEveryForm) {
  // Clocks of devices differ, so measured times may differ by this amount.
  Result result = sample::result_of(sample::pipeline({}), {});
  result.kind = ResultKind::predicted;
  const std::string json = result_to_json(result);
  const std::string csv = ranks_to_csv(result);
  const std::vector<std::string> columns = rank_figures(result).columns;
  for (const RankFigure& figure : figures_of_ranks()) {
    SCOPED_TRACE(figure.key);
    EXPECT_THAT(json, testing::HasSubstr(fmt::format("\"{}\": ", figure.key)));
    EXPECT_THAT(csv, testing::HasSubstr(fmt::format(",{},", figure.key)));
    EXPECT_THAT(columns, testing::Contains(figure.title));
    Result wrong = result;
    figure.set(wrong.ranks.front(), -1);
    const std::string prefix = fmt::format("ranks[0].{}: expected", figure.key);
    EXPECT_THAT(broken_invariant(wrong).value_or(""), testing::StartsWith(prefix));
  }
}

TEST(FigureRows, AFigureOfARunStandsInEveryForm) {
  Result result = sample::result_of(sample::pipeline({}), {});
  result.kind = ResultKind::predicted;
  Sweep sweep = sample::small_sweep();
  for (const RunFigure& figure : figures_of_runs()) {
    figure.set(result, 0.75);
    figure.set(sweep.rows.front(), 0.75);
  }
  const std::string json = result_to_json(result);
  const std::string csv = sweep_csv(sweep);
  const std::vector<std::string> columns = sweep_rows(sweep.rows).columns;
  const std::vector<Headline> lines = headlines(result);
  for (const RunFigure& figure : figures_of_runs()) {
    SCOPED_TRACE(figure.key);
    EXPECT_THAT(json, testing::HasSubstr(fmt::format("\"{}\": 0.75", figure.key)));
    const auto line = std::ranges::find(lines, figure.headline, &Headline::name);
    const std::string text = fmt::format(fmt::runtime(figure.text), run_cell(figure, 0.75).text);
    ASSERT_NE(line, lines.end());
    EXPECT_THAT(line->figure, testing::HasSubstr(text));
    if (figure.in_sweep) {
      EXPECT_THAT(csv, testing::HasSubstr(fmt::format(",{}", figure.key)));
    }
    if (!figure.column.empty()) {
      EXPECT_THAT(columns, testing::Contains(figure.column));
    }
    Result wrong = result;
    figure.set(wrong, -1);
    const std::string prefix = fmt::format("{}.{}: expected", figure.section, figure.key);
    EXPECT_THAT(broken_invariant(wrong).value_or(""), testing::StartsWith(prefix));
  }
}

TEST(FigureRows, EachRowWritesTheMemberThatItReads) {
  for (const RankFigure& figure : figures_of_ranks()) {
    RankReport rank;
    figure.set(rank, 7);
    EXPECT_EQ(figure.get(rank), 7) << figure.key;
    for (const RankFigure& other : figures_of_ranks()) {
      if (other.key == figure.key) continue;
      EXPECT_NE(other.get(rank), 7) << figure.key << " is " << other.key << ", too";
    }
  }
  for (const RunFigure& figure : figures_of_runs()) {
    Result result;
    figure.set(result, 0.75);
    EXPECT_EQ(figure.get(result), 0.75) << figure.key;
    for (const RunFigure& other : figures_of_runs()) {
      if (other.key == figure.key) continue;
      EXPECT_NE(other.get(result), 0.75) << figure.key << " is " << other.key << ", too";
    }
  }
}

}  // namespace
}  // namespace penstock
