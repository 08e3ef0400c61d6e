// Pages are read line by line. Code blocks are fenced or indented. All other lines are prose and can contain
// links, code spans and table rows. The anchor of a heading is the one that GitHub makes: lower case, no
// punctuation, hyphens instead of blanks.

#include "tests/cli/documents.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 13> kFolders = {"text", "topology", "schedules", "report", "scenarios",
                                                       "sim",  "backend",  "cli",       "tests",  "bench",
                                                       "docs", "scripts",  "cmake"};

/// A code block of a page.
struct Block {
  int line = 0;                    ///< the number of the block's first line in the page
  std::string info;                ///< the text after the opening ```; empty for an indented block
  std::vector<std::string> lines;  ///< in an indented block, without the indentation
  std::string comment;             ///< the HTML comment above the block; empty if there is none
};

/// One line of prose.
struct ProseLine {
  int line = 0;
  std::string text;
};

struct Page {
  std::vector<Block> blocks;
  std::vector<ProseLine> prose;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string without_end_blanks(std::string text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

bool is_fence(const std::string& line) {
  const auto from = line.find_first_not_of(' ');
  return from != std::string::npos && line.compare(from, 3, "```") == 0;
}

std::string after_fence(const std::string& line) { return line.substr(line.find("```") + 3); }

Page page_of(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  Page page;
  std::string comment;
  bool blank_before = true;
  for (std::size_t i = 0; i < lines.size();) {
    const std::string& line = lines[i];
    const auto first = static_cast<int>(i) + 1;
    if (is_fence(line)) {
      Block block{first + 1, after_fence(line), {}, std::exchange(comment, {})};
      for (++i; i < lines.size() && !is_fence(lines[i]); ++i) block.lines.push_back(lines[i]);
      ++i;
      page.blocks.push_back(block);
      blank_before = false;
    } else if (blank_before && line.starts_with("    ")) {
      Block block{first, {}, {}, std::exchange(comment, {})};
      for (; i < lines.size() && (lines[i].starts_with("    ") || lines[i].empty()); ++i)
        block.lines.push_back(lines[i].empty() ? "" : lines[i].substr(4));
      while (block.lines.back().empty()) block.lines.pop_back();
      page.blocks.push_back(block);
    } else {
      if (!line.empty()) comment = line.starts_with("<!-- ") ? line : "";
      page.prose.push_back({first, line});
      blank_before = line.empty() || line.starts_with("<!-- ");
      ++i;
    }
  }
  return page;
}

/// Returns the text after `key` in an HTML comment, or an empty text if the comment does not begin with the
/// key.
std::string comment_value(const std::string& comment, std::string_view key) {
  const std::string begin = "<!-- " + std::string(key) + ": ";
  const auto end = comment.find(" -->");
  if (!comment.starts_with(begin) || end == std::string::npos) return "";
  return comment.substr(begin.size(), end - begin.size());
}

/// Appends the commands of a block to `steps`.
void append_commands(const Block& block, std::vector<PageStep>& steps) {
  const std::string needs = comment_value(block.comment, "runs with");
  bool in_session = false;
  for (std::size_t i = 0; i < block.lines.size(); ++i) {
    const std::string& line = block.lines[i];
    const bool shows_output = line.starts_with("$ ");
    if (!shows_output && (in_session || !line.starts_with("penstock "))) continue;
    PageCommand command{block.line + static_cast<int>(i), line.substr(shows_output ? 2 : 0), {}, needs};
    while (command.command.ends_with('\\') && i + 1 < block.lines.size())
      command.command += "\n" + block.lines[++i];
    if (shows_output) {
      in_session = true;
      command.output = "";
      while (i + 1 < block.lines.size() && !block.lines[i + 1].starts_with("$ "))
        *command.output += block.lines[++i] + "\n";
      while (command.output->ends_with("\n\n")) command.output->pop_back();
    }
    steps.emplace_back(std::move(command));
  }
}

bool line_is_shown_by(const std::string& shown, const std::string& line) {
  if (shown.ends_with(" ...")) return line.starts_with(without_end_blanks(shown.substr(0, shown.size() - 4)));
  return without_end_blanks(shown) == without_end_blanks(line);
}

bool is_shown(const std::vector<std::string>& shown, std::size_t s, const std::vector<std::string>& lines,
              std::size_t l) {
  if (s == shown.size()) return l == lines.size();
  if (shown[s] == "...") {
    for (std::size_t next = l; next <= lines.size(); ++next)
      if (is_shown(shown, s + 1, lines, next)) return true;
    return false;
  }
  return l < lines.size() && line_is_shown_by(shown[s], lines[l]) && is_shown(shown, s + 1, lines, l + 1);
}

/// Returns the anchor that GitHub makes from a heading.
std::string anchor_of(std::string_view heading) {
  std::string anchor;
  for (const unsigned char c : heading) {
    if (c == ' ') anchor += '-';
    if (std::isalnum(c) != 0 || c == '-' || c == '_') anchor += static_cast<char>(std::tolower(c));
  }
  return anchor;
}

std::set<std::string> anchors_of(const std::string& text) {
  std::set<std::string> anchors;
  for (const ProseLine& line : page_of(text).prose) {
    const auto from = line.text.find_first_not_of('#');
    if (line.text.starts_with('#') && from != std::string::npos && line.text[from] == ' ')
      anchors.insert(anchor_of(line.text.substr(from + 1)));
  }
  return anchors;
}

std::string without_code_spans(const std::string& text) {
  return std::regex_replace(text, std::regex("`[^`]*`"), "``");
}

bool leads_somewhere(const fs::path& file, const std::string& text, const std::string& link) {
  const auto mark = link.find('#');
  const std::string path = link.substr(0, mark);
  const fs::path target = file.parent_path() / path;
  if (!path.empty() && !fs::exists(target)) return false;
  if (mark == std::string::npos) return true;
  return anchors_of(path.empty() ? text : page_text(target)).contains(link.substr(mark + 1));
}

/// Returns true if the name begins with a source folder and may be the name of a file.
bool is_file_name(const std::string& name) {
  static const std::regex form("[a-z_]+/[A-Za-z0-9_./-]+");
  if (!std::regex_match(name, form) || name.find("NAME") != std::string::npos) return false;
  if (name.find("/new") != std::string::npos) return false;
  return std::ranges::find(kFolders, name.substr(0, name.find('/'))) != kFolders.end();
}

bool exists_as_source(const fs::path& file) {
  return fs::exists(file) || fs::exists(file.string() + ".hpp") || fs::exists(file.string() + ".cpp");
}

/// Returns the cells of a row of a table.
std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells = {""};
  for (std::size_t i = 1; i < row.size(); ++i) {
    if (row[i] == '|' && row[i - 1] != '\\')
      cells.emplace_back();
    else
      cells.back() += row[i];
  }
  for (std::string& cell : cells) {
    cell.erase(0, std::min(cell.size(), cell.find_first_not_of(' ')));
    cell = without_end_blanks(cell);
  }
  return cells;
}

/// Returns the list entries of a page. The continuation lines of an entry are joined to its first line.
std::vector<ProseLine> claims_of(const std::string& text) {
  std::vector<ProseLine> claims;
  bool inside = false;
  for (const ProseLine& line : page_of(text).prose) {
    const bool goes_on = inside && line.text.starts_with("  ");
    if (goes_on) claims.back().text += line.text.substr(1);
    if (line.text.starts_with("* ")) claims.push_back(line);
    inside = goes_on || line.text.starts_with("* ");
  }
  return claims;
}

/// Returns the number of characters of a text in UTF-8.
std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::vector<fs::path> pages(const fs::path& root) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.path().extension() == ".md") found.push_back(entry.path().lexically_relative(root));
  for (const std::string_view folder : kFolders) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.path().extension() == ".md") found.push_back(entry.path().lexically_relative(root));
  }
  std::ranges::sort(found);
  return found;
}

