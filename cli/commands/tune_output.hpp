#pragma once
// Writes answers of `penstock tune` as text and as an HTML page.

#include <cstddef>
#include <string>
#include <vector>

#include "cli/commands/tune_answer.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {

/// Returns the answer as text. `width` is the terminal's width in characters; 0 means no limit.
std::string tune_text(const TuneAnswer& answer, std::size_t width);
std::string tune_html(const TuneAnswer& answer);

/// Returns the search space, without results, as text.
std::string space_text(const TuneRequest& request, const std::vector<Configuration>& space);

}  // namespace penstock
