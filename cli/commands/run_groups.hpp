#pragma once

#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "report/print/table.hpp"
#include "sim/measured/predicted_runs.hpp"

namespace penstock {

/// The errors of groups of measured runs, a row a group.
Table errors_table(std::string_view heading, const std::vector<RunGroup>& groups);

/// {"name", "rows", "mape", "bias", "worst"}; errors are parts of 1.
nlohmann::ordered_json group_json(const RunGroup& group);

}  // namespace penstock
