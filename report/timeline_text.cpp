#include "report/timeline_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "report/axis.hpp"
#include "report/palette.hpp"
#include "report/timeline.hpp"
#include "report/timeline_rows.hpp"
#include "report/units.hpp"
#include "schedules/action.hpp"

// 1F1B on 3 ranks with 4 microbatches, F 1 ms and B 2 ms, three columns a millisecond:
//
//   rank 0  F0-F1-F2-......B0====F3-B1====...B2====B3====
//   rank 1  ...F0-F1-...B0====F2-B1====F3-B2====B3====...      ('.' idle)
//   rank 2  ......F0-B0====F1-B1====F2-B2====F3-B3====......
//
// With one column a millisecond letters and microbatches stand one above the other:
//
//   rank 0  FFF..BBFBB.BBBB
//           012..003112233
//
// All three styles share one step: which box owns each column.

namespace penstock {
namespace {

constexpr std::int32_t kIdle = -1;
constexpr char kIdleMark = '.';
using Ranks = std::vector<std::vector<ComputeBox>>;

/// How time becomes columns. `unit_ns` > 0: each unit is `columns_per_unit` columns exactly.
struct Scale {
  Ns makespan_ns = 0;
  Ns unit_ns = 0;
  std::int64_t columns_per_unit = 0;
  std::int64_t columns = 0;

  double column_of(Ns time_ns) const {
    if (unit_ns > 0) {
      const std::int64_t column = time_ns / unit_ns * columns_per_unit;
      return static_cast<double>(column);
    }
    return static_cast<double>(time_ns) / static_cast<double>(makespan_ns) * static_cast<double>(columns);
  }
};

Ns duration_of(const ComputeBox& box) { return box.end_ns - box.start_ns; }

std::string leaf_label(const Action& action, bool with_stage) {
  std::string label = with_stage ? std::to_string(action.stage) : "";
  label += action.kind == ActionKind::step ? "S" : letters(action.kind);
  if (has_microbatch(action.kind)) label += std::to_string(action.microbatch);
  return label;
}

/// The facts about a whole timeline that decide how its boxes are labelled.
struct Labelling {
  bool with_stage = false;        ///< some rank holds several stages
  std::int32_t microbatches = 0;  ///< one more than the largest number
  std::size_t longest = 0;        ///< characters of the longest label
  Ns shortest_ns = 0;             ///< of the boxes that take time; 0: none does

  std::string label(const ComputeBox& box) const {
    std::string text = leaf_label(box.action, with_stage);
    if (!box.partner) return text;
    text += ';';
    return text + leaf_label(*box.partner, with_stage);
  }
};

Labelling labelling_of(const Ranks& ranks) {
  Labelling labelling;
  for (const auto& boxes : ranks) labelling.with_stage |= stages_of(boxes).size() > 1;
  for (const auto& boxes : ranks) {
    for (const ComputeBox& box : boxes) {
      if (duration_of(box) == 0) continue;
      labelling.longest = std::max(labelling.longest, labelling.label(box).size());
      labelling.microbatches = std::max(labelling.microbatches, box.action.microbatch + 1);
      if (labelling.shortest_ns == 0) labelling.shortest_ns = duration_of(box);
      labelling.shortest_ns = std::min(labelling.shortest_ns, duration_of(box));
    }
  }
  return labelling;
}

Scale scale_of(const Ranks& ranks, Ns makespan_ns, const Labelling& labelling, std::int64_t available) {
  Ns unit = makespan_ns;
  for (const auto& boxes : ranks) {
    for (const ComputeBox& box : boxes) unit = std::gcd(unit, std::gcd(box.start_ns, box.end_ns));
  }
  if (makespan_ns / unit > available) return {makespan_ns, 0, 0, available};
  const Ns units = makespan_ns / unit;
  const Ns shortest_units = std::max<Ns>(1, labelling.shortest_ns / unit);
  const Ns wanted =
      (static_cast<Ns>(labelling.longest) + shortest_units) / shortest_units;  // label and one more
  const std::int64_t columns_per_unit =
      std::clamp<std::int64_t>(available / units, 1, std::max<Ns>(1, wanted));
  return {makespan_ns, unit, columns_per_unit, units * columns_per_unit};
}

/// For each column the box with the largest share of it, or kIdle where idling has more than half.
std::vector<std::int32_t> owners(const std::vector<ComputeBox>& boxes, const Scale& scale) {
  const auto columns = static_cast<std::size_t>(scale.columns);
  std::vector<std::int32_t> owner(columns, kIdle);
  std::vector<double> largest(columns, 0);
  std::vector<double> busy(columns, 0);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const double from = scale.column_of(boxes[i].start_ns);
    const double to = scale.column_of(boxes[i].end_ns);
    for (auto column = static_cast<std::size_t>(from); column < columns && static_cast<double>(column) < to;
         ++column) {
      const auto left = static_cast<double>(column);
      const double share = std::min(to, left + 1) - std::max(from, left);
      busy[column] += share;
      if (share <= largest[column]) continue;
      largest[column] = share;
      owner[column] = static_cast<std::int32_t>(i);
    }
  }
  for (std::size_t column = 0; column < columns; ++column) {
    if (busy[column] < 0.5) owner[column] = kIdle;
  }
  return owner;
}

/// Neighbouring columns of one owner.
struct Run {
  std::int32_t owner = kIdle;
  std::size_t columns = 0;
};

std::vector<Run> runs_of(const std::vector<std::int32_t>& owner) {
  std::vector<Run> runs;
  for (const std::int32_t box : owner) {
    if (runs.empty() || runs.back().owner != box) runs.push_back({box, 0});
    ++runs.back().columns;
  }
  return runs;
}

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
      return ' ';
  }
  return ' ';
}

