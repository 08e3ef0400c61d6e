// Entries from left to right, a new line where the next one would cross the right edge. SVG cannot measure
// text without a browser, so widths are estimated from the number of characters; height and drawing share one
// function of places, since the rows below start where the legend ends.

#include "report/print/legend_svg.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "report/print/escaping.hpp"
#include "report/print/palette.hpp"

namespace penstock {
namespace {

constexpr double kSquare = 12;
constexpr double kLineHeight = 18;
constexpr double kEntryGap = 16;

struct Position {
  double x = 0;
  double y = 0;
};

/// About as wide as the words are in a font of 11 pixels.
double width_of(const LegendEntry& entry) {
  constexpr double kCharacterWidth = 5.6;
  return kSquare + 5 + kCharacterWidth * static_cast<double>(entry.text.size());
}

/// Where each entry begins; the one function that height and drawing share.
std::vector<Position> positions_of(const std::vector<LegendEntry>& entries, const LegendPlace& place) {
  std::vector<Position> positions;
  Position next = {place.left, place.top};
  for (const LegendEntry& entry : entries) {
    // An entry that is wider than a line gets one of its own.
    if (next.x > place.left && next.x + width_of(entry) > place.right)
      next = {place.left, next.y + kLineHeight};
    positions.push_back(next);
    next.x += width_of(entry) + kEntryGap;
  }
  return positions;
}

/// Filled with a colour, or with a pattern ("url(#name)").
std::string square(const Position& at, std::string_view fill) {
  return fmt::format("<rect x=\"{0:.2f}\" y=\"{1:.2f}\" width=\"{2}\" height=\"{2}\" fill=\"{3}\"/>", at.x,
                     at.y, kSquare, fill);
}

}  // namespace

double legend_height(const std::vector<LegendEntry>& entries, const LegendPlace& place) {
  if (entries.empty()) return 0;
  return positions_of(entries, place).back().y - place.top + kLineHeight;
}

std::string legend_svg(const std::vector<LegendEntry>& entries, const LegendPlace& place) {
  std::string svg = "<g class=\"legend\">\n";
  const std::vector<Position> positions = positions_of(entries, place);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    svg += square(positions[i], to_hex(entries[i].fill));
    if (!entries[i].pattern.empty()) svg += square(positions[i], fmt::format("url(#{})", entries[i].pattern));
    fmt::format_to(std::back_inserter(svg), "<text x=\"{:.2f}\" y=\"{:.2f}\">{}</text>\n",
                   positions[i].x + kSquare + 5, positions[i].y + 10, xml_escaped(entries[i].text));
  }
  return svg + "</g>\n";
}

}  // namespace penstock
