// Draws a timeline with characters. This example is 1F1B on 3 ranks with 4 microbatches. F takes 1 ms, B
// takes 2 ms, and a millisecond has three columns:
//
//   rank 0  F0-F1-F2-............B0====F3-B1====...B2====...B3====
//   rank 1  ...F0-F1-......B0====F2-B1====F3-B2====...B3====......      ('.' idle)
//   rank 2  ......F0-B0====F1-B1====F2-B2====F3-B3====............
//
// With one column for a millisecond, letters and microbatches are on separate lines:
//
//   rank 0  FFF....B=FB=.B=.B=
//           012    0 31  2  3
//
// timeline_columns.cpp decides which box each column shows. timeline_svg.cpp draws pictures. Tests:
// timeline_text_test.cpp.

#include "report/timeline/timeline_boxes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/print/palette.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_columns.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

namespace {

constexpr char kIdleMark = '.';
constexpr char kReduceMark = '+';
constexpr char kGatherMark = '^';
constexpr char kReloadMark = '<';
// the smallest width of a line, in characters
constexpr std::int64_t kLeastColumns = 40;
using Ranks = std::vector<std::vector<ComputeBox>>;

/// Returns the texts with which the ranks' lines begin, such as "rank 0  ". All texts have the same length.
std::vector<std::string> heads_of(const TimelineWindow& window, std::size_t ranks) {
  std::vector<std::string> heads;
  std::size_t longest = 0;
  for (std::size_t row = 0; row < ranks; ++row) {
    heads.push_back(window.name_of(row));
    longest = std::max(longest, heads.back().size());
  }
  for (std::string& head : heads) head.resize(longest + 2, ' ');
  return heads;
}

/// Returns the character that fills the rest of a box after its label. Each action kind has its own
/// character, so that a reader can see the difference quickly.
char fill_mark(const ComputeBox& box) {
  if (box.partner) return '#';
  switch (box.action.kind) {
    case ActionKind::forward:
      return '-';
    case ActionKind::backward:
    case ActionKind::backward_input:
      return '=';
    case ActionKind::backward_weight:
      return '_';
    case ActionKind::recompute:
      return '~';
    case ActionKind::step:
      return 'S';
    case ActionKind::send_forward:
    case ActionKind::recv_forward:
    case ActionKind::send_backward:
    case ActionKind::recv_backward:
    case ActionKind::unshard:
    case ActionKind::reshard:
    case ActionKind::reduce_grad:
    case ActionKind::wait_send_forward:
    case ActionKind::wait_send_backward:
    case ActionKind::wait_reduce_grad:
    case ActionKind::offload:
    case ActionKind::reload:
      return ' ';
  }
  return ' ';
}

/// Returns the letter that stands for the action's kind: F, B, I, W, R or S.
char kind_mark(const Action& action) { return letters(action.kind).front(); }

/// Returns the text that fills a box of `columns` columns, such as "F3-", "F-" or "F".
std::string box_text(const ComputeBox& box, const std::string& label, std::size_t columns) {
  std::string text = label;
  if (text.size() > columns) text = box.partner ? "#" : std::string(1, kind_mark(box.action));
  return text + std::string(columns - text.size(), fill_mark(box));
}

/// Returns the character that shows a microbatch number: 0-9, then a-z and A-Z, and '*' for numbers above
/// 61.
char digit_of(std::int32_t number) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return static_cast<std::size_t>(number) < kDigits.size() ? kDigits[static_cast<std::size_t>(number)] : '*';
}

/// Says what a rank's line shows in its boxes: letters, stages or microbatches.
enum class LineContent : std::uint8_t { labels, letters, stages, microbatches };

/// A painter of the lines of the ranks. It gets runs of columns; a run is a sequence of columns that show
/// the same box. Colour escapes enclose whole runs and have no width.
class Painter {
 public:
  Painter(const TextLabels& labels, const TimelineTextOptions& options)
      : labels_(labels), options_(options) {}

