// The page of all figures, made of the rows in report/result/figure_rows.cpp. PENSTOCK_UPDATE_GOLDENS=1
// writes it.

#include "report/result/figure_rows.hpp"

#include <algorithm>
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
#include "report/result/result.hpp"
#include "report/result/result_csv.hpp"
#include "report/result/result_figures.hpp"
#include "report/result/result_invariants.hpp"
#include "report/result/result_json.hpp"
#include "report/result/sweep_table.hpp"
#include "tests/report/sample_result.hpp"
#include "tests/report/sample_sweep.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

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
  // Measured times may be off by what clocks are apart.
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
