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

// Splits text into cells exactly as Python's csv module does in its non-strict mode, because PyTorch reads
// its schedules with that module. A quote begins a quoted field only if it is the field's first character.
// Two quotes inside a quoted field mean one quote. Text after a closing quote belongs to the field. Each row
// has its first line number, for messages. Tested by pytorch_csv_test.cpp.

namespace {

/// A reader that returns the rows of a CSV text one by one. `at_` is the index of the next character, and
/// `line_` is the number of its line.
class CsvReader {
 public:
  explicit CsvReader(std::string_view text) : text_(text) {}
  tl::expected<std::vector<CsvRow>, CsvFault> read();

 private:
  bool done() const { return at_ == text_.size(); }
  bool at_line_end() const { return done() || text_[at_] == '\n' || text_[at_] == '\r'; }
  CsvRow read_row();
  std::string read_cell();
  std::string read_quoted();
  void skip_line_end();

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  /// The number of the line with a quote that is never closed, or 0 if there is none.
  std::size_t open_quote_line_ = 0;
};

tl::expected<std::vector<CsvRow>, CsvFault> CsvReader::read() {
  std::vector<CsvRow> rows;
  while (!done()) rows.push_back(read_row());
  if (open_quote_line_ != 0) {
    return tl::unexpected(
        CsvFault{.line = open_quote_line_, .message = "expected a closing `\"`, got the end of the file"});
  }
  // Empty lines at the end are dropped. An empty line between rows is a rank without actions. The caller
  // reports it as an error.
  while (!rows.empty() && rows.back().cells.empty()) rows.pop_back();
  return rows;
}

CsvRow CsvReader::read_row() {
  CsvRow row{.line = line_, .cells = {}};
  while (!at_line_end()) {
    row.cells.push_back(read_cell());
    if (at_line_end()) break;
    ++at_;  // skips the comma
    // A comma at the end of a line is followed by one more cell, which is empty.
    if (at_line_end()) row.cells.emplace_back();
  }
  skip_line_end();
  return row;
}

std::string CsvReader::read_cell() {
  std::string cell;
  if (text_[at_] == '"') cell = read_quoted();
  // Text may follow a closing quote. For example, Python reads `"0F0"1,` as the cell 0F01.
  while (!at_line_end() && text_[at_] != ',') cell += text_[at_++];
  return cell;
}

std::string CsvReader::read_quoted() {
  std::string cell;
  const std::size_t begin_line = line_;
  for (++at_; !done(); ++at_) {
    if (text_[at_] == '"') {
      ++at_;
      // Two quotes in a quoted cell mean one quote. The first was skipped above, so only the second is
      // appended below.
      if (done() || text_[at_] != '"') return cell;
    }
    if (text_[at_] == '\n') ++line_;
    cell += text_[at_];
  }
  open_quote_line_ = begin_line;
  return cell;
}

void CsvReader::skip_line_end() {
  if (done()) return;
  // A CRLF is one line end, and so is a single CR.
  const bool carriage_return = text_[at_++] == '\r';
  if (carriage_return && !done() && text_[at_] == '\n') ++at_;
  ++line_;
}

}  // namespace

tl::expected<std::vector<CsvRow>, CsvFault> csv_rows(std::string_view text) { return CsvReader(text).read(); }

}  // namespace penstock
