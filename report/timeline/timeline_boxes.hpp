#pragma once
// Makes the boxes of timeline pictures in three steps. Spans are sorted into boxes and rows, narrow boxes are
// merged, and boxes are written as SVG text. The last functions of this file draw whole pictures.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/print/palette.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// A box of the picture: one compute action of a rank, or both actions of an overlapped pair.
struct ComputeBox {
  Action action;
  /// The second action of an overlapped pair. It is absent for a single action.
  std::optional<Action> partner;
  Ns start_ns = 0;
  Ns end_ns = 0;

  Ns duration_ns() const { return end_ns - start_ns; }

  friend bool operator==(const ComputeBox&, const ComputeBox&) = default;
};

/// Returns the compute boxes of each rank, ordered by start time. Boxes with equal starts stay in program
/// order.
std::vector<std::vector<ComputeBox>> compute_boxes(const Timeline& timeline);

/// Returns the box as text: "0F3" or "(0F5;3B2)OVERLAP_F_B".
std::string to_text(const ComputeBox& box);

/// Returns the stages of one rank's boxes, in ascending order.
std::vector<std::int32_t> stages_of(const std::vector<ComputeBox>& boxes);

/// The rows of a rank in the picture. Each span of the rank belongs to one of them.
enum class TimelineRow : std::uint8_t { compute, send, receive, collective };
/// Returns the row in which an action of this kind is drawn.
TimelineRow row_of(ActionKind kind);

/// Returns the number of a lane (0, 1, ...) for each span, in the order of the spans. No two spans of one
/// lane overlap in time, and the number of lanes is minimal. A row needs several lanes if transfers of
/// different channels run at the same time.
std::vector<std::int32_t> lanes_of(std::span<const Span> spans);

// Computes the rectangles that a timeline picture draws for each rank. Narrow neighbours are merged, so that
// there are few rectangles.

/// The time that the actions of one kind take within a merged rectangle.
struct KindShare {
  ActionKind kind = ActionKind::forward;
  Ns time_ns = 0;
};

/// A rectangle of the picture. It represents one compute box, or several narrow neighbouring boxes that are
/// merged.
struct DrawnBox {
  /// The box that the rectangle represents. In a merged rectangle, it is the first of the boxes.
  ComputeBox shown;
  /// The last box of a merged rectangle.
  ComputeBox last;
  /// The number of boxes that the rectangle represents.
  std::size_t count = 1;
  /// The time of each action kind in a merged rectangle, in the order of the enum. It is empty for a single
  /// box.
  std::vector<KindShare> shares;
  Ns start_ns = 0;
  Ns end_ns = 0;

  bool merged() const { return count > 1; }
};

/// The row of one rank in the picture. STEPs are drawn over the boxes, because otherwise the boxes would
/// hide STEPs that take no time.
struct DrawnRow {
  std::vector<DrawnBox> boxes;
  /// The STEPs that are too short for a box. Each one is drawn as a vertical line.
  std::vector<DrawnBox> steps;
};

/// Returns the rectangles of a row. A box shorter than `least_ns` begins a merged rectangle. The next boxes
/// join the rectangle if they are also shorter than `least_ns` and start less than `least_ns` after the start
/// of the rectangle.
std::vector<DrawnBox> merge_narrow(const std::vector<ComputeBox>& boxes, Ns least_ns);

/// The limits that decide how many details of a timeline are drawn.
struct DrawingBudget {
  /// The duration of the shortest box that gets a rectangle of its own.
  Ns least_ns = 1;
  /// The duration of the shortest box that has room for a microbatch number.
  Ns wide_ns = 1;
  /// The duration below which a STEP is drawn as a vertical line.
  Ns step_ns = 1;
  /// The largest number of XML elements in the picture.
  std::size_t most_elements = 50'000;
};

