#pragma once
// Sinks for texts that are too long to be held as a whole, such as those with a line for every action.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace penstock {

/// A consumer that takes a text in pieces of whole lines, in order. It returns false if it wants no more, and
/// the writer may stop.
using TextSink = std::function<bool(std::string_view lines)>;
/// A function that makes a text and writes it to a sink.
using TextInPieces = std::function<void(const TextSink& sink)>;

/// A buffer that collects lines until they are worth a call of the sink. The sink must outlive it.
class LineBuffer {
 public:
  explicit LineBuffer(const TextSink& sink) : sink_(sink) {}

  /// Returns the text to which the caller appends. end_line() and flush() move whole lines of it to the sink.
  std::string& text() { return text_; }
  /// Must be called after each line. Returns false if the sink wants no more.
  bool end_line() { return text_.size() < kPieceBytes ? is_wanted_ : flush(); }
  /// Writes the remaining lines. Returns false if the sink wants no more.
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

/// Returns the whole text. Use it for texts that are known to be short.
inline std::string whole_text(const TextInPieces& text) {
  std::string whole;
  text([&whole](std::string_view lines) {
    whole += lines;
    return true;
  });
  return whole;
}

}  // namespace penstock
