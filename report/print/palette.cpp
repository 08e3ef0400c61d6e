// The colours of action kinds, curves and terminals. Forward passes are blue and backward passes are
// green, as in papers. The colours of kinds and of curves are from Okabe and Ito ("Color Universal
// Design", 2008). Kinds differ by at least 16 in CIELAB, also for readers who see no red, no green or no
// blue. Curves have no yellow, which is too pale on white. If there are more curves than colours, the
// curves get colours along a ramp from violet to red. The text on a colour is black or white. This depends
// on the luma of the colour (ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B). Tests: timeline_svg_test.cpp.

#include "report/print/palette.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "report/print/memory_category.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

constexpr std::array<Colour, kMemoryCategoryCount> kCategoryColours = {{
    {0x4d, 0x5b, 0x6b},  // weights
    {0x9a, 0xa8, 0xb8},  // weight_versions
    {0x2f, 0x8f, 0x83},  // gradients
    {0xa9, 0xd8, 0xc6},  // optimizer_state
    {0x3b, 0x6f, 0xb6},  // activations
    {0xe0, 0x8a, 0x2e},  // send_buffers
    {0xf3, 0xcf, 0x8e},  // receive_buffers
    {0xa6, 0x5b, 0x8e},  // transient
}};

constexpr std::array<Colour, 8> kCurveColours = {{{0x00, 0x72, 0xb2},
                                                  {0xd5, 0x5e, 0x00},
                                                  {0x00, 0x9e, 0x73},
                                                  {0xcc, 0x79, 0xa7},
                                                  {0x33, 0x33, 0x33},
                                                  {0x56, 0xb4, 0xe9},
                                                  {0xc9, 0x92, 0x00},
                                                  {0x7a, 0x4f, 0xa3}}};

constexpr std::array<Colour, 6> kRamp = {{{0x5b, 0x2a, 0x86},
                                          {0x2f, 0x6f, 0xc0},
                                          {0x00, 0x9e, 0x8e},
                                          {0x7f, 0xa8, 0x1e},
                                          {0xe0, 0x8a, 0x1e},
                                          {0xb8, 0x2a, 0x2a}}};

/// Returns a mixture of one component (red, green or blue) of two colours. If `share` is 0, the result is
/// the component of the first colour.
std::uint8_t between(std::uint8_t from, std::uint8_t to, double share) {
  return static_cast<std::uint8_t>(std::lround(from + (to - from) * share));
}

std::uint8_t towards_white(std::uint8_t part, double share) {
  return static_cast<std::uint8_t>(std::lround(part + (255 - part) * share));
}

/// Returns the level (0 to 5) of a colour component in the colour cube of a 256-colour terminal.
int cube_level(std::uint8_t part) {
  // The levels have the values 0, 95, 135, 175, 215 and 255. A component gets the nearest level.
  if (part < 48) return 0;
  return part < 115 ? 1 : (part - 35) / 40;
}

/// Returns the number of the nearest colour in the cube of a 256-colour terminal.
int cube_index(Colour colour) {
  // The cube begins at 16, because the numbers 0 to 15 are the basic colours.
  constexpr int kFirst = 16;
  return kFirst + 36 * cube_level(colour.red) + 6 * cube_level(colour.green) + cube_level(colour.blue);
}

/// The eight basic colours of terminals and their bright variants, as most terminals show them.
constexpr std::array<Colour, 16> kBasicColours = {{{0, 0, 0},
                                                   {205, 0, 0},
                                                   {0, 205, 0},
                                                   {205, 205, 0},
                                                   {0, 0, 238},
                                                   {205, 0, 205},
                                                   {0, 205, 205},
                                                   {229, 229, 229},
                                                   {127, 127, 127},
                                                   {255, 0, 0},
                                                   {0, 255, 0},
                                                   {255, 255, 0},
                                                   {92, 92, 255},
                                                   {255, 0, 255},
                                                   {0, 255, 255},
                                                   {255, 255, 255}}};

int squared_distance(Colour a, Colour b) {
  const auto square = [](int x) { return x * x; };
  return square(a.red - b.red) + square(a.green - b.green) + square(a.blue - b.blue);
}

/// Returns the number of the basic colour that is nearest to the given colour.
int basic_colour(Colour colour) {
  const auto nearest = std::ranges::min_element(
      kBasicColours, {}, [&](Colour basic) { return squared_distance(basic, colour); });
  return static_cast<int>(nearest - kBasicColours.begin());
}

/// Returns the escape code of a basic colour for text: 30-37 or 90-97. The code for the background is 10
/// higher.
int basic_code(int number) { return number < 8 ? 30 + number : 90 + number - 8; }

}  // namespace

