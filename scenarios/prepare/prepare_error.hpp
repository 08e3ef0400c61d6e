#pragma once
// Why a scenario is no experiment.

#include <string>

namespace penstock {

/// Why an experiment could not be prepared. `invalid` (exit 1): parsed but not a legal program;
/// otherwise bad input (exit 2): an impossible shape, sizes that do not divide, too few devices, ...
struct PrepareError {
  std::string message;
  bool invalid = false;
};

/// The error with the scenario's file in front, unless it starts with a place already.
PrepareError in_file(const std::string& file, PrepareError error);

}  // namespace penstock
