// Writes the shapes of a picture in three languages. Millimetres stay millimetres in SVG and TikZ; PDF counts
// in points from the bottom left corner:
//
//   area   <path d="M.. L.. Z"/>        x y m x y l h f         \fill (x,y) -- .. -- cycle;
//   line   <path d="M.. L.." stroke/>   x y m x y l S           \draw (x,y) -- (x,y);
//   text   <text x y>..</text>          BT x y Td (..) Tj ET    \node at (x,y) {..};
//
// PDF has no anchors, so the place of a centred text needs its width. The widths are those of Adobe's metrics
// of the standard fonts Helvetica and Times-Roman. Tested by figure_test.cpp.

#include "report/figure/figure.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "report/print/palette.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

constexpr std::size_t kFirstPrinted = 32;
constexpr std::size_t kPrinted = 95;

// The widths of the characters 32 to 126 in thousandths of the font's size.
constexpr std::array<int, kPrinted> kHelvetica = {
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584};
constexpr std::array<int, kPrinted> kTimes = {
    250, 333, 408, 500, 500, 833, 778, 180, 333, 333, 500, 564, 250, 333, 250, 278, 500, 500, 500,
    500, 500, 500, 500, 500, 500, 500, 278, 278, 564, 564, 564, 444, 921, 722, 667, 667, 722, 611,
    556, 722, 722, 333, 389, 722, 611, 889, 722, 722, 556, 722, 667, 556, 611, 722, 722, 944, 722,
    722, 611, 333, 278, 333, 469, 500, 333, 444, 500, 444, 500, 444, 333, 500, 500, 278, 278, 500,
    278, 778, 500, 500, 500, 500, 333, 389, 278, 500, 500, 722, 500, 500, 444, 480, 200, 480, 541};
/// The width of a character that is not in the font tables, in thousandths of the font's size.
constexpr int kOtherWidth = 556;

/// Returns the text in Latin-1, the encoding of PDF's standard fonts. Other characters become '?'.
std::string latin1_of(std::string_view text) {
  constexpr unsigned kTwoBytes = 0xc0;
  constexpr unsigned kLastOfLatin1 = 0xc3;
  std::string latin1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) {
      latin1 += static_cast<char>(byte);
    } else if (byte >= kTwoBytes) {
      const bool known = byte <= kLastOfLatin1 && i + 1 < text.size();
      const unsigned low = known ? static_cast<unsigned char>(text[i + 1]) & 0x3fU : 0;
      latin1 += known ? static_cast<char>((byte & 3U) << 6U | low) : '?';
    }  // the second and later bytes of a character add nothing
  }
  return latin1;
}

/// Returns the x coordinate of the left end of a text, for each anchor (start, middle or end).
double start_of(const FigureText& text, FigureFont font) {
  if (text.anchor == FigureAnchor::start) return text.at.x;
  const double width = text_width_mm(text.text, font, text.points);
  return text.at.x - (text.anchor == FigureAnchor::middle ? width / 2 : width);
}

// SVG

std::string svg_of(const FigureArea& area) {
  std::string path;
  for (const FigurePoint& corner : area.corners)
    path += fmt::format("{}{:.2f} {:.2f}", path.empty() ? 'M' : 'L', corner.x, corner.y);
  std::string outline;
  if (area.outline)
    outline = fmt::format(" stroke=\"{}\" stroke-width=\"{:.2f}\"", to_hex(*area.outline), kOutlineMm);
  return fmt::format("<path fill=\"{}\"{} d=\"{}Z\"/>\n", to_hex(area.fill), outline, path);
}

std::string svg_of(const FigureLine& line) {
  return fmt::format("<path stroke=\"{}\" stroke-width=\"{:.2f}\" d=\"M{:.2f} {:.2f}L{:.2f} {:.2f}\"/>\n",
                     to_hex(line.colour), line.width_mm, line.from.x, line.from.y, line.to.x, line.to.y);
}

std::string svg_of(const FigureText& text) {
  constexpr std::array<std::string_view, 3> kAnchors = {"", " text-anchor=\"middle\"",
                                                        " text-anchor=\"end\""};
  return fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"{:.2f}\" fill=\"{}\"{}>{}</text>\n",
                     text.at.x, text.at.y, text.points * kMmPerPoint, to_hex(text.colour),
                     kAnchors.at(static_cast<std::size_t>(text.anchor)), xml_escaped(text.text));
}

// PDF