/// Returns the rows of all ranks as they are drawn. It doubles `least_ns` until the picture has at most
/// `most_elements` XML elements, or until each row is one rectangle.
std::vector<DrawnRow> drawn_rows(const std::vector<std::vector<ComputeBox>>& ranks,
                                 const DrawingBudget& budget);

/// Returns the tooltip of a rectangle, such as "0F3, 12.000 ms to 13.000 ms (1.000 ms), weight version 2".
/// The tooltip of a merged rectangle is like "0F3 to 0B7, 12 actions, ...".
std::string tooltip_of(const DrawnBox& box);

/// Returns the tooltip of a transfer or a collective.
std::string tooltip_of(const Span& span);

// Writes the boxes of a timeline, with their marks and numbers, as SVG text.

/// A rectangle of the picture, in pixels.
struct Rectangle {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

/// Returns the smallest width in pixels of a box in which a number of `digits` digits fits.
double label_width(std::size_t digits);

/// Returns the colour of a merged rectangle. It mixes the colours of the action kinds, weighted by their
/// times in the rectangle.
Colour mixed_colour(const std::vector<KindShare>& shares);

/// The share of white in the colour of a rank's last stage.
inline constexpr double kPalest = 0.5;
/// Returns the share of white in the colour of a compute action. `stages` are the stages of the action's
/// rank. If there are several, the colours of later stages are paler.
double paleness_of(const Action& action, const std::vector<std::int32_t>& stages);

/// The names of the two hatching patterns. kRecomputePattern is drawn over recomputations, and
/// kSeveralPattern over merged rectangles.
inline constexpr std::string_view kRecomputePattern = "penstock-hatch";
inline constexpr std::string_view kSeveralPattern = "penstock-several";
/// Returns the SVG definitions of both patterns, for the element that defines patterns.
std::string box_patterns_svg();

/// A writer that collects the SVG text of a picture's boxes and of the numbers in them. Without tooltips, all
/// boxes of one colour are one path.
class BoxText {
 public:
  explicit BoxText(bool tooltips) : tooltips_(tooltips) {}

  bool tooltips() const { return tooltips_; }
  /// Adds the box of one action. The box shows the microbatch number if there is room.
  void add_leaf(const Action& action, Colour fill, const Rectangle& at, std::string_view tooltip);
  /// Adds a merged box, which represents several actions.
  void add_merged(Colour fill, const Rectangle& at, std::string_view tooltip);
  /// Adds a thin bar for a transfer or a collective.
  void add_bar(Colour fill, const Rectangle& at, std::string_view tooltip);
  /// Adds a vertical line. `room` is the distance in pixels to the next line. If it is small, the line is
  /// drawn narrower.
  void add_mark(Colour colour, const Rectangle& at, double room, std::string_view tooltip);

  std::string boxes() const;
  const std::string& labels() const { return labels_; }

 private:
  void add_rectangle(Colour fill, const Rectangle& at, std::string_view attributes, std::string_view tooltip);
  void add_path(Colour fill, const Rectangle& at);
  void add_pattern(std::string_view pattern, const Rectangle& at);

  bool tooltips_;
  std::string boxes_;
  std::string labels_;
  std::map<std::string, std::string> paths_;  // path of the boxes of each colour, without tooltips
  // The last merged box without a tooltip, which its next neighbour may join.
  std::optional<std::pair<Colour, Rectangle>> joined_;
};

// Selects the part of a run that a picture shows: some of its ranks, from one time to another.

/// A part of a timeline. The default is the whole run with all ranks.
struct TimelineWindow {
  Ns from_ns = 0;
  /// The end of the window. If it is later than the run, the window ends with the run.
  Ns to_ns = std::numeric_limits<Ns>::max();
  /// The ranks to show, in this order. If the list is empty, all ranks are shown. Requires ranks of the run.
  std::vector<std::int32_t> ranks{};

  bool shows_all() const { return from_ns == 0 && to_ns == std::numeric_limits<Ns>::max() && ranks.empty(); }
  /// Returns the name of a row of the picture: "rank 3".
  std::string name_of(std::size_t row) const;

