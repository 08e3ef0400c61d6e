#pragma once
// A CSV file with a header: the first row has the names of the columns.

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "text/csv_rows.hpp"

namespace penstock {

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
