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

/// The message with the scenario's file in front, unless it starts with a place already.
PrepareError bad_input(const std::string& file, const std::string& message);
PrepareError invalid_program(const std::string& file, const std::string& message);

}  // namespace penstock
