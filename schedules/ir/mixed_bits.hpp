#pragma once
// A hash that makes random numbers. A random number depends only on a key and on `what`, a number that
// stands for its purpose. It does not depend on earlier random numbers.

#include <cstdint>

namespace penstock {

/// Returns the splitmix64 hash of `bits` (Steele, Lea and Flood, OOPSLA 2014). Every output bit depends on
/// every input bit.
inline std::uint64_t mixed(std::uint64_t bits) {
  bits += 0x9e3779b97f4a7c15ULL;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31);
}

/// Returns a uniform random number in [0, 1) that depends only on `key` and `what`. It has 53 bits, which a
/// double stores exactly, so rounding never gives 1.
inline double even_draw(std::uint64_t key, std::uint64_t what) {
  return static_cast<double>(mixed(key ^ mixed(what)) >> 11) * 0x1p-53;
}

}  // namespace penstock
