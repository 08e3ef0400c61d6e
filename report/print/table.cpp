// A column is as wide as its widest cell and stands to the right when all its cells are numbers, which needs
// no word from the caller: a cell carries its value beside its text. The HTML form keeps the values as
// attributes for the script that sorts rows, so that 900 ms comes before 1.1 s.

#include "report/print/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/print/escaping.hpp"
#include "report/print/units.hpp"

namespace penstock {
namespace {

bool is_numeric(const Table& table, std::size_t column) {
  return std::ranges::all_of(table.rows, [&](const std::vector<Cell>& row) {
    return row[column].value.has_value() || row[column].text.empty();
  });
}

/// A name in a cell must not end its line.
Table in_lines(Table table) {
  for (std::string& column : table.columns) column = shown_name(column);
  for (auto& row : table.rows) {
    for (Cell& cell : row) cell.text = shown_name(cell.text);
  }
  return table;
}

/// In bytes: of a name that is not ASCII the column is a little wider than it had to be.
std::size_t width_of(const Table& table, std::size_t column) {
  std::size_t width = table.columns[column].size();
  for (const auto& row : table.rows) width = std::max(width, row[column].text.size());
  return width;
}

struct ColumnLayout {
  std::size_t width;
  bool right;
};

constexpr std::size_t kColumnGap = 2;  // between columns

using Columns = std::vector<std::size_t>;

/// Which columns stand side by side.
/// Each block begins with the first column, which names the rows. It has another one even where that is
/// too wide, since nothing would be shown otherwise. Width 0: no limit.
///
///     rank  busy  idle        width 16: {0, 1, 2}, {0, 3}
///     rank  peak
std::vector<Columns> blocks_of(const std::vector<ColumnLayout>& layout, std::size_t width) {
  std::vector<Columns> blocks = {{0}};
  std::size_t used = layout.front().width;
  for (std::size_t column = 1; column < layout.size(); ++column) {
    const std::size_t wanted = kColumnGap + layout[column].width;
    const bool has_room = width == 0 || used + wanted <= width;
    if (!has_room && blocks.back().size() > 1) {
      blocks.push_back({0});
      used = layout.front().width;
    }
    blocks.back().push_back(column);
    used += wanted;
  }
  return blocks;
}

/// The cells of the columns that are shown, in their places.
std::string text_line(const std::vector<std::string_view>& cells, const std::vector<ColumnLayout>& layout,
                      const Columns& shown) {
  std::string line;
  for (const std::size_t column : shown) {
    if (!line.empty()) line += std::string(kColumnGap, ' ');
    line += layout[column].right ? fmt::format("{:>{}}", cells[column], layout[column].width)
                                 : fmt::format("{:<{}}", cells[column], layout[column].width);
  }
  // No blanks at the end of a line, which a diff would show.
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string html_cell(const Cell& cell) {
  if (!cell.value) return fmt::format("<td>{}</td>", xml_escaped(cell.text));
  return fmt::format("<td class=\"number\" data-value=\"{}\">{}</td>", shortest_number(*cell.value),
                     xml_escaped(cell.text));
}

}  // namespace

std::string table_to_text(const Table& given, std::size_t width) {
  if (given.columns.empty()) return "";
  const Table table = in_lines(given);
  std::vector<ColumnLayout> layout;
  layout.reserve(table.columns.size());
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    layout.push_back({width_of(table, column), is_numeric(table, column)});
  }
  std::string text;
  for (const Columns& shown : blocks_of(layout, width)) {
    if (!text.empty()) text += '\n';
    text += text_line({table.columns.begin(), table.columns.end()}, layout, shown);
    for (const auto& row : table.rows) {
      std::vector<std::string_view> cells;
      cells.reserve(row.size());
      for (const Cell& cell : row) cells.push_back(cell.text);
      text += text_line(cells, layout, shown);
    }
  }
  return text;
}

std::string table_to_html(const Table& table) {
  std::string html = "<table class=\"figures\">\n<thead><tr>";
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    html += fmt::format("<th{}>{}</th>", is_numeric(table, column) ? " class=\"number\"" : "",
                        xml_escaped(table.columns[column]));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (const Cell& cell : row) html += html_cell(cell);
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table>\n";
}

std::string table_section(std::string_view heading, const Table& table) {
  if (table.rows.empty()) return "";
  return fmt::format("<h2>{}</h2>\n<div class=\"scroll\">\n{}</div>\n", heading, table_to_html(table));
}

}  // namespace penstock
