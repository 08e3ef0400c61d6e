// Computes the part of the time that becomes useful work, if a job saves its state every `interval` seconds
// and devices fail at random. M is the job's mean time between failures, C the time of a save, and R the time
// of a restart. Failures have no memory. The expected time for one interval of work is then (Daly, FGCS 22,
// 2006, section 3)
//
//     M e^(R / M) (e^((interval + C) / M) - 1)        and goodput = interval / that
//
// The best interval has no closed form. Brent's method finds it on a logarithmic scale between almost 0 and 2
// M. In this range the loss first falls and then rises.

#include "sim/risk/goodput.hpp"

#include <cmath>

#include <boost/math/tools/minima.hpp>

namespace penstock {
namespace {

double mean_time_between_failures(const Failures& failures) {
  return failures.device_mtbf / failures.devices;
}

}  // namespace

double goodput(const Failures& failures, double interval) {
  const double mean = mean_time_between_failures(failures);
  if (interval == 0) return failures.save == 0 ? std::exp(-failures.restart / mean) : 0;
  return interval /
         (mean * std::exp(failures.restart / mean) * std::expm1((interval + failures.save) / mean));
}

double best_interval(const Failures& failures) {
  if (failures.save == 0) return 0;
  const double mean = mean_time_between_failures(failures);
  // The search runs over the logarithm, because the best interval may be many orders of magnitude below the
  // mean. The restart only multiplies the loss by a constant, so it is left out.
  const auto loss = [&](double logarithm) {
    const double interval = std::exp(logarithm);
    return std::log(std::expm1((interval + failures.save) / mean)) - logarithm;
  };
  // Young's first-order estimate is below 1e-12 M only if saving takes less than 1e-24 M.
  const double young = std::log(std::sqrt(2 * failures.save * mean));
  const double least = std::log(mean * 1e-12);
  constexpr int kBits = 40;
  return std::exp(boost::math::tools::brent_find_minima(loss, least < young ? least : young - 1,
                                                        std::log(2 * mean), kBits)
                      .first);
}

}  // namespace penstock
