#pragma once
// Prints measured runs and their predictions as text, JSON, CSV and HTML. `penstock runs` and `penstock
// fit` use these functions. runs_explained.hpp prints the reasons for the errors.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "report/print/table.hpp"
#include "sim/choose/best_claims.hpp"
#include "sim/choose/tune_questions.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"

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

}  // namespace penstock
