// Ticks at 1, 2, 5 or 10 times a power of ten: the least of these steps that leaves at most the wanted number
// of them. Bytes count in powers of 1024, so the same rule is applied to the number of KiB, MiB, ... in front
// of the unit. Limits carry a billionth of slack, since 3 * 0.1 must not miss the tick at 0.3.

#include "report/print/axis.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// 0, step, 2 step, ... up to the first that is at or above `highest`. Each is a product, so that errors do
/// not add up.
std::vector<double> ticks_until(double highest, double step) {
  std::vector<double> ticks = {0};
  while (ticks.back() < highest * (1 - 1e-9)) ticks.push_back(step * static_cast<double>(ticks.size()));
  return ticks;
}

}  // namespace

double nice_step(double span, int most) {
  const double least = span / most * (1 - 1e-9);
  // From the power of ten at or below it: 1.7 starts at 1, 17 at 10.
  double step = std::pow(10.0, std::floor(std::log10(least)));
  // 1, 2, 5, 10: each from the one before.
  for (const double factor : {2.0, 2.5, 2.0}) {
    if (step >= least) break;
    step *= factor;
  }
  return step;
}

std::vector<Ns> time_ticks(Ns makespan_ns, int most) {
  std::vector<Ns> ticks = {0};
  if (makespan_ns <= 0) return ticks;
  const Ns step = std::max<Ns>(1, std::llround(nice_step(static_cast<double>(makespan_ns), most)));
  // The step is taken off the makespan, since a sum might pass 64 bits.
  while (ticks.back() <= makespan_ns - step) ticks.push_back(ticks.back() + step);
  return ticks;
}

std::vector<double> value_ticks(double highest, int most) {
  if (!(highest > 0) || !std::isfinite(highest)) return {0, 1};
  return ticks_until(highest, nice_step(highest, most));
}

std::vector<double> byte_ticks(double highest, int most) {
  if (!(highest > 0) || !std::isfinite(highest)) return {0, 1};
  double unit = 1;  // bytes of the B, KiB, MiB, ... in which format_bytes() shows `highest`
  while (highest / unit >= 1024) unit *= 1024;
  // There is no tick at half a byte.
  const double step = std::max(unit == 1 ? 1.0 : 0.0, nice_step(highest / unit, most));
  std::vector<double> ticks = ticks_until(highest / unit, step);
  for (double& tick : ticks) tick *= unit;
  return ticks;
}

}  // namespace penstock