  friend bool operator==(const TimelineWindow&, const TimelineWindow&) = default;
};

/// Returns the timeline of the window. It has all spans that are at least partly inside the window, and does
/// not cut them. Rank i of the result is row i of the window. The result ends where the window ends.
Timeline part_of(const Timeline& timeline, const TimelineWindow& window);

/// Moves the times of the boxes so that the window begins at 0. Cuts the boxes that reach over one of the
/// two ends of the window. `to_ns` is the end of the window.
void cut_to_window(std::vector<std::vector<ComputeBox>>& ranks, Ns from_ns, Ns to_ns);

/// Returns the ticks of a time axis from `from_ns` to `to_ns`. They are multiples of a nice step (see
/// nice_step()), at most `most` + 1 of them.
std::vector<Ns> ticks_between(Ns from_ns, Ns to_ns, int most);

// Draws a timeline as an SVG picture in the style of PipeDream's figures. Each rank is a row. Forward passes
// are blue, backward passes green, and idle time is grey. The microbatch number is inside the box.

/// The options of a timeline picture.
struct TimelineSvgOptions {
  /// The title above the picture. If it is empty, there is no title.
  std::string title{};
  /// The width of the whole picture in pixels. Values below 200 count as 200.
  std::int32_t width = 1200;
  /// True to draw sends, receives and collectives as thin bars under each row.
  bool communication = false;
  /// The width in pixels below which neighbouring boxes are merged. If it is 0, boxes are merged only if
  /// the picture would otherwise exceed `most_elements`.
  double least_pixels = 0.8;
  /// The largest number of XML elements for all boxes and bars together.
  std::size_t most_elements = 50'000;
  /// True to write tooltips and outlines. False to leave them out, and to join neighbouring merged boxes of
  /// nearly the same colour. The picture is then ten times smaller.
  bool tooltips = true;
  /// The part of the run that the picture shows. The tooltip of a cut action still states its whole time.
  TimelineWindow window{};
};

/// Returns the picture as a complete SVG element. A box has a tooltip (action, start, end, weight version)
/// and, if there is room, the microbatch number. The stages of one rank have different shades. The two
/// actions of an overlapped pair share a box, with the first action on top. Merged boxes are hatched, and
/// their colour mixes the colours of their actions. Optimizer steps that take no time are dark lines over the
/// boxes.
std::string timeline_to_svg(const Timeline& timeline, const TimelineSvgOptions& options = {});

// Draws a timeline with characters, for `penstock show`.

/// The options of a text timeline.
struct TimelineTextOptions {
  /// The width of a whole line in characters. Values below 40 count as 40.
  std::int32_t columns = 100;
  /// The colours that the terminal can show, selected by ANSI escapes. A picture without colours contains
  /// the same information.
  TerminalColours colours = TerminalColours::none;
  /// The part of the run that the picture shows.
  TimelineWindow window{};
};

/// Returns the picture: a line for each rank, a time axis and a legend. Time goes from left to right. Idle
/// time is '.'. It is '+' while the rank's gradients are reduced, and '^' while its weights are gathered. If
/// there is room, each box shows its letter and microbatch ("F3-", "B3==="). If a rank holds several stages,
/// the stage comes first ("2F3"). If the labels do not fit but the scale is exact, the microbatches are on a
/// line below the letters. Otherwise each column shows the action that takes most of its time.
std::string timeline_to_text(const Timeline& timeline, const TimelineTextOptions& options = {});

/// Returns the number of columns that a line needs to show every action that takes time. Returns nothing if
/// `columns` columns are enough.
std::optional<std::int64_t> columns_for_every_action(const Timeline& timeline, std::int32_t columns,
                                                     const TimelineWindow& window = {});

/// Returns the program as a table in text form. Row k shows the k-th entry of each rank's list. An
/// overlapped pair is one entry.
std::string action_grid(const Program& program);

}  // namespace penstock
