#pragma once
// Where texts go that are too long to keep whole, as those with a line or more for every action.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace penstock {

/// Takes a text in pieces of whole lines, one behind the other. False: nobody takes more of it, and the rest
/// need not be made.
using TextSink = std::function<bool(std::string_view lines)>;
/// Makes a text and gives it to a sink.
using TextInPieces = std::function<void(const TextSink& sink)>;

/// Gathers lines until they are worth a call of the sink, which must outlive it.
class LineBuffer {
 public:
  explicit LineBuffer(const TextSink& sink) : sink_(sink) {}

  /// To append to. Whole lines of it leave in end_line() and flush().
  std::string& text() { return text_; }
  /// To be called where a line has ended. False: nobody takes more.
  bool end_line() { return text_.size() < kPieceBytes ? is_wanted_ : flush(); }
  /// The lines that are left.
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

/// All of it, where it is known to be short.
inline std::string whole_text(const TextInPieces& text) {
  std::string whole;
  text([&whole](std::string_view lines) {
    whole += lines;
    return true;
  });
  return whole;
}

}  // namespace penstock
