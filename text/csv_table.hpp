#pragma once
// Reads rows of comma-separated values like Python's csv module (in its "excel" dialect). The first row of a
// CsvTable names the columns.

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

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

// A CSV file with a header: the first row has the names of the columns.

/// A table that is read from CSV. Its rows are the lines after the header. Empty lines and lines that begin
/// with '#' are ignored.
class CsvTable {
 public:
  /// Reads a table from CSV. Fails with "LINE: what was expected" if the header is missing, if two columns
  /// have the same name, or if a column of `columns` is missing. Also fails if a row has a wrong number of
  /// cells, or if a quote is not closed.
  static tl::expected<CsvTable, std::string> parse(std::string_view text,
                                                   std::span<const std::string_view> columns);

  std::size_t row_count() const { return rows_.size(); }
  const std::vector<std::string>& header() const { return header_; }
  bool has(std::string_view column) const { return places_.contains(column); }
  /// Returns the line number of a row in the file. Line numbers begin at 1, and row numbers begin at 0.
  std::size_t line(std::size_t row) const { return rows_[row].line; }
  /// Returns all cells of a row, in the order of the header.
  const std::vector<std::string>& cells(std::size_t row) const { return rows_[row].cells; }
  /// Returns the cell of a row in the column of that name. Requires has(column).
  const std::string& cell(std::size_t row, std::string_view column) const;
  /// Returns the cell as a number above 0. Requires has(column). For any other cell, the error is "LINE:
  /// COLUMN: expected a number above 0, got ...".
  tl::expected<double, std::string> positive(std::size_t row, std::string_view column) const;

 private:
  std::vector<std::string> header_;
  std::map<std::string, std::size_t, std::less<>> places_;
  std::vector<CsvRow> rows_;
};

}  // namespace penstock
