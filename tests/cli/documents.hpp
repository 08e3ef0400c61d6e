#pragma once
// Reads the project's Markdown pages for the tests of documents.
//
// Commands are in code blocks, which are indented by four spaces or enclosed in ``` lines. There are three
// forms:
//
//   $ penstock check crossed.psched        the test runs the command; it must print the lines below;
//   ...                                    matches any number of lines;
//   makespan    27.000 ms ...              three dots at the end match the rest of the line
//
//   penstock simulate mine.yaml            without "$ ", the command must end with status 0
//
//   ```yaml mine.yaml                      the test writes the block to this file; later commands of the
//                                          page can read it
//
// The comment `<!-- not run: REASON -->` excludes the block below it. There may be one blank line between the
// two. A block with `<!-- runs with: penstock-torch -->` is run only if that executable has been built.

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
  int line = 0;         ///< the number of the command's first line in the page, counted from 1
  std::string command;  ///< the text that the shell reads
  /// The lines that the page shows below the command; absent if there are none.
  std::optional<std::string> output;
  std::string needs;  ///< the executable that the command needs besides `penstock`; empty if none
};

/// A file whose content is shown on a page. Later commands of the page can read it.
struct PageFile {
  std::string name;
  std::string text;
};

using PageStep = std::variant<PageFile, PageCommand>;

/// Returns the paths of all Markdown pages of the checkout, relative to `root`, in alphabetical order.
std::vector<std::filesystem::path> pages(const std::filesystem::path& root);

/// Returns the text of a file, or an empty text if the file does not exist.
std::string page_text(const std::filesystem::path& file);

/// Returns the files and commands of a page, in the order of the page.
std::vector<PageStep> steps_of(const std::string& page);

/// Returns true if `output` matches `shown`. A line "..." in `shown` matches any number of lines. Three dots
/// at the end of a line match the rest of the line.
bool is_shown_by(const std::string& shown, const std::string& output);

/// Returns the links of a page whose file or heading does not exist, as "LINE: LINK".
std::vector<std::string> dead_links(const std::filesystem::path& root, const std::filesystem::path& page,
                                    const std::string& text);

/// Returns the file names in code spans, such as `sim/memory/memory.cpp`, that do not exist in the checkout,
/// as "LINE: NAME". A name is relative to the root or to the page's folder, and its `.hpp` or `.cpp` may be
/// left out. Names with NAME or /new are examples and are not checked.
std::vector<std::string> missing_files(const std::filesystem::path& root, const std::filesystem::path& page,
                                       const std::string& text);

/// Returns the names of the tests in a folder, as "Suite.Name".
std::set<std::string> tests_in(const std::filesystem::path& folder);

/// Returns the faults in the lists of a page, as "LINE: FAULT". Each list entry must name a test, a
/// transcript or a script, and each such name must exist.
std::vector<std::string> unproven_claims(const std::filesystem::path& root, const std::string& text,
                                         const std::set<std::string>& tests);

/// Returns the table cells of a page that are longer than `most` characters, as "LINE: CELL".
std::vector<std::string> long_cells(const std::string& text, std::size_t most);

}  // namespace penstock
