#pragma once
// A model whose arithmetic proves where data went: every stage is an affine map over the integers modulo
// 2^64.
//
//   x = sum of c_i x_i over the feeding stages (input stage: the microbatch's data)
//   y = a x + b,   loss of a last stage = (y - t)^2 / 2,   da = g x,   db = g,   dx_i = c_i a g
//
// All factors are odd, so no input is lost, and sums do not depend on their order: results compare exactly.

#include <cstdint>

namespace penstock::echo {

using Number = std::uint64_t;

/// One version of a stage's weights, or their gradient.
struct Weights {
  Number a = 0;
  Number b = 0;

  Weights& operator+=(const Weights& other) {
    a += other.a;
    b += other.b;
    return *this;
  }
  Weights& operator-=(const Weights& other) {
    a -= other.a;
    b -= other.b;
    return *this;
  }
  friend bool operator==(const Weights&, const Weights&) = default;
};

inline Number number(std::int32_t i) { return static_cast<Number>(i); }

inline Weights first_weights(std::int32_t stage) { return {3 + 2 * number(stage), 1000 + 7 * number(stage)}; }
inline Number input(std::int32_t microbatch) { return 11 + 6 * number(microbatch); }
inline Number target(std::int32_t microbatch) { return 5 + 4 * number(microbatch) * number(microbatch); }
/// Of the i-th feeding stage, by ascending stage.
inline Number factor(std::size_t i) { return 2 * static_cast<Number>(i) + 1; }

}  // namespace penstock::echo
