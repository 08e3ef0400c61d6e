// Tests every page of the checkout. Its commands must succeed and print what the page shows, its links and
// file names must exist, and its tables must be readable. documents.hpp defines how a page marks commands.
// The first tests check the reader with pages that have faults.

#include "tests/cli/documents.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/transcript.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const fs::path kCheckout = source_path();

// --- the reader -------------------------------------------------------------------------------------------

std::vector<std::string> commands_of(const std::string& page) {
  std::vector<std::string> commands;
  for (const PageStep& step : steps_of(page))
    if (const auto* command = std::get_if<PageCommand>(&step)) commands.push_back(command->command);
  return commands;
}

TEST(PageReader, FindsCommandsInIndentedAndFencedBlocks) {
  EXPECT_THAT(
      commands_of(
          "Text\n\n    penstock simulate a.yaml\n    cmake ..\n\n```sh\npenstock check a.yaml\n```\n"),
      ElementsAre("penstock simulate a.yaml", "penstock check a.yaml"));
  EXPECT_THAT(commands_of("* an item\n    penstock goes on in the text of the item\n"), IsEmpty());
}

TEST(PageReader, JoinsACommandOfSeveralLines) {
  EXPECT_THAT(commands_of("\n    penstock sweep \\\n      a.yaml\n"),
              ElementsAre("penstock sweep \\\n  a.yaml"));
}

TEST(PageReader, ReadsWhatAPageShowsBelowACommand) {
  const auto steps =
      steps_of("\n    $ penstock schedules\n    naive\n    ...\n    $ penstock --version\n    0.1.0\n");
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(std::get<PageCommand>(steps[0]).output, "naive\n...\n");
  EXPECT_EQ(std::get<PageCommand>(steps[1]).output, "0.1.0\n");
  EXPECT_EQ(std::get<PageCommand>(steps[1]).line, 5);
}

TEST(PageReader, ReadsFilesThatAPageShows) {
  const auto steps = steps_of("```yaml small.yaml\nschedule: 1f1b\n```\n");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(std::get<PageFile>(steps[0]).name, "small.yaml");
  EXPECT_EQ(std::get<PageFile>(steps[0]).text, "schedule: 1f1b\n");
}

TEST(PageReader, LeavesOutBlocksThatSayWhyTheyAreNotRun) {
  EXPECT_THAT(commands_of("<!-- not run: needs a GPU -->\n\n    penstock selftest\n"), IsEmpty());
  EXPECT_THAT(commands_of("<!-- not run: needs a GPU -->\n\nText\n\n    penstock selftest\n"),
              ElementsAre("penstock selftest"));
  const auto steps = steps_of("<!-- runs with: penstock-torch -->\n\n    penstock profile mlp\n");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(std::get<PageCommand>(steps[0]).needs, "penstock-torch");
}

TEST(PageReader, ThreeDotsStandForLinesOrForTheRestOfALine) {
  EXPECT_TRUE(is_shown_by("a\n...\nd\n", "a\nb\nc\nd\n"));
  EXPECT_TRUE(is_shown_by("a\n...\n", "a\n"));
  EXPECT_TRUE(is_shown_by("makespan ...\n", "makespan   27 ms\n"));
  EXPECT_FALSE(is_shown_by("a\n...\nd\n", "a\nb\nc\n"));
  EXPECT_FALSE(is_shown_by("a\n", "a\nb\n"));
  EXPECT_FALSE(is_shown_by("makespan ...\n", "bubble\n"));
}

TEST(PageReader, FindsLinksThatLeadNowhere) {
  const ScratchFolder folder;
  folder.write("other.md", "# The `other` page, 2\n");
  const std::string page =
      "# Here\n\n[a](other.md) [b](other.md#the-other-page-2) [c](#here) [d](https://example.org/x)\n"
      "[e](gone.md) [f](other.md#gone) [g](#gone) `[h](gone.md)`\n\n    [i](gone.md)\n";
  EXPECT_THAT(dead_links(folder.path(), "page.md", page),
              ElementsAre("4: gone.md", "4: other.md#gone", "4: #gone"));
}

TEST(PageReader, FindsNamesOfFilesThatAreNotThere) {
  const ScratchFolder folder;
  fs::create_directory(folder.path() / "sim");
  folder.write("sim/engine.cpp", "");
  EXPECT_THAT(missing_files(folder.path(), "page.md",
                            "`sim/engine.cpp` `sim/engine` `sim/` `penstock check a/b` `sim/new_engine.cpp`\n"
                            "`sim/gone.cpp` `build/x`\n"),
              ElementsAre("2: sim/gone.cpp"));
}