/// Returns the colour as PDF writes it: three numbers from 0 to 1.
std::string pdf_colour(Colour colour) {
  constexpr double kMost = 255;
  return fmt::format("{:.3f} {:.3f} {:.3f}", colour.red / kMost, colour.green / kMost, colour.blue / kMost);
}

/// A writer of the shapes as operators in the content of a PDF page.
class PdfContent {
 public:
  explicit PdfContent(const FigureDrawing& drawing) : drawing_(drawing) {}

  void operator()(const FigureArea& area) {
    fmt::format_to(std::back_inserter(text_), "{} rg\n", pdf_colour(area.fill));
    if (area.outline) {
      fmt::format_to(std::back_inserter(text_), "{} RG {:.3f} w\n", pdf_colour(*area.outline),
                     kOutlineMm / kMmPerPoint);
    }
    for (std::size_t i = 0; i < area.corners.size(); ++i)
      fmt::format_to(std::back_inserter(text_), "{} {}\n", place(area.corners[i]), i == 0 ? 'm' : 'l');
    text_ += area.outline ? "h B\n" : "h f\n";
  }
  void operator()(const FigureLine& line) {
    fmt::format_to(std::back_inserter(text_), "{} RG {:.3f} w {} m {} l S\n", pdf_colour(line.colour),
                   line.width_mm / kMmPerPoint, place(line.from), place(line.to));
  }
  void operator()(const FigureText& text) {
    std::string escaped;
    for (const char character : latin1_of(text.text)) {
      if (character == '(' || character == ')' || character == '\\') escaped += '\\';
      escaped += character;
    }
    fmt::format_to(std::back_inserter(text_), "BT {} rg /F {:.2f} Tf {} Td ({}) Tj ET\n",
                   pdf_colour(text.colour), text.points,
                   place({.x = start_of(text, drawing_.font), .y = text.at.y}), escaped);
  }

  const std::string& text() const { return text_; }

 private:
  std::string place(const FigurePoint& point) const {
    return fmt::format("{:.3f} {:.3f}", point.x / kMmPerPoint, (drawing_.height_mm - point.y) / kMmPerPoint);
  }

  const FigureDrawing& drawing_;
  std::string text_;
};

// TikZ

/// Returns the colour in the form that LaTeX's package xcolor calls HTML: six hexadecimal digits.
std::string html_colour(Colour colour) {
  return fmt::format("{:02X}{:02X}{:02X}", colour.red, colour.green, colour.blue);
}

/// Returns the name under which a TikZ picture defines the colour.
std::string tikz_colour(Colour colour) { return "penstock" + html_colour(colour); }

std::string tikz_of(const FigureArea& area) {
  std::string path;
  for (const FigurePoint& corner : area.corners)
    path += fmt::format("({:.2f},{:.2f}) -- ", corner.x, corner.y);
  if (!area.outline) return fmt::format("\\fill[{}] {}cycle;\n", tikz_colour(area.fill), path);
  return fmt::format("\\filldraw[fill={},draw={},line width={:.2f}mm] {}cycle;\n", tikz_colour(area.fill),
                     tikz_colour(*area.outline), kOutlineMm, path);
}

std::string tikz_of(const FigureLine& line) {
  return fmt::format("\\draw[{},line width={:.2f}mm] ({:.2f},{:.2f}) -- ({:.2f},{:.2f});\n",
                     tikz_colour(line.colour), line.width_mm, line.from.x, line.from.y, line.to.x, line.to.y);
}

std::string tikz_of(const FigureText& text) {
  constexpr std::array<std::string_view, 3> kAnchors = {"base west", "base", "base east"};
  constexpr double kLineDistance = 1.2;
  return fmt::format(
      "\\node[anchor={},inner sep=0,text={},font=\\fontsize{{{:.2f}}}{{{:.2f}}}\\selectfont] at "
      "({:.2f},{:.2f}) {{{}}};\n",
      kAnchors.at(static_cast<std::size_t>(text.anchor)), tikz_colour(text.colour), text.points,
      text.points * kLineDistance, text.at.x, text.at.y, latex_escaped(text.text));
}

std::vector<Colour> colours_of(const FigureArea& area) {
  if (!area.outline) return {area.fill};
  return {area.fill, *area.outline};
}
std::vector<Colour> colours_of(const FigureLine& line) { return {line.colour}; }
std::vector<Colour> colours_of(const FigureText& text) { return {text.colour}; }

}  // namespace

