// Tests that generated pages and pictures show what the program predicts today: the table of schedules, the
// gallery, the README's pictures and the page of published figures. PENSTOCK_UPDATE_GOLDENS=1 writes them.

#include "cli/commands/schedules_command.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/measured/reproduce_command.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/published/reproduce.hpp"
#include "tests/cli/transcript.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

const std::filesystem::path kRoot = source_path();
// The shape for the figures of the table and the pictures of the gallery.
const Shape kShape = {.stages = 4, .microbatches = 8, .virtual_stages = 2, .slices = 2};

std::string read(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

/// Compares the file with the text. If PENSTOCK_UPDATE_GOLDENS is set, writes the text instead.
void expect_file(const std::filesystem::path& file, const std::string& expected) {
  if (std::getenv("PENSTOCK_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(file, std::ios::binary) << expected;
    GTEST_SKIP() << file << " written";
  }
  EXPECT_EQ(read(file), expected) << "PENSTOCK_UPDATE_GOLDENS=1 writes " << file;
}

/// Compares or writes, as expect_file() does, the part of a file that a command generates.
void expect_part(const std::filesystem::path& file, const std::string& command, const std::string& expected) {
  const std::string begin = "<!-- made by `" + command + "` -->\n";
  const std::string page = read(file);
  const auto from = page.find(begin);
  const auto to = page.find("<!-- end -->\n", from);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  expect_file(file, page.substr(0, from + begin.size()) + expected + page.substr(to));
}

TEST(ScheduleTable, TheReferenceIsUpToDate) {
  expect_part(kRoot / "docs" / "reference" / "schedules.md", "penstock schedules --figures",
              schedule_table_markdown(kShape));
}

TEST(Reproductions, ThePageIsUpToDate) {
  std::vector<Reproduced> all;
  for (const Reproduction& reproduction : reproduction_table())
    all.push_back({reproduction, reproduction.run()});
  expect_part(kRoot / "docs" / "design" / "published-figures.md", "penstock reproduce",
              reproductions_to_markdown(all));
}

TEST(ScheduleTable, TheGalleryIsUpToDate) {
  expect_file(kRoot / "docs" / "reference" / "schedule-gallery.md", schedule_gallery_markdown(kShape));
}

/// Returns the suffixes of the command's output files from its help, or "-" if it writes no file.
std::string suffixes_of(const std::string& command) {
  const std::string help = std::regex_replace(outcome_of("penstock " + command + " --help", source_path()),
                                              std::regex("\\s+"), " ");
  std::smatch parts;
  const std::regex sentence("of its suffix: ([^;]+);");
  return std::regex_search(help, parts, sentence) ? parts.str(1) : "-";
}

/// Returns the commands in `penstock --help` as a Markdown table.
std::string command_table() {
  std::istringstream help(outcome_of("penstock --help", source_path()));
  std::string table = "| command | what it does | files of `-o` |\n|---|---|---|\n";
  static const std::regex row("  ([a-z]+) +(.+)");
  std::smatch parts;
  bool inside = false;
  for (std::string line; std::getline(help, line);) {
    if (inside && std::regex_match(line, parts, row)) {
      table += "| `" + parts.str(1) + "` | " + parts.str(2) + " | " + suffixes_of(parts.str(1)) + " |\n";
    }
    inside = line == "Subcommands:" || (inside && !line.empty());
  }
  return table;
}

TEST(CommandTable, TheReferenceIsUpToDate) {
  expect_part(kRoot / "docs" / "reference" / "commands.md", "penstock --help", command_table());
}

TEST(ReadmePictures, AreUpToDate) {
  const ScratchFolder folder;
  for (const std::string schedule : {"1f1b", "zb-h1"}) {
    const std::string picture = schedule + ".svg";
    const std::string outcome = outcome_of("penstock simulate --schedule " + schedule +
                                               " --pp-size 4 --num-microbatches 8 --quiet -o " + picture,
                                           folder.path());
    ASSERT_EQ(outcome.find("[exit"), std::string::npos) << outcome;
    expect_file(kRoot / "docs" / "pictures" / picture, read(folder.path() / picture));
  }
}

TEST(GuidePictures, TheFigureIsUpToDate) {
  const ScratchFolder folder;
  const std::string outcome = outcome_of(
      "penstock figure --schedule gpipe,1f1b,zb-h1 --pp-size 4 --num-microbatches 8 --quiet -o schedules.svg",
      folder.path());
  ASSERT_EQ(outcome.find("[exit"), std::string::npos) << outcome;
  expect_file(kRoot / "docs" / "pictures" / "schedules.svg", read(folder.path() / "schedules.svg"));
}

TEST(ScheduleTable, LeavesOutWhatTheShapeForbids) {
  const std::string odd = schedule_table_text({.stages = 3, .microbatches = 4, .virtual_stages = 2});
  EXPECT_EQ(odd.find("\nchimera "), std::string::npos) << "needs an even K";
  EXPECT_NE(odd.find("\ngpipe "), std::string::npos);
}

TEST(ScheduleTable, OneRankHasNoBubble) {
  const std::string one = schedule_table_text({.stages = 1, .microbatches = 1});
  EXPECT_NE(one.find("\n1f1b "), std::string::npos);
  EXPECT_NE(one.find(" 0.00 %"), std::string::npos);
  EXPECT_EQ(std::regex_replace(one, std::regex(" 0\\.00 %"), "").find('%'), std::string::npos) << one;
}

}  // namespace
}  // namespace penstock
