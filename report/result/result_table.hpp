#pragma once
// The terminal's view of a Result: headline figures, a table of ranks, memory by category, links.

#include <cstddef>
#include <cstdint>
#include <string>

#include "report/result/result.hpp"

namespace penstock {

/// Whether the ranks that do not fit have a sentence each below the tables; the table of ranks marks them
/// anyway.
enum class OutOfMemoryLines : std::uint8_t { shown, left_out };

struct ResultTableOptions {
  OutOfMemoryLines out_of_memory = OutOfMemoryLines::shown;
  std::size_t width = 0;  ///< of the tables' lines; 0: any
};

/// Lines of text, a line break at the end. Durations and bytes have readable units.
std::string result_to_table(const Result& result, const ResultTableOptions& options = {});

}  // namespace penstock
