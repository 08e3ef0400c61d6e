#pragma once
// A place in a text that is being read, and what was wrong there. Used by the readers of
// program_text.hpp and pytorch_csv.hpp.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace penstock {

/// What was wrong, and how far into the text that was being read.
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
  /// The next character; NUL at the end.
  char peek() const { return done() ? '\0' : text_[at_]; }
  /// True, and moves on, when the next character is `expected`.
  bool take(char expected);
  void skip_blanks();
  /// Letters and underscores from here on; may be empty.
  std::string_view take_letters();
  /// Everything up to the next blank; may be empty.
  std::string_view take_word();
  /// Everything from here on.
  std::string_view take_rest();
  /// A number in digits, 0 to 2^31-1. `what` names it in the fault: "a stage number".
  tl::expected<std::int32_t, TextFault> take_number(std::string_view what);

  /// "expected EXPECTED, got `REST UP TO A BLANK`" at this place.
  tl::unexpected<TextFault> fault(std::string_view expected) const;
  /// `message` as it is, at `offset`.
  static tl::unexpected<TextFault> fault_at(std::size_t offset, std::string message);

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

/// `text` behind the byte order mark with which editors begin UTF-8 files, if there is one.
std::string_view without_byte_order_mark(std::string_view text);

/// `word` between backquotes, cut when it is long and with what cannot be printed as '?'; "the end" when
/// it is empty.
std::string shown(std::string_view word);

}  // namespace penstock
