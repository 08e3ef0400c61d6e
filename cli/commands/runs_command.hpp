#pragma once
// Prints measured runs with their predictions as text, JSON, CSV and HTML, for `penstock runs` and `penstock
// fit`.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "report/print/table.hpp"
#include "sim/choose/tune_questions.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"

namespace penstock {

/// Returns a table with the prediction errors of each group of measured runs. `heading` is the heading of the
/// first column.
Table errors_table(std::string_view heading, const std::vector<RunGroup>& groups);

/// Returns the errors of one group as JSON: {"name", "rows", "mape", "bias", "worst"}. Errors are fractions.
nlohmann::ordered_json group_json(const RunGroup& group);

/// Returns tables of rows, groups, classes and constants, and the rows that were left out. `width` limits the
/// lines of tables; 0: no limit.
std::string runs_text(const RunsReport& report, std::size_t width);
/// Returns {schema_version, kind: "runs", rows, groups, constants, classes, left_out, all, memory}. `rows`
/// has one element for each row of the file that is not left out, in its order.
std::string runs_json(const RunsReport& report);
/// Returns the file's own columns, followed by predicted_seconds, error, predicted_gib, memory_error and
/// fitted.
std::string runs_csv(const MeasuredRuns& runs, const RunsReport& report);

/// Returns a page with a picture of predicted over measured seconds, and sortable tables.
std::string runs_html(const MeasuredRuns& runs, const RunsReport& report);

/// Returns a table that compares each run with the best that tune() finds for its question, and shows which
/// of its values cost most.
std::string against_best_text(const std::vector<AgainstBest>& rows, std::size_t width);
/// Returns {schema_version, kind: "runs-against-best", rows: [{id, in_space, step_seconds, best_seconds,
/// longer, best_differs, values: [{choice, value, longer}]}]}.
std::string against_best_json(const std::vector<AgainstBest>& rows);

}  // namespace penstock
