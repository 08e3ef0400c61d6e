#pragma once
// Implements `penstock check --baseline`. It compares the figures of scenarios with those in a committed
// file, or updates the file.

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

/// Compares all scenarios of the baseline, or only those that `scenarios` names, with their stored figures.
/// With `flags.update`, it adds the scenarios to the baseline and writes the file. It prints one line for
/// each scenario, followed by what it has found. Requires that the caller has called check_output_files(),
/// and check_output_place() for --junit.
Outcome check_baseline(const BaselineFlags& flags, const std::vector<std::string>& scenarios,
                       const OutputFlags& output);

/// The words that end the text about verdicts if no verdict is a failure.
inline constexpr std::string_view kWithinTolerance = "within tolerance";

/// Returns a text with one line for each entry of the baseline. Below it are the findings about this entry
/// and their reasons. The text ends with `good` if nothing failed.
std::string verdicts_text(const std::vector<BaselineVerdict>& verdicts,
                          std::string_view good = kWithinTolerance);
std::string verdicts_json(const std::vector<BaselineVerdict>& verdicts);
/// Returns a Markdown table of the changed figures, followed by the reasons for failures.
std::string verdicts_markdown(const std::vector<BaselineVerdict>& verdicts,
                              std::string_view good = kWithinTolerance);

/// Returns a text about what an update of the baseline accepts: better and worse figures, and repairs of
/// program files. Returns an empty text if there are none.
std::string accepted_text(const std::vector<BaselineVerdict>& accepted);

/// Returns an error if the file that GITHUB_STEP_SUMMARY names cannot be written. It is called before the
/// command does its work.
tl::expected<void, UserError> check_github_summary();

/// The outputs to which a command reports its verdicts, in addition to its normal answer.
struct VerdictPlaces {
  std::filesystem::path directory{};  ///< the folder to which names of scenarios are relative
  std::string junit{};                ///< the file of --junit; empty if there is none
  std::string_view good = kWithinTolerance;
};

/// Reports the verdicts to GitHub Actions. If GITHUB_ACTIONS is set, each failed entry gets an annotation
/// on stderr, at a line of its scenario. If GITHUB_STEP_SUMMARY is set, a Markdown table of the verdicts is
/// appended to the file that it names. Returns an error if this file cannot be written.
tl::expected<void, UserError> tell_github(const std::vector<BaselineVerdict>& verdicts,
                                          const VerdictPlaces& places);

/// Writes the answer and the JUnit file, and reports the verdicts to GitHub Actions. Returns exit code 1 if
/// a verdict is a failure, even if an output could not be written.
Outcome report_verdicts(const std::vector<BaselineVerdict>& verdicts, const VerdictPlaces& places,
                        const OutputFlags& output, const std::vector<OutputForm>& forms,
                        const std::string& text);

}  // namespace penstock
