#pragma once
// Implements `penstock check --baseline`. It compares scenarios with the figures in a committed file, or
// updates the file.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
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

/// The words for a verdict without failures, at the end of a text.
inline constexpr std::string_view kWithinTolerance = "within tolerance";

/// Returns one line for each entry, followed by the findings of this entry and their reasons.
std::string verdicts_text(const std::vector<BaselineVerdict>& verdicts,
                          std::string_view good = kWithinTolerance);
std::string verdicts_json(const std::vector<BaselineVerdict>& verdicts);
/// Returns a Markdown table of the changes, followed by the reasons for failures.
std::string verdicts_markdown(const std::vector<BaselineVerdict>& verdicts,
                              std::string_view good = kWithinTolerance);

/// Returns the better and worse figures that an update accepts, and the repairs of program files. Returns an
/// empty text if there are none.
std::string accepted_text(const std::vector<BaselineVerdict>& accepted);

/// Returns an error if the file named by GITHUB_STEP_SUMMARY cannot be written. It is called before the work.
tl::expected<void, UserError> check_github_summary();

/// The places to which verdicts are reported beside the answer.
struct VerdictPlaces {
  std::filesystem::path directory{};  ///< the folder to which names of scenarios are relative
  std::string junit{};                ///< the file of --junit; empty if there is none
  std::string_view good = kWithinTolerance;
};

/// Reports the verdicts to GitHub Actions. If GITHUB_ACTIONS is set, each failed entry gets an annotation on
/// stderr, at a line of its scenario. If GITHUB_STEP_SUMMARY is set, the Markdown table is appended to its
/// file. Returns an error if the file cannot be written.
tl::expected<void, UserError> tell_github(const std::vector<BaselineVerdict>& verdicts,
                                          const VerdictPlaces& places);

/// Writes the answer, the JUnit file and what GitHub gets. Returns exit code 1 if a verdict failed, even if
/// an output could not be written.
Outcome report_verdicts(const std::vector<BaselineVerdict>& verdicts, const VerdictPlaces& places,
                        const OutputFlags& output, const std::vector<OutputForm>& forms,
                        const std::string& text);

}  // namespace penstock
