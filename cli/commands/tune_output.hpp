#pragma once
// Prints the answers of `penstock tune`: as text and as a page for readers, and as JSON and CSV for
// programs.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands/tune_answer.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/tune.hpp"

namespace penstock {

/// The extent of the tables in the text of an answer: `fastest` or `all`. `fastest` lists the fastest
/// configurations only. `all` also lists those that no other configuration beats in both time and memory,
/// and the cost of each choice.
enum class TuneTables : std::uint8_t { fastest, all };

/// Returns the answer as text, which ends with the best configuration. `width` is the terminal's width in
/// characters; 0 means no limit.
std::string tune_text(const TuneAnswer& answer, std::size_t width, TuneTables tables);
std::string tune_html(const TuneAnswer& answer);

/// Returns the configurations of the search space as text, without results.
std::string space_text(const TuneRequest& request, const std::vector<Configuration>& space);

std::string tune_json(const TuneAnswer& answer);
/// Returns a CSV table with one row per candidate. The best candidate comes first.
std::string tune_csv(const TuneAnswer& answer);
/// Returns the configurations of the search space as JSON, without results.
std::string space_json(const TuneRequest& request, const std::vector<Configuration>& space);

}  // namespace penstock
