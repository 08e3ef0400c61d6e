#pragma once
// The colours of all pictures. Kinds, categories and curves differ in lightness as well as in hue, so that
// they stay apart for colour-blind readers and on grey prints.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "report/print/memory_category.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

struct Colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;

  friend bool operator==(const Colour&, const Colour&) = default;
};

/// "#rrggbb"
std::string to_hex(Colour colour);
/// How many colours a terminal shows.
enum class TerminalColours : std::uint8_t {
  none,
  basic,       // the 16 of ECMA-48
  indexed,     // 256: a cube of 6 x 6 x 6
  true_colour  // 24 bits
};
/// The ANSI escape that sets both colours, or those nearest to them; empty for `none`.
std::string ansi_escape(Colour text, Colour background, TerminalColours colours);

/// Mixed with white: 0 is the colour itself, 1 is white.
Colour lightened(Colour colour, double share);
/// White on dark colours and near-black on light ones.
Colour text_colour_on(Colour background);

Colour colour_of(ActionKind kind);
Colour colour_of(MemoryCategory category);
/// Curve `index` of `count` in one chart: clearly different colours for up to 8, beyond that steps of a ramp
/// from violet to red. Requires index < count.
Colour curve_colour(std::size_t index, std::size_t count);

/// What a legend says: "forward", "backward for the input", ...
std::string_view description_of(ActionKind kind);

}  // namespace penstock