std::string page_text(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<PageStep> steps_of(const std::string& page) {
  std::vector<PageStep> steps;
  for (const Block& block : page_of(page).blocks) {
    if (!comment_value(block.comment, "not run").empty()) continue;
    const auto blank = block.info.find(' ');
    if (blank == std::string::npos) {
      append_commands(block, steps);
      continue;
    }
    PageFile file{block.info.substr(blank + 1), ""};
    for (const std::string& line : block.lines) file.text += line + "\n";
    steps.emplace_back(std::move(file));
  }
  return steps;
}

bool is_shown_by(const std::string& shown, const std::string& output) {
  return is_shown(lines_of(shown), 0, lines_of(output), 0);
}

std::vector<std::string> dead_links(const fs::path& root, const fs::path& page, const std::string& text) {
  static const std::regex link("\\]\\(([^) ]+)\\)");
  std::vector<std::string> dead;
  for (const ProseLine& line : page_of(text).prose) {
    const std::string prose = without_code_spans(line.text);
    for (std::sregex_iterator at(prose.begin(), prose.end(), link), end; at != end; ++at) {
      const std::string target = (*at)[1];
      if (target.find("://") != std::string::npos || leads_somewhere(root / page, text, target)) continue;
      dead.push_back(std::to_string(line.line) + ": " + target);
    }
  }
  return dead;
}

std::vector<std::string> missing_files(const fs::path& root, const fs::path& page, const std::string& text) {
  static const std::regex span("`([^`]+)`");
  std::vector<std::string> missing;
  for (const ProseLine& line : page_of(text).prose) {
    for (std::sregex_iterator at(line.text.begin(), line.text.end(), span), end; at != end; ++at) {
      const std::string name = (*at)[1];
      if (is_file_name(name) && !exists_as_source(root / name) &&
          !exists_as_source(root / page.parent_path() / name))
        missing.push_back(std::to_string(line.line) + ": " + name);
    }
  }
  return missing;
}

std::set<std::string> tests_in(const fs::path& folder) {
  static const std::regex macro("TEST(_F|_P)?\\(([A-Za-z0-9_]+),\\s*([A-Za-z0-9_]+)\\)");
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = page_text(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), macro), end; at != end; ++at)
      names.insert(at->str(2) + "." + at->str(3));
  }
  return names;
}

