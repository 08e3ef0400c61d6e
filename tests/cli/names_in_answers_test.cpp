// Names that are commands to a spreadsheet, or no text at all: tables show them as text, and JSON stays JSON.

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/commands/tune_answer.hpp"
#include "cli/commands/tune_json.hpp"
#include "report/compare/compare.hpp"
#include "report/result/result.hpp"
#include "report/result/result_csv.hpp"
#include "report/result/sweep_table.hpp"
#include "sim/tuning/tune.hpp"
#include "tests/cli/transcript.hpp"
#include "tests/schedules/text_files.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

constexpr std::string_view kFormula = "=HYPERLINK(1)";
constexpr std::string_view kNoUtf8 = "a\xff";
constexpr std::string_view kShown = "a\uFFFD";

/// By a line's number and a field's in it, none of which holds a comma.
std::string field_of(const std::string& csv, int line, int field) {
  std::istringstream lines(csv);
  std::string text;
  for (int i = 0; i <= line; ++i) std::getline(lines, text);
  std::istringstream fields(text);
  for (int i = 0; i <= field; ++i) std::getline(fields, text, ',');
  return text;
}

/// With one candidate.
TuneAnswer tuned(std::string_view schedule) {
  TuneAnswer answer;
  answer.report.candidates.resize(1);
  answer.report.candidates.front().configuration.schedule = schedule;
  return answer;
}

TEST(NamesInTables, AreNoFormulasOfRanks) {
  Result result;
  result.ranks.resize(1);
  result.ranks.front().device = kFormula;
  EXPECT_EQ(field_of(ranks_to_csv(result), 1, 1), "'=HYPERLINK(1)");
}

TEST(NamesInTables, AreNoFormulasOfASweep) {
  Sweep sweep;
  sweep.rows.resize(1);
  sweep.rows.front().schedule = kFormula;
  sweep.rows.front().status = SweepStatus::skipped;
  sweep.rows.front().reason = "@SUM(1) is no scenario";
  const std::string csv = sweep_csv(sweep);
  EXPECT_EQ(field_of(csv, 1, 0), "'=HYPERLINK(1)");
  EXPECT_THAT(csv, HasSubstr(",'@SUM(1) is no scenario,"));
}

TEST(NamesInTables, AreNoFormulasOfATuning) {
  const std::string csv = tune_csv(tuned(kFormula));
  EXPECT_THAT(csv, HasSubstr(",'=HYPERLINK(1),"));
  EXPECT_THAT(csv, Not(HasSubstr(",=")));
}

void expect_json_that_shows_it(const std::string& text, std::string_view what) {
  EXPECT_TRUE(nlohmann::json::accept(text)) << what;
  EXPECT_THAT(text, HasSubstr(std::string(kShown))) << what;
}

TEST(NamesInJson, ThatAreNoUtf8AreReplacedByTune) {
  TuneAnswer in_note = tuned("1f1b");
  in_note.report.notes.emplace_back(kNoUtf8);
  TuneAnswer in_launch = tuned("1f1b");
  in_launch.launch = kNoUtf8;
  for (const TuneAnswer& answer : {in_note, in_launch, tuned(kNoUtf8)})
    expect_json_that_shows_it(tune_json(answer), "tune");
}

TEST(NamesInJson, ThatAreNoUtf8AreReplacedByCompare) {
  Comparison comparison;
  comparison.schedule = kNoUtf8;
  expect_json_that_shows_it(comparison_to_json(comparison), "one");
  expect_json_that_shows_it(comparisons_to_json({comparison}, {}), "several");
  Ranking ranking;
  ranking.runs.push_back({.name = std::string(kNoUtf8)});
  expect_json_that_shows_it(comparisons_to_json({}, ranking), "a ranking");
}

TEST(NamesInJson, ThatAreNoUtf8AreReplacedByCommands) {
  const ScratchFolder folder;
  folder.write("a\xff.yaml", "schedule: {name: 1f1b, stages: 2, microbatches: 4}\n");
  // A measured step whose id is no text, of a model that is there.
  std::string steps = test::text_of(source_path("scenarios/library/runs/training_steps.csv"));
  const std::string models = source_path("scenarios/library/models");
  const std::size_t second = steps.find('\n') + 1;
  steps.erase(steps.find('\n', second) + 1);
  steps.replace(second, steps.find(',', second) - second, kNoUtf8);
  steps.replace(steps.find("../models"), std::string_view("../models").size(), models);
  folder.write("steps.csv", steps);
  for (const std::string command :
       {"simulate a*.yaml", "sweep a*.yaml --schedule 1f1b,gpipe", "runs steps.csv"}) {
    EXPECT_EQ(outcome_of("penstock " + command + " --quiet --json > answer", folder.path()), "");
    expect_json_that_shows_it(test::text_of(folder.path() / "answer"), command);
  }
  // Neither has a name in its answer, whatever the files are called.
  EXPECT_EQ(
      outcome_of("penstock simulate a*.yaml --quiet -o $(printf 'p\\377.json') > /dev/null; penstock run "
                 "a*.yaml --repeats 1 --quiet -o $(printf 'm\\377.json') > /dev/null; penstock compare "
                 "p*.json m*.json --tolerance 100 --bubble-tolerance 1 --json > compared; penstock diff "
                 "a*.yaml a*.yaml --json > differs",
                 folder.path()),
      "");
  for (const char* const file : {"compared", "differs"})
    EXPECT_TRUE(nlohmann::json::accept(test::text_of(folder.path() / file))) << file;
}

}  // namespace
}  // namespace penstock
