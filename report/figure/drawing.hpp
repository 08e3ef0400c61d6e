#pragma once
// A picture for a paper as a list of areas, lines and texts with coordinates in millimetres. It is written as
// SVG, as PDF and as TikZ, so that all three show the same picture. figure.hpp makes the list.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "report/print/palette.hpp"
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

/// The width of outlines.
inline constexpr double kOutlineMm = 0.1;

/// A straight line.
struct FigureLine {
  FigurePoint from;
  FigurePoint to;
  double width_mm = kOutlineMm;
  Colour colour;
};

/// The part of a text that is placed at the text's position: its start, its middle or its end.
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

}  // namespace penstock
