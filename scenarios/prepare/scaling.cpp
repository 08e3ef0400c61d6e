// A figure times a number of samples may need 128 bits though the quotient fits 64, so the product is wide.

#include "scenarios/prepare/scaling.hpp"

#include <cstdint>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "schedules/ir/action.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

std::int64_t Scaler::operator()(std::int64_t figure) {
  const Wide scaled = (static_cast<Wide>(figure) * scaling_.wanted + scaling_.own / 2) / scaling_.own;
  overflowed_ |= scaled > std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(scaled);
}

Ns Scaler::with_overhead(Ns scaled_ns, Ns overhead_ns) {
  Ns sum = 0;
  overflowed_ |= __builtin_add_overflow(scaled_ns, overhead_ns, &sum);
  return sum;
}

std::string Scaler::overflow() const {
  return fmt::format("the model's figures for {} samples become more than 2^63 when scaled to {}",
                     scaling_.own, scaling_.wanted);
}

}  // namespace penstock
