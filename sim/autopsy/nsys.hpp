#pragma once
// Reads reports of Nsight Systems, one file a rank (nsys export --type sqlite).

#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "sim/autopsy/kineto.hpp"

namespace penstock {

/// Reads the report of one rank. The rank's number follows the word "rank" in the name of the file. The error
/// is "FILE: expected ..., got ...".
tl::expected<RankTrace, std::string> read_nsys(std::string_view bytes, std::string_view file);

}  // namespace penstock
