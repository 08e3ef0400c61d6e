#pragma once
// Prints which parts of the step explain the errors of measured runs, and which pairs of configurations
// the predictions put in the right order. `penstock runs --explain` and `penstock runs --pairs` use these
// functions.

#include <cstddef>
#include <span>
#include <string>

#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/hold/run_accuracy.hpp"

namespace penstock {

/// Returns a table with a row for each run: the interval of its prediction, and the parts of its step with
/// their factors. A second table has the usual factor of each part by class of runs. Lines have at most
/// `width` characters; 0 means no limit.
std::string explained_text(const MeasuredRuns& runs, const RunsReport& report,
                           std::span<const ExplainedRun> explained, std::size_t width);
/// Returns JSON: {schema_version, kind: "runs-explained", rows: [{id, class, measured_seconds,
/// predicted_seconds, error, interval: {low, high, rows}, parts: [{name, seconds, factor}]}]}. A missing
/// interval or factor is null.
std::string explained_json(const MeasuredRuns& runs, const RunsReport& report,
                           std::span<const ExplainedRun> explained);
/// Returns CSV with the columns of the file of runs, followed by predicted_seconds, error, low, high, and
/// the seconds and the factor of each part.
std::string explained_csv(const MeasuredRuns& runs, const RunsReport& report,
                          std::span<const ExplainedRun> explained);

/// Returns a text with the number of pairs of runs whose predicted order is right, by class and by source.
/// A line for each wrong pair follows.
std::string pairs_text(const MeasuredRuns& runs, std::span<const RunPair> pairs, std::size_t width);
/// Returns JSON: {schema_version, kind: "run-pairs", pairs, right, classes: [{name, pairs, right}],
/// sources, wrong: [{faster, slower, measured, predicted}]}. `measured` and `predicted` are the time of the
/// slower run divided by the time of the faster one, minus 1.
std::string pairs_json(const MeasuredRuns& runs, std::span<const RunPair> pairs);

}  // namespace penstock
