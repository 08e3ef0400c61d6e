// Older releases of torch.distributed.pipelining write cells in another form than newer ones:
//
//   torch 2.4   cell := kind microbatch "_s" stage                                    F0_s1
//   torch 2.5   cell := action ("_" action)?      action := stage kind microbatch?    1F0   0SEND_F1_0RECV_B0
//
// Both releases also write B for I, the first half of a split backward. A backward is split if the file has a
// W of the same stage and microbatch, before or after it. Therefore each B is first read as I. When the whole
// file has been read, halved_backwards() changes each I without a W into a B. Tests:
// tests/schedules/pytorch_csv_test.cpp.

#include "schedules/text/program_text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/text/text_cursor.hpp"

namespace penstock {
namespace {

/// A word for an action in the older dialects (forms of the CSV), and the kind of action that it means.
struct OldWord {
  std::string_view word;
  ActionKind kind;
};

// B is read as I at first. halved_backwards() corrects this later.
constexpr std::array kOldWords = {OldWord{"F", ActionKind::forward},
                                  OldWord{"B", ActionKind::backward_input},
                                  OldWord{"W", ActionKind::backward_weight},
                                  OldWord{"BW", ActionKind::backward},
                                  OldWord{"SEND_F", ActionKind::send_forward},
                                  OldWord{"RECV_F", ActionKind::recv_forward},
                                  OldWord{"SEND_B", ActionKind::send_backward},
                                  OldWord{"RECV_B", ActionKind::recv_backward},
                                  OldWord{"UNSHARD", ActionKind::unshard},
                                  OldWord{"RESHARD", ActionKind::reshard}};

/// Returns true if the dialect has the word. torch 2.4 wrote only compute actions. It wrote the two halves
/// of a split backward as B and W.
bool has_word(std::string_view word, CsvDialect dialect) {
  return dialect == CsvDialect::torch_2_5 || word == "F" || word == "B" || word == "W";
}

std::string known_words(CsvDialect dialect) {
  return dialect == CsvDialect::torch_2_4 ? "F, B or W"
                                          : "F, B, W, BW, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD or RESHARD";
}

tl::expected<ActionKind, TextFault> read_word(TextCursor& cursor, CsvDialect dialect) {
  const std::size_t begin = cursor.offset();
  const std::string_view word = cursor.take_letters();
  for (const OldWord& known : kOldWords) {
    if (known.word == word && has_word(word, dialect)) return known.kind;
  }
  return TextCursor::fault_at(begin, fmt::format("unknown action {}; {} has {}", shown(word),
                                                 to_text(dialect), known_words(dialect)));
}

/// Reads an action such as "F0_s1" from a cell of torch 2.4. This dialect has no transfers, so the function
/// needs no peer stage.
tl::expected<Action, TextFault> read_2_4(TextCursor& cursor) {
  const auto kind = read_word(cursor, CsvDialect::torch_2_4);
  if (!kind) return tl::unexpected(kind.error());
  const auto microbatch = cursor.take_number("a microbatch number after the letter");
  if (!microbatch) return tl::unexpected(microbatch.error());
  if (!cursor.take('_') || !cursor.take('s')) return cursor.fault("`_s` and a stage number");
  const auto stage = cursor.take_number("a stage number after `_s`");
  if (!stage) return tl::unexpected(stage.error());
  return Action{.kind = *kind, .stage = *stage, .microbatch = *microbatch};
}

/// Reads an action such as "1F0", "0SEND_F1" or "1UNSHARD" from a cell of torch 2.5.
tl::expected<Action, TextFault> read_2_5(TextCursor& cursor) {
  const auto stage = cursor.take_number("an action, which begins with a stage number");
  if (!stage) return tl::unexpected(stage.error());
  const auto kind = read_word(cursor, CsvDialect::torch_2_5);
  if (!kind) return tl::unexpected(kind.error());
  Action action{.kind = *kind, .stage = *stage};
  if (has_microbatch(*kind)) {
    const auto microbatch = cursor.take_number("a microbatch number");
    if (!microbatch) return tl::unexpected(microbatch.error());
    action.microbatch = *microbatch;
  }
  if (const auto neighbour = chain_peer(*kind, *stage)) action.peer = *neighbour;
  return action;
}

tl::expected<std::vector<Action>, TextFault> read_old(std::string_view cell, CsvDialect dialect) {
  TextCursor cursor(cell);
  std::vector<Action> actions;
  do {
    auto action = dialect == CsvDialect::torch_2_4 ? read_2_4(cursor) : read_2_5(cursor);
    if (!action) return tl::unexpected(std::move(action.error()));
    actions.push_back(*action);
    // A cell of torch 2.5 may contain two messages, first a SEND and then a RECV.
  } while (is_send(actions.front().kind) && actions.size() == 1 && cursor.take('_'));
  if (!cursor.done()) return cursor.fault("the end of the cell after its action");
  if (actions.size() == 2 && !is_recv(actions.back().kind)) {
    return cursor.fault_at(0, "expected a RECV after a SEND in one cell");
  }
  return actions;
}

/// Returns the word for an action kind in the older releases, or nothing if there is none. `halves` is true
/// if the program has split backwards.
std::optional<std::string_view> old_word(ActionKind kind, bool halves) {
  // In a program with split backwards, B is the word for I, and BW is the word for a full backward.
  if (kind == ActionKind::backward) return halves ? "BW" : "B";
  for (const OldWord& known : kOldWords) {
    if (known.kind == kind) return known.word;
  }
  return std::nullopt;
}

}  // namespace

std::optional<CsvDialect> csv_dialect_of_text(std::string_view text) {
  // The name is also accepted without "torch-".
  const auto dialect = enum_of_text<CsvDialect>(text);
  return dialect ? dialect : enum_of_text<CsvDialect>(fmt::format("torch-{}", text));
}

tl::expected<std::vector<Action>, std::string> read_csv_cell(std::string_view cell, CsvDialect dialect) {
  // str() of an idle step is None, and some scripts write it into the file.
  if (cell.empty() || cell == "None") return std::vector<Action>{};
  auto actions = dialect == CsvDialect::torch_2_6 ? read_actions(cell, {.form = ActionForm::pytorch})
                                                  : read_old(cell, dialect);
  if (!actions) return tl::unexpected(std::move(actions.error().message));
  return *std::move(actions);
}

std::vector<std::vector<Action>> halved_backwards(std::vector<std::vector<Action>> rows) {
  std::set<std::pair<std::int32_t, std::int32_t>> weights;  // stage and microbatch of every W
  for (const std::vector<Action>& row : rows) {
    for (const Action& action : row) {
      if (action.kind == ActionKind::backward_weight) weights.emplace(action.stage, action.microbatch);
    }
  }
  for (std::vector<Action>& row : rows) {
    for (Action& action : row) {
      // An I stays an I only if the file has a W of the same stage and microbatch.
      if (action.kind == ActionKind::backward_input && !weights.contains({action.stage, action.microbatch})) {
        action.kind = ActionKind::backward;
      }
    }
  }
  return rows;
}

tl::expected<std::string, std::string> old_csv_cell(const Action& action, CsvDialect dialect, bool halves) {
  const auto word = old_word(action.kind, halves);
  if (!word || !has_word(*word, dialect)) {
    return tl::unexpected(fmt::format("{} has {} only", to_text(dialect), known_words(dialect)));
  }
  if (action.overlaps_next)
    return tl::unexpected(fmt::format("{} has no overlapped pairs and no groups", to_text(dialect)));
  if (dialect == CsvDialect::torch_2_4) {
    return fmt::format("{}{}_s{}", *word, action.microbatch, action.stage);
  }
  if (!has_microbatch(action.kind)) return fmt::format("{}{}", action.stage, *word);
  return fmt::format("{}{}{}", action.stage, *word, action.microbatch);
}

}  // namespace penstock
