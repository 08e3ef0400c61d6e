#pragma once
// Prints measured runs and their predictions as text, JSON, CSV and HTML. `penstock runs` and `penstock fit`
// use these functions.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "report/print/table.hpp"
#include "sim/choose/tune_questions.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/hold/run_accuracy.hpp"

namespace penstock {

/// Returns a table of the prediction errors, with a row for each group. `heading` is the title of the first
/// column.
Table errors_table(std::string_view heading, const std::vector<RunGroup>& groups);

/// Returns the errors of one group of runs as JSON: {"name", "rows", "mape", "bias", "worst"}. Errors are
/// fractions.
nlohmann::ordered_json group_json(const RunGroup& group);

/// Returns a text about predictions of measured runs. It has the tables of rows, groups, classes and
/// constants, and the list of rows that were left out. A table line has at most `width` characters; 0 means
/// no limit.
std::string runs_text(const RunsReport& report, std::size_t width);
/// Returns JSON: {schema_version, kind: "runs", rows, groups, constants, classes, left_out, all, memory}.
/// `rows` follows the order of the file, without the rows that were left out.
std::string runs_json(const RunsReport& report);
/// Returns CSV with the columns of the file of runs, followed by predicted_seconds, error, predicted_gib,
/// memory_error and fitted.
std::string runs_csv(const MeasuredRuns& runs, const RunsReport& report);

/// Returns an HTML page with a chart of predicted seconds over measured seconds, and tables that can be
/// sorted.
std::string runs_html(const MeasuredRuns& runs, const RunsReport& report);

/// Returns a table that compares each run with the best configuration that tune() finds for its model and
/// devices. It shows which part of the step the best configuration shortens, and which values of the run
/// cost most. A line below the table says whether a large gain is believable. `claims` must be the result
/// of best_claims() for `rows`.
std::string against_best_text(const std::vector<AgainstBest>& rows, const std::vector<BestClaim>& claims,
                              std::size_t width);
/// Returns JSON: {schema_version, kind: "runs-against-best", rows: [{id, in_space, step_seconds,
/// best_seconds, longer, stopped, through, best_measured, note, believable, best_differs, parts: [{name,
/// seconds, best_seconds}], values: [{choice, value, longer}]}]}.
std::string against_best_json(const std::vector<AgainstBest>& rows, const std::vector<BestClaim>& claims);

// Prints which parts of the step explain the errors of measured runs, and which pairs of configurations
// the predictions put in the right order. `penstock runs --explain` and `penstock runs --pairs` use these
// functions.

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