std::string ansi_escape(Colour text, Colour background, TerminalColours colours) {
  switch (colours) {
    case TerminalColours::none:
      return "";
    case TerminalColours::basic: {
      const int number = basic_colour(background);
      // The text must be readable on the colour that the terminal shows. This is a basic colour, which may
      // differ much from the requested one.
      const Colour shown = kBasicColours.at(static_cast<std::size_t>(number));
      return fmt::format("\x1b[{};{}m", basic_code(basic_colour(text_colour_on(shown))),
                         basic_code(number) + 10);
    }
    case TerminalColours::indexed:
      return fmt::format("\x1b[38;5;{};48;5;{}m", cube_index(text), cube_index(background));
    case TerminalColours::true_colour:
      return fmt::format("\x1b[38;2;{};{};{};48;2;{};{};{}m", text.red, text.green, text.blue, background.red,
                         background.green, background.blue);
  }
  return "";
}

std::string to_hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

Colour lightened(Colour colour, double share) {
  return {towards_white(colour.red, share), towards_white(colour.green, share),
          towards_white(colour.blue, share)};
}

Colour text_colour_on(Colour background) {
  // The limit 140 is above the middle of 0 to 255, so text on colours of medium lightness is white.
  const double luminance = 0.299 * background.red + 0.587 * background.green + 0.114 * background.blue;
  return luminance < 140 ? Colour{0xff, 0xff, 0xff} : Colour{0x1a, 0x1a, 0x1a};
}

Colour colour_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return {0x00, 0x5f, 0xb0};
    case ActionKind::backward:
      return {0x00, 0x9e, 0x60};
    case ActionKind::backward_input:
      return {0x63, 0xbb, 0xef};
    case ActionKind::backward_weight:
      return {0xf2, 0xe2, 0x44};
    case ActionKind::recompute:
      return {0xa8, 0xd0, 0xe6};
    case ActionKind::step:
      return {0x22, 0x22, 0x22};
    case ActionKind::send_forward:
      return {0xe6, 0x9f, 0x00};
    case ActionKind::recv_forward:
      return {0xff, 0xfe, 0xb3};
    case ActionKind::send_backward:
      return {0xcc, 0x79, 0xa7};
    case ActionKind::recv_backward:
      return {0x87, 0x9e, 0xff};
    case ActionKind::unshard:
      return {0x7a, 0x4a, 0x1e};
    case ActionKind::reshard:
      return {0xc5, 0xbc, 0xa7};
    case ActionKind::reduce_grad:
      return {0xd5, 0x5e, 0x00};
    case ActionKind::wait_send_forward:
      return {0x9a, 0x6a, 0x00};
    case ActionKind::wait_send_backward:
      return {0x8a, 0x4a, 0x70};
    case ActionKind::wait_reduce_grad:
      return {0x90, 0x3c, 0x00};
    case ActionKind::offload:
      return {0x3f, 0x01, 0xa5};
    case ActionKind::reload:
      return {0x89, 0x04, 0xfb};
  }
  return {};
}

Colour colour_of(MemoryCategory category) { return kCategoryColours[static_cast<std::size_t>(category)]; }

Colour curve_colour(std::size_t index, std::size_t count) {
  if (count <= kCurveColours.size()) return kCurveColours[index];
  // The position on the ramp: 0 is its first colour, 1 its second colour, and so on.
  const double at = static_cast<double>(index * (kRamp.size() - 1)) / static_cast<double>(count - 1);
  // The last curve has the last colour of the ramp. Its position is the end of the last step, because no step
  // starts there.
  const std::size_t step = std::min(static_cast<std::size_t>(at), kRamp.size() - 2);
  const double share = at - static_cast<double>(step);
  const Colour& from = kRamp[step];
  const Colour& to = kRamp[step + 1];
  return {between(from.red, to.red, share), between(from.green, to.green, share),
          between(from.blue, to.blue, share)};
}

std::string_view description_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "forward";
    case ActionKind::backward:
      return "backward";
    case ActionKind::backward_input:
      return "backward for the input";
    case ActionKind::backward_weight:
      return "backward for the weights";
    case ActionKind::recompute:
      return "recompute";
    case ActionKind::step:
      return "optimizer step";
    case ActionKind::send_forward:
      return "send activation";
    case ActionKind::recv_forward:
      return "receive activation";
    case ActionKind::send_backward:
      return "send gradient";
    case ActionKind::recv_backward:
      return "receive gradient";
    case ActionKind::unshard:
      return "gather weights";
    case ActionKind::reshard:
      return "drop gathered weights";
    case ActionKind::reduce_grad:
      return "reduce gradients";
    case ActionKind::wait_send_forward:
      return "wait for the sent activation";
    case ActionKind::wait_send_backward:
      return "wait for the sent gradient";
    case ActionKind::wait_reduce_grad:
      return "wait for the reduction";
    case ActionKind::offload:
      return "copy an activation to the host";
    case ActionKind::reload:
      return "copy an activation back from the host";
  }
  return "";
}

}  // namespace penstock
