#pragma once
// Reads words and numbers from a text, and reports faults with their position in it. The readers that
// program_text.hpp declares use it.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"

namespace penstock {

/// A message about a fault in a text, and the offset of the fault in the text.
struct TextFault {
  std::size_t offset = 0;
  std::string message;
};

/// A reader of a text from the beginning to the end. The text must outlive it.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  bool done() const { return at_ == text_.size(); }
  std::size_t offset() const { return at_; }
  /// Returns the next character, or NUL at the end of the text.
  char peek() const { return done() ? '\0' : text_[at_]; }
  /// Moves past the next character and returns true if it is `expected`. Otherwise returns false and does not
  /// move.
  bool take(char expected);
  void skip_blanks();
  /// Reads letters and underscores up to the next other character. The result may be empty.
  std::string_view take_letters();
  /// Reads all characters up to the next blank. The result may be empty.
  std::string_view take_word();
  /// Reads all characters up to the end of the text.
  std::string_view take_rest();
  /// Reads a decimal number from 0 to 2^31-1. `what` describes it in the fault, for example "a stage number".
  tl::expected<std::int32_t, TextFault> take_number(std::string_view what);

  /// Returns the fault "expected EXPECTED, got `REST UP TO A BLANK`" at the current position of the cursor.
  tl::unexpected<TextFault> fault(std::string_view expected) const;
  /// Returns a fault with this message at `offset`.
  static tl::unexpected<TextFault> fault_at(std::size_t offset, std::string message);

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

/// Returns `text` without a UTF-8 byte order mark. Some editors write one at the beginning of a file.
std::string_view without_byte_order_mark(std::string_view text);

/// Returns `word` between backquotes for an error message. It shortens a long word, and writes '?' for
/// characters that cannot be printed. Returns "the end" for an empty word.
std::string shown(std::string_view word);

// Reads actions from text, such as `0F0 (0F5;3B2@1)OVERLAP_F_B 2SEND_F3>4`. The readers of program files and
// of PyTorch's CSV use it for their lists. to_text() in action.hpp writes actions.

/// The form in which actions are written. It determines which actions a text may contain.
enum class ActionForm : std::uint8_t {
  penstock,  // any number of actions between blanks, with weight versions and named peers
  pytorch,   // one action or overlapped group, without R, STEP, versions and peers
};

/// The form of a text of actions, and the stages that it may name.
struct ActionLimits {
  ActionForm form = ActionForm::penstock;
  /// The number of stages. The stage number of an action must be smaller.
  std::int32_t stages = std::numeric_limits<std::int32_t>::max();
};

/// Returns the actions of `text`, or an empty list if `text` is blank. If a SEND or RECV names no peer, its
/// peer is the neighbouring stage.
tl::expected<std::vector<Action>, TextFault> read_actions(std::string_view text, const ActionLimits& limits);

}  // namespace penstock
