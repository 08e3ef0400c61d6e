#pragma once
// Reads rows of comma-separated values like Python's csv module (in its "excel" dialect). csv_table.hpp
// reads files in which the first row names the columns.

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {

/// A row of a CSV text with its cells.
struct CsvRow {
  /// The number of the line at which the row begins. Lines are counted from 1.
  std::size_t line = 1;
  std::vector<std::string> cells;
};

/// An error in a CSV text, and the line where it occurs.
struct CsvFault {
  std::size_t line = 1;
  std::string message;
};

/// Returns the rows of `text`. A cell in double quotes may contain commas, line ends and doubled quotes.
/// Lines end in LF, CRLF or CR. An empty line gives a row without cells, but empty lines at the end are
/// dropped. Fails if a quote is never closed.
tl::expected<std::vector<CsvRow>, CsvFault> csv_rows(std::string_view text);

}  // namespace penstock
