#pragma once
// Implements penstock check --baseline: compares scenarios with the figures in a committed file, or updates
// the file.

#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "sim/hold/baseline.hpp"

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

// Prints comparisons with a baseline for terminals, scripts, pages, and GitHub's pull requests.

/// Returns one line for each entry, with its findings and their reasons below it.
std::string verdicts_text(const std::vector<BaselineVerdict>& verdicts);
std::string verdicts_json(const std::vector<BaselineVerdict>& verdicts);
/// Returns a table of the changes, and the reasons for the failures.
std::string verdicts_markdown(const std::vector<BaselineVerdict>& verdicts);

/// Returns what an update accepts, better and worse, and what was repaired when a program was read. Returns
/// an empty text if there is nothing of both.
std::string accepted_text(const std::vector<BaselineVerdict>& accepted);

/// Checks before the work that the file of GITHUB_STEP_SUMMARY can be written. Error: it cannot.
tl::expected<void, UserError> check_github_summary();

/// Writes for GitHub Actions: an annotation on stderr for each entry that failed (GITHUB_ACTIONS), and the
/// Markdown at the end of the job's summary (GITHUB_STEP_SUMMARY). Does nothing elsewhere. Error: the summary
/// cannot be written.
tl::expected<void, UserError> tell_github(const std::vector<BaselineVerdict>& verdicts,
                                          const std::string& baseline);

}  // namespace penstock