double text_width_mm(std::string_view text, FigureFont font, double points) {
  const auto& widths = font == FigureFont::sans ? kHelvetica : kTimes;
  int thousandths = 0;
  for (const char character : latin1_of(text)) {
    const std::size_t place = static_cast<unsigned char>(character) - kFirstPrinted;
    thousandths += place < kPrinted ? widths.at(place) : kOtherWidth;
  }
  return thousandths / 1000.0 * points * kMmPerPoint;
}

std::string latex_escaped(std::string_view text) {
  std::string escaped;
  for (const char character : xml_text(text)) {
    switch (character) {
      case '\\':
        escaped += "\\textbackslash{}";
        break;
      // In LaTeX's default font encoding, <, > and | print other characters.
      case '<':
        escaped += "\\textless{}";
        break;
      case '>':
        escaped += "\\textgreater{}";
        break;
      case '|':
        escaped += "\\textbar{}";
        break;
      // LaTeX prints two hyphens in a row as one dash, so empty braces separate them.
      case '-':
        escaped += escaped.ends_with('-') ? "{}-" : "-";
        break;
      case '^':
        escaped += "\\textasciicircum{}";
        break;
      case '~':
        escaped += "\\textasciitilde{}";
        break;
      case '{':
      case '}':
      case '$':
      case '&':
      case '#':
      case '_':
      case '%':
        escaped += '\\';
        [[fallthrough]];
      default:
        escaped += character;
    }
  }
  return escaped;
}

std::string drawing_to_svg(const FigureDrawing& drawing) {
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.2f}mm\" height=\"{1:.2f}mm\" "
      "viewBox=\"0 0 {0:.2f} {1:.2f}\" font-family=\"{2}\">\n",
      drawing.width_mm, drawing.height_mm,
      drawing.font == FigureFont::sans ? "Helvetica, Arial, sans-serif" : "Times, Times New Roman, serif");
  for (const auto& shape : drawing.shapes)
    svg += std::visit([](const auto& one) { return svg_of(one); }, shape);
  return svg + "</svg>\n";
}

std::string drawing_to_pdf(const FigureDrawing& drawing) {
  PdfContent content(drawing);
  for (const auto& shape : drawing.shapes) std::visit(content, shape);
  const std::array objects = {
      std::string("<< /Type /Catalog /Pages 2 0 R >>"),
      std::string("<< /Type /Pages /Kids [3 0 R] /Count 1 >>"),
      fmt::format("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {:.3f} {:.3f}] /Contents 5 0 R "
                  "/Resources << /Font << /F 4 0 R >> >> >>",
                  drawing.width_mm / kMmPerPoint, drawing.height_mm / kMmPerPoint),
      fmt::format("<< /Type /Font /Subtype /Type1 /BaseFont /{} /Encoding /WinAnsiEncoding >>",
                  drawing.font == FigureFont::sans ? "Helvetica" : "Times-Roman"),
      fmt::format("<< /Length {} >>\nstream\n{}endstream", content.text().size(), content.text())};
  // The four bytes in the comment say that the file is not plain ASCII.
  std::string pdf = "%PDF-1.4\n%\xe2\xe3\xcf\xd3\n";
  std::string places;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    places += fmt::format("{:010} 00000 n \n", pdf.size());
    pdf += fmt::format("{} 0 obj\n{}\nendobj\n", i + 1, objects.at(i));
  }
  const std::size_t table = pdf.size();
  return pdf + fmt::format(
                   "xref\n0 {0}\n0000000000 65535 f \n{1}trailer\n<< /Size {0} /Root 1 0 R "
                   ">>\nstartxref\n{2}\n%%EOF\n",
                   objects.size() + 1, places, table);
}

std::string drawing_to_tikz(const FigureDrawing& drawing) {
  std::set<std::string> colours;
  for (const auto& shape : drawing.shapes) {
    for (const Colour colour : std::visit([](const auto& one) { return colours_of(one); }, shape))
      colours.insert(html_colour(colour));
  }
  std::string tikz = "% \\usepackage{tikz}\n\\begin{tikzpicture}[x=1mm,y=-1mm]\n";
  for (const std::string& colour : colours)
    tikz += fmt::format("\\definecolor{{penstock{0}}}{{HTML}}{{{0}}}\n", colour);
  // Without this line, TikZ would cut the picture to the area in which something is drawn.
  tikz += fmt::format("\\useasboundingbox (0,0) rectangle ({:.2f},{:.2f});\n", drawing.width_mm,
                      drawing.height_mm);
  for (const auto& shape : drawing.shapes)
    tikz += std::visit([](const auto& one) { return tikz_of(one); }, shape);
  return tikz + "\\end{tikzpicture}\n";
}

}  // namespace penstock
