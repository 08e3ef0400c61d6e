
#include "schedules/text/text_cursor.hpp"
#include "text/numbers.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace penstock {
namespace {

// A file may be a single very long line, but an error message must be short. This is the largest number of
// characters that it shows.
constexpr std::size_t kLongestShown = 40;

bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }
bool is_decimal(char letter) { return letter >= '0' && letter <= '9'; }
bool is_letter(char letter) {
  return (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z') || letter == '_';
}

}  // namespace

bool TextCursor::take(char expected) {
  if (done() || text_[at_] != expected) return false;
  ++at_;
  return true;
}

void TextCursor::skip_blanks() {
  while (!done() && is_blank(text_[at_])) ++at_;
}

std::string_view TextCursor::take_letters() {
  const std::size_t begin = at_;
  while (!done() && is_letter(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::string_view TextCursor::take_word() {
  const std::size_t begin = at_;
  while (!done() && !is_blank(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::string_view TextCursor::take_rest() {
  const std::string_view rest = text_.substr(at_);
  at_ = text_.size();
  return rest;
}

tl::expected<std::int32_t, TextFault> TextCursor::take_number(std::string_view what) {
  if (!is_decimal(peek())) return fault(what);
  const auto number = leading_number<std::int32_t>(text_.substr(at_));
  // There is at least one digit, so the only possible error is a number that is too large.
  if (!number.value) return fault(fmt::format("{} (at most 2147483647)", what));
  at_ += number.spelling.size();
  return *number.value;
}

tl::unexpected<TextFault> TextCursor::fault(std::string_view expected) const {
  // A copy of the cursor reads the word, so that this cursor does not move.
  TextCursor rest = *this;
  return fault_at(at_, fmt::format("expected {}, got {}", expected, shown(rest.take_word())));
}

tl::unexpected<TextFault> TextCursor::fault_at(std::size_t offset, std::string message) {
  return tl::unexpected(TextFault{.offset = offset, .message = std::move(message)});
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

std::string shown(std::string_view word) {
  if (word.empty()) return "the end";
  std::string text(word.substr(0, kLongestShown));
  std::ranges::replace_if(
      text, [](char letter) { return std::isprint(static_cast<unsigned char>(letter)) == 0; }, '?');
  return fmt::format("`{}{}`", text, word.size() > kLongestShown ? "..." : "");
}

}  // namespace penstock
