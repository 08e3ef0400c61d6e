// The README's table, the gallery and the page of published figures are what the simulator says today.
// PENSTOCK_UPDATE_GOLDENS=1 writes them.

#include "cli/commands/schedule_listing.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/commands/reproduce_output.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/published/reproduce.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

const std::filesystem::path kRoot = source_path();
// Of the figures in the README and of the pictures in the gallery.
const Shape kShape = {.stages = 4, .microbatches = 8, .virtual_stages = 2, .slices = 2};

std::string read(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

/// Compares, or with PENSTOCK_UPDATE_GOLDENS writes.
void expect_file(const std::filesystem::path& file, const std::string& expected) {
  if (std::getenv("PENSTOCK_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(file, std::ios::binary) << expected;
    GTEST_SKIP() << file << " written";
  }
  EXPECT_EQ(read(file), expected) << "PENSTOCK_UPDATE_GOLDENS=1 writes " << file;
}

/// The same for the part of a file that a command makes.
void expect_part(const std::filesystem::path& file, const std::string& command, const std::string& expected) {
  const std::string begin = "<!-- made by `" + command + "` -->\n";
  const std::string page = read(file);
  const auto from = page.find(begin);
  const auto to = page.find("<!-- end -->\n", from);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  expect_file(file, page.substr(0, from + begin.size()) + expected + page.substr(to));
}

TEST(ScheduleTable, OfTheReadmeIsUpToDate) {
  expect_part(kRoot / "README.md", "penstock schedules --figures", schedule_table_markdown(kShape));
}

TEST(Reproductions, OfTheScenariosPageAreUpToDate) {
  std::vector<Reproduced> all;
  for (const Reproduction& reproduction : reproduction_table())
    all.push_back({reproduction, reproduction.run()});
  expect_part(kRoot / "scenarios" / "README.md", "penstock reproduce", reproductions_to_markdown(all));
}

TEST(ScheduleTable, TheGalleryIsUpToDate) {
  expect_file(kRoot / "schedules" / "GALLERY.md", schedule_gallery_markdown(kShape));
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
