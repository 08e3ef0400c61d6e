// One pass over the text, a character at a time, as Python's csv reader does without its strict mode, since
// that is what reads these files in PyTorch: a quote opens a field only at its beginning, two quotes inside
// are one, and anything behind a closing quote belongs to the field. Each row keeps the number of its first
// line for messages.

#include "schedules/text/csv_rows.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {
namespace {

/// One row after the other. `at_` is the next character, `line_` the line that it is on.
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
  std::size_t open_quote_line_ = 0;  ///< of a quote that was never closed
};

tl::expected<std::vector<CsvRow>, CsvFault> CsvReader::read() {
  std::vector<CsvRow> rows;
  while (!done()) rows.push_back(read_row());
  if (open_quote_line_ != 0) {
    return tl::unexpected(
        CsvFault{.line = open_quote_line_, .message = "expected a closing `\"`, got the end of the file"});
  }
  // Empty lines at the end are no ranks; one between rows is a rank without actions, which the caller
  // reports.
  while (!rows.empty() && rows.back().cells.empty()) rows.pop_back();
  return rows;
}

CsvRow CsvReader::read_row() {
  CsvRow row{.line = line_, .cells = {}};
  while (!at_line_end()) {
    row.cells.push_back(read_cell());
    if (at_line_end()) break;
    ++at_;  // the comma
    // A comma at the end of a line has an empty cell behind it.
    if (at_line_end()) row.cells.emplace_back();
  }
  skip_line_end();
  return row;
}

std::string CsvReader::read_cell() {
  std::string cell;
  if (text_[at_] == '"') cell = read_quoted();
  // Also behind a closing quote: `"0F0"1,` is the cell 0F01 to Python, and to us.
  while (!at_line_end() && text_[at_] != ',') cell += text_[at_++];
  return cell;
}

std::string CsvReader::read_quoted() {
  std::string cell;
  const std::size_t begin_line = line_;
  for (++at_; !done(); ++at_) {
    if (text_[at_] == '"') {
      ++at_;
      // Two quotes are one: the second of them goes into the cell below.
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
  // CRLF is one end of line, and so is a CR alone.
  const bool carriage_return = text_[at_++] == '\r';
  if (carriage_return && !done() && text_[at_] == '\n') ++at_;
  ++line_;
}

}  // namespace

tl::expected<std::vector<CsvRow>, CsvFault> csv_rows(std::string_view text) { return CsvReader(text).read(); }

}  // namespace penstock
