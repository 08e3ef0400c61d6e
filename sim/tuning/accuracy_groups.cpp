// Groups candidates that predictions cannot distinguish. An error that all configurations of a model on a
// machine share does not change their order; only the difference of errors does. An example is an error of
// the clock rate. A group begins with its best candidate. It holds all candidates within two standard
// deviations of that candidate's rate:
//
//     |log(rate / rate of the first)| <= 2 deviation

#include "sim/tuning/accuracy_groups.hpp"

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

/// Returns the spread of errors of the library's measured steps. It changes no prediction, so it is not a
/// fit.
RatioSpread library_spread() {
  const MeasuredRuns runs = library_runs();
  const auto predicted = predict_runs(runs, nullptr, nullptr);
  if (!predicted) throw std::logic_error(predicted.error());
  return ratio_spread(runs, *predicted);
}

}  // namespace

AccuracyGroups accuracy_groups(const TuneReport& report) {
  AccuracyGroups answer{.spread = library_spread(), .groups = {}};
  std::size_t first = 0;
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    const TunedConfiguration& best = report.candidates[first];
    const TunedConfiguration& one = report.candidates[i];
    const double ratio = std::log(best.tokens_per_second_per_device / one.tokens_per_second_per_device);
    // Candidates are sorted, so after the first one out of range no other belongs to the group.
    const bool is_new = one.fits != best.fits || std::abs(ratio) > 2 * answer.spread.deviation;
    if (is_new) first = i;
    answer.groups.push_back(answer.groups.empty() ? 0 : answer.groups.back() + (is_new ? 1 : 0));
  }
  return answer;
}

}  // namespace penstock
