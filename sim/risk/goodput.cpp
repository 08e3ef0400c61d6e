// How much of the time is work that counts, when a job saves its state every `interval` and devices fail at
// random. With M the mean time between failures of the job, failures memoryless, save C and restart R, the
// expected time for one interval is (Daly, FGCS 22, 2006, section 3)
//
//   M e^(R / M) (e^((interval + C) / M) - 1)        and goodput = interval / that
//
// The best interval has no closed form; it is sought over its logarithm, by Brent's method, between almost
// nothing and 2 M, where the loss falls and rises once.

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
  // Over the logarithm, as the best interval is anything between far below and the order of the mean. Without
  // the restart, which changes no comparison.
  const auto loss = [&](double logarithm) {
    const double interval = std::exp(logarithm);
    return std::log(std::expm1((interval + failures.save) / mean)) - logarithm;
  };
  // Young's first order estimate is below 1e-12 of M only where saving takes less than 1e-24 of it.
  const double young = std::log(std::sqrt(2 * failures.save * mean));
  const double least = std::log(mean * 1e-12);
  constexpr int kBits = 40;
  return std::exp(boost::math::tools::brent_find_minima(loss, least < young ? least : young - 1,
                                                        std::log(2 * mean), kBits)
                      .first);
}

}  // namespace penstock
