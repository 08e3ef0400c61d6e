#pragma once
// A CSV file with the names of its columns in the first row.

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

/// The rows after the header. Empty lines and rows that begin with '#' are ignored.
class CsvTable {
 public:
  /// Reads a table. Error: "LINE: what was expected" for a missing header, a name that two columns have, a
  /// missing column of `columns` (with the existing names), a row with a wrong number of cells, or a quote
  /// without an end.
  static tl::expected<CsvTable, std::string> parse(std::string_view text,
                                                   std::span<const std::string_view> columns);

  std::size_t row_count() const { return rows_.size(); }
  const std::vector<std::string>& header() const { return header_; }
  bool has(std::string_view column) const { return places_.contains(column); }
  /// Returns the line number of a row in the file. Lines count from 1 and rows from 0.
  std::size_t line(std::size_t row) const { return rows_[row].line; }
  /// Returns all cells of a row, in the order of the header.
  const std::vector<std::string>& cells(std::size_t row) const { return rows_[row].cells; }
  /// Returns the cell of a row in a column. Requires has(column).
  const std::string& cell(std::size_t row, std::string_view column) const;
  /// Returns the cell as a positive number. Requires has(column). Error: "LINE: COLUMN: expected a number
  /// above 0, got ..."
  tl::expected<double, std::string> positive(std::size_t row, std::string_view column) const;

 private:
  std::vector<std::string> header_;
  std::map<std::string, std::size_t, std::less<>> places_;
  std::vector<CsvRow> rows_;
};

}  // namespace penstock
