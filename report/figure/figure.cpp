// Draws the panels from top to bottom. All x coordinates are times on one scale; a bracket begins where the
// panel would end if its ranks were never idle:
//
//   (a) 1f1b
//   rank 0  |1|2|3|  ..  |1  |4|2  |           a row of boxes
//            _--========______                 the memory of the rank; its peak on the right
//                             |---------|      the bracket: mean idle time
//   (b) zb-h1
//   ...
//           0        0.5        1        1.5   one axis for all
//
// timeline_svg.cpp draws one timeline for the screen instead, with tooltips and messages. Tested by
// figure_test.cpp.

#include "report/figure/figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/print/palette.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "schedules/ir/action.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

constexpr Colour kInk = {0x1a, 0x1a, 0x1a};
constexpr Colour kWhite = {0xff, 0xff, 0xff};
constexpr Colour kIdle = {0xec, 0xec, 0xec};
constexpr Colour kMemory = {0xc9, 0x9a, 0xc0};
constexpr Colour kGreyMemory = {0x80, 0x80, 0x80};
// The smallest width of a box in mm. Narrower boxes are merged with their neighbours. A printer's dot is
// about 0.04 mm.
constexpr double kLeastBox = 0.12;
constexpr double kLeastOutlined = 0.6;
constexpr double kHatchDistance = 0.8;
constexpr double kHatchWidth = 0.12;
// The width in mm of the area around a number in a hatched box that has no hatching.
constexpr double kNumberMargin = 0.3;
constexpr double kGap = 1;
// The height of capital letters and digits, as a fraction of the font's size.
constexpr double kCapital = 0.7;
constexpr double kLeastPoints = 3.5;

/// The lines of a hatching: `rising` lines go up to the right, `falling` lines down.
struct Hatch {
  bool rising = false;
  bool falling = false;
  bool level = false;
};

Hatch hatch_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::backward:
      return {.rising = true};
    case ActionKind::backward_input:
      return {.falling = true};
    case ActionKind::backward_weight:
      return {.rising = true, .falling = true};
    case ActionKind::recompute:
      return {.level = true};
    default:
      return {};
  }
}

/// Returns the grey that an action kind has in a grey print. The shades of the kinds differ: forward is
/// dark, W is light.
Colour grey_of(ActionKind kind) {
  const auto grey = [](std::uint8_t part) { return Colour{part, part, part}; };
  switch (kind) {
    case ActionKind::forward:
      return grey(0x6e);
    case ActionKind::backward:
    case ActionKind::backward_input:
      return grey(0xaa);
    case ActionKind::backward_weight:
      return grey(0xd8);
    case ActionKind::recompute:
      return grey(0xf2);
    default:
      return grey(0x22);
  }
}

/// Returns the colour in the middle between two colours. The lines of a hatching have such a colour, so that
/// the numbers stand out from them.
Colour between(Colour one, Colour other) {
  const auto middle = [](std::uint8_t a, std::uint8_t b) { return static_cast<std::uint8_t>((a + b) / 2); };
  return {middle(one.red, other.red), middle(one.green, other.green), middle(one.blue, other.blue)};
}

/// Returns the grey that is as light as the given colour.
Colour grey_of(Colour colour) {
  const auto part =
      static_cast<std::uint8_t>(std::lround(0.299 * colour.red + 0.587 * colour.green + 0.114 * colour.blue));
  return {part, part, part};
}

/// Returns the mean time for which a rank computes.
double mean_busy_ns(const Result& result) {
  const double busy = std::accumulate(
      result.ranks.begin(), result.ranks.end(), 0.0,
      [](double sum, const RankReport& rank) { return sum + static_cast<double>(rank.busy_ns); });
  return result.ranks.empty() ? 0 : busy / static_cast<double>(result.ranks.size());
}

/// Returns the duration of the shortest forward pass that takes time, or 0 if there is none.
double shortest_forward_ns(const Timeline& timeline) {
  Ns shortest = 0;
  for (const Span& span : timeline.spans) {
    const Ns length = span.end_ns - span.start_ns;
    if (span.action.kind != ActionKind::forward || span.action.overlaps_next || length <= 0) continue;
    if (shortest == 0 || length < shortest) shortest = length;
  }
  return static_cast<double>(shortest);
}

