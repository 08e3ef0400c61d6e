#include "schedules/text/text_cursor.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"
#include "text/numbers.hpp"

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

// Reads a list of actions, in Penstock's form or in PyTorch's form:
//
//   cell   := action | "(" action (";" action)+ ")OVERLAP_F_B"
//           | "(" transfer (";" transfer)+ ")" ("GROUP" | "GROUP_NOWAIT")
//   action := stage letters microbatch? ((">" | "<") peer)? ("@" version)?
//
// csv_dialect.cpp reads the notation of older PyTorch releases. Tested by program_text_test.cpp and
// pytorch_csv_test.cpp.

namespace {

using Done = tl::expected<void, TextFault>;

/// A reader that goes through the text once, from left to right, and stops at the first fault. `actions_`
/// holds the actions that are read so far.
class ActionReader {
 public:
  ActionReader(std::string_view text, const ActionLimits& limits) : cursor_(text), limits_(limits) {}

  tl::expected<std::vector<Action>, TextFault> read();

 private:
  Done read_cell();
  Done read_group();
  Done read_action();
  tl::expected<ActionKind, TextFault> read_kind(std::int32_t stage);
  tl::expected<std::int32_t, TextFault> read_stage(std::string_view what);
  Done read_peer(Action& action);
  Done read_version(Action& action);

