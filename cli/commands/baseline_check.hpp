#pragma once
// penstock check --baseline: compares scenarios with a committed file of figures, or updates the file.

#include <string>
#include <vector>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"

namespace penstock {

struct BaselineFlags {
  std::string file;  ///< empty: no baseline
  std::string junit;
  bool update = false;
  bool programs = false;  ///< with `update`: the baseline stores its programs from now on
};

/// Compares all entries, or only those of `scenarios`. With `update` it adds the scenarios and writes the
/// file. Prints one line for each entry with its findings below it; an update prints what it accepts.
/// Requires check_output_place() for --junit, and check_output_files().
Outcome check_baseline(const BaselineFlags& flags, const std::vector<std::string>& scenarios,
                       const OutputFlags& output);

}  // namespace penstock
