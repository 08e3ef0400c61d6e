// Tests the texts that are made from the declared commands: completion scripts and man pages. bash completes
// real command lines here. Where zsh, fish or groff is installed, it reads its text without a complaint.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/transcript.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using Words = std::vector<std::string>;

Words words_in(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// Returns what bash offers for the last of the words, after it has read the completion script. The folder of
/// the command has the files alpha.yaml and beta.csv.
Words completed(const Words& line) {
  const ScratchFolder folder;
  folder.write("alpha.yaml", "");
  folder.write("beta.csv", "");
  std::string quoted;
  for (const std::string& word : line) quoted += " '" + word + "'";
  folder.write("complete.sh", "source <(penstock completion bash)\nCOMP_WORDS=(" + quoted +
                                  ")\nCOMP_CWORD=" + std::to_string(line.size() - 1) +
                                  "\n_penstock\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n");
  return words_in(outcome_of("bash complete.sh", folder.path()));
}

TEST(Completion, BashCompletesCommandsByTheirBeginning) {
  EXPECT_THAT(completed({"penstock", "sim"}), ElementsAre("simulate"));
  EXPECT_THAT(completed({"penstock", ""}),
              IsSupersetOf({"sweep", "check", "completion", "man", "--version"}));
}

TEST(Completion, BashCompletesTheFlagsOfACommandAndOfNoOther) {
  EXPECT_THAT(completed({"penstock", "simulate", "--pp"}), ElementsAre("--pp-size"));
  EXPECT_THAT(completed({"penstock", "check", "--b"}),
              IsSupersetOf({"--baseline", "--blocking", "--buckets"}));
  EXPECT_THAT(completed({"penstock", "simulate", "--basel"}), IsEmpty());
}

TEST(Completion, BashCompletesTheValuesOfAFlag) {
  EXPECT_THAT(completed({"penstock", "simulate", "--schedule", "zb-h"}), ElementsAre("zb-h1", "zb-h2"));
  EXPECT_THAT(completed({"penstock", "simulate", "--channel", "dir"}), ElementsAre("direction", "directed"));
  EXPECT_THAT(completed({"penstock", "tune", "--device", "h1"}), ElementsAre("h100-sxm"));
  EXPECT_THAT(completed({"penstock", "simulate", "--pp-size", ""}), IsEmpty()) << "any number";
}

TEST(Completion, BashCompletesAfterAnEqualsSignAndAComma) {
  EXPECT_THAT(completed({"penstock", "simulate", "--schedule", "=", "zb-h"}), ElementsAre("zb-h1", "zb-h2"));
  EXPECT_THAT(completed({"penstock", "sweep", "--schedule", "gpipe,zb-h"}),
              ElementsAre("gpipe,zb-h1", "gpipe,zb-h2"));
}

TEST(Completion, BashCompletesFilesWhereACommandReadsOrWritesThem) {
  EXPECT_THAT(completed({"penstock", "simulate", "al"}), ElementsAre("alpha.yaml"));
  EXPECT_THAT(completed({"penstock", "sweep", "alpha.yaml", "-o", "be"}), ElementsAre("beta.csv"));
  EXPECT_THAT(completed({"penstock", "tune", "--model", "llama-3.1-8"}), ElementsAre("llama-3.1-8b"));
  EXPECT_THAT(completed({"penstock", "init", ""}), IsSupersetOf({"llm", "profile", "schedule", "ci"}));
}

bool has_program(const std::string& name) { return std::filesystem::exists("/usr/bin/" + name); }

std::string text_of_command(const std::string& command) { return outcome_of(command, source_path()); }

TEST(Completion, ZshReadsItsScript) {
  const std::string script = text_of_command("penstock completion zsh");
  EXPECT_THAT(script, HasSubstr("#compdef penstock\n"));
  EXPECT_THAT(script, HasSubstr("--pp-size[K, ranks of the pipeline]:N: "));
  EXPECT_THAT(script, HasSubstr("    'simulate:Predict time"));
  if (!has_program("zsh")) return;
  EXPECT_EQ(text_of_command("penstock completion zsh > $TMPDIR/_penstock && zsh -n $TMPDIR/_penstock"), "");
  EXPECT_EQ(text_of_command("penstock completion zsh > $TMPDIR/_penstock; zsh -f -c 'fpath=($TMPDIR $fpath); "
                            "autoload -Uz compinit && compinit -D -u && print $_comps[penstock]'"),
            "_penstock\n");
}

TEST(Completion, FishCompletesWithItsScript) {
  const std::string script = text_of_command("penstock completion fish");
  EXPECT_THAT(script, HasSubstr("-n '__fish_seen_subcommand_from simulate' -l pp-size -r -f"));
  if (!has_program("fish")) return;
  const auto offered = [](const std::string& line) {
    return text_of_command(
        "export HOME=$TMPDIR; penstock completion fish > $TMPDIR/p.fish; fish --no-config -c "
        "\"source $TMPDIR/p.fish; complete -C '" +
        line + "'\" | cut -f 1");
  };
  EXPECT_EQ(offered("penstock simu"), "simulate\n");
  EXPECT_EQ(offered("penstock simulate --schedule zb-h"), "zb-h1\nzb-h2\n");
}

/// Returns the names of all commands in `penstock --help`.
Words command_names() {
  Words names;
  std::istringstream help(text_of_command("penstock --help"));
  static const std::regex row("  ([a-z]+) +.+");
  std::smatch parts;
  bool inside = false;
  for (std::string line; std::getline(help, line);) {
    if (inside && std::regex_match(line, parts, row)) names.push_back(parts.str(1));
    inside = line == "Subcommands:" || (inside && !line.empty());
  }
  return names;
}

TEST(ManPages, OneIsWrittenForEachCommand) {
  Words expected = {"penstock.1"};
  for (const std::string& name : command_names()) expected.push_back("penstock-" + name + ".1");
  const std::string listed = text_of_command("penstock man --folder $TMPDIR/man1 && ls $TMPDIR/man1");
  EXPECT_THAT(words_in(listed), testing::UnorderedElementsAreArray(expected));
}

TEST(ManPages, OneDescribesEachFlagOfItsCommand) {
  const std::string page = text_of_command("penstock man simulate");
  EXPECT_THAT(page, HasSubstr(".TH PENSTOCK\\-SIMULATE 1"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-pp\\-size\\fR \\fIN\\fR\nK, ranks of the pipeline\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXAMPLES\n"));
  EXPECT_THAT(page, HasSubstr(".SH SEE ALSO\n\\fBpenstock\\fR(1)\n"));
  EXPECT_THAT(text_of_command("penstock man"), HasSubstr("\\fBpenstock\\-sweep\\fR(1)\n"));
}

TEST(ManPages, GroffReadsThemWithoutAWarning) {
  if (!has_program("groff")) GTEST_SKIP() << "there is no groff";
  EXPECT_EQ(text_of_command("penstock man --folder $TMPDIR; for page in $TMPDIR/*.1; do groff -man -ww -z "
                            "-Tutf8 $page; done"),
            "");
}

TEST(ManPages, AnUnknownCommandIsRefused) {
  EXPECT_THAT(text_of_command("penstock man simulat"),
              HasSubstr("man: expected the name of a command, got \"simulat\"; did you mean simulate?"));
}

// --- help -------------------------------------------------------------------------------------------------

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line != "Examples:";)
    longest = std::max(longest, line.size());
  return longest;
}

TEST(Help, FitsTheWidthOfTheTerminal) {
  for (const std::string command : {"", " simulate", " check", " tune", " reproduce", " calibrate"}) {
    EXPECT_LE(longest_line(text_of_command("COLUMNS=80 penstock" + command + " --help")), 80U) << command;
    EXPECT_LE(longest_line(text_of_command("COLUMNS=110 penstock" + command + " --help")), 110U) << command;
  }
  EXPECT_GT(longest_line(text_of_command("COLUMNS=110 penstock simulate --help")), 90U) << "and uses it";
}

// --- init -------------------------------------------------------------------------------------------------

/// Returns the commands that the first lines of a starter name: "#   penstock COMMAND ...   what it does".
Words commands_in(const std::string& starter) {
  static const std::regex form("#   (penstock .*?)(   .*)?");
  Words commands;
  std::istringstream lines(starter);
  std::smatch parts;
  for (std::string line; std::getline(lines, line) && line.starts_with('#');) {
    if (std::regex_match(line, parts, form)) commands.push_back(parts.str(1));
  }
  return commands;
}

TEST(Init, EachCommandThatAStarterNamesRuns) {
  for (const std::string kind : {"llm", "profile", "schedule"}) {
    const ScratchFolder folder;
    ASSERT_THAT(outcome_of("penstock init " + kind, folder.path()), HasSubstr("wrote "));
    const Words commands = commands_in(outcome_of("penstock init " + kind + " -", folder.path()));
    EXPECT_GE(commands.size(), 3U) << kind;
    for (const std::string& command : commands)
      EXPECT_THAT(outcome_of(command, folder.path()), Not(HasSubstr("[exit"))) << command;
  }
}

TEST(Init, WithoutAWordItWritesALanguageModelThatFits) {
  const ScratchFolder folder;
  outcome_of("penstock init", folder.path());
  EXPECT_THAT(outcome_of("penstock simulate llm.yaml --fail-on-oom", folder.path()), Not(HasSubstr("[exit")));
}

TEST(Init, DoesNotOverwriteAFile) {
  const ScratchFolder folder;
  folder.write("llm.yaml", "mine\n");
  EXPECT_THAT(outcome_of("penstock init", folder.path()),
              HasSubstr("llm.yaml: exists and is not overwritten: name another file"));
  EXPECT_EQ(test::text_of(folder.path() / "llm.yaml"), "mine\n");
  EXPECT_THAT(outcome_of("penstock init llm other.yaml", folder.path()), HasSubstr("wrote other.yaml"));
  EXPECT_THAT(outcome_of("penstock init llm nowhere/other.yaml", folder.path()), HasSubstr("[exit 2]"));
}

}  // namespace
}  // namespace penstock
