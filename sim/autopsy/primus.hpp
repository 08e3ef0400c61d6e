#pragma once
// Reads the dumps of Primus: config.json and a rank_N.json for each rank, which has the starts and ends of
// the forward and backward passes of each iteration in milliseconds.

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

/// Returns true if a text is the dump of a rank, or the configuration beside the dumps.
bool is_primus(std::string_view text);

/// Reads the dumps of all ranks. Without config.json every rank is one stage. The error is "FILE: expected
/// ..., got ...".
tl::expected<RecordedRows, std::string> read_primus(const std::vector<NamedText>& files);

}  // namespace penstock
