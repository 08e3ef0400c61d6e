#pragma once
// Implements penstock check --baseline: compares scenarios with the figures in a committed file, or updates
// the file.

#include <string>
#include <vector>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"

namespace penstock {

struct BaselineFlags {
  std::string file;  ///< The baseline file. It is empty if --baseline was not given.
  std::string junit;
  bool update = false;
  bool programs = false;  ///< True to store the programs in the baseline, too. It requires `update`.
};

/// Compares all entries of the baseline, or only the entries of `scenarios`. With `update`, it adds the
/// scenarios and writes the file. It prints one line per entry, with the findings below it. An update prints
/// the changes that it accepts. Requires that the caller has called check_output_place() for --junit, and
/// check_output_files().
Outcome check_baseline(const BaselineFlags& flags, const std::vector<std::string>& scenarios,
                       const OutputFlags& output);

}  // namespace penstock
