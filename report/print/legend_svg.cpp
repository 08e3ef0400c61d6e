// Places entries from left to right and begins a new line where the next entry would cross the right edge.
// SVG cannot measure text without a browser, so the width is estimated from the number of characters.
// legend_height() and legend_svg() both use positions_of(), because the rows below the legend start where it
// ends.

#include "report/print/legend_svg.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "report/print/palette.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

constexpr double kSquare = 12;
constexpr double kLineHeight = 18;
constexpr double kEntryGap = 16;

struct Position {
  double x = 0;
  double y = 0;
};

/// Returns about the width of the words in a font of 11 pixels.
double width_of(const LegendEntry& entry) {
  constexpr double kCharacterWidth = 5.6;
  return kSquare + 5 + kCharacterWidth * static_cast<double>(entry.text.size());
}

/// Returns the position of each entry.
std::vector<Position> positions_of(const std::vector<LegendEntry>& entries, const LegendPlace& place) {
  std::vector<Position> positions;
  Position next = {place.left, place.top};
  for (const LegendEntry& entry : entries) {
    // An entry that is wider than a line gets a line of its own.
    if (next.x > place.left && next.x + width_of(entry) > place.right)
      next = {place.left, next.y + kLineHeight};
    positions.push_back(next);
    next.x += width_of(entry) + kEntryGap;
  }
  return positions;
}

/// Returns a square filled with a colour or with a pattern ("url(#name)").
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
