#pragma once
// The sweep of which all parts are there. Used by sweep_command.cpp.

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/outcome.hpp"
#include "report/result/sweep_table.hpp"

namespace penstock {

/// Reads the parts that `sweep --shard` and `sweep --resume` write, and returns the sweep that one process
/// would have made. Error: a file that is no part, parts of different sweeps, a shard that is missing, is
/// there twice or is not complete; each with the names of the files.
tl::expected<Sweep, UserError> merged_sweep(const std::vector<std::string>& files);

}  // namespace penstock
