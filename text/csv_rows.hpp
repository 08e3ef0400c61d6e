#pragma once
// Rows of comma-separated values, as the reader of Python's csv module returns them (its "excel" dialect).

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {

/// One row and its cells.
struct CsvRow {
  /// The line at which the row begins, counted from 1.
  std::size_t line = 1;
  std::vector<std::string> cells;
};

/// A fault and the line at which it is.
struct CsvFault {
  std::size_t line = 1;
  std::string message;
};

/// Returns the rows of `text`. A cell between double quotes may hold commas, line ends and doubled quotes.
/// Lines end in LF, CRLF or CR. An empty line is a row without cells; such rows at the end are dropped.
/// Error: a quote that is never closed.
tl::expected<std::vector<CsvRow>, CsvFault> csv_rows(std::string_view text);

}  // namespace penstock
