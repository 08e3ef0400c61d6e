// Tests names that users choose. They may contain line breaks, colour codes, YAML syntax or formulas, or may
// not be valid text. An error message with such a name must stay one line, tables and JSON must stay valid,
// and files with such names must be found.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/commands/baseline_check.hpp"
#include "cli/commands/tune_answer.hpp"
#include "cli/flags.hpp"
#include "report/compare/compare.hpp"
#include "report/result/result.hpp"
#include "report/result/result_json.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/model/model.hpp"
#include "sim/choose/tune.hpp"
#include "sim/hold/baseline.hpp"
#include "tests/cli/transcript.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(TypedNames, AreShownWhereverAMessageRepeatsThem) {
  const std::array<const char*, 4> arguments = {"penstock", "simulate", "--set=a\x1b[8m=b", "d\nx/s.yaml"};
  EXPECT_EQ(with_names_shown("d\nx/s.yaml:1: a\x1b[8m\nand d\nx/other.yaml", arguments),
            "d\\x0ax/s.yaml:1: a\\x1b[8m\nand d\\x0ax/other.yaml");
  EXPECT_EQ(with_names_shown("two\nlines\twith a tab", arguments), "two\nlines\twith a tab");
  EXPECT_EQ(with_names_shown("nothing", {}), "nothing");
}

class OddNames : public testing::Test {
 protected:
  OddNames() { std::filesystem::create_directory(folder_.path() / kName); }
  /// Runs `command` in a shell where $odd is the folder with the odd name.
  std::string outcome(const std::string& command) const {
    return outcome_of("odd=$(printf 'a: #\\n\\033[31mb'); " + command, folder_.path());
  }
  void write(const std::string& file, const std::string& content) const {
    folder_.write(std::string(kName) + "/" + file, content);
  }

  static constexpr const char* kName = "a: #\n\x1b[31mb";
  ScratchFolder folder_;
};

TEST_F(OddNames, EndNoLineOfAMessage) {
  write("bad.yaml", "model: {stages: {forward: oops}}");
  write("bad.csv", "a,b\n");
  write("bad.json", "{}");
  for (const char* const command :
       {"penstock simulate \"$odd/bad.yaml\"", "penstock runs \"$odd/bad.csv\"",
        "penstock check --baseline \"$odd/bad.json\"", "penstock compare \"$odd/bad.json\" bad.json",
        "penstock \"$odd\"", "penstock simulate \"--$odd\"",
        "penstock simulate --schedule 1f1b --pp-size 2 --num-microbatches 2 -o \"$odd/x.oops\""}) {
    const std::string printed = outcome(command);
    EXPECT_THAT(printed, HasSubstr("a: #\\x0a\\x1b[31mb")) << command;
    EXPECT_THAT(printed, Not(HasSubstr("\x1b"))) << command;
    EXPECT_THAT(printed, HasSubstr("[exit 2]")) << command;
  }
}

TEST_F(OddNames, AreNoYaml) {
  write("p.psched",
        "penstock program 1\nschedule s\nmicrobatches 1\nstage 0: rank 0\nrank 0: 0F0 0B0 0STEP\n");
  write("config.json", "{}");
  const std::string simulated = outcome("penstock simulate \"$odd/p.psched\"");
  EXPECT_THAT(simulated, HasSubstr("scenario    a: #\\x0a\\x1b[31mb/p.psched\n"));
  EXPECT_THAT(simulated, Not(HasSubstr("[exit")));
  EXPECT_THAT(outcome("penstock model \"$odd/config.json\""), HasSubstr("config.json:1:1: expected "));
  EXPECT_THAT(outcome("penstock simulate --model \"$odd/config.json\" --device h100-sxm --nodes 1"),
              HasSubstr("config.json:1:1: expected "));
}

TEST_F(OddNames, AreShownInAnswers) {
  write(
      "s.yaml",
      "model: {stages: {forward: 1 ms, backward: 2 ms}}\nschedule: {name: 1f1b, stages: 2, microbatches: 2}");
  for (const char* const command : {"penstock simulate \"$odd/s.yaml\" -o \"$odd/x.json\"",
                                    "penstock check \"$odd/s.yaml\" --baseline \"$odd/b.json\" --update"}) {
    const std::string printed = outcome(command);
    EXPECT_THAT(printed, HasSubstr("a: #\\x0a\\x1b[31mb")) << command;
    EXPECT_THAT(printed, Not(HasSubstr("\x1b"))) << command;
    EXPECT_THAT(printed, Not(HasSubstr("[exit"))) << command;
  }
}

// The name would change in the baseline's JSON. When the baseline is read again, no file would have this
// name.
TEST_F(OddNames, ThatAreNoUtf8AreNotListedInABaseline) {
  folder_.write("a\xff.yaml", "schedule: {name: 1f1b, stages: 2, microbatches: 2}");
  EXPECT_EQ(outcome("penstock check \"$(printf 'a\\377.yaml')\" --baseline b.json --update"),
            "! penstock: a\xef\xbf\xbd.yaml: expected a name in UTF-8, which is all that the JSON of a "
            "baseline can "
            "hold; rename the file\n[exit 2]\n");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "b.json"));
}

// Names that are spreadsheet formulas or not valid UTF-8. Tables must show them as text, and JSON must stay
// valid.

using testing::HasSubstr;

constexpr std::string_view kFormula = "=HYPERLINK(1)";
constexpr std::string_view kNoUtf8 = "a\xff";
constexpr std::string_view kShown = "a\uFFFD";

