#pragma once
// A table of figures. It can be written as aligned text for terminals or as HTML for pages.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// A table cell. HTML pages sort a column by `value`. A cell without a value is sorted by its text.
struct Cell {
  std::string text;
  std::optional<double> value;

  friend bool operator==(const Cell&, const Cell&) = default;
};

/// A table in which every row has one cell per column. A column is aligned right if each of its cells is
/// empty or has a value.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
  /// The number of leading columns that identify a row, such as schedule, K, v and M.
  std::size_t keys = 1;

  friend bool operator==(const Table&, const Table&) = default;
};

/// Returns the table as aligned text. `width` is the longest line in characters; 0 means no limit. If a
/// line would be longer, the table is divided into blocks of columns, and each block repeats the key
/// columns. If the key columns take more than two thirds of the width, each block repeats only the first
/// ones, as many as distinguish the rows. Names are made safe with shown_name(). The text is empty if the
/// table has no columns.
std::string table_to_text(const Table& table, std::size_t width = 0);
/// Returns an HTML table with escaped cells. In a page of html_page.hpp, a click on a column heading
/// sorts the table.
std::string table_to_html(const Table& table);
/// Returns the HTML table under a heading of the second level, or an empty text if there are no rows. A wide
/// table is in a box that scrolls. `heading` is HTML.
std::string table_section(std::string_view heading, const Table& table);

// Functions that make table cells. units.hpp writes the text of a cell. The value of a cell is the exact
// figure, by which the column is sorted: {"1.5 ms", 1500000}, {"12.5 %", 0.125}. A cell without a value is
// sorted by its text.

Cell text_cell(std::string text);
Cell count_cell(std::int64_t count);
Cell duration_cell(Ns duration_ns);
/// Returns a cell for a time that may contain a fraction of a nanosecond, such as a mean or a period. If
/// the time does not fit into `Ns`, the text shows the longest `Ns`.
Cell period_cell(double period_ns);
Cell bytes_cell(Bytes bytes);
/// Returns a cell for a fraction of 1, shown as a percentage.
Cell percent_cell(double part);
/// Returns a cell for a number of events per second.
Cell rate_cell(double rate);
/// Returns a cell for a count that may be a fraction.
Cell quantity_cell(double quantity);

// Sinks for texts that are too long to hold in memory, such as texts with a line for every action.

/// A function that receives a text in order, in pieces of whole lines. It returns false if it needs no more
/// text, and then the writer may stop.
using TextSink = std::function<bool(std::string_view lines)>;
/// A function that generates a text and writes it to the sink in pieces.
using TextInPieces = std::function<void(const TextSink& sink)>;

/// A buffer that collects lines and passes them to the sink in large pieces. The sink must outlive the
/// buffer.
class LineBuffer {
 public:
  explicit LineBuffer(const TextSink& sink) : sink_(sink) {}

  /// Returns the text that the buffer has collected. The caller appends to this text, and end_line() and
  /// flush() pass it to the sink.
  std::string& text() { return text_; }
  /// Ends a line; the writer must call it after each line. Passes the text to the sink if enough has been
  /// collected. Returns false if the sink needs no more text.
  bool end_line() { return text_.size() < kPieceBytes ? is_wanted_ : flush(); }
  /// Passes all collected lines to the sink. Returns false if the sink needs no more text.
  bool flush() {
    if (is_wanted_) is_wanted_ = sink_(text_);
    text_.clear();
    return is_wanted_;
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 16U;
  const TextSink& sink_;
  std::string text_;
  bool is_wanted_ = true;
};

/// Returns the whole text as one string. Use it only for texts that are known to be short.
inline std::string whole_text(const TextInPieces& text) {
  std::string whole;
  text([&whole](std::string_view lines) {
    whole += lines;
    return true;
  });
  return whole;
}

}  // namespace penstock
