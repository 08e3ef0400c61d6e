// What is wrong with all configurations of a model on a machine alike (its clocks, a kernel's rate) moves
// none before another; what errors differ by does. A group begins with its best candidate and holds all whose
// tokens per second are within two such differences of it:
//
//   |log(rate / rate of the first)| <= 2 deviation

#include "sim/tuning/told_apart.hpp"

#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "sim/measured/measured_runs.hpp"
#include "sim/measured/predicted_runs.hpp"
#include "sim/measured/ratio_spread.hpp"
#include "sim/published/library_runs.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {
namespace {

/// Of the steps that are built in: a spread of their errors is no fit, as it moves no prediction.
RatioSpread library_spread() {
  const MeasuredRuns runs = library_runs();
  const auto predicted = predict_runs(runs, nullptr, nullptr);
  if (!predicted) throw std::logic_error(predicted.error());
  return ratio_spread(runs, *predicted);
}

}  // namespace

ToldApart told_apart(const TuneReport& report) {
  ToldApart told{.spread = library_spread(), .groups = {}};
  std::size_t first = 0;
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    const TunedConfiguration& best = report.candidates[first];
    const TunedConfiguration& one = report.candidates[i];
    const double ratio = std::log(best.tokens_per_second_per_device / one.tokens_per_second_per_device);
    // Candidates are sorted, so that nobody behind the first one beyond reach belongs to its group.
    const bool is_new = one.fits != best.fits || std::abs(ratio) > 2 * told.spread.deviation;
    if (is_new) first = i;
    told.groups.push_back(told.groups.empty() ? 0 : told.groups.back() + (is_new ? 1 : 0));
  }
  return told;
}

}  // namespace penstock
