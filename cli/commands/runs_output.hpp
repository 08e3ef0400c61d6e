#pragma once
// Measured runs beside their predictions, as text, JSON, CSV and HTML.

#include <cstddef>
#include <string>
#include <vector>

#include "sim/measured/measured_runs.hpp"
#include "sim/measured/predicted_runs.hpp"
#include "sim/tuning/against_best.hpp"

namespace penstock {

/// Tables of rows, groups and constants. `width` is that of the tables' lines; 0: any.
std::string runs_text(const RunsReport& report, std::size_t width);
/// {schema_version, kind: "runs", rows, groups, constants, all, memory}; one of `rows` a row of the file, in
/// its order.
std::string runs_json(const RunsReport& report);
/// The file's own columns, with predicted_seconds, error, predicted_gib, memory_error and fitted behind them.
std::string runs_csv(const MeasuredRuns& runs, const RunsReport& report);

/// A page: predicted over measured seconds as a picture, and the tables, which sort.
std::string runs_html(const MeasuredRuns& runs, const RunsReport& report);

/// Runs beside the best that tune() finds for what each of them asks: a table, and which of a run's values
/// cost most.
std::string against_best_text(const std::vector<AgainstBest>& rows, std::size_t width);
/// {schema_version, kind: "runs-against-best", rows: [{id, in_space, step_seconds, best_seconds, longer,
/// best_differs, values: [{choice, value, longer}]}]}.
std::string against_best_json(const std::vector<AgainstBest>& rows);

}  // namespace penstock
