
#include "report/result/result_table.hpp"

#include <fmt/format.h>

#include <string>

#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "text/escaping.hpp"

namespace penstock {

namespace {

std::string out_of_memory_text(const Result& result) {
  std::string text;
  for (const std::string& line : out_of_memory_lines(result))
    text += fmt::format("out of memory: {}\n", shown_name(line));
  return text.empty() ? text : '\n' + text;
}

}  // namespace

std::string result_to_table(const Result& result, const ResultTableOptions& options) {
  std::string text;
  for (const Headline& line : headlines(result))
    text += fmt::format("{:<11} {}\n", line.name, shown_name(line.figure));
  if (!result.ranks.empty()) text += '\n' + table_to_text(rank_figures(result), options.width);
  if (!used_categories(result).empty()) {
    text += "\npeak of each kind of memory\n" + table_to_text(peak_figures(result), options.width);
  }
  if (!result.links.empty()) text += '\n' + table_to_text(link_figures(result), options.width);
  if (options.out_of_memory == OutOfMemoryLines::shown) text += out_of_memory_text(result);
  if (!result.notes.empty()) text += '\n';
  for (const std::string& note : result.notes) text += fmt::format("note: {}\n", shown_name(note));
  return text;
}

}  // namespace penstock
