#pragma once
// A Result as text for terminals: headline figures, a table of ranks, memory by category, links.

#include <cstddef>
#include <cstdint>
#include <string>

#include "report/result/result.hpp"

namespace penstock {

/// The sentences about ranks that do not fit, below the tables. The table of ranks marks such ranks in both
/// cases.
enum class OutOfMemoryLines : std::uint8_t { shown, left_out };

/// The options of the text.
struct ResultTableOptions {
  OutOfMemoryLines out_of_memory = OutOfMemoryLines::shown;
  /// The width of the tables' lines; 0 means no limit.
  std::size_t width = 0;
};

/// Returns the text, with readable units for durations and bytes and a line break at the end.
std::string result_to_table(const Result& result, const ResultTableOptions& options = {});

}  // namespace penstock
