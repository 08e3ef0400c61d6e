// Prints tables as text and HTML. Each column is as wide as its widest cell. A column is aligned right if all
// its cells have numeric values. The page's script sorts 900 ms before 1.1 s: it reads the numbers and the
// units of cells, and HTML stores a value as an attribute where the text does not show it. Tested by
// figures_test.cpp.

#include "report/print/table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/print/units.hpp"
#include "schedules/ir/action.hpp"
#include "text/escaping.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

bool is_numeric(const Table& table, std::size_t column) {
  return std::ranges::all_of(table.rows, [&](const std::vector<Cell>& row) {
    return row[column].value.has_value() || row[column].text.empty();
  });
}

/// Returns the table with line breaks in its texts escaped, because a name may contain a line break.
Table in_lines(Table table) {
  for (std::string& column : table.columns) column = shown_name(column);
  for (auto& row : table.rows) {
    for (Cell& cell : row) cell.text = shown_name(cell.text);
  }
  return table;
}

/// Returns the width of a column in bytes. Characters outside ASCII have several bytes, so they make the
/// column slightly too wide.
std::size_t width_of(const Table& table, std::size_t column) {
  std::size_t width = table.columns[column].size();
  for (const auto& row : table.rows) width = std::max(width, row[column].text.size());
  return width;
}

struct ColumnLayout {
  std::size_t width;
  bool right;
};

// The number of blanks between two columns.
constexpr std::size_t kColumnGap = 2;

using Columns = std::vector<std::size_t>;

/// Returns the total width of the first `count` columns, including the gaps between them.
std::size_t width_of_first(const std::vector<ColumnLayout>& layout, std::size_t count) {
  std::size_t width = kColumnGap * (count - 1);
  for (std::size_t column = 0; column < count; ++column) width += layout[column].width;
  return width;
}

/// Returns true if no two rows are equal in their first `count` columns.
bool tells_rows_apart(const Table& table, std::size_t count) {
  std::set<std::vector<std::string_view>> seen;
  return std::ranges::all_of(table.rows, [&](const std::vector<Cell>& row) {
    std::vector<std::string_view> texts;
    texts.reserve(count);
    for (std::size_t column = 0; column < count; ++column) texts.push_back(row[column].text);
    return seen.insert(std::move(texts)).second;
  });
}

/// Returns the number of leading columns that each block of a wide table repeats. Usually these are all key
/// columns. If the key columns need more than two thirds of the width, only the first ones are repeated. They
/// are as many as are needed to distinguish the rows.
std::size_t repeated_columns(const Table& table, const std::vector<ColumnLayout>& layout, std::size_t width) {
  const std::size_t keys = std::min(table.keys, layout.size());
  const auto has_room = [&](std::size_t count) { return 3 * width_of_first(layout, count) <= 2 * width; };
  if (has_room(keys)) return keys;
  for (std::size_t count = 1; count < keys && has_room(count); ++count) {
    if (tells_rows_apart(table, count)) return count;
  }
  return 1;
}

/// Returns the columns of each block. Each block starts with the first `repeated` columns, which identify the
/// table row. It has at least one more column, even if that column is too wide. Width 0 means no limit.
///
///     rank  busy  idle        width 16, repeated 1: {0, 1, 2}, {0, 3}
///     rank  peak
std::vector<Columns> blocks_of(const std::vector<ColumnLayout>& layout, std::size_t repeated,
                               std::size_t width) {
  Columns beginning(repeated);
  std::iota(beginning.begin(), beginning.end(), std::size_t{0});
  std::vector<Columns> blocks = {beginning};
  std::size_t used = width_of_first(layout, repeated);
  for (std::size_t column = repeated; column < layout.size(); ++column) {
    const std::size_t wanted = kColumnGap + layout[column].width;
    const bool has_room = width == 0 || used + wanted <= width;
    if (!has_room && blocks.back().size() > repeated) {
      blocks.push_back(beginning);
      used = width_of_first(layout, repeated);
    }
    blocks.back().push_back(column);
    used += wanted;
  }
  return blocks;
}

