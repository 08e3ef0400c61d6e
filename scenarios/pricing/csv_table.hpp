#pragma once
// A CSV file whose first row names its columns.

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/text/csv_rows.hpp"

namespace penstock {

/// The rows under a header; empty lines and rows that begin with '#' are left out.
class CsvTable {
 public:
  /// Error: "LINE: what was expected": no header, a name that two columns have, a column of `columns` missing
  /// (with the names that are there), a row that has not one cell a column, a quote that is never closed.
  static tl::expected<CsvTable, std::string> parse(std::string_view text,
                                                   std::span<const std::string_view> columns);

  std::size_t row_count() const { return rows_.size(); }
  const std::vector<std::string>& header() const { return header_; }
  bool has(std::string_view column) const { return places_.contains(column); }
  /// Of a row from 0, where it is in the file, from 1.
  std::size_t line(std::size_t row) const { return rows_[row].line; }
  /// All cells of a row, in the header's order.
  const std::vector<std::string>& cells(std::size_t row) const { return rows_[row].cells; }
  /// Requires has(column).
  const std::string& cell(std::size_t row, std::string_view column) const;
  /// Requires has(column). Error: "LINE: COLUMN: expected a number above 0, got ..."
  tl::expected<double, std::string> positive(std::size_t row, std::string_view column) const;

 private:
  std::vector<std::string> header_;
  std::map<std::string, std::size_t, std::less<>> places_;
  std::vector<CsvRow> rows_;
};

}  // namespace penstock
