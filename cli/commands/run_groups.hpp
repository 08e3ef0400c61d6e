#pragma once

#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "report/print/table.hpp"
#include "sim/measured/predicted_runs.hpp"

namespace penstock {

/// Returns a table with the prediction errors of each group of measured runs. `heading` is the heading of the
/// first column.
Table errors_table(std::string_view heading, const std::vector<RunGroup>& groups);

/// Returns the errors of one group as JSON: {"name", "rows", "mape", "bias", "worst"}. Errors are fractions.
nlohmann::ordered_json group_json(const RunGroup& group);

}  // namespace penstock
