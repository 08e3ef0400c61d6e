#pragma once
// Draws the timelines of several schedules below each other, on one time axis, for a paper. Also writes a
// table of their figures. drawing.hpp writes the picture as SVG, PDF and TikZ. timeline_svg.hpp draws one
// timeline for the screen instead.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/figure/drawing.hpp"
#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

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