  std::string line(const std::vector<ComputeBox>& boxes, const std::vector<ColumnRun>& runs,
                   LineContent content) const {
    std::string text;
    for (const ColumnRun& run : runs) {
      if (run.owner < 0) {
        text +=
            coloured(std::string(run.columns, waiting_mark(run.owner, content)), collective_of(run.owner));
        continue;
      }
      const ComputeBox& box = boxes[static_cast<std::size_t>(run.owner)];
      text += coloured(run_text(box, run.columns, content), box.action.kind);
    }
    // A line must not end with blanks.
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

 private:
  /// Returns the character of a column in which the rank runs no action. On a line of stages or
  /// microbatches it is a blank.
  static char waiting_mark(std::int32_t owner, LineContent content) {
    if (content == LineContent::stages || content == LineContent::microbatches) return ' ';
    if (owner == kReduceColumn) return kReduceMark;
    if (owner == kReloadColumn) return kReloadMark;
    return owner == kGatherColumn ? kGatherMark : kIdleMark;
  }

  static std::optional<ActionKind> collective_of(std::int32_t owner) {
    if (owner == kReduceColumn) return ActionKind::reduce_grad;
    if (owner == kReloadColumn) return ActionKind::reload;
    return owner == kGatherColumn ? std::optional(ActionKind::unshard) : std::nullopt;
  }

  std::string coloured(const std::string& cells, std::optional<ActionKind> kind) const {
    if (!kind || options_.colours == TerminalColours::none) return cells;
    const Colour background = colour_of(*kind);
    return ansi_escape(text_colour_on(background), background, options_.colours) + cells + "\x1b[0m";
  }

  std::string run_text(const ComputeBox& box, std::size_t columns, LineContent content) const {
    switch (content) {
      case LineContent::labels:
        return box_text(box, labels_.label(box), columns);
      case LineContent::letters:
        return letters_text(box, columns);
      case LineContent::stages:
        return number_text(box, columns, &Action::stage);
      case LineContent::microbatches:
        return number_text(box, columns, &Action::microbatch);
    }
    return {};
  }

  /// Returns the text of a box on the line of letters, such as "F-", or "FB" for an overlapped pair.
  static std::string letters_text(const ComputeBox& box, std::size_t columns) {
    if (box.partner) return box_text(box, {kind_mark(box.action), kind_mark(*box.partner)}, columns);
    return box_text(box, {kind_mark(box.action)}, columns);
  }

  /// Returns the text of a box on a line of numbers. It has one digit for each action, if the box has room.
  /// A STEP has no digit, because it belongs to no microbatch. `number` selects the stage or the
  /// microbatch.
  static std::string number_text(const ComputeBox& box, std::size_t columns, std::int32_t Action::* number) {
    std::string text;
    for (const Action& action : leaves(box)) {
      if (action.*number >= 0) text += digit_of(action.*number);
    }
    text.resize(columns, ' ');
    return text;
  }

  static std::vector<Action> leaves(const ComputeBox& box) {
    std::vector<Action> actions = {box.action};
    if (box.partner) actions.push_back(*box.partner);
    return actions;
  }

  TextLabels labels_;
  TimelineTextOptions options_;
};

/// Returns true if every box has room for its label. If not, an exact picture shows letters and numbers on
/// separate lines.
bool every_label_fits(const std::vector<ComputeBox>& boxes, const std::vector<ColumnRun>& runs,
                      const TextLabels& labels) {
  return std::ranges::all_of(runs, [&](const ColumnRun& run) {
    return run.owner < 0 || labels.label(boxes[static_cast<std::size_t>(run.owner)]).size() <= run.columns;
  });
}

/// Returns the lines of the time axis. The text of a tick is left out if it would touch the previous text.
std::string axis_lines(const TextScale& scale, Ns from_ns, const std::string& indent) {
  const auto columns = static_cast<std::size_t>(scale.columns);
  constexpr std::int64_t kColumnsPerTick = 10;
  const int most = static_cast<int>(std::max<std::int64_t>(2, scale.columns / kColumnsPerTick));
  std::string ruler(columns, '-');
  std::string labels;
  const std::vector<Ns> ticks = ticks_between(from_ns, from_ns + scale.makespan_ns, most);
  for (const Ns tick : ticks) {
    const auto column = static_cast<std::size_t>(std::lround(scale.column_of(tick - from_ns)));
    const std::string label = format_tick(tick, ticks.back());
    if (column < columns) ruler[column] = '|';
    if (column < labels.size() || column + label.size() > columns + 1) continue;
    labels.resize(column, ' ');
    labels += label + ' ';
  }
  labels.erase(labels.find_last_not_of(' ') + 1);
  return indent + ruler + "|\n" + indent + labels + '\n';
}

/// Returns the part of the legend that explains the collectives for which ranks wait in the picture.
std::string waits_text(const std::vector<std::vector<ColumnRun>>& ranks) {
  std::set<std::int32_t> owners;
  for (const auto& runs : ranks) {
    for (const ColumnRun& run : runs) owners.insert(run.owner);
  }
  std::string text;
  if (owners.contains(kReduceColumn))
    text += fmt::format("{} idle while gradients are reduced, ", kReduceMark);
  if (owners.contains(kGatherColumn))
    text += fmt::format("{} idle while weights are gathered, ", kGatherMark);
  if (owners.contains(kReloadColumn))
    text += fmt::format("{} idle while activations are reloaded, ", kReloadMark);
  return text;
}

/// Returns the legend. It explains the action kinds in the picture and then the marks of idle time.
std::string legend_line(const Ranks& ranks, const std::vector<std::vector<ColumnRun>>& runs) {
  std::set<ActionKind> kinds;
  bool pairs = false;
  for (const auto& boxes : ranks) {
    for (const ComputeBox& box : boxes) {
      if (box.duration_ns() == 0) continue;
      kinds.insert(box.action.kind);
      if (box.partner) kinds.insert(box.partner->kind);
      pairs |= box.partner.has_value();
    }
  }
  std::string line;
  for (const ActionKind kind : kinds)
    line += fmt::format("{} {}, ", letters(kind).substr(0, 1), description_of(kind));
  if (pairs) line += "# overlapped pair, ";
  return line + waits_text(runs) + fmt::format("{} idle", kIdleMark);
}

/// Returns the sentence of the legend that explains the numbers in the boxes.
std::string numbers_text(const TextLabels& labels) {
  return labels.with_stage ? "1F2 is microbatch 2 on stage 1" : "numbers are microbatches";
}

std::string scale_line(const TextScale& scale) {
  if (scale.unit_ns > 0) {
    return fmt::format("{} = {}", format_count(scale.columns_per_unit, "column"),
                       format_duration_short(scale.unit_ns));
  }
  return fmt::format("1 column is about {}",
                     format_duration(static_cast<Ns>(static_cast<double>(scale.makespan_ns) /
                                                     static_cast<double>(scale.columns))));
}

std::string nothing_to_draw(const Timeline& timeline) {
  return fmt::format("{}, {}: nothing takes time, so there is nothing to draw\n",
                     format_count(timeline.rank_count, "rank"),
                     format_count(static_cast<std::int64_t>(timeline.spans.size()), "action"));
}

/// The layout of the text picture.
struct TextLayout {
  TextLabels labels;
  TextScale scale;
  // the runs of columns of each rank
  std::vector<std::vector<ColumnRun>> runs;
  // true if letters and numbers are on separate lines
  bool stacked = false;
};

/// Returns the collectives and RELOADs of each rank that take time. Their times count from `from_ns`, like
/// the times of the boxes. OFFLOADs are left out, because no action waits for an OFFLOAD alone.
std::vector<std::vector<Span>> collectives_of(const Timeline& timeline, Ns from_ns) {
  std::vector<std::vector<Span>> ranks(static_cast<std::size_t>(timeline.rank_count));
  for (const Span& span : timeline.spans) {
    const bool is_shown =
        row_of(span.action.kind) == TimelineRow::collective && span.action.kind != ActionKind::offload;
    if (!is_shown || span.end_ns <= span.start_ns) continue;
    Span cut = span;
    cut.start_ns = std::max(span.start_ns, from_ns) - from_ns;
    cut.end_ns = std::min(span.end_ns, timeline.makespan_ns) - from_ns;
    ranks[static_cast<std::size_t>(span.rank)].push_back(cut);
  }
  return ranks;
}

/// Returns the layout of the text picture. Requires that at least one box takes time.
TextLayout layout_of(const Timeline& timeline, const Ranks& ranks, std::int64_t columns,
                     const TimelineWindow& window) {
  TextLayout layout;
  layout.labels = labels_of(ranks);
  const auto indent = static_cast<std::int64_t>(heads_of(window, ranks.size()).front().size());
  layout.scale = scale_of(ranks, timeline.makespan_ns - window.from_ns, layout.labels,
                          std::max(kLeastColumns, columns) - indent - 1);
  const auto collectives = collectives_of(timeline, window.from_ns);
  bool all_fit = true;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    layout.runs.push_back(runs_of(column_owners(ranks[rank], collectives[rank], layout.scale)));
    all_fit &= every_label_fits(ranks[rank], layout.runs.back(), layout.labels);
  }
  layout.stacked = !all_fit && layout.scale.unit_ns > 0;
  return layout;
}

