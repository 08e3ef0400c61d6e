#pragma once
// A picture for a paper as a list of areas, lines and texts with coordinates in millimetres. It is written as
// SVG, as PDF and as TikZ, so that all three show the same picture.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "report/print/palette.hpp"
#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The millimetres of one point (1/72 inch), the unit of font sizes.
inline constexpr double kMmPerPoint = 25.4 / 72;

/// The font of an SVG or PDF picture: Helvetica (sans) or Times (serif). A TikZ picture uses the font of
/// the document that includes it.
enum class FigureFont : std::uint8_t { sans, serif };
template <>
inline constexpr auto kEnumWords<FigureFont> =
    std::to_array<EnumWord<FigureFont>>({{FigureFont::sans, "sans"}, {FigureFont::serif, "serif"}});

/// A place in the picture, in millimetres to the right of and below its top left corner.
struct FigurePoint {
  double x = 0;
  double y = 0;
};

/// A filled polygon.
struct FigureArea {
  std::vector<FigurePoint> corners;
  Colour fill;
  /// The colour of the outline. It is absent if there is none.
  std::optional<Colour> outline{};
};

/// The width of the outlines of boxes and areas, in millimetres.
inline constexpr double kOutlineMm = 0.1;

/// A straight line.
struct FigureLine {
  FigurePoint from;
  FigurePoint to;
  double width_mm = kOutlineMm;
  Colour colour;
};

/// The alignment of a text: its start, its middle or its end is at the text's position.
enum class FigureAnchor : std::uint8_t { start, middle, end };

/// A text in one line. Its position is on the base line of the letters.
struct FigureText {
  FigurePoint at;
  std::string text;
  double points = 7;  ///< the size of the font
  FigureAnchor anchor = FigureAnchor::start;
  Colour colour;
};

/// A picture that consists of shapes. Later shapes cover earlier ones.
struct FigureDrawing {
  double width_mm = 0;
  double height_mm = 0;
  FigureFont font = FigureFont::sans;
  std::vector<std::variant<FigureArea, FigureLine, FigureText>> shapes;
};

/// Returns the width of a text in millimetres. It uses the metrics of Helvetica and Times.
double text_width_mm(std::string_view text, FigureFont font, double points);

/// Returns the text with a backslash or a command in place of each character that has a special meaning in
/// LaTeX.
std::string latex_escaped(std::string_view text);

/// Returns the picture as an <svg> element whose width and height are in millimetres.
std::string drawing_to_svg(const FigureDrawing& drawing);
/// Returns the picture as a PDF file with one page of the picture's size. Texts remain texts, in one of the
/// standard fonts of PDF. Characters outside of Latin-1 become '?'.
std::string drawing_to_pdf(const FigureDrawing& drawing);
/// Returns the picture as a tikzpicture that a LaTeX document includes with \input. The document needs the
/// packages tikz and xcolor.
std::string drawing_to_tikz(const FigureDrawing& drawing);

// Draws the timelines of several schedules below each other, on one time axis, for a paper. Also writes a
// table of their figures. timeline_boxes.hpp draws one timeline for the screen instead.

/// The unit of the time axis. It is the computing time of a rank in the first panel (`ideal`), the shortest
/// forward pass of the first panel (`forward`), or seconds (`time`).
enum class FigureAxis : std::uint8_t { ideal, forward, time };
template <>
inline constexpr auto kEnumWords<FigureAxis> = std::to_array<EnumWord<FigureAxis>>(
    {{FigureAxis::ideal, "ideal"}, {FigureAxis::forward, "forward"}, {FigureAxis::time, "time"}});

/// The parts of the picture that the user can leave out.
enum class FigurePart : std::uint8_t { legend, captions, ranks, memory, brackets, axis };
template <>
inline constexpr auto kEnumWords<FigurePart> =
    std::to_array<EnumWord<FigurePart>>({{FigurePart::legend, "legend"},
                                         {FigurePart::captions, "captions"},
                                         {FigurePart::ranks, "ranks"},
                                         {FigurePart::memory, "memory"},
                                         {FigurePart::brackets, "brackets"},
                                         {FigurePart::axis, "axis"}});

/// The options of the picture.
struct FigureOptions {
  /// The title above the picture. If it is empty, there is no title.
  std::string title{};
  double width_mm = 170;
  /// The height in millimetres of the boxes of a rank. If it is absent, the height is 1.5 times the size of
  /// the font.
  std::optional<double> row_mm{};
  double points = 7;  ///< the size of the font
  FigureFont font = FigureFont::sans;
  /// The space that is reserved for a text, divided by the width of the text in `font`. TikZ pictures need a
  /// value above 1, because the font of the document is often wider.
  double text_space = 1;
  FigureAxis axis = FigureAxis::ideal;
  bool grey = false;     ///< True to draw in shades of grey.
  bool hatches = false;  ///< True to draw a pattern of lines over each kind of backward and recomputation.
  std::int32_t first_microbatch = 1;  ///< The number in the boxes of the first microbatch.
  std::set<FigurePart> without{};
};

/// The value of FigureOptions::text_space for TikZ. Computer Modern at 7 points is up to 1.17 times as wide
/// as Helvetica.
inline constexpr double kTikzTextSpace = 1.2;

/// A part of the picture that shows one schedule.
struct FigurePanel {
  std::string label;
  /// The result of the run, with its timeline and its memory over time.
  Result result;
  /// The published formula of a rank's idle time, such as "3(K-1)". It is empty if there is none.
  std::string formula{};
  /// The idle time by the formula, divided by the total time. It is absent if there is no formula.
  std::optional<double> formula_bubble{};
};

/// Returns the picture. Each panel has a row for each rank, with a strip of the rank's memory below it, and a
/// bracket whose length is the mean idle time. All panels have the same scale. Requires at least one panel.
FigureDrawing figure_of(const std::vector<FigurePanel>& panels, const FigureOptions& options);

/// Returns a table with one row for each panel: makespan, bubble, formula, bubble by the formula, peak
/// memory and number of sends.
Table figure_table(const std::vector<FigurePanel>& panels);
/// Returns figure_table() as a LaTeX tabular.
std::string figure_latex(const std::vector<FigurePanel>& panels);
/// Returns figure_table() as JSON.
std::string figure_json(const std::vector<FigurePanel>& panels);

}  // namespace penstock