TEST(PageReader, FindsCellsThatAreTooLong) {
  EXPECT_THAT(long_cells("| a | bcd |\n|---|---|\n| a\\|b | c |\n\n    | in a block |\n", 3),
              ElementsAre("3: a\\|b"));
}

TEST(PageReader, FindsClaimsThatNoTestShows) {
  const ScratchFolder folder;
  fs::create_directory(folder.path() / "scripts");
  folder.write("scripts/fuzz.sh", "");
  const std::set<std::string> tests = {"Engine.Runs"};
  EXPECT_THAT(
      unproven_claims(folder.path(), "* Runs, `nan` or not.\n  `Engine.Runs`\n* `scripts/fuzz.sh`\n", tests),
      IsEmpty());
  EXPECT_THAT(unproven_claims(folder.path(), "* `nan`\n* `Engine.Stops`\n* `outputs.txt`\n", tests),
              ElementsAre("1: names no test", "2: there is no Engine.Stops", "3: there is no outputs.txt"));
}

// --- the pages --------------------------------------------------------------------------------------------

TEST(Documents, LinksLeadSomewhere) {
  for (const fs::path& page : pages(kCheckout))
    EXPECT_THAT(dead_links(kCheckout, page, page_text(kCheckout / page)), IsEmpty()) << page;
}

TEST(Documents, NameOnlyFilesThatExist) {
  for (const fs::path& page : pages(kCheckout))
    EXPECT_THAT(missing_files(kCheckout, page, page_text(kCheckout / page)), IsEmpty()) << page;
}

TEST(Documents, HaveTablesWhoseCellsCanBeRead) {
  for (const fs::path& page : pages(kCheckout))
    EXPECT_THAT(long_cells(page_text(kCheckout / page), 160), IsEmpty()) << page;
}

TEST(Documents, TheReadmeIsShortEnoughToBeRead) {
  const std::string text = page_text(kCheckout / "README.md");
  EXPECT_LE(std::ranges::count(text, '\n'), 160) << "move what not every reader needs to docs/";
}

TEST(Documents, TheGlossaryHasAtMostSixtyWords) {
  const std::string text = page_text(kCheckout / "docs" / "glossary.md");
  std::set<std::string> words;
  static const std::regex entry("(^|\n)\\* \\*\\*([^*]+)\\*\\*");
  for (std::sregex_iterator at(text.begin(), text.end(), entry), end; at != end; ++at) words.insert((*at)[2]);
  EXPECT_FALSE(words.empty());
  EXPECT_LE(words.size(), 60U) << "rename a word of our own before another one is added";
}

TEST(Documents, NameTheVersionThatTheProgramHas) {
  const std::string said = outcome_of("penstock --version", kCheckout);
  const std::string version = said.substr(0, said.find('\n')).substr(std::string("penstock ").size());
  EXPECT_THAT(page_text(kCheckout / "CHANGELOG.md"), HasSubstr("\n## [" + version + "]"));
  EXPECT_THAT(page_text(kCheckout / "CITATION.cff"), HasSubstr("\nversion: " + version + "\n"));
  EXPECT_THAT(page_text(kCheckout / "python/pyproject.toml"), HasSubstr("\nversion = \"" + version + "\"\n"));
}

TEST(Documents, NameTheLicenseThatTheProgramHas) {
  EXPECT_THAT(page_text(kCheckout / "LICENSE"),
              HasSubstr("Apache License\n                           Version 2.0"));
  EXPECT_THAT(page_text(kCheckout / "CITATION.cff"), HasSubstr("\nlicense: Apache-2.0\n"));
  EXPECT_THAT(page_text(kCheckout / "python/pyproject.toml"), HasSubstr("\"Apache-2.0\""));
}

TEST(Documents, EveryFolderOfSourcesHasAPage) {
  for (const std::string folder :
       {"text", "topology", "schedules", "report", "scenarios", "sim", "backend", "cli", "tests", "bench"}) {
    EXPECT_TRUE(fs::exists(kCheckout / folder / "README.md")) << folder;
    if (folder == "tests" || folder == "bench") continue;  // one page describes all of their folders
    for (const auto& entry : fs::recursive_directory_iterator(kCheckout / folder)) {
      if (entry.path().extension() == ".hpp" || entry.path().extension() == ".cpp") {
        EXPECT_TRUE(fs::exists(entry.path().parent_path() / "README.md"))
            << entry.path().parent_path() << " has sources and no README.md that says what they are for";
      }
    }
  }
}

TEST(Robustness, EachClaimNamesATestThatExists) {
  const std::string page = page_text(kCheckout / "docs" / "design" / "robustness.md");
  EXPECT_THAT(page, HasSubstr("\n* "));
  EXPECT_THAT(unproven_claims(kCheckout, page, tests_in(kCheckout / "tests")), IsEmpty());
}

