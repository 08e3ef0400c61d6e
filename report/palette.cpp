#include "report/palette.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "report/result.hpp"
#include "schedules/action.hpp"

// Forwards blue, backwards green, as the papers draw them. The curves are close to the set of Okabe and Ito
// ("Color Universal Design", 2008), without its yellow, which is too pale for lines on white.

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

std::uint8_t between(std::uint8_t from, std::uint8_t to, double share) {
  return static_cast<std::uint8_t>(std::lround(from + (to - from) * share));
}

std::uint8_t towards_white(std::uint8_t part, double share) {
  return static_cast<std::uint8_t>(std::lround(part + (255 - part) * share));
}

}  // namespace

std::string to_hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

Colour lightened(Colour colour, double share) {
  return {towards_white(colour.red, share), towards_white(colour.green, share),
          towards_white(colour.blue, share)};
}

Colour text_colour_on(Colour background) {
  const double luminance = 0.299 * background.red + 0.587 * background.green + 0.114 * background.blue;
  return luminance < 140 ? Colour{0xff, 0xff, 0xff} : Colour{0x1a, 0x1a, 0x1a};
}

Colour colour_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return {0x3b, 0x6f, 0xb6};
    case ActionKind::backward:
      return {0x8f, 0xcb, 0x9b};
    case ActionKind::backward_input:
      return {0x3a, 0xa3, 0x96};
    case ActionKind::backward_weight:
      return {0xc3, 0xdf, 0x8c};
    case ActionKind::recompute:
      return {0xb9, 0xcd, 0xe8};
    case ActionKind::step:
      return {0x2b, 0x2b, 0x2b};
    case ActionKind::send_forward:
      return {0xe0, 0x8a, 0x2e};
    case ActionKind::recv_forward:
      return {0xf3, 0xcf, 0x8e};
    case ActionKind::send_backward:
      return {0x9c, 0x55, 0x8d};
    case ActionKind::recv_backward:
      return {0xd9, 0xb3, 0xd0};
    case ActionKind::unshard:
      return {0x7a, 0x5a, 0x3a};
    case ActionKind::reshard:
      return {0xc9, 0xb4, 0x9a};
    case ActionKind::reduce_grad:
      return {0xb0, 0x3a, 0x2e};
  }
  return {};
}

Colour colour_of(MemoryCategory category) { return kCategoryColours[static_cast<std::size_t>(category)]; }

Colour curve_colour(std::size_t index, std::size_t count) {
  if (count <= kCurveColours.size()) return kCurveColours[index];
  const double at = static_cast<double>(index * (kRamp.size() - 1)) / static_cast<double>(count - 1);
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
  }
  return "";
}

}  // namespace penstock