  TextCursor cursor_;
  ActionLimits limits_;
  std::vector<Action> actions_;
};

tl::expected<std::vector<Action>, TextFault> ActionReader::read() {
  cursor_.skip_blanks();
  while (!cursor_.done()) {
    if (Done cell = read_cell(); !cell) return tl::unexpected(std::move(cell.error()));
    const std::size_t end = cursor_.offset();
    cursor_.skip_blanks();
    if (cursor_.done()) break;
    // In PyTorch's form, a cell has one action or one group. In Penstock's form, a line has a whole list.
    if (limits_.form == ActionForm::pytorch) return cursor_.fault("the end of the cell after its action");
    if (cursor_.offset() == end) return cursor_.fault("a blank or the end of the line after an action");
  }
  return std::move(actions_);
}

Done ActionReader::read_cell() { return cursor_.peek() == '(' ? read_group() : read_action(); }

Done ActionReader::read_group() {
  cursor_.take('(');
  const std::size_t first = actions_.size();
  do {
    cursor_.skip_blanks();
    if (Done action = read_action(); !action) return action;
    // Each action of a group overlaps the next action, except the last one. The flag of the last action is
    // reset after the loop.
    actions_.back().overlaps_next = true;
    cursor_.skip_blanks();
  } while (cursor_.take(';'));
  if (actions_.size() - first < 2) return cursor_.fault("`;` and a second action of the group");
  if (!cursor_.take(')')) return cursor_.fault("`;` or `)`");
  actions_.back().overlaps_next = false;
  // The error must show the whole word, so this copy stores the position before the word.
  TextCursor after = cursor_;
  // validate() refuses a group of transfers and compute actions.
  const auto computes = std::find_if(actions_.begin() + static_cast<std::ptrdiff_t>(first), actions_.end(),
                                     [](const Action& action) { return !is_transfer(action.kind); });
  Action of_group{.kind = computes == actions_.end() ? actions_.back().kind : computes->kind};
  const bool transfers = is_transfer(of_group.kind);
  const std::string_view word = cursor_.take_letters();
  if (word == group_word(of_group)) return {};
  of_group.no_wait = transfers;
  if (transfers && word == group_word(of_group)) {
    for (std::size_t i = first; i < actions_.size(); ++i) actions_[i].no_wait = true;
    return {};
  }
  return after.fault(transfers ? "`GROUP` or `GROUP_NOWAIT` after a group of SENDs and RECVs"
                               : "`OVERLAP_F_B` after a group of compute actions");
}

Done ActionReader::read_action() {
  const auto stage = read_stage("an action, which begins with a stage number");
  if (!stage) return tl::unexpected(stage.error());
  const auto kind = read_kind(*stage);
  if (!kind) return tl::unexpected(kind.error());
  Action action{.kind = *kind, .stage = *stage};
  if (has_microbatch(*kind)) {
    const auto microbatch =
        cursor_.take_number(fmt::format("a microbatch number after {}{}", *stage, letters(*kind)));
    if (!microbatch) return tl::unexpected(microbatch.error());
    action.microbatch = *microbatch;
  }
  // In a chain, the peer is the neighbouring stage. read_peer() changes the peer if the text names another
  // stage.
  if (const auto neighbour = chain_peer(*kind, *stage)) action.peer = *neighbour;
  // PyTorch's form has no `>` and `@` after an action, so they are errors in this form.
  if (limits_.form == ActionForm::penstock) {
    if (Done peer = read_peer(action); !peer) return peer;
    if (Done version = read_version(action); !version) return version;
  }
  actions_.push_back(action);
  return {};
}

/// Returns true if the text form can state actions of this kind. PyTorch's form has no recomputation and no
/// optimizer action.
bool is_known(ActionKind kind, ActionForm form) {
  return form == ActionForm::penstock || (kind != ActionKind::recompute && kind != ActionKind::step);
}

/// Returns the error message for a word that names no action. The message lists only the actions that
/// `form` has.
std::string unknown_action(std::string_view word, ActionForm form) {
  std::vector<std::string_view> known;
  for (std::size_t i = 0; i < kActionKindCount; ++i) {
    const auto kind = static_cast<ActionKind>(i);
    if (is_known(kind, form)) known.push_back(letters(kind));
  }
  const std::string hint = did_you_mean(word, known);
  return fmt::format("unknown action {}{} Known: {}", shown(word), hint.empty() ? "." : hint,
                     fmt::join(known, ", "));
}

tl::expected<ActionKind, TextFault> ActionReader::read_kind(std::int32_t stage) {
  const std::size_t begin = cursor_.offset();
  const std::string_view word = cursor_.take_letters();
  if (word.empty()) return cursor_.fault(fmt::format("letters such as F or SEND_B after stage {}", stage));
  const auto kind = kind_of_letters(word);
  // The most useful message comes first. There are four cases: a word of this form, of an older release, of
  // the other form, and any other word.
  if (kind && is_known(*kind, limits_.form)) return *kind;
  // `BW` comes from a file of an older release. pytorch_csv.cpp adds to this message the flag that reads such
  // files.
  if (word == "BW") {
    return TextCursor::fault_at(begin, "unknown action `BW`, with which torch 2.5 meant the full backward");
  }
  if (kind) {
    return TextCursor::fault_at(begin, fmt::format("PyTorch's form has no action {}; delete it", word));
  }
  return TextCursor::fault_at(begin, unknown_action(word, limits_.form));
}

tl::expected<std::int32_t, TextFault> ActionReader::read_stage(std::string_view what) {
  const std::size_t begin = cursor_.offset();
  auto stage = cursor_.take_number(what);
  if (stage && *stage >= limits_.stages) {
    return TextCursor::fault_at(begin,
                                fmt::format("expected a stage of 0 to {}, got stage {}; a new stage needs "
                                            "a `stage` line",
                                            limits_.stages - 1, *stage));
  }
  return stage;
}

Done ActionReader::read_peer(Action& action) {
  if (!is_transfer(action.kind)) return {};
  const char arrow = is_send(action.kind) ? '>' : '<';
  if (!cursor_.take(arrow)) return {};
  const auto peer = read_stage(fmt::format("the stage at the other end after `{}`", arrow));
  if (!peer) return tl::unexpected(peer.error());
  action.peer = *peer;
  return {};
}

Done ActionReader::read_version(Action& action) {
  if (!has_weight_version(action.kind) || !cursor_.take('@')) return {};
  const auto version = cursor_.take_number("a weight version after `@`");
  if (!version) return tl::unexpected(version.error());
  action.weight_version = *version;
  return {};
}

}  // namespace

tl::expected<std::vector<Action>, TextFault> read_actions(std::string_view text, const ActionLimits& limits) {
  return ActionReader(text, limits).read();
}

}  // namespace penstock