/// Returns the number of nanoseconds in one unit of the figure's time axis. Returns 0 if the axis shows
/// seconds.
double axis_unit_ns(const Result& first, FigureAxis axis) {
  if (axis == FigureAxis::ideal) return mean_busy_ns(first);
  return axis == FigureAxis::forward ? shortest_forward_ns(first.timeline) : 0;
}

/// An entry of the legend. `kind` is used only for entries of actions, not for idle time and memory.
struct FigureKey {
  std::string text;
  Colour fill;
  ActionKind kind = ActionKind::step;
};

/// A painter that appends the shapes of a figure from top to bottom.
class FigurePainter {
 public:
  FigurePainter(const std::vector<FigurePanel>& panels, const FigureOptions& options)
      : panels_(panels), options_(options), em_(options.points * kMmPerPoint) {
    drawing_.width_mm = options.width_mm;
    drawing_.font = options.font;
    row_height_ = options.row_mm.value_or(1.5 * em_);
    for (const FigurePanel& panel : panels) {
      end_ns_ = std::max(end_ns_, panel.result.makespan_ns);
      peak_ = std::max(peak_, highest_peak_bytes(panel.result));
    }
    has_memory_ = shows(FigurePart::memory) && peak_ > 0;
    left_ = names_width();
    plot_width_ = std::max(1.0, options.width_mm - left_ - right_margin());
  }

  FigureDrawing picture() {
    if (!options_.title.empty()) {
      add_text({left_, top_ + em_}, xml_text(options_.title), FigureAnchor::start);
      top_ += 1.6 * em_;
    }
    if (shows(FigurePart::legend)) add_legend();
    for (std::size_t i = 0; i < panels_.size(); ++i) add_panel(i);
    if (shows(FigurePart::axis)) add_axis();
    drawing_.height_mm = top_;
    return std::move(drawing_);
  }

 private:
  bool shows(FigurePart part) const { return !options_.without.contains(part); }
  double x(double time_ns) const {
    return left_ + (end_ns_ > 0 ? time_ns / static_cast<double>(end_ns_) * plot_width_ : 0);
  }
  double x(Ns time_ns) const { return x(static_cast<double>(time_ns)); }
  double width_of(const std::string& text) const { return width_of(text, options_.points); }
  double width_of(const std::string& text, double points) const {
    return options_.text_space * text_width_mm(text, options_.font, points);
  }
  static std::string name_of(std::size_t rank) { return fmt::format("rank {}", rank); }

  /// Returns the width in mm of the space to the left of the panels. It contains the names of the rows.
  double names_width() const {
    if (!shows(FigurePart::ranks)) return 0;
    double widest = 0;
    for (const FigurePanel& panel : panels_) {
      const auto ranks = static_cast<std::size_t>(std::max(1, panel.result.timeline.rank_count));
      widest = std::max(widest, width_of(name_of(ranks - 1)));
    }
    return widest + kGap;
  }

  static std::string peak_text(const RankMemory& memory) {
    if (memory.unit == MemoryUnit::bytes) return format_bytes_short(memory.peak_bytes);
    return format_quantity(shown_amount(memory.peak_bytes, memory.unit));
  }

  /// Returns the width to the right of the panels, in mm. It is the space for the memory peaks, or half of
  /// the last tick's number.
  double right_margin() const {
    double widest = 2 * kGap;
    for (const FigurePanel& panel : panels_) {
      for (const RankReport& rank : panel.result.ranks)
        if (has_memory_) widest = std::max(widest, width_of(peak_text(rank.memory)) + kGap);
    }
    return widest;
  }

  void add_area(const Rectangle& at, Colour fill, std::optional<Colour> outline = std::nullopt) {
    drawing_.shapes.emplace_back(FigureArea{.corners = {{at.x, at.y},
                                                        {at.x + at.width, at.y},
                                                        {at.x + at.width, at.y + at.height},
                                                        {at.x, at.y + at.height}},
                                            .fill = fill,
                                            .outline = outline});
  }
  void add_line(FigurePoint from, FigurePoint to, Colour colour, double width_mm = kOutlineMm) {
    drawing_.shapes.emplace_back(FigureLine{.from = from, .to = to, .width_mm = width_mm, .colour = colour});
  }
  void add_text(FigurePoint at, std::string text, FigureAnchor anchor) {
    add_text(at, std::move(text), anchor, options_.points, kInk);
  }
  void add_text(FigurePoint at, std::string text, FigureAnchor anchor, double points, Colour colour) {
    drawing_.shapes.emplace_back(
        FigureText{.at = at, .text = std::move(text), .points = points, .anchor = anchor, .colour = colour});
  }

