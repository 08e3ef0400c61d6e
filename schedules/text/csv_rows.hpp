#pragma once
// Comma-separated values as the reader of Python's csv module sees them (its "excel" dialect).

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {

struct CsvRow {
  std::size_t line = 1;  ///< where the row begins, from 1
  std::vector<std::string> cells;
};

struct CsvFault {
  std::size_t line = 1;
  std::string message;
};

/// The rows of `text`. A cell may stand between double quotes and then hold commas, line ends and doubled
/// quotes. Lines end in LF, CRLF or CR. An empty line is a row without cells; those at the end are dropped.
/// Error: a quote that is never closed.
tl::expected<std::vector<CsvRow>, CsvFault> csv_rows(std::string_view text);

}  // namespace penstock
