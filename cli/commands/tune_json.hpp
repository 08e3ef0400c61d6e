#pragma once
// Writes answers of `penstock tune` for other programs, as JSON or as CSV with the same fields.

#include <string>
#include <vector>

#include "cli/commands/tune_answer.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {

std::string tune_json(const TuneAnswer& answer);
/// Returns a CSV table with one row per candidate. The best candidate comes first.
std::string tune_csv(const TuneAnswer& answer);
/// Returns the search space, without results, as JSON.
std::string space_json(const TuneRequest& request, const std::vector<Configuration>& space);

}  // namespace penstock
