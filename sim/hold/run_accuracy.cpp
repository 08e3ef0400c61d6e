// Measures how far predictions can be trusted. Let e_j = log(predicted / measured) be the errors of the n
// other runs in the class of a run, with mean m and deviation s. Assume that the run's own error comes
// from the same distribution. Then its measured step lies with a probability of 90 % in
//
//     predicted x exp(-m +- t s sqrt(1 + 1/n))        t: quantile of Student's distribution, n - 1 degrees
//
// Tests: tests/sim/run_accuracy_test.cpp.

#include "sim/hold/run_accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/math/distributions/students_t.hpp>

#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/hold/step_parts.hpp"
#include "sim/sweep/parallel_loop.hpp"

namespace penstock {

namespace {

/// Returns the interval that follows from the errors of other runs, or nothing if they are too few.
std::optional<StepInterval> interval_of(double predicted, std::span<const double> others) {
  constexpr std::size_t kLeastRows = 3;
  if (others.size() < kLeastRows) return std::nullopt;
  const auto n = static_cast<double>(others.size());
  double mean = 0;
  for (const double error : others) mean += error / n;
  double squares = 0;
  for (const double error : others) squares += (error - mean) * (error - mean);
  constexpr double kInside = 0.9;
  const boost::math::students_t distribution(n - 1);
  const double half =
      boost::math::quantile(distribution, (1 + kInside) / 2) * std::sqrt(squares / (n - 1) * (1 + 1 / n));
  return StepInterval{.low = predicted * std::exp(-mean - half),
                      .high = predicted * std::exp(-mean + half),
                      .rows = others.size()};
}

}  // namespace

std::vector<std::optional<StepInterval>> step_intervals(const MeasuredRuns& runs, const RunsReport& report,
                                                        std::span<const double> errors) {
  std::vector<std::string> classes;
  classes.reserve(runs.runs.size());
  for (const MeasuredRun& run : runs.runs) classes.push_back(class_of(run));
  std::vector<std::optional<StepInterval>> intervals;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    std::vector<double> others;
    for (std::size_t j = 0; j < classes.size(); ++j) {
      if (j != i && classes[j] == classes[i]) others.push_back(errors[j]);
    }
    intervals.push_back(interval_of(report.rows[i].predicted_seconds, others));
  }
  return intervals;
}

std::vector<ExplainedRun> explain_runs(const PricedRuns& runs, const RunsReport& report) {
  const bool is_fitted = std::ranges::all_of(report.rows, &PredictedRun::fitted);
  std::vector<double> errors;
  if (is_fitted) {
    for (const LeftOutError& one : left_out_errors(runs)) errors.push_back(one.log_error);
  } else {
    for (const PredictedRun& row : report.rows) errors.push_back(std::log1p(row.error));
  }
  const auto intervals = step_intervals(*runs.runs, report, errors);
  std::vector<ExplainedRun> explained(report.rows.size());
  parallel_loop(explained.size(), [&](std::size_t i) {
    const PredictedRun& row = report.rows[i];
    ExplainedRun& one = explained[i];
    one.interval = intervals[i];
    one.parts = step_parts(runs.prices[i], row.constants);
    one.factors = explaining_factors(runs.prices[i], row.constants, one.parts, row.measured_seconds);
  });
  return explained;
}

// --- pairs ------------------------------------------------------------------------------------------------

namespace {

template <typename NameOf>
std::vector<PairCount> counted(std::span<const RunPair> pairs, const NameOf& name_of) {
  std::map<std::string, PairCount> counts;
  for (const RunPair& pair : pairs) {
    PairCount& count = counts[name_of(pair)];
    ++count.pairs;
    count.right += pair.is_right() ? 1 : 0;
  }
  std::vector<PairCount> named;
  for (auto& [name, count] : counts) {
    count.name = name;
    named.push_back(count);
  }
  return named;
}

}  // namespace

std::vector<RunPair> run_pairs(const MeasuredRuns& runs, const RunsReport& report) {
  std::vector<RunPair> pairs;
  for (std::size_t i = 0; i < runs.runs.size(); ++i) {
    const MeasuredJob job = job_of(runs.runs[i]);
    for (std::size_t j = i + 1; j < runs.runs.size(); ++j) {
      if (job_of(runs.runs[j]) != job || is_repeat(runs.runs[i], runs.runs[j])) continue;
      RunPair pair{.faster = i, .slower = j};
      if (report.rows[j].measured_seconds < report.rows[i].measured_seconds)
        std::swap(pair.faster, pair.slower);
      const PredictedRun& faster = report.rows[pair.faster];
      const PredictedRun& slower = report.rows[pair.slower];
      pair.measured = slower.measured_seconds / faster.measured_seconds - 1;
      pair.predicted = slower.predicted_seconds / faster.predicted_seconds - 1;
      if (pair.measured > kLeastPairDifference) pairs.push_back(pair);
    }
  }
  return pairs;
}

std::vector<PairCount> pairs_by_class(const MeasuredRuns& runs, std::span<const RunPair> pairs) {
  return counted(pairs, [&](const RunPair& pair) {
    std::string one = class_of(runs.runs[pair.faster]);
    std::string other = class_of(runs.runs[pair.slower]);
    if (one == other) return one;
    if (other < one) std::swap(one, other);
    return fmt::format("{} / {}", one, other);
  });
}

std::vector<PairCount> pairs_by_source(const MeasuredRuns& runs, std::span<const RunPair> pairs) {
  return counted(pairs, [&](const RunPair& pair) { return runs.runs[pair.faster].source; });
}

}  // namespace penstock