  Colour fill_of(ActionKind kind) const { return options_.grey ? grey_of(kind) : colour_of(kind); }
  Colour idle_colour() const { return options_.grey ? kWhite : kIdle; }
  Colour outline_colour() const { return options_.grey ? kInk : kWhite; }

  /// Adds the lines of the hatching for an action kind to a box. The lines of adjacent boxes continue each
  /// other.
  void add_hatch(const Rectangle& at, ActionKind kind, Colour fill) {
    if (!options_.hatches) return;
    const Hatch hatch = hatch_of(kind);
    const Colour colour = between(fill, text_colour_on(fill));
    const double right = at.x + at.width;
    const double bottom = at.y + at.height;
    // Calls `draw` with each multiple of kHatchDistance in [from, to).
    const auto for_each_line = [](double from, double to, const auto& draw) {
      const int begin = static_cast<int>(std::ceil(from / kHatchDistance));
      for (int i = begin; i * kHatchDistance < to; ++i) draw(i * kHatchDistance);
    };
    // The sum x + y is constant on a rising line, and the difference x - y is constant on a falling line.
    const auto rising = [&](double sum) {
      const double from = std::max(at.x, sum - bottom);
      const double to = std::min(right, sum - at.y);
      add_line({from, sum - from}, {to, sum - to}, colour, kHatchWidth);
    };
    const auto falling = [&](double difference) {
      const double from = std::max(at.x, difference + at.y);
      const double to = std::min(right, difference + bottom);
      add_line({from, from - difference}, {to, to - difference}, colour, kHatchWidth);
    };
    const auto level = [&](double y) { add_line({at.x, y}, {right, y}, colour, kHatchWidth); };
    if (hatch.rising) for_each_line(at.x + at.y, right + bottom, rising);
    if (hatch.falling) for_each_line(at.x - bottom, right - at.y, falling);
    if (hatch.level) for_each_line(at.y, bottom, level);
  }

  /// Adds the number of the action's microbatch in the middle of its box, if there is room.
  void add_number(const Action& action, const Rectangle& at, Colour fill) {
    if (!has_microbatch(action.kind)) return;
    const std::string number = std::to_string(std::int64_t{action.microbatch} + options_.first_microbatch);
    const double points = std::min(options_.points, 0.9 * at.height / kMmPerPoint);
    const double width = width_of(number, points);
    if (points < kLeastPoints || width + 0.2 > at.width) return;
    const double height = kCapital * points * kMmPerPoint;
    const FigurePoint middle = {at.x + at.width / 2, at.y + at.height / 2};
    const Hatch hatch = hatch_of(action.kind);
    if (options_.hatches && (hatch.rising || hatch.falling || hatch.level)) {
      add_area({middle.x - width / 2 - kNumberMargin, middle.y - height / 2 - kNumberMargin,
                width + 2 * kNumberMargin, height + 2 * kNumberMargin},
               fill);
    }
    add_text({middle.x, middle.y + height / 2}, number, FigureAnchor::middle, points, text_colour_on(fill));
  }

  void add_leaf(const Action& action, const std::vector<std::int32_t>& stages, const Rectangle& at) {
    const Colour fill = lightened(fill_of(action.kind), paleness_of(action, stages));
    add_area(at, fill, at.width >= kLeastOutlined ? std::optional(outline_colour()) : std::nullopt);
    add_hatch(at, action.kind, fill);
    add_number(action, at, fill);
  }

  void add_row(const DrawnRow& row, const std::vector<std::int32_t>& stages) {
    for (const DrawnBox& box : row.boxes) {
      const Rectangle at = {x(box.start_ns), top_, x(box.end_ns) - x(box.start_ns), row_height_};
      if (box.merged()) {
        const Colour mixed = mixed_colour(box.shares);
        add_area(at, options_.grey ? grey_of(mixed) : mixed);
      } else if (!box.shown.partner) {
        add_leaf(box.shown.action, stages, at);
      } else {
        const double half = at.height / 2;
        add_leaf(box.shown.action, stages, {at.x, at.y, at.width, half});
        add_leaf(*box.shown.partner, stages, {at.x, at.y + half, at.width, half});
      }
    }
    for (const DrawnBox& step : row.steps)
      add_line({x(step.start_ns), top_}, {x(step.start_ns), top_ + row_height_}, kInk, 2 * kOutlineMm);
  }

