#pragma once
// The colours of all pictures. They differ in lightness as well as in hue, so that colour-blind readers and
// grey prints can distinguish them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "report/print/memory_category.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A colour in the sRGB colour space.
struct Colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;

  friend bool operator==(const Colour&, const Colour&) = default;
};

/// Returns the colour as "#rrggbb".
std::string to_hex(Colour colour);
/// The set of colours that a terminal can show.
enum class TerminalColours : std::uint8_t {
  none,
  basic,       // the 16 colours of ECMA-48
  indexed,     // 256 colours, most of them in a cube of 6 x 6 x 6
  true_colour  // 24 bits per colour
};
/// Returns the ANSI escape that sets the colours of the text and the background. It uses the nearest
/// colours that the terminal can show. The result is empty for `none`.
std::string ansi_escape(Colour text, Colour background, TerminalColours colours);

/// Returns a mixture of the colour and white. A share of 0 gives the colour itself, and a share of 1 gives
/// white.
Colour lightened(Colour colour, double share);
/// Returns a readable text colour for this background: white on dark colours, near-black on light ones.
Colour text_colour_on(Colour background);

Colour colour_of(ActionKind kind);
Colour colour_of(MemoryCategory category);
/// Returns the colour of curve `index` in a chart of `count` curves. Up to 8 curves get clearly different
/// colours. More curves get steps of a ramp from violet to red. Requires index < count.
Colour curve_colour(std::size_t index, std::size_t count);

/// Returns the words for the action kind in a legend, such as "forward" or "backward for the input".
std::string_view description_of(ActionKind kind);

}  // namespace penstock
