// Splits text into cells exactly as Python's csv module does in its non-strict mode, because PyTorch reads
// its schedules with that module. A quote begins a quoted field only if it is the field's first character.
// Two quotes inside a quoted field mean one quote. Text after a closing quote belongs to the field. Each row
// has its first line number, for messages. Tested by pytorch_csv_test.cpp.

#include "text/csv_rows.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {
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
    ++at_;  // the comma
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
      // Two quotes mean one. The first was skipped above, and the code below appends the second to the cell.
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
