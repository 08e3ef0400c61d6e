#pragma once
// A table of figures, as aligned text for terminals or as HTML for pages.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// A cell. `value` is the number by which HTML sorts the column; a cell without one is sorted by its text.
struct Cell {
  std::string text;
  std::optional<double> value;

  friend bool operator==(const Cell&, const Cell&) = default;
};

/// A table. Every row has one cell for each column. A column is aligned right if all its cells have a value
/// or are empty.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
  /// The number of first columns that identify the row: schedule, K, v, M.
  std::size_t keys = 1;

  friend bool operator==(const Table&, const Table&) = default;
};

/// Returns the table as text: one line for each row, columns two blanks apart, no blanks at line ends. If
/// lines would be longer than `width`, the other columns follow in blocks below, each block beside the key
/// columns; 0 means no limit. If the keys leave less than a third of the width to figures, a block repeats
/// only the first keys that tell rows apart. Names are made safe with shown_name() (escaping.hpp). Without
/// columns the text is empty.
std::string table_to_text(const Table& table, std::size_t width = 0);
/// Returns a <table> with escaped cells. In a page of html_page.hpp, a click on a heading sorts it.
std::string table_to_html(const Table& table);
/// Returns the table under an <h2>, in a box that scrolls if the table is wide; empty if there are no rows.
/// `heading` is HTML.
std::string table_section(std::string_view heading, const Table& table);

}  // namespace penstock
