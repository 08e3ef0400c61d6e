// Reads a program's text form line by line. The first word of each line selects the member function that
// reads the rest of the line:
//
//   penstock program 1            the header, before anything else
//   microbatches 2        ->      kKeywords: read_microbatches(" 2"), at most once
//   stage 0: rank 0               in the order of their numbers, all before the first rank
//   rank 0: 0F0 ...               text_cursor.cpp, which refuses stages that do not exist
//
// check_complete() finds faults that need the whole file, such as a missing line or a stage on a rank that
// does not exist. program_text.cpp writes this form. Tested by program_text_test.cpp and validate_test.cpp.

#include <fmt/core.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/text/program_text.hpp"
#include "schedules/text/text_cursor.hpp"
#include "text/enum_words.hpp"

namespace penstock {
namespace {

using Done = tl::expected<void, TextFault>;

/// A parser of one program file. Each function read_... reads its own part of a line. Its caller then
/// checks that no text remains on the line.
class ProgramParser {
 public:
  explicit ProgramParser(std::string_view file) : file_(file) {}
  tl::expected<Program, std::string> parse(std::string_view text);

 private:
  struct Keyword {
    std::string_view word;
    Done (ProgramParser::*read)(TextCursor&);
  };
  /// The number of keywords that may occur on only one line of a file. They are the first ones in the
  /// table.
  static constexpr std::size_t kOnceOnly = 12;
  static const std::array<Keyword, 14> kKeywords;

  Done read_line(std::string_view line);
  Done read_keyword(TextCursor& line);
  Done read_schedule(TextCursor& line);
  Done read_microbatches(TextCursor& line) {
    return read_count(line).map([this](std::int32_t count) { program_.microbatches = count; });
  }
  Done read_iterations(TextCursor& line) {
    return read_count(line).map([this](std::int32_t count) { program_.iterations = count; });
  }
  Done read_slices(TextCursor& line) {
    return read_count(line).map([this](std::int32_t count) { program_.slices = count; });
  }
  Done read_barrier(TextCursor& line);
  Done read_versions(TextCursor& line);
  Done read_update(TextCursor& line);
  Done read_recompute(TextCursor& line);
  Done read_sharding(TextCursor& line);
  Done read_channel(TextCursor& line);
  Done read_forward_only(TextCursor& line);
  Done read_edges(TextCursor& line);
  Done read_stage(TextCursor& line);
  Done read_rank(TextCursor& line);

  static tl::expected<std::int32_t, TextFault> read_count(TextCursor& line);
  static Passes read_forward_passes(TextCursor& line);
  static Done read_numbered(TextCursor& line, std::string_view what, std::size_t next);
  static tl::expected<std::vector<std::int32_t>, TextFault> read_numbers(TextCursor& line,
                                                                         std::string_view what);
  tl::expected<void, std::string> check_complete() const;