  Colour memory_colour() const { return options_.grey ? kGreyMemory : kMemory; }

  /// Adds a strip that shows the memory of a rank over time. All strips have one scale, in which the largest
  /// peak of all panels fills the height of a strip.
  void add_memory(const RankMemory& memory, Ns makespan_ns) {
    constexpr double kNarrow = 0.1;
    const double height = strip_height();
    const double bottom = top_ + height;
    // The start (x) and the relative height of each step. A step that starts less than kNarrow after the
    // previous one is merged with it, and the larger height counts.
    std::vector<std::pair<double, double>> steps;
    for (const MemorySample& sample : memory.samples) {
      const double part = static_cast<double>(total_bytes(sample.bytes)) / static_cast<double>(peak_);
      const double at = x(std::clamp<Ns>(sample.time_ns, 0, makespan_ns));
      if (!steps.empty() && at - steps.back().first < kNarrow) {
        steps.back().second = std::max(steps.back().second, part);
      } else {
        steps.emplace_back(at, part);
      }
    }
    FigureArea area{.corners = {}, .fill = memory_colour()};
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const double y = bottom - steps[i].second * height;
      const double end = i + 1 < steps.size() ? steps[i + 1].first : x(makespan_ns);
      area.corners.push_back({steps[i].first, y});
      area.corners.push_back({end, y});
    }
    if (area.corners.empty()) return;
    const double first = area.corners.front().x;
    area.corners.push_back({area.corners.back().x, bottom});
    area.corners.push_back({first, bottom});
    drawing_.shapes.emplace_back(std::move(area));
    add_line({left_, bottom}, {x(makespan_ns), bottom}, kInk, kOutlineMm / 2);
    add_text({x(makespan_ns) + kGap / 2, bottom}, peak_text(memory), FigureAnchor::start);
  }

  double strip_height() const { return 0.6 * row_height_; }

  /// Adds the bracket below the rows. Its length is the mean idle time of a rank.
  void add_bracket(const Result& result) {
    constexpr double kTick = 0.6;
    const double from = x(mean_busy_ns(result));
    const double to = x(result.makespan_ns);
    const double y = top_ + kTick;
    if (to - from > kOutlineMm) {
      add_line({from, y}, {to, y}, kInk);
      for (const double end : {from, to}) add_line({end, y - kTick}, {end, y + kTick}, kInk);
    }
    const std::string text = "bubble " + format_percent(result.bubble.idle_over_total);
    const bool fits = width_of(text) <= to - from;
    add_text({fits ? (from + to) / 2 : to, y + kTick + em_}, text,
             fits ? FigureAnchor::middle : FigureAnchor::end);
    top_ = y + kTick + 1.2 * em_;
  }

  void add_panel(std::size_t number) {
    const FigurePanel& panel = panels_[number];
    const Result& result = panel.result;
    if (shows(FigurePart::captions)) {
      const std::string caption =
          panels_.size() == 1 ? panel.label : fmt::format("{} {}", letter_of(number), panel.label);
      add_text({left_, top_ + em_}, xml_text(caption), FigureAnchor::start);
      top_ += 1.4 * em_;
    }
    const auto ranks = compute_boxes(result.timeline);
    const auto time_of = [&](double mm) {
      return std::llround(std::ceil(mm * static_cast<double>(end_ns_) / plot_width_));
    };
    const std::vector<DrawnRow> rows = drawn_rows(ranks, {.least_ns = time_of(kLeastBox),
                                                          .wide_ns = time_of(kLeastOutlined),
                                                          .step_ns = std::max<Ns>(1, time_of(2 * kOutlineMm)),
                                                          .most_elements = 20'000});
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
      const Rectangle whole = {left_, top_, x(result.makespan_ns) - left_, row_height_};
      add_area(whole, idle_colour(), options_.grey ? std::optional(kInk) : std::nullopt);
      if (shows(FigurePart::ranks)) {
        add_text({left_ - kGap, top_ + row_height_ / 2 + kCapital * em_ / 2}, name_of(rank),
                 FigureAnchor::end);
      }
      add_row(rows[rank], stages_of(ranks[rank]));
      top_ += row_height_;
      if (has_memory_ && rank < result.ranks.size()) {
        top_ += kGap / 4;
        add_memory(result.ranks[rank].memory, result.makespan_ns);
        top_ += strip_height();
      }
      top_ += kGap / 2;
    }
    if (shows(FigurePart::brackets)) add_bracket(result);
    top_ += kGap;
  }

  /// Returns the label of a panel: (a) to (z), then (27) and so on.
  static std::string letter_of(std::size_t number) {
    constexpr std::size_t kLetters = 26;
    if (number >= kLetters) return fmt::format("({})", number + 1);
    return fmt::format("({})", static_cast<char>('a' + static_cast<char>(number)));
  }

  void add_axis() {
    const Result& first = panels_.front().result;
    const double unit_ns = axis_unit_ns(first, options_.axis);
    const int most = std::max(2, static_cast<int>(plot_width_ / 15));
    add_line({left_, top_}, {left_ + plot_width_, top_}, kInk);
    const auto add_tick = [&](double at, const std::string& text) {
      add_line({at, top_}, {at, top_ + 1}, kInk);
      add_text({at, top_ + 1.2 + em_}, text, FigureAnchor::middle);
    };
    if (!(unit_ns > 0)) {
      const std::vector<Ns> ticks = time_ticks(end_ns_, most);
      for (const Ns tick : ticks) add_tick(x(tick), format_tick(tick, ticks.back()));
      top_ += 1.5 + 1.4 * em_;
      return;
    }
    const double end = static_cast<double>(end_ns_) / unit_ns;
    for (const double tick : value_ticks(end, most)) {
      if (tick <= end * (1 + 1e-9)) add_tick(x(tick * unit_ns), fmt::format("{:g}", tick));
    }
    const std::string unit =
        options_.axis == FigureAxis::ideal ? "the computing time of a rank" : "a forward pass";
    add_text({left_ + plot_width_ / 2, top_ + 1.5 + 2.3 * em_},
             fmt::format("time in units of {}{}", unit, panels_.size() > 1 ? " in (a)" : ""),
             FigureAnchor::middle);
    top_ += 1.5 + 2.8 * em_;
  }

  std::vector<FigureKey> keys() const {
    std::set<ActionKind> kinds;
    for (const FigurePanel& panel : panels_) {
      for (const Span& span : panel.result.timeline.spans)
        if (is_compute(span.action.kind)) kinds.insert(span.action.kind);
    }
    std::vector<FigureKey> keys;
    keys.reserve(kinds.size() + 2);
    for (const ActionKind kind : kinds)
      keys.push_back({std::string(description_of(kind)), fill_of(kind), kind});
    keys.push_back({.text = "idle", .fill = idle_colour()});
    if (has_memory_) {
      const bool in_bytes = panels_.front().result.ranks.front().memory.unit == MemoryUnit::bytes;
      keys.push_back({.text = in_bytes ? "memory of the rank, with its peak"
                                       : "activations on the rank, with their peak",
                      .fill = memory_colour()});
    }
    return keys;
  }

  void add_legend() {
    const double square = em_;
    double at = left_;
    for (const FigureKey& key : keys()) {
      const double width = square + kGap / 2 + width_of(key.text) + 3 * kGap;
      if (at > left_ && at + width > options_.width_mm) {
        at = left_;
        top_ += 1.5 * em_;
      }
      const Rectangle place = {at, top_, square, square};
      add_area(place, key.fill, kInk);
      add_hatch(place, key.kind, key.fill);
      add_text({at + square + kGap / 2, top_ + 0.85 * em_}, key.text, FigureAnchor::start);
      at += width;
    }
    top_ += 1.8 * em_;
  }

  const std::vector<FigurePanel>& panels_;
  const FigureOptions& options_;
  FigureDrawing drawing_;
  double em_;  // the size of the font in millimetres
  double row_height_ = 0;
  double left_ = 0;
  double plot_width_ = 0;
  double top_ = 0.3;  // the y coordinate below everything that has been drawn
  Ns end_ns_ = 0;
  Bytes peak_ = 0;
  bool has_memory_ = false;
};

}  // namespace

FigureDrawing figure_of(const std::vector<FigurePanel>& panels, const FigureOptions& options) {
  return FigurePainter(panels, options).picture();
}

}  // namespace penstock
