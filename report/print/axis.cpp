// Computes the ticks of an axis at 1, 2 or 5 times a power of ten. The step is the smallest one that gives at
// most the wanted number of ticks. For bytes the same rule applies to the number of KiB, MiB, ... instead of
// bytes. Comparisons allow a relative error of 1e-9. Otherwise the rounding of 3 * 0.1 would lose the tick at
// 0.3.

#include "report/print/axis.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// Returns 0, step, 2 step, ... up to the first tick at or above `highest`. Each tick is computed as a
/// product, because repeated sums would accumulate rounding errors.
std::vector<double> ticks_until(double highest, double step) {
  std::vector<double> ticks = {0};
  while (ticks.back() < highest * (1 - 1e-9)) ticks.push_back(step * static_cast<double>(ticks.size()));
  return ticks;
}

}  // namespace

double nice_step(double span, int most) {
  const double least = span / most * (1 - 1e-9);
  // The search starts at the largest power of ten that is at most `least`: 1.7 starts at 1, and 17 at 10.
  double step = std::pow(10.0, std::floor(std::log10(least)));
  // These factors lead from 1 to 2, then to 5, then to 10.
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
  // The loop subtracts the step from the makespan, because adding it to the last tick might overflow 64 bits.
  while (ticks.back() <= makespan_ns - step) ticks.push_back(ticks.back() + step);
  return ticks;
}

std::vector<double> value_ticks(double highest, int most) {
  if (!(highest > 0) || !std::isfinite(highest)) return {0, 1};
  return ticks_until(highest, nice_step(highest, most));
}

std::vector<double> byte_ticks(double highest, int most) {
  if (!(highest > 0) || !std::isfinite(highest)) return {0, 1};
  // the size in bytes of the unit (B, KiB, MiB, ...) in which format_bytes() shows `highest`
  double unit = 1;
  while (highest / unit >= 1024) unit *= 1024;
  // The step is at least one byte, because a tick at half a byte makes no sense.
  const double step = std::max(unit == 1 ? 1.0 : 0.0, nice_step(highest / unit, most));
  std::vector<double> ticks = ticks_until(highest / unit, step);
  for (double& tick : ticks) tick *= unit;
  return ticks;
}

}  // namespace penstock
