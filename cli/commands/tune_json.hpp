#pragma once
// Answers of `penstock tune` for programs: JSON, and CSV with the same fields.

#include <string>
#include <vector>

#include "cli/commands/tune_answer.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {

std::string tune_json(const TuneAnswer& answer);
/// A row a candidate, the best first.
std::string tune_csv(const TuneAnswer& answer);
/// The space alone.
std::string space_json(const TuneRequest& request, const std::vector<Configuration>& space);

}  // namespace penstock
