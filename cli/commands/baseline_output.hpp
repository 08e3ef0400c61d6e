#pragma once
// What a comparison with a baseline says: for terminals, scripts, pages, and GitHub's pull requests.

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/outcome.hpp"
#include "sim/baseline/baseline.hpp"

namespace penstock {

/// A line an entry, its findings and their reasons below it.
std::string verdicts_text(const std::vector<BaselineVerdict>& verdicts);
std::string verdicts_json(const std::vector<BaselineVerdict>& verdicts);
/// A table of what changed, and the reasons of what failed.
std::string verdicts_markdown(const std::vector<BaselineVerdict>& verdicts);

/// What an update accepts, better and worse, and what was repaired while a program was read. Empty when
/// nothing changes and nothing was.
std::string accepted_text(const std::vector<BaselineVerdict>& accepted);

/// Error: the file that GITHUB_STEP_SUMMARY names cannot be written. To be called before the work.
tl::expected<void, Failure> check_github_summary();

/// Under GitHub Actions: an annotation on stderr for each entry that failed (GITHUB_ACTIONS), and the
/// Markdown at the end of the job's summary (GITHUB_STEP_SUMMARY). Elsewhere nothing. Error: the summary
/// cannot be written.
tl::expected<void, Failure> tell_github(const std::vector<BaselineVerdict>& verdicts,
                                        const std::string& baseline);

}  // namespace penstock