/// Returns one line of a block. Each cell is padded to the width of its column.
std::string text_line(const std::vector<std::string_view>& cells, const std::vector<ColumnLayout>& layout,
                      const Columns& shown) {
  std::string line;
  for (const std::size_t column : shown) {
    if (!line.empty()) line += std::string(kColumnGap, ' ');
    line += layout[column].right ? fmt::format("{:>{}}", cells[column], layout[column].width)
                                 : fmt::format("{:<{}}", cells[column], layout[column].width);
  }
  // Blanks at the end of a line would appear in diffs.
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

// The units in which table cells show times, sizes and parts, with the value of one. The same ones are in
// report/web/tables.js.
constexpr auto kShownUnits = std::to_array<std::pair<std::string_view, double>>({{"", 1},
                                                                                 {"ns", 1},
                                                                                 {"us", 1e3},
                                                                                 {"ms", 1e6},
                                                                                 {"s", 1e9},
                                                                                 {"B", 1},
                                                                                 {"KiB", 1024},
                                                                                 {"MiB", 1048576},
                                                                                 {"GiB", 1073741824},
                                                                                 {"TiB", 1099511627776},
                                                                                 {"PiB", 1125899906842624},
                                                                                 {"%", 0.01}});
// The number of leading columns for which page.css has a class that aligns them to the right.
constexpr std::size_t kAlignedColumns = 16;
// The largest part of a value by which its text may differ from it. A text with two decimals differs by less.
constexpr double kTextRounding = 0.005;

/// Returns whether tables.js can sort by the text of a cell, because it is the cell's value but for rounding.
bool shows_value(const Cell& cell) {
  const LeadingNumber<double> number = leading_number<double>(cell.text);
  if (!number.value || !std::isfinite(*number.value)) return false;
  std::string_view unit = std::string_view(cell.text).substr(number.spelling.size());
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto found = std::ranges::find(kShownUnits, unit, &std::pair<std::string_view, double>::first);
  return found != kShownUnits.end() &&
         std::abs(*number.value * found->second - *cell.value) <= kTextRounding * std::abs(*cell.value);
}

std::string html_cell(const Cell& cell, bool is_aligned) {
  if (!cell.value || (is_aligned && shows_value(cell)))
    return fmt::format("<td>{}</td>", xml_escaped(cell.text));
  return fmt::format("<td data-value=\"{}\">{}</td>", shortest_number(*cell.value), xml_escaped(cell.text));
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
  for (const Columns& shown : blocks_of(layout, repeated_columns(table, layout, width), width)) {
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
  // The class of a column aligns its cells to the right (page.css). This is shorter than a class of each
  // cell.
  std::string classes = "figures";
  std::vector<bool> is_aligned(table.columns.size());
  for (std::size_t column = 0; column < std::min(table.columns.size(), kAlignedColumns); ++column) {
    is_aligned[column] = is_numeric(table, column);
    if (is_aligned[column]) classes += fmt::format(" r{}", column + 1);
  }
  std::string html = fmt::format("<table class=\"{}\">\n<thead><tr>", classes);
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    html += fmt::format("<th{}>{}</th>", is_numeric(table, column) ? " class=\"number\"" : "",
                        xml_escaped(table.columns[column]));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (std::size_t column = 0; column < row.size(); ++column)
      html += html_cell(row[column], is_aligned[column]);
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table>\n";
}

std::string table_section(std::string_view heading, const Table& table) {
  if (table.rows.empty()) return "";
  return fmt::format("<h2>{}</h2>\n<div class=\"scroll\">\n{}</div>\n", heading, table_to_html(table));
}

Cell text_cell(std::string text) { return {std::move(text), std::nullopt}; }

Cell count_cell(std::int64_t count) { return {fmt::format("{}", count), static_cast<double>(count)}; }

Cell duration_cell(Ns duration_ns) {
  return {format_duration(duration_ns), static_cast<double>(duration_ns)};
}

Cell period_cell(double period_ns) {
  // The longest period in ns that is converted to an integer. A longer or infinite one would not fit into 64
  // bits.
  constexpr double kLongest = 9e18;
  return {format_duration(static_cast<Ns>(std::llround(std::min(period_ns, kLongest)))), period_ns};
}

Cell bytes_cell(Bytes bytes) { return {format_bytes(bytes), static_cast<double>(bytes)}; }

Cell percent_cell(double part) { return {format_percent(part), part}; }

Cell rate_cell(double rate) { return {format_rate(rate), rate}; }

Cell quantity_cell(double quantity) { return {format_quantity(quantity), quantity}; }

}  // namespace penstock
