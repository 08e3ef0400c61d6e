#pragma once
// penstock check --baseline: compares scenarios with a committed file of figures, or writes it anew.

#include <string>
#include <vector>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"

namespace penstock {

struct BaselineFlags {
  std::string file;  ///< empty: no baseline was asked for
  std::string junit;
  bool update = false;
  bool programs = false;  ///< with `update`: the baseline holds its programs from now on
};

/// Compares all entries, or only those of `scenarios`; with `update` adds the scenarios and writes the file.
/// Prints a line an entry and its findings below it; an update prints what it accepts. Requires
/// check_output_place() of --junit and check_output_files().
Outcome check_baseline(const BaselineFlags& flags, const std::vector<std::string>& scenarios,
                       const OutputFlags& output);

}  // namespace penstock
