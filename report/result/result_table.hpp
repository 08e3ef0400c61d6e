#pragma once
// Writes a Result as text for terminals: main figures, a table of ranks, memory by category, and links.

#include <cstddef>
#include <cstdint>
#include <string>

#include "report/result/result.hpp"

namespace penstock {

/// The choice whether sentences about ranks that run out of memory follow the tables. The table of ranks
/// always marks such ranks.
enum class OutOfMemoryLines : std::uint8_t { shown, left_out };

/// The options of the text for terminals.
struct ResultTableOptions {
  OutOfMemoryLines out_of_memory = OutOfMemoryLines::shown;
  /// The longest line of a table in characters; 0 means no limit.
  std::size_t width = 0;
};

/// Returns the text, with durations and bytes in readable units.
std::string result_to_table(const Result& result, const ResultTableOptions& options = {});

}  // namespace penstock
