#pragma once
// A table of figures, printed as aligned text for terminals or as HTML for pages.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// One cell. `value` sorts the column in HTML; without it the text does.
struct Cell {
  std::string text;
  std::optional<double> value;

  friend bool operator==(const Cell&, const Cell&) = default;
};

/// Every row has one cell a column. A column is set flush right when all its cells have a value or are empty.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
  std::size_t keys = 1;  ///< the first so many columns say which row it is: schedule, K, v, M

  friend bool operator==(const Table&, const Table&) = default;
};

/// Columns two blanks apart, a line a row, no blanks at line ends; empty without columns. Where lines would
/// be longer than `width`, further columns follow below, each time beside the key columns; 0: any length.
/// Keys that leave less than a third of the width to figures give way to the first of them that tell rows
/// apart. Cells are shown as names are (escaping.hpp).
std::string table_to_text(const Table& table, std::size_t width = 0);
/// A <table>, which a click on a heading sorts in a page of html_page.hpp. Cells are escaped.
std::string table_to_html(const Table& table);
/// The same under an <h2>, scrolling where it is wide; empty without rows. `heading` is HTML.
std::string table_section(std::string_view heading, const Table& table);

}  // namespace penstock
