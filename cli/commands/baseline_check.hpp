#pragma once
// Implements `penstock check --baseline`. It compares scenarios with the figures in a committed file, or
// updates the file.

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
  bool programs = false;  ///< True if the update also stores the programs. Requires `update`.
};

/// Compares all entries of the baseline, or only those that `scenarios` names. With `update` it adds the
/// scenarios and writes the file. It prints one line for each entry, followed by the findings of this entry.
/// Requires that the caller has called check_output_files(), and check_output_place() for --junit.
Outcome check_baseline(const BaselineFlags& flags, const std::vector<std::string>& scenarios,
                       const OutputFlags& output);

/// Returns one line for each entry, followed by the findings of this entry and their reasons.
std::string verdicts_text(const std::vector<BaselineVerdict>& verdicts);
std::string verdicts_json(const std::vector<BaselineVerdict>& verdicts);
/// Returns a Markdown table of the changes, followed by the reasons for failures.
std::string verdicts_markdown(const std::vector<BaselineVerdict>& verdicts);

/// Returns the better and worse figures that an update accepts, and the repairs of program files. Returns an
/// empty text if there are none.
std::string accepted_text(const std::vector<BaselineVerdict>& accepted);

/// Returns an error if the file named by GITHUB_STEP_SUMMARY cannot be written. It is called before the work.
tl::expected<void, UserError> check_github_summary();

/// Reports the verdicts to GitHub Actions. If GITHUB_ACTIONS is set, each failed entry gets an annotation on
/// stderr. If GITHUB_STEP_SUMMARY is set, the Markdown table is appended to its file. Returns an error if the
/// file cannot be written.
tl::expected<void, UserError> tell_github(const std::vector<BaselineVerdict>& verdicts,
                                          const std::string& baseline);

}  // namespace penstock
