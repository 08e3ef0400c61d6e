// Errors that all configurations of a group share cancel in the ratio of two predictions. The rest is the
// spread around the group's mean. With e = log(predicted / measured) of row i of group g,
//
//     deviation^2 = sum over g, i of (e - mean of g)^2 / (rows - groups)

#include "sim/measured/ratio_spread.hpp"

#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "sim/measured/measured_runs.hpp"
#include "sim/measured/predicted_runs.hpp"

namespace penstock {

RatioSpread ratio_spread(const MeasuredRuns& runs, const RunsReport& report) {
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::vector<double>> groups;
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    const MeasuredRun& run = runs.runs[i];
    groups[{run.source, run.device, run.precision, run.model}].push_back(std::log1p(report.rows[i].error));
  }
  RatioSpread spread;
  double squares = 0;
  for (const auto& [name, errors] : groups) {
    // A ratio needs at least two rows.
    if (errors.size() < 2) continue;
    ++spread.groups;
    spread.rows += errors.size();
    const double mean =
        std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
    for (const double error : errors) squares += (error - mean) * (error - mean);
  }
  // Each mean takes one degree of freedom. With at least one group of two rows, rows - groups is above 0.
  if (spread.rows > spread.groups)
    spread.deviation = std::sqrt(squares / static_cast<double>(spread.rows - spread.groups));
  return spread;
}

}  // namespace penstock
