// Reads CSV files with a header. It finds cells by the names of their columns, so a file may have
// additional columns, and columns in any order. Tested by kernel_tables_test.cpp.

#include "text/csv_table.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "text/csv_rows.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

/// Returns the names of a file's columns for an error message. Long lists are shortened, because the first
/// row may be from another kind of file.
std::string column_list(const std::vector<std::string>& header) {
  constexpr std::size_t kMost = 200;
  const std::string all = fmt::format("{}", fmt::join(header, ", "));
  return all.size() > kMost ? all.substr(0, kMost) + "..." : all;
}

}  // namespace

tl::expected<CsvTable, std::string> CsvTable::parse(std::string_view text,
                                                    std::span<const std::string_view> columns) {
  auto rows = csv_rows(text);
  if (!rows) return tl::unexpected(fmt::format("{}: {}", rows.error().line, rows.error().message));
  std::erase_if(*rows,
                [](const CsvRow& row) { return row.cells.empty() || row.cells.front().starts_with('#'); });
  if (rows->empty()) {
    return tl::unexpected(fmt::format(
        "1: expected a first row with the names of the columns, {}, got nothing", fmt::join(columns, ", ")));
  }
  CsvTable table;
  const std::size_t header_line = rows->front().line;
  table.header_ = std::move(rows->front().cells);
  rows->erase(rows->begin());
  for (std::size_t i = 0; i < table.header_.size(); ++i) {
    const std::string& name = table.header_[i];
    const auto [first, is_new] = table.places_.emplace(name, i);
    // Spreadsheets may append columns without a name. Several such columns are allowed, because no code reads
    // their cells.
    if (is_new || name.empty()) continue;
    return tl::unexpected(fmt::format("{}: expected each column once, got \"{}\" as columns {} and {}",
                                      header_line, column_list({name}), first->second + 1, i + 1));
  }
  for (const std::string_view column : columns) {
    if (table.has(column)) continue;
    return tl::unexpected(
        fmt::format("{}: expected a column \"{}\", got {}", header_line, column, column_list(table.header_)));
  }
  for (const CsvRow& row : *rows) {
    if (row.cells.size() == table.header_.size()) continue;
    return tl::unexpected(fmt::format("{}: expected {} cells as in the first row, got {}", row.line,
                                      table.header_.size(), row.cells.size()));
  }
  table.rows_ = *std::move(rows);
  return table;
}

const std::string& CsvTable::cell(std::size_t row, std::string_view column) const {
  return rows_[row].cells[places_.find(column)->second];
}

tl::expected<double, std::string> CsvTable::positive(std::size_t row, std::string_view column) const {
  const std::string& text = cell(row, column);
  const auto value = finite_number(text);
  if (value && *value > 0) return *value;
  return tl::unexpected(
      fmt::format("{}: {}: expected a number above 0, got \"{}\"", line(row), column, text));
}

}  // namespace penstock