  std::string_view file_;
  std::size_t line_number_ = 0;
  bool header_seen_ = false;
  /// For each of the first kOnceOnly keywords, the number of the line on which it occurs, or 0 if it has not
  /// occurred.
  std::array<std::size_t, kOnceOnly> first_lines_{};
  std::vector<std::size_t> stage_lines_;
  /// The passes that all stages run, as the line `forward_only` states them.
  Passes passes_ = Passes::both;
  Program program_;
};

constexpr std::array<ProgramParser::Keyword, 14> ProgramParser::kKeywords = {{
    {"schedule", &ProgramParser::read_schedule},
    {"microbatches", &ProgramParser::read_microbatches},
    {"iterations", &ProgramParser::read_iterations},
    {"slices", &ProgramParser::read_slices},
    {"barrier", &ProgramParser::read_barrier},
    {"versions", &ProgramParser::read_versions},
    {"update", &ProgramParser::read_update},
    {"recompute", &ProgramParser::read_recompute},
    {"sharding", &ProgramParser::read_sharding},
    {"channel", &ProgramParser::read_channel},
    {"forward_only", &ProgramParser::read_forward_only},
    {"edges", &ProgramParser::read_edges},
    {"stage", &ProgramParser::read_stage},
    {"rank", &ProgramParser::read_rank},
}};

/// Returns the line without its comment and without blanks at its end.
std::string_view without_comment(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const std::size_t last = line.find_last_not_of(" \t\r");
  return line.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

/// Reads an edge between stages: 0>1, or with one flow only, 0>1! (activations) or 0<1! (gradients).
tl::expected<StageEdge, TextFault> read_edge(TextCursor& line) {
  const auto from = line.take_number("an edge such as 0>1");
  if (!from) return tl::unexpected(from.error());
  const bool only_gradients = line.take('<');
  if (!only_gradients && !line.take('>'))
    return line.fault(fmt::format("`>` after stage {} of an edge", *from));
  const auto to = line.take_number("the stage at which the edge ends");
  if (!to) return tl::unexpected(to.error());
  const bool one_way = line.take('!');
  if (only_gradients && !one_way) {
    return line.fault(
        fmt::format("`!` after {0}<{1} ({0}<{1}! carries only gradients, {0}>{1} both flows)", *from, *to));
  }
  const EdgeFlows of_one = only_gradients ? EdgeFlows::gradient : EdgeFlows::activation;
  return StageEdge{.from = *from, .to = *to, .flows = one_way ? of_one : EdgeFlows::both};
}

/// Reads one of the words in `words`. For any other word, the error message lists all of `words`.
tl::expected<std::string_view, TextFault> read_word(TextCursor& line,
                                                    std::span<const std::string_view> words) {
  line.skip_blanks();
  const TextCursor before = line;
  const std::string_view word = line.take_word();
  if (std::ranges::find(words, word) == words.end())
    return before.fault(fmt::format("{}", fmt::join(words, ", ")));
  return word;
}

/// Reads a word and returns the value of the enum that it names.
template <EnumWithWords Enum>
tl::expected<Enum, TextFault> read_choice(TextCursor& line) {
  return read_word(line, words_of<Enum>()).map([](std::string_view word) {
    return *enum_of_text<Enum>(word);
  });
}

tl::expected<Program, std::string> ProgramParser::parse(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return tl::unexpected(
        fmt::format("{}: the file is empty; a program begins with `{}`", file_, kProgramHeader));
  }
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    ++line_number_;
    if (Done line = read_line(without_comment(text.substr(0, end))); !line) {
      return tl::unexpected(
          fmt::format("{}:{}:{}: {}", file_, line_number_, line.error().offset + 1, line.error().message));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (auto complete = check_complete(); !complete) return tl::unexpected(std::move(complete.error()));
  if (passes_ != Passes::both) set_passes(program_, passes_);
  return std::move(program_);
}

Done ProgramParser::read_line(std::string_view text) {
  TextCursor line(text);
  line.skip_blanks();
  if (line.done()) return {};
  if (!header_seen_) {
    if (text.substr(line.offset()) != kProgramHeader) {
      return TextCursor::fault_at(line.offset(),
                                  fmt::format("expected the first line `{}`, got {}", kProgramHeader,
                                              shown(text.substr(line.offset()))));
    }
    header_seen_ = true;
    return {};
  }
  if (Done keyword = read_keyword(line); !keyword) return keyword;
  line.skip_blanks();
  // If text remains after the keyword's reader, this text is an error.
  if (!line.done()) return line.fault("the end of the line");
  return {};
}

Done ProgramParser::read_keyword(TextCursor& line) {
  const TextCursor before = line;
  const std::string_view word = line.take_letters();
  const auto found = std::ranges::find(kKeywords, word, &Keyword::word);
  if (found == kKeywords.end()) {
    std::array<std::string_view, kKeywords.size()> known;
    std::ranges::transform(kKeywords, known.begin(), &Keyword::word);
    // If the line does not begin with a letter, the message shows the line's first word.
    if (word.empty()) return before.fault(fmt::format("one of {}", fmt::join(known, ", ")));
    const std::string hint = did_you_mean(word, known);
    return TextCursor::fault_at(
        before.offset(), fmt::format("unknown keyword {}{} Known: {}", shown(word), hint.empty() ? "." : hint,
                                     fmt::join(known, ", ")));
  }
  const auto index = static_cast<std::size_t>(found - kKeywords.begin());
  if (index < kOnceOnly) {
    std::size_t& first_line = first_lines_[index];
    if (first_line != 0) {
      return TextCursor::fault_at(before.offset(), fmt::format("expected `{}` once, got it a second time "
                                                               "after line {}; delete one of the two",
                                                               word, first_line));
    }
    first_line = line_number_;
  }
  return (this->*found->read)(line);
}

Done ProgramParser::read_schedule(TextCursor& line) {
  line.skip_blanks();
  program_.schedule = line.take_word();
  if (program_.schedule.empty()) return line.fault("the schedule's name");
  return {};
}

tl::expected<std::int32_t, TextFault> ProgramParser::read_count(TextCursor& line) {
  line.skip_blanks();
  const TextCursor before = line;
  auto number = line.take_number("a number of at least 1");
  if (number && *number < 1) return before.fault("a number of at least 1");
  return number;
}

Done ProgramParser::read_barrier(TextCursor& line) {
  (void)line;  // no text may follow this keyword; read_line() checks this
  program_.barrier = true;
  return {};
}

Done ProgramParser::read_versions(TextCursor& line) {
  // This list has only one word. read_word() gives the usual error message for any other word.
  static constexpr std::array kWords = {std::string_view("mixed")};
  return read_word(line, kWords).map([this](std::string_view) { program_.mixed_versions = true; });
}

Done ProgramParser::read_update(TextCursor& line) {
  return read_choice<UpdateRule>(line).map([this](UpdateRule rule) { program_.update = rule; });
}

Done ProgramParser::read_recompute(TextCursor& line) {
  return read_choice<RecomputeTiming>(line).map(
      [this](RecomputeTiming timing) { program_.recompute = timing; });
}

Done ProgramParser::read_sharding(TextCursor& line) {
  line.skip_blanks();
  const TextCursor before = line;
  const auto stage = line.take_number("a ZeRO stage, 0 to 3");
  if (!stage) return tl::unexpected(stage.error());
  if (*stage > 3) return before.fault("a ZeRO stage, 0 to 3");
  program_.sharding = *stage;
  return {};
}

Done ProgramParser::read_channel(TextCursor& line) {
  return read_choice<ChannelModel>(line).map([this](ChannelModel model) { program_.channel = model; });
}

/// Reads the rest of the line after `forward_only`, or after `forward` of a stage. This is nothing or the
/// word kv.
Passes ProgramParser::read_forward_passes(TextCursor& line) {
  line.skip_blanks();
  TextCursor ahead = line;
  if (ahead.take_letters() != "kv") return Passes::forward;
  line = ahead;
  return Passes::forward_kv;
}

Done ProgramParser::read_forward_only(TextCursor& line) {
  passes_ = read_forward_passes(line);
  return {};
}

Done ProgramParser::read_edges(TextCursor& line) {
  line.skip_blanks();
  while (!line.done()) {
    const auto edge = read_edge(line);
    if (!edge) return tl::unexpected(edge.error());
    program_.edges.push_back(*edge);
    if (line.peek() != ' ' && !line.done()) return line.fault("a blank between two edges");
    line.skip_blanks();
  }
  if (program_.edges.empty()) return line.fault("an edge such as 0>1");
  // Edges are stored in sorted order, so that equal programs compare as equal. A file may list them in any
  // order.
  std::ranges::sort(program_.edges);
  return {};
}

/// Reads "N:". N must be equal to `next`, because stages and ranks are listed in ascending order.
Done ProgramParser::read_numbered(TextCursor& line, std::string_view what, std::size_t next) {
  line.skip_blanks();
  const TextCursor before = line;
  const auto number = line.take_number(fmt::format("the number of the {}", what));
  if (!number) return tl::unexpected(number.error());
  const auto given = static_cast<std::size_t>(*number);
  if (given < next) {
    return TextCursor::fault_at(
        before.offset(), fmt::format("expected `{} {}`, got `{} {}` a second time; delete one of the two",
                                     what, next, what, given));
  }
  if (given > next) {
    return TextCursor::fault_at(before.offset(),
                                fmt::format("expected `{0} {1}`, got `{0} {2}`; the lines of "
                                            "all {0}s stand in ascending order from 0",
                                            what, next, given));
  }
  if (!line.take(':')) return line.fault(fmt::format("`:` after `{} {}`", what, given));
  return {};
}

/// Reads one or more numbers, up to the first other character or the end of the line.
tl::expected<std::vector<std::int32_t>, TextFault> ProgramParser::read_numbers(TextCursor& line,
                                                                               std::string_view what) {
  std::vector<std::int32_t> numbers;
  line.skip_blanks();
  do {
    const auto number = line.take_number(what);
    if (!number) return tl::unexpected(number.error());
    numbers.push_back(*number);
    line.skip_blanks();
  } while (line.peek() >= '0' && line.peek() <= '9');
  return numbers;
}

Done ProgramParser::read_stage(TextCursor& line) {
  if (!program_.ranks.empty()) {
    return TextCursor::fault_at(0,
                                "expected all `stage` lines before the first `rank` line, got one after it");
  }
  if (Done number = read_numbered(line, "stage", program_.placement.stages.size()); !number) return number;
  line.skip_blanks();
  TextCursor before = line;
  std::string_view word = line.take_letters();
  Passes passes = Passes::both;
  if (word == "forward") {
    passes = read_forward_passes(line);
    line.skip_blanks();
    before = line;
    word = line.take_letters();
  }
  if (word != "rank" && word != "ranks") return before.fault("`rank` or `ranks`");
  auto ranks = read_numbers(line, "a rank number");
  if (!ranks) return tl::unexpected(std::move(ranks.error()));
  StagePlacement stage{.ranks = std::move(*ranks), .passes = passes};
  const TextCursor route_begin = line;
  if (!line.done() && line.take_letters() != "route")
    return route_begin.fault("`route` or the end of the line");
  if (route_begin.offset() != line.offset()) {
    auto route = read_numbers(line, "an index into the stage's ranks");
    if (!route) return tl::unexpected(std::move(route.error()));
    stage.route = std::move(*route);
  } else if (stage.ranks.size() > 1) {
    // Replicas have no default route, so the file must write even a simple rotation such as 0 1.
    return line.fault("`route` with the replica of each microbatch, such as `route 0 1`");
  }
  program_.placement.stages.push_back(std::move(stage));
  stage_lines_.push_back(line_number_);
  return {};
}

/// Reads the list of a rank. All stages come before the ranks, so an action on a missing stage can be
/// reported at its position.
Done ProgramParser::read_rank(TextCursor& line) {
  if (program_.placement.stages.empty()) {
    return TextCursor::fault_at(
        0, "expected `stage 0: rank 0` and the other stages before the first `rank` line");
  }
  if (Done number = read_numbered(line, "rank", program_.ranks.size()); !number) return number;
  const std::size_t begin = line.offset();
  auto actions = read_actions(line.take_rest(), {.stages = program_.stage_count()});
  if (!actions) {
    // The action reader counts columns from the first action, but the message counts them from the start of
    // the line.
    actions.error().offset += begin;
    return tl::unexpected(std::move(actions.error()));
  }
  program_.ranks.push_back(std::move(*actions));
  return {};
}

tl::expected<void, std::string> ProgramParser::check_complete() const {
  if (!header_seen_) {
    return tl::unexpected(fmt::format("{}: expected a line `{}`, got comments only", file_, kProgramHeader));
  }
  // The first two keywords, `schedule` and `microbatches`, are required. All other keywords have a default.
  for (const std::size_t required : {0, 1}) {
    if (first_lines_[required] != 0) continue;
    return tl::unexpected(
        fmt::format("{}: expected a line that begins with `{}`, got none", file_, kKeywords[required].word));
  }
  if (program_.placement.stages.empty()) {
    return tl::unexpected(fmt::format("{}: expected a line `stage 0: rank 0`, got none", file_));
  }
  for (std::size_t stage = 0; stage < stage_lines_.size(); ++stage) {
    // This check needs the whole file, because the stages are listed before the ranks.
    const std::int32_t last = std::ranges::max(program_.placement.stages[stage].ranks);
    if (last < program_.rank_count()) continue;
    return tl::unexpected(fmt::format("{}:{}: stage {} is on rank {}, got no line `rank {}: ...`; add it",
                                      file_, stage_lines_[stage], stage, last, last));
  }
  return {};
}

}  // namespace

tl::expected<StageEdge, std::string> parse_edge(std::string_view text) {
  TextCursor cursor(text);
  const auto edge = read_edge(cursor);
  if (!edge) return tl::unexpected(edge.error().message);
  if (!cursor.done()) return tl::unexpected(cursor.fault("the end of the edge").value().message);
  return *edge;
}

tl::expected<Program, std::string> parse_program(std::string_view text, std::string_view file) {
  return ProgramParser(file).parse(without_byte_order_mark(text));
}

}  // namespace penstock
