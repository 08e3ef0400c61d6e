#pragma once
// Prints comparisons with a baseline for terminals, scripts, pages, and GitHub's pull requests.

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/outcome.hpp"
#include "sim/baseline/baseline.hpp"

namespace penstock {

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
