#pragma once
// Prints answers of `penstock tune` as text and as a page.

#include <cstddef>
#include <string>
#include <vector>

#include "cli/commands/tune_answer.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {

/// Returns the text. `width` is that of the terminal; 0: no limit.
std::string tune_text(const TuneAnswer& answer, std::size_t width);
std::string tune_html(const TuneAnswer& answer);

/// Returns only the space.
std::string space_text(const TuneRequest& request, const std::vector<Configuration>& space);

}  // namespace penstock
