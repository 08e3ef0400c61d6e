#pragma once
// A position in a text that is being read, and the faults found there. Used by the readers of
// program_text.hpp and pytorch_csv.hpp.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace penstock {

/// A fault and its offset in the text that was being read.
struct TextFault {
  std::size_t offset = 0;
  std::string message;
};

/// Reads a text from left to right. The text must outlive the cursor.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  bool done() const { return at_ == text_.size(); }
  std::size_t offset() const { return at_; }
  /// Returns the next character, or NUL at the end.
  char peek() const { return done() ? '\0' : text_[at_]; }
  /// Takes the next character and returns true if it is `expected`. Otherwise returns false and does not
  /// move.
  bool take(char expected);
  void skip_blanks();
  /// Takes letters and underscores up to another character. The result may be empty.
  std::string_view take_letters();
  /// Takes everything up to the next blank. The result may be empty.
  std::string_view take_word();
  /// Takes everything up to the end.
  std::string_view take_rest();
  /// Takes a decimal number from 0 to 2^31-1. `what` names it in the fault, such as "a stage number".
  tl::expected<std::int32_t, TextFault> take_number(std::string_view what);

  /// Returns the fault "expected EXPECTED, got `REST UP TO A BLANK`" at this position.
  tl::unexpected<TextFault> fault(std::string_view expected) const;
  /// Returns a fault with this message at `offset`.
  static tl::unexpected<TextFault> fault_at(std::size_t offset, std::string message);

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

/// Returns `text` without the byte order mark with which some editors begin UTF-8 files.
std::string_view without_byte_order_mark(std::string_view text);

/// Returns `word` between backquotes, shortened if it is long, with '?' for characters that cannot be
/// printed. Returns "the end" for an empty word.
std::string shown(std::string_view word);

}  // namespace penstock
