#pragma once
// A model with arithmetic that proves where data went. Every stage is a function a x + b on the integers
// modulo 2^64.
//
//   x = sum of c_i x_i over the stages that send to it (first stage: the data of the microbatch)
//   y = a x + b,   loss of a last stage = (y - t)^2 / 2,   da = g x,   db = g,   dx_i = c_i a g
//
// All factors are odd, so every input changes the result. Sums do not depend on their order, so results can
// be compared exactly.

#include <cstdint>

namespace penstock::echo {

using Number = std::uint64_t;

/// One version of the weights of a stage, or their gradient.
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
/// Returns c_i, the factor of the i-th stage that sends to a stage, in ascending order of stages.
inline Number factor(std::size_t i) { return 2 * static_cast<Number>(i) + 1; }

}  // namespace penstock::echo