std::string rows_text(const Ranks& ranks, const TextLayout& layout, const TimelineTextOptions& options) {
  std::vector<LineContent> contents = {layout.stacked ? LineContent::letters : LineContent::labels};
  if (layout.stacked && layout.labels.with_stage) contents.push_back(LineContent::stages);
  if (layout.stacked) contents.push_back(LineContent::microbatches);
  const Painter painter(layout.labels, options);
  std::string text;
  std::vector<std::string> heads = heads_of(options.window, ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::string& head = heads[rank];
    for (const LineContent content : contents) {
      text += head + painter.line(ranks[rank], layout.runs[rank], content) + '\n';
      head.assign(head.size(), ' ');
    }
  }
  return text;
}

/// Returns true if at least one box takes time. Otherwise no scale exists, because every box would be at
/// column 0.
bool takes_time(const Timeline& timeline, const Ranks& ranks) {
  return timeline.makespan_ns > 0 && labels_of(ranks).shortest_ns > 0;
}

/// The part of a run that a text picture shows. The times of its boxes begin at 0.
struct ShownPart {
  std::optional<Timeline> part;  // absent if the whole run is shown
  Ranks ranks;
};

ShownPart shown_part(const Timeline& whole, const TimelineWindow& window) {
  if (window.shows_all()) return {.part = std::nullopt, .ranks = compute_boxes(whole)};
  ShownPart shown{.part = part_of(whole, window), .ranks = {}};
  shown.ranks = compute_boxes(*shown.part);
  cut_to_window(shown.ranks, window.from_ns, shown.part->makespan_ns);
  return shown;
}

}  // namespace