std::vector<std::string> unproven_claims(const fs::path& root, const std::string& text,
                                         const std::set<std::string>& tests) {
  static const std::regex span("`([^`]+)`");
  static const std::regex test("[A-Z][A-Za-z0-9]+\\.[A-Z][A-Za-z0-9]+");
  static const std::regex file("[a-z_]+\\.txt|scripts/.+");
  std::vector<std::string> found;
  for (const ProseLine& claim : claims_of(text)) {
    const std::string line = std::to_string(claim.line) + ": ";
    bool shown = false;
    for (std::sregex_iterator at(claim.text.begin(), claim.text.end(), span), end; at != end; ++at) {
      const std::string name = (*at)[1];
      const bool is_test = std::regex_match(name, test);
      if (!is_test && !std::regex_match(name, file)) continue;
      shown = true;
      const fs::path path =
          name.starts_with("scripts/") ? root / name : root / "tests/cli/transcripts" / name;
      if (is_test ? !tests.contains(name) : !fs::exists(path)) found.push_back(line + "there is no " + name);
    }
    if (!shown) found.push_back(line + "names no test");
  }
  return found;
}

std::vector<std::string> long_cells(const std::string& text, std::size_t most) {
  std::vector<std::string> found;
  for (const ProseLine& line : page_of(text).prose) {
    if (!line.text.starts_with('|')) continue;
    for (const std::string& cell : cells_of(line.text))
      if (characters(cell) > most) found.push_back(std::to_string(line.line) + ": " + cell);
  }
  return found;
}

}  // namespace penstock
