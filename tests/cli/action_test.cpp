// Tests the GitHub action (action.yml), the script of its comment, and the workflows that users copy. The
// steps are read from the YAML files and run by bash, with small programs in place of pip and gh.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "scenarios/read/document.hpp"
#include "tests/cli/transcript.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Node document_of(const std::string& text, const std::string& name) {
  auto document = parse_document(
      text, std::make_shared<const Source>(Source{.name = name, .directory = {}, .override_key = ""}));
  EXPECT_TRUE(document) << (document ? "" : document.error());
  return document ? *document : Node{};
}

/// Returns the scalar at a key of a mapping, or an empty text.
std::string text_at(const Node& node, std::string_view key) {
  const Node* value = node.find(key);
  return value != nullptr && value->kind == Node::Kind::scalar ? value->text : "";
}

Node action() { return document_of(test::text_of(source_path("action.yml")), "action.yml"); }

std::vector<Node> steps_of_action() {
  const Node document = action();
  return document.find("runs")->find("steps")->items;
}

/// A repository in which a user runs the action: a folder with a scenario, and stand-ins for pip, python3 and
/// gh in its folder bin.
class Repository {
 public:
  Repository() {
    fs::create_directories(folder_.path() / "bin");
    folder_.write("a.yaml", "schedule: {name: 1f1b, stages: 4, microbatches: 8}\n");
    folder_.write("hangs.psched",
                  test::text_of(source_path("scenarios/library/hangs-on-pair-channels.psched")));
    // `python3 -m venv FOLDER` makes a pip that notes what it installs, and a penstock.
    program(
        "python3",
        "mkdir -p \"$3/bin\"; echo 'echo \"pip $*\" >> pip.txt' > \"$3/bin/pip\"; chmod +x \"$3/bin/pip\"; "
        "ln -sf \"$(command -v penstock)\" \"$3/bin/penstock\"");
    // gh answers with the numbers in comments.txt, and notes each call that writes.
    program("gh",
            "case \"$*\" in *--method*) echo \"$*\" >> gh.txt ;; *) cat comments.txt 2>/dev/null || true ;; "
            "esac");
  }

  void program(const std::string& name, const std::string& script) {
    const fs::path file = folder_.write("bin/" + name, "#!/bin/bash\n" + script + "\n");
    fs::permissions(file, fs::perms::owner_all);
  }

  /// Runs a bash script in the folder and returns its outcome.
  std::string bash(const std::string& script, const std::map<std::string, std::string>& environment) {
    std::string exports =
        "export PATH=$PWD/bin:$PATH RUNNER_TEMP=$PWD/temp GITHUB_OUTPUT=$PWD/output.txt "
        "GITHUB_REPOSITORY=own/repository\n";
    for (const auto& [name, value] : environment) exports += "export " + name + "='" + value + "'\n";
    folder_.write("step.sh", exports + script);
    return outcome_of("bash -eo pipefail step.sh", folder_.path());
  }

  /// Runs the step of the action with this name.
  std::string step(const std::string& name, const std::map<std::string, std::string>& environment) {
    for (const Node& step : steps_of_action()) {
      if (text_at(step, "name") == name) return bash(text_at(step, "run"), environment);
    }
    ADD_FAILURE() << "the action has no step " << name;
    return {};
  }

  std::string file(const std::string& name) const { return test::text_of(folder_.path() / name); }
  const fs::path& path() const { return folder_.path(); }
  void write(const std::string& name, const std::string& text) { folder_.write(name, text); }

 private:
  ScratchFolder folder_;
};

TEST(Action, EachStepHasAShellAndEachInputIsUsedAndDeclared) {
  const std::string text = test::text_of(source_path("action.yml"));
  const Node document = action();
  EXPECT_EQ(text_at(*document.find("runs"), "using"), "composite");
  std::set<std::string> declared;
  for (const Node::Entry& input : document.find("inputs")->entries) {
    declared.insert(input.key.text);
    EXPECT_NE(text_at(input.value, "description"), "") << input.key.text;
  }
  std::set<std::string> used;
  const std::regex form("inputs\\.([a-z]+)");
  for (std::sregex_iterator at(text.begin(), text.end(), form), end; at != end; ++at) used.insert((*at)[1]);
  EXPECT_EQ(used, declared);
  for (const Node& step : steps_of_action()) {
    EXPECT_NE(text_at(step, "name"), "");
    // GitHub refuses a step of a composite action that runs a script without a shell.
    EXPECT_EQ(text_at(step, "run").empty(), text_at(step, "shell").empty()) << text_at(step, "name");
    EXPECT_NE(text_at(step, "run").empty(), text_at(step, "uses").empty()) << text_at(step, "name");
  }
}

TEST(Action, NoStepPutsAnInputIntoItsScript) {
  // The text of an input would be run as a script. Steps take it from variables.
  for (const Node& step : steps_of_action()) EXPECT_THAT(text_at(step, "run"), Not(HasSubstr("${{")));
}

TEST(Action, InstallsTheWheelAndChecksTheFiles) {
  Repository repository;
  EXPECT_THAT(repository.step("Install Penstock", {{"WHEEL", "penstock-sim"}}), HasSubstr("penstock 0."));
  EXPECT_THAT(repository.file("pip.txt"), HasSubstr("install --quiet penstock-sim"));
  EXPECT_THAT(repository.step("Check", {{"FILES", "*.yaml"}, {"BASELINE", ""}}), HasSubstr("a.yaml: valid"));
  EXPECT_THAT(repository.file("output.txt"), HasSubstr("passed=true\nstatus=0\n"));
  EXPECT_THAT(repository.step("Verdict", {{"STATUS", "0"}}), Not(HasSubstr("[exit")));
}

