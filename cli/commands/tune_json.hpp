#pragma once
// Writes answers of `penstock tune` for programs: JSON, and CSV with the same fields.

#include <string>
#include <vector>

#include "cli/commands/tune_answer.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {

std::string tune_json(const TuneAnswer& answer);
/// Returns a row for each candidate, the best first.
std::string tune_csv(const TuneAnswer& answer);
/// Returns only the space.
std::string space_json(const TuneRequest& request, const std::vector<Configuration>& space);

}  // namespace penstock
