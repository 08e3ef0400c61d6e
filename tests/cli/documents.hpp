#pragma once
// Reads the project's Markdown pages for the tests of documents.
//
// Commands stand in code blocks, indented by four spaces or between ``` lines. Three forms are read:
//
//   $ penstock check crossed.psched        the command is run, and the lines below it must be what it prints;
//   ...                                    this line stands for any number of lines,
//   makespan    27.000 ms ...              and three dots at the end of a line for the rest of that line
//
//   penstock simulate mine.yaml            without "$ " the command must end with status 0
//
//   ```yaml mine.yaml                      the block is written to that file, which later commands of the
//   page read
//
// The comment `<!-- not run: REASON -->` on the line above a block, or above the blank line before it,
// exempts the block. `<!-- runs with: penstock-torch -->` runs it only where that executable has been built.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace penstock {

/// A command of a page.
struct PageCommand {
  int line = 0;                       ///< the line of the page that it begins on, counted from 1
  std::string command;                ///< as a shell reads it
  std::optional<std::string> output;  ///< the lines that the page shows below it; absent: the page shows none
  std::string needs;                  ///< the executable that it needs beside `penstock`; empty: none
};

/// A file that a page shows and its commands read.
struct PageFile {
  std::string name;
  std::string text;
};

using PageStep = std::variant<PageFile, PageCommand>;

/// Returns all pages of the checkout, from its root, in alphabetical order.
std::vector<std::filesystem::path> pages(const std::filesystem::path& root);

/// Returns the text of a file, or an empty text if there is no such file.
std::string page_text(const std::filesystem::path& file);

/// Returns the files and commands of a page in their order.
std::vector<PageStep> steps_of(const std::string& page);

/// Returns true if `output` is what a page shows, in which "..." stands for any lines or for the rest of a
/// line.
bool is_shown_by(const std::string& shown, const std::string& output);

/// Returns the links of a page that lead to no file or to no heading, as "LINE: LINK".
std::vector<std::string> dead_links(const std::filesystem::path& root, const std::filesystem::path& page,
                                    const std::string& text);

/// Returns the file names in code spans, such as `sim/memory/memory.cpp`, that the checkout does not have, as
/// "LINE: NAME". A name counts from the root or from the page's folder and may leave out `.hpp` and `.cpp`.
/// Names with NAME or /new stand for files that a reader will write.
std::vector<std::string> missing_files(const std::filesystem::path& root, const std::filesystem::path& page,
                                       const std::string& text);

/// Returns the tests of a folder as "Suite.Name".
std::set<std::string> tests_in(const std::filesystem::path& folder);

/// Returns the entries of a page's lists that name no test, no transcript and no script, and the names that
/// do not exist, as "LINE: FAULT".
std::vector<std::string> unproven_claims(const std::filesystem::path& root, const std::string& text,
                                         const std::set<std::string>& tests);

/// Returns the table cells of a page that have more than `most` characters, as "LINE: CELL".
std::vector<std::string> long_cells(const std::string& text, std::size_t most);

}  // namespace penstock