char kind_mark(const Action& action) { return letters(action.kind).front(); }

/// The letters of a box in `columns` columns: "F3-", "F-", "F".
std::string box_text(const ComputeBox& box, const std::string& label, std::size_t columns) {
  std::string text = label;
  if (text.size() > columns) text = box.partner ? "#" : std::string(1, kind_mark(box.action));
  return text + std::string(columns - text.size(), fill_mark(box));
}

/// 0-9, then a-z and A-Z, '*' above 61: a microbatch in one column.
char digit_of(std::int32_t number) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return static_cast<std::size_t>(number) < kDigits.size() ? kDigits[static_cast<std::size_t>(number)] : '*';
}

std::string ansi_start(const ComputeBox& box) {
  const Colour background = colour_of(box.action.kind);
  const Colour text = text_colour_on(background);
  return fmt::format("\x1b[38;2;{};{};{};48;2;{};{};{}m", text.red, text.green, text.blue, background.red,
                     background.green, background.blue);
}

/// What one line of a rank shows in a run of columns.
enum class LineContent : std::uint8_t { labels, letters, stages, microbatches };

class Painter {
 public:
  Painter(const Labelling& labelling, const TimelineTextOptions& options)
      : labelling_(labelling), options_(options) {}

  std::string line(const std::vector<ComputeBox>& boxes, const std::vector<Run>& runs,
                   LineContent content) const {
    std::string text;
    for (const Run& run : runs) {
      if (run.owner == kIdle) {
        text += std::string(run.columns, idle_mark(content));
        continue;
      }
      const ComputeBox& box = boxes[static_cast<std::size_t>(run.owner)];
      const std::string cells = run_text(box, run.columns, content);
      text += options_.ansi_colour ? ansi_start(box) + cells + "\x1b[0m" : cells;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

 private:
  static char idle_mark(LineContent content) {
    return content == LineContent::labels || content == LineContent::letters ? kIdleMark : ' ';
  }

  std::string run_text(const ComputeBox& box, std::size_t columns, LineContent content) const {
    switch (content) {
      case LineContent::labels:
        return box_text(box, labelling_.label(box), columns);
      case LineContent::letters:
        return letters_text(box, columns);
      case LineContent::stages:
        return number_text(box, columns, &Action::stage);
      case LineContent::microbatches:
        return number_text(box, columns, &Action::microbatch);
    }
    return {};
  }

  static std::string letters_text(const ComputeBox& box, std::size_t columns) {
    if (box.partner) return box_text(box, {kind_mark(box.action), kind_mark(*box.partner)}, columns);
    return box_text(box, {kind_mark(box.action)}, columns);
  }

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

  Labelling labelling_;
  TimelineTextOptions options_;
};

bool every_label_fits(const std::vector<ComputeBox>& boxes, const std::vector<Run>& runs,
                      const Labelling& labelling) {
  return std::ranges::all_of(runs, [&](const Run& run) {
    return run.owner == kIdle ||
           labelling.label(boxes[static_cast<std::size_t>(run.owner)]).size() <= run.columns;
  });
}

std::string axis_lines(const Scale& scale, const std::string& indent) {
  const auto columns = static_cast<std::size_t>(scale.columns);
  constexpr std::int64_t kColumnsPerTick = 10;
  const int most = static_cast<int>(std::max<std::int64_t>(1, scale.columns / kColumnsPerTick));
  std::string ruler(columns, '-');
  std::string labels;
  const std::vector<Ns> ticks = time_ticks(scale.makespan_ns, most);
  for (const Ns tick : ticks) {
    const auto column = static_cast<std::size_t>(std::lround(scale.column_of(tick)));
    const std::string label = format_tick(tick, ticks.back());
    if (column < columns) ruler[column] = '|';
    if (column < labels.size() || column + label.size() > columns + 1) continue;
    labels.resize(column, ' ');
    labels += label + ' ';
  }
  labels.erase(labels.find_last_not_of(' ') + 1);
  return indent + ruler + "|\n" + indent + labels + '\n';
}

std::string legend_line(const Ranks& ranks) {
  std::set<ActionKind> kinds;
  bool pairs = false;
  for (const auto& boxes : ranks) {
    for (const ComputeBox& box : boxes) {
      if (duration_of(box) == 0) continue;
      kinds.insert(box.action.kind);
      if (box.partner) kinds.insert(box.partner->kind);
      pairs |= box.partner.has_value();
    }
  }
  std::string line;
  for (const ActionKind kind : kinds)
    line += fmt::format("{} {}, ", letters(kind).substr(0, 1), description_of(kind));
  if (pairs) line += "# overlapped pair, ";
  return line + fmt::format("{} idle", kIdleMark);
}

std::string scale_line(const Scale& scale) {
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

/// The rows of all ranks, and whether letters and numbers stand on lines of their own.
struct Body {
  std::string text;
  bool stacked = false;
};

Body draw_ranks(const Ranks& ranks, const Scale& scale, const Labelling& labelling,
                const TimelineTextOptions& options) {
  std::vector<std::vector<Run>> runs;
  bool all_fit = true;
  for (const auto& boxes : ranks) {
    runs.push_back(runs_of(owners(boxes, scale)));
    all_fit &= every_label_fits(boxes, runs.back(), labelling);
  }
  Body body;
  body.stacked = !all_fit && scale.unit_ns > 0;
  std::vector<LineContent> contents = {body.stacked ? LineContent::letters : LineContent::labels};
  if (body.stacked && labelling.with_stage) contents.push_back(LineContent::stages);
  if (body.stacked) contents.push_back(LineContent::microbatches);
  const Painter painter(labelling, options);
  const std::size_t digits = std::to_string(ranks.size() - 1).size();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::string head = fmt::format("rank {:<{}}  ", rank, digits);
    for (const LineContent content : contents) {
      body.text += head + painter.line(ranks[rank], runs[rank], content) + '\n';
      head.assign(head.size(), ' ');
    }
  }
  return body;
}

}  // namespace

std::string timeline_to_text(const Timeline& timeline, const TimelineTextOptions& options) {
  const Ranks ranks = compute_boxes(timeline);
  const Labelling labelling = labelling_of(ranks);
  if (timeline.makespan_ns <= 0 || labelling.shortest_ns == 0) return nothing_to_draw(timeline);
  const std::string indent(fmt::format("rank {}  ", ranks.size() - 1).size(), ' ');
  constexpr std::int64_t kLeastColumns = 40;
  const std::int64_t width = std::max<std::int64_t>(kLeastColumns, options.columns);
  const Scale scale =
      scale_of(ranks, timeline.makespan_ns, labelling, width - static_cast<std::int64_t>(indent.size()) - 1);
  const Body body = draw_ranks(ranks, scale, labelling, options);
  std::string text = body.text + axis_lines(scale, indent);
  text += fmt::format("{}{}; {}\n", indent, legend_line(ranks), scale_line(scale));
  if (body.stacked) {
    text += fmt::format("{}under the letters: {}microbatch (0-9, a-z, A-Z, then *)\n", indent,
                        labelling.with_stage ? "stage, then " : "");
  }
  return text;
}

}  // namespace penstock