// --- doc comments -----------------------------------------------------------------------------------------

/// Returns true if a doc comment begins with a fragment of a sentence.
bool begins_with_a_fragment(const std::string& comment) {
  static const std::regex fragment("(Of|What|Whether|The same|By|Where|As|Whose)\\b.*");
  return std::regex_match(comment, fragment);
}

/// Returns the first line of each doc comment in a header.
std::vector<std::string> doc_comments(const fs::path& header) {
  static const std::regex mark("(.*)///<? *(.*)");
  std::vector<std::string> found;
  bool inside = false;
  std::ifstream stream(header);
  std::smatch parts;
  for (std::string line; std::getline(stream, line);) {
    const bool comment = std::regex_match(line, parts, mark);
    const bool trailing = comment && parts.str(1).find_first_not_of(' ') != std::string::npos;
    if (comment && (trailing || !inside)) found.push_back(parts.str(2));
    inside = comment && !trailing;
  }
  return found;
}

TEST(DocComments, AFragmentIsNoSentence) {
  EXPECT_TRUE(begins_with_a_fragment("Of a device; without a limit where none is known."));
  EXPECT_TRUE(begins_with_a_fragment("The same; by rank."));
  EXPECT_FALSE(begins_with_a_fragment("Returns the memory of one device."));
  EXPECT_FALSE(begins_with_a_fragment("Bytes that the rank holds."));
}

TEST(DocComments, FewBeginWithAFragment) {
  std::size_t all = 0;
  std::size_t fragments = 0;
  for (const std::string folder :
       {"text", "topology", "schedules", "report", "scenarios", "sim", "backend", "cli"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kCheckout / folder)) {
      if (entry.path().extension() != ".hpp") continue;
      for (const std::string& comment : doc_comments(entry.path())) {
        ++all;
        if (begins_with_a_fragment(comment)) ++fragments;
      }
    }
  }
  ASSERT_GT(all, 0U);
  const double share = 100.0 * static_cast<double>(fragments) / static_cast<double>(all);
  std::cout << fragments << " of " << all << " doc comments begin with a fragment (" << share << " %)\n";
  EXPECT_LE(share, 30.0) << "a doc comment begins with a verb (a function) or a noun (a type or a field)";
}

// --- commands ---------------------------------------------------------------------------------------------

std::vector<fs::path> pages_with_commands() {
  std::vector<fs::path> found;
  for (const fs::path& page : pages(kCheckout))
    if (!commands_of(page_text(kCheckout / page)).empty()) found.push_back(page);
  return found;
}

std::string name_of_test(const testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.string();
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

/// Returns the standard output of a command, and its exit status if that is not 0.
std::string printed_by(const std::string& outcome) {
  std::istringstream lines(outcome);
  std::string printed;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("! ")) printed += line + "\n";
  return printed;
}

/// Runs the commands of a page one after the other in a folder that has `scenarios/`, the logs of tests and
/// the files that the page shows.
class PageCommands : public testing::TestWithParam<fs::path> {
 protected:
  PageCommands() {
    fs::create_directory_symlink(kCheckout / "scenarios", folder_.path() / "scenarios");
    fs::create_directories(folder_.path() / "tests/sim");
    fs::create_directory_symlink(kCheckout / "tests/sim/logs", folder_.path() / "tests/sim/logs");
    fs::create_directory_symlink(kCheckout / "tests/sim/traces", folder_.path() / "tests/sim/traces");
  }

  void run(const PageFile& file) const { folder_.write(file.name, file.text); }

  void run(const PageCommand& command) const {
    if (!command.needs.empty() && !fs::exists(fs::path(PENSTOCK_EXECUTABLE).parent_path() / command.needs))
      return;
    const std::string outcome = outcome_of(command.command, folder_.path());
    const std::string where =
        GetParam().string() + ":" + std::to_string(command.line) + ": $ " + command.command;
    EXPECT_THAT(outcome, Not(HasSubstr("[exit"))) << where;
    if (!command.output) return;
    const std::string printed = printed_by(outcome);
    EXPECT_TRUE(is_shown_by(*command.output, printed)) << where << "\nthe page shows\n"
                                                       << *command.output << "\nthe command prints\n"
                                                       << printed;
  }

  ScratchFolder folder_;
};

TEST_P(PageCommands, PrintWhatThePageShows) {
  for (const PageStep& step : steps_of(page_text(kCheckout / GetParam())))
    std::visit([this](const auto& known) { run(known); }, step);
}

INSTANTIATE_TEST_SUITE_P(Documents, PageCommands, testing::ValuesIn(pages_with_commands()), name_of_test);

}  // namespace
}  // namespace penstock
