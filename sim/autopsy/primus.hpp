#pragma once
// Reads the schedule dumps of Primus: config.json, and a rank_N.json for each rank. A rank's file has the
// starts and ends of the forward and backward passes in each iteration, in milliseconds.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "sim/autopsy/events_csv.hpp"

namespace penstock {

/// A file with its text.
struct NamedText {
  std::string file;
  std::string text;
};

/// Returns true if the text is a file of Primus: the schedule dump of a rank, or the config.json beside it.
bool is_primus(std::string_view text);

/// Reads the schedule dumps that Primus wrote, one for each rank. Without config.json, each rank counts as
/// one stage. Errors have the form "FILE: expected ..., got ...".
tl::expected<RecordedRows, std::string> read_primus(const std::vector<NamedText>& files);

}  // namespace penstock