std::string timeline_to_text(const Timeline& whole, const TimelineTextOptions& options) {
  const ShownPart shown = shown_part(whole, options.window);
  const Timeline& timeline = shown.part ? *shown.part : whole;
  const Ranks& ranks = shown.ranks;
  if (!takes_time(timeline, ranks)) return nothing_to_draw(timeline);
  const TextLayout layout = layout_of(timeline, ranks, options.columns, options.window);
  const std::string indent(heads_of(options.window, ranks.size()).front().size(), ' ');
  std::string text =
      rows_text(ranks, layout, options) + axis_lines(layout.scale, options.window.from_ns, indent);
  text += fmt::format("{}{}; {}", indent, legend_line(ranks, layout.runs), scale_line(layout.scale));
  if (!layout.stacked) return text + fmt::format("; {}\n", numbers_text(layout.labels));
  return text + fmt::format("\n{}under the letters: {}microbatch (0-9, a-z, A-Z, then *)\n", indent,
                            layout.labels.with_stage ? "stage, then " : "");
}

std::optional<std::int64_t> columns_for_every_action(const Timeline& whole, std::int32_t columns,
                                                     const TimelineWindow& window) {
  const ShownPart shown = shown_part(whole, window);
  const Timeline& timeline = shown.part ? *shown.part : whole;
  const Ranks& ranks = shown.ranks;
  if (!takes_time(timeline, ranks)) return std::nullopt;
  const TextLayout layout = layout_of(timeline, ranks, columns, window);
  bool all_shown = true;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    all_shown &= shows_every_box(ranks[rank], layout.runs[rank]);
  if (all_shown) return std::nullopt;
  // With this number of columns, the shortest box is as long as one column and covers at least half of some
  // column. If several boxes cover half of one column, the earliest one owns it.
  const Ns shortest_ns = layout.labels.shortest_ns;
  const Ns length_ns = timeline.makespan_ns - window.from_ns;
  const Ns needed = length_ns / shortest_ns + (length_ns % shortest_ns > 0 ? 1 : 0);
  return static_cast<std::int64_t>(heads_of(window, ranks.size()).front().size()) + 1 + needed;
}

// Writes a program as a table: a column for each rank and a line for each step of the lists.
//
//   step  rank 0  rank 1
//   0     0F0     1RECV_F0
//   1     0F1     1F0
//
// A line shows actions with equal positions in the lists. They need not run at the same time.
// timeline_to_text() shows times. Tests: timeline_text_test.cpp.

namespace {

/// Returns the texts of one rank's list, one for each entry. A group is one entry. If the list ends before
/// the second action of a group, the first action is one entry.
std::vector<std::string> entries(const std::vector<Action>& actions) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    std::string text = to_text(actions[i]);
    const std::size_t end = group_end(actions, i);
    if (end > i + 1) {
      for (++i; i < end; ++i) text.append(1, ';').append(to_text(actions[i]));
      --i;
      text = fmt::format("({}){}", text, group_word(actions[i]));
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace

std::string action_grid(const Program& program) {
  std::vector<std::vector<std::string>> columns;
  std::size_t steps = 0;
  for (const auto& actions : program.ranks) {
    columns.push_back(entries(actions));
    steps = std::max(steps, columns.back().size());
  }
  Table table;
  table.columns = {"step"};
  for (std::size_t rank = 0; rank < columns.size(); ++rank)
    table.columns.push_back(fmt::format("rank {}", rank));
  for (std::size_t step = 0; step < steps; ++step) {
    std::vector<Cell> row = {{std::to_string(step), static_cast<double>(step)}};
    for (const auto& column : columns)
      row.push_back({step < column.size() ? column[step] : "", std::nullopt});
    table.rows.push_back(std::move(row));
  }
  return table_to_text(table);
}

}  // namespace penstock
