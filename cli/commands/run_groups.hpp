#pragma once

#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "report/print/table.hpp"
#include "sim/measured/predicted_runs.hpp"

namespace penstock {

/// Returns the errors of groups of measured runs, one row for each group.
Table errors_table(std::string_view heading, const std::vector<RunGroup>& groups);

/// Returns {"name", "rows", "mape", "bias", "worst"}. Errors are fractions.
nlohmann::ordered_json group_json(const RunGroup& group);

}  // namespace penstock
