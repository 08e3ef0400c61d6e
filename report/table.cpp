#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/escaping.hpp"
#include "report/units.hpp"

namespace penstock {
namespace {

bool is_numeric(const Table& table, std::size_t column) {
  return std::ranges::all_of(table.rows, [&](const std::vector<Cell>& row) {
    return row[column].value.has_value() || row[column].text.empty();
  });
}

std::size_t width_of(const Table& table, std::size_t column) {
  std::size_t width = table.columns[column].size();
  for (const auto& row : table.rows) width = std::max(width, row[column].text.size());
  return width;
}

struct ColumnLayout {
  std::size_t width;
  bool right;
};

std::string text_line(const std::vector<std::string_view>& cells, const std::vector<ColumnLayout>& layout) {
  std::string line;
  for (std::size_t column = 0; column < cells.size(); ++column) {
    if (column > 0) line += "  ";
    line += layout[column].right ? fmt::format("{:>{}}", cells[column], layout[column].width)
                                 : fmt::format("{:<{}}", cells[column], layout[column].width);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string html_cell(const Cell& cell) {
  if (!cell.value) return fmt::format("<td>{}</td>", xml_escaped(cell.text));
  return fmt::format("<td class=\"number\" data-value=\"{}\">{}</td>", shortest_number(*cell.value),
                     xml_escaped(cell.text));
}

}  // namespace

std::string table_to_text(const Table& table) {
  if (table.columns.empty()) return "";
  std::vector<ColumnLayout> layout;
  layout.reserve(table.columns.size());
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    layout.push_back({width_of(table, column), is_numeric(table, column)});
  }
  std::string text = text_line({table.columns.begin(), table.columns.end()}, layout);
  for (const auto& row : table.rows) {
    std::vector<std::string_view> cells;
    cells.reserve(row.size());
    for (const Cell& cell : row) cells.push_back(cell.text);
    text += text_line(cells, layout);
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

}  // namespace penstock
