#pragma once
// A hash for random draws that depend on what they are drawn for, never on the order of drawing.

#include <cstdint>

namespace penstock {

/// The finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014): every bit depends on every bit.
inline std::uint64_t mixed(std::uint64_t bits) {
  bits += 0x9e3779b97f4a7c15ULL;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31);
}

/// Even in [0, 1), a function of the key and of what is drawn. Of the 64 bits 53 are taken, which a double
/// holds exactly, so that 1 is never reached by rounding.
inline double even_draw(std::uint64_t key, std::uint64_t what) {
  return static_cast<double>(mixed(key ^ mixed(what)) >> 11) * 0x1p-53;
}

}  // namespace penstock