/// Returns one field of a line, both counted from 0. No field may contain a comma.
std::string field_of(const std::string& csv, int line, int field) {
  std::istringstream lines(csv);
  std::string text;
  for (int i = 0; i <= line; ++i) std::getline(lines, text);
  std::istringstream fields(text);
  for (int i = 0; i <= field; ++i) std::getline(fields, text, ',');
  return text;
}

/// Returns an answer with one candidate.
TuneAnswer tuned(std::string_view schedule) {
  TuneAnswer answer;
  answer.request.base.model = DeviceModel{};
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
  // A measured step whose id is not valid UTF-8. Its model exists.
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
  // The answers of these two commands contain no file name.
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

// Scenario names may be hostile. They must not end a line of a text or a cell of a Markdown table.

using testing::HasSubstr;
using testing::Not;

// A line break, special characters of Markdown, HTML and table cells, and an escape code that hides the text
// after it.
constexpr std::string_view kName = "a\nok       b.yaml | \\| <script> ![x](y) `z`\x1b[8m";

/// Returns two verdicts, which are two rows of the table. One scenario is worse in one figure and has a
/// reason. The other cannot be read.
std::vector<BaselineVerdict> verdicts_of(std::string_view name) {
  const std::string text(name);
  BaselineVerdict worse{.scenario = text, .findings = {{"digest", text, text, true}}, .error = {}};
  worse.reasons = {text};
  const BaselineVerdict gone{.scenario = text, .findings = {}, .error = text};
  return {worse, gone};
}

auto lines(const std::string& text) { return std::ranges::count(text, '\n'); }

TEST(BaselineOutput, ANameEndsNoLineOfAText) {
  // The error of a file may have several lines.
  EXPECT_EQ(lines(verdicts_text(verdicts_of(kName))), lines(verdicts_text(verdicts_of("a"))) + 1);
  EXPECT_EQ(lines(accepted_text(verdicts_of(kName))), lines(accepted_text(verdicts_of("a"))));
}

TEST(BaselineOutput, ANameIsNoMarkdown) {
  const std::string text = verdicts_markdown(verdicts_of(kName));
  EXPECT_EQ(lines(text), lines(verdicts_markdown(verdicts_of("a"))));
  const std::string table = text.substr(0, text.find("<details>"));
  for (const char* mark : {"<script", "](", "`", "\x1b"}) EXPECT_THAT(table, Not(HasSubstr(mark)));
  // Each line has six bars. There are two header lines and one row for each scenario.
  EXPECT_EQ(std::ranges::count(table, '|'), 4 * 6) << table;
}

/// Sets the environment of a GitHub Actions job during the object's lifetime.
class GithubJob {
 public:
  GithubJob() { setenv("GITHUB_ACTIONS", "true", 1); }
  GithubJob(const GithubJob&) = delete;
  GithubJob& operator=(const GithubJob&) = delete;
  ~GithubJob() { unsetenv("GITHUB_ACTIONS"); }
};

// The name may be that of a scenario, a baseline or a finding, or be part of an error with several lines.
TEST(BaselineOutput, ANameIsNoSecondAnnotation) {
  const GithubJob job;
  const std::string_view hostile = "x\n::error::y\r\n::stop-commands::z\033[2J##[error]%0A::error file=a,b::";
  for (const BaselineVerdict& verdict : verdicts_of(hostile)) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(tell_github({verdict}, {}));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(lines(said), 1) << said;
    EXPECT_TRUE(said.starts_with("::error file=x%0A%3A%3Aerror%3A%3Ay%0D%0A") && said.ends_with('\n'))
        << said;
    EXPECT_THAT(said, HasSubstr("%250A%3A%3Aerror file=a%2Cb%3A%3A,line=1,title=penstock check%3A x%0A"));
    // The properties end at the first "::" after the one that begins the line.
    const std::string_view properties = std::string_view(said).substr(0, said.find("::", 2));
    EXPECT_TRUE(properties.ends_with("file=a%2Cb%3A%3A")) << properties;
    for (const char* mark : {"\033", "\r"}) EXPECT_THAT(said, Not(HasSubstr(mark)));
  }
}

/// Returns the annotation of a verdict about a scenario in `folder`.
std::string annotation(const BaselineVerdict& verdict, const std::filesystem::path& folder) {
  const GithubJob job;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(tell_github({verdict}, {.directory = folder}));
  return testing::internal::GetCapturedStderr();
}

TEST(BaselineOutput, AnAnnotationPointsAtTheLineOfTheSchedule) {
  const ScratchFolder folder;
  folder.write("a.yaml",
               "# what it is\ncluster: {preset: uniform, devices: 4}\nschedule: {name: 1f1b, stages: 4}\n");
  const BaselineVerdict worse{
      .scenario = "a.yaml", .findings = {{"makespan_ns", "1 ms", "2 ms", true}}, .error = {}};
  const std::string file = (folder.path() / "a.yaml").string();
  EXPECT_THAT(annotation(worse, folder.path()),
              HasSubstr("::error file=" + file + ",line=3,title=penstock check%3A a.yaml::"));
  EXPECT_THAT(annotation(worse, folder.path()), HasSubstr("FAIL makespan: expected 1 ms, is 2 ms"));
}

TEST(BaselineOutput, AnAnnotationOfAFileThatCannotBeReadPointsAtItsFault) {
  const std::string file = "schedules/../b.yaml";
  const BaselineVerdict wrong{
      .scenario = "../b.yaml", .findings = {}, .error = file + ":7:3: model.stagse: unknown"};
  EXPECT_THAT(annotation(wrong, "schedules"), HasSubstr("::error file=b.yaml,line=7,title="));
}

}  // namespace
}  // namespace penstock