TEST(Action, AFailedCheckStillWritesItsReportAndFailsAtTheEnd) {
  Repository repository;
  repository.step("Install Penstock", {{"WHEEL", "penstock-sim"}});
  // The program states the channels under which it hangs.
  const std::string outcome =
      repository.step("Check", {{"FILES", "a.yaml hangs.psched gone.yaml"}, {"BASELINE", ""}});
  EXPECT_THAT(outcome, HasSubstr("FAILED   gone.yaml\n    gone.yaml: the file does not exist\n"));
  EXPECT_THAT(repository.file("output.txt"), HasSubstr("passed=false\nstatus=1\n"));
  EXPECT_THAT(repository.file("penstock.md"), HasSubstr("| FAIL | gone.yaml | error |"));
  EXPECT_THAT(repository.file("penstock.xml"), HasSubstr("name=\"gone.yaml\""));
  EXPECT_THAT(repository.step("Verdict", {{"STATUS", "1"}}), HasSubstr("[exit 1]"));
}

TEST(Action, ComparesWithABaseline) {
  Repository repository;
  repository.step("Install Penstock", {{"WHEEL", "penstock-sim"}});
  repository.bash("penstock check a.yaml --baseline base.json --update", {});
  EXPECT_THAT(repository.step("Check", {{"FILES", ""}, {"BASELINE", "base.json"}}),
              HasSubstr("1 of 1 within tolerance"));
  repository.write("a.yaml", "schedule: {name: naive, stages: 4, microbatches: 8}\n");
  EXPECT_THAT(repository.step("Check", {{"FILES", ""}, {"BASELINE", "base.json"}}),
              HasSubstr("FAIL makespan: expected 33.000 ms, is 96.000 ms (+190.9 %)"));
}

/// Writes the comment of pull request 7 and returns the outcome.
std::string comment(Repository& repository) {
  return repository.bash(source_path("scenarios/ci/comment.sh") + " 7 penstock.md", {});
}

TEST(ActionComment, IsWrittenOnceAndThenEdited) {
  Repository repository;
  repository.write("penstock.md", "### penstock check: 1 of 1 passed\n");
  EXPECT_EQ(comment(repository), "");
  EXPECT_THAT(repository.file("gh.txt"), HasSubstr("--method POST repos/own/repository/issues/7/comments"));
  EXPECT_THAT(repository.file("gh.txt"),
              HasSubstr("body=<!-- penstock check -->\n### penstock check: 1 of 1"));
  repository.write("comments.txt", "4711\n");
  repository.write("gh.txt", "");
  EXPECT_EQ(comment(repository), "");
  EXPECT_THAT(repository.file("gh.txt"),
              HasSubstr("--method PATCH repos/own/repository/issues/comments/4711"));
  EXPECT_THAT(repository.file("gh.txt"), Not(HasSubstr("POST")));
}

TEST(ActionComment, ATokenWithoutPermissionIsAWarning) {
  Repository repository;
  repository.write("penstock.md", "### penstock check: 1 of 1 passed\n");
  repository.program("gh", "exit 1");
  EXPECT_THAT(comment(repository),
              HasSubstr("::warning title=penstock check::the comment could not be written"));
  EXPECT_THAT(comment(repository), Not(HasSubstr("[exit")));
}

/// Returns the scripts of the steps of a workflow that call penstock, in their order.
std::vector<std::string> penstock_steps(const std::string& workflow) {
  std::vector<std::string> scripts;
  const Node document = document_of(workflow, "workflow");
  for (const Node& step : document.find("jobs")->find("penstock")->find("steps")->items) {
    const std::string run = text_at(step, "run");
    if (run.find("penstock check") != std::string::npos) scripts.push_back(run);
  }
  return scripts;
}

TEST(StarterWorkflow, ChecksSchedulesWithAndWithoutABaseline) {
  Repository repository;
  EXPECT_THAT(repository.bash("penstock init ci", {}), HasSubstr("wrote .github/workflows/penstock.yml"));
  const std::vector<std::string> scripts = penstock_steps(repository.file(".github/workflows/penstock.yml"));
  ASSERT_EQ(scripts.size(), 1U);
  fs::create_directories(repository.path() / "schedules");
  repository.write("schedules/a.yaml", "schedule: {name: 1f1b, stages: 4, microbatches: 8}\n");
  repository.write("schedules/own.psched",
                   "penstock program 1\nschedule own\nmicrobatches 1\nstage 0: rank 0\n"
                   "rank 0: 0F0 0B0 0STEP\n");
  EXPECT_THAT(repository.bash(scripts[0], {}), HasSubstr("2 of 2 passed"));
  // The command in the comment at the top of the workflow writes the baseline.
  const std::string workflow = repository.file(".github/workflows/penstock.yml");
  std::smatch command;
  ASSERT_TRUE(
      std::regex_search(workflow, command, std::regex("#   (penstock check .* --update --programs)\n")));
  EXPECT_THAT(repository.bash(command[1], {}), HasSubstr("figures of 2 scenarios written"));
  EXPECT_THAT(repository.bash(scripts[0], {}), HasSubstr("2 of 2 within tolerance"));
  repository.write("schedules/a.yaml", "schedule: {name: naive, stages: 4, microbatches: 8}\n");
  EXPECT_THAT(repository.bash(scripts[0], {}), HasSubstr("[exit 1]"));
}

TEST(StarterWorkflow, TheOneThatBuildsFromSourcesIsAWorkflow) {
  const std::string text = test::text_of(source_path("scenarios/ci/penstock-check.yml"));
  EXPECT_EQ(penstock_steps(text).size(), 1U);
}

}  // namespace
}  // namespace penstock
