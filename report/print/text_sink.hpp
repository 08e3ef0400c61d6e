#pragma once
// Sinks for texts that are too long to hold in memory, such as texts with a line for every action.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace penstock {

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
