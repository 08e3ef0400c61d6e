// Compares scenarios with a baseline, or updates it. Entries are named relative to the baseline file, with
// '/', so that the file means the same from every folder. Without scenarios all entries are compared,
// otherwise only those. --update computes all figures again and adds entries that are missing. Every finding
// is printed. Tests: tests/cli/baseline_output_test.cpp.

#include "cli/commands/baseline_check.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "cli/commands/baseline_output.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "report/print/units.hpp"
#include "sim/baseline/baseline.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// Returns the folder to which its entries are relative; empty for the working folder.
fs::path directory_of(const std::string& baseline) { return fs::path(baseline).parent_path(); }

/// Returns the name of `scenario` in a baseline file: relative to that file, with '/'.
std::string entry_name(const std::string& scenario, const fs::path& directory) {
  std::error_code error;
  const fs::path relative = fs::proximate(scenario, directory.empty() ? "." : directory, error);
  // If there is no relative form, the name itself is used.
  return (error ? fs::path(scenario) : relative).generic_string();
}

/// Returns the entry of that name, or the end if there is none.
auto entry_of(const Baseline& baseline, const std::string& name) {
  return std::ranges::find(baseline.entries, name, &BaselineEntry::scenario);
}

/// Returns the entries that the command names, or all if it names none.
tl::expected<Baseline, UserError> chosen_entries(const Baseline& baseline, const BaselineFlags& flags,
                                                 const std::vector<std::string>& scenarios) {
  if (baseline.entries.empty()) {
    return bad_input(fmt::format(
        "{}: entries: expected at least one, got []; a check of nothing would always pass (--update with "
        "scenarios adds them)",
        flags.file));
  }
  if (scenarios.empty()) return baseline;
  Baseline chosen{.tolerance = baseline.tolerance, .entries = {}};
  for (const std::string& scenario : scenarios) {
    const std::string name = entry_name(scenario, directory_of(flags.file));
    const auto entry = entry_of(baseline, name);
    if (entry == baseline.entries.end()) {
      return bad_input(
          fmt::format("{}: is not in the baseline {}; add it with --update", scenario, flags.file));
    }
    chosen.entries.push_back(*entry);
  }
  return chosen;
}

/// Returns the baseline to be updated: an empty one if there is no file yet.
tl::expected<Baseline, UserError> existing_or_new(const BaselineFlags& flags,
                                                  const std::vector<std::string>& scenarios) {
  std::error_code error;
  // If no scenario is to be added, a missing file is more likely a mistyped name.
  const bool is_new = !fs::exists(flags.file, error) && !scenarios.empty();
  if (is_new) return Baseline{};
  auto baseline = read_baseline(flags.file);
  if (!baseline) return bad_input(baseline.error());
  return *std::move(baseline);
}

/// A lock on the baseline's folder. Another process that updates a baseline in this folder waits, so that its
/// entries are not lost. The folder is locked and not the file, because each update replaces the file.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : descriptor_(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    // If the file system has no locks, the update proceeds without one.
    while (descriptor_ >= 0 && flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) continue;
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }

 private:
  int descriptor_;
};

/// Updates the baseline. It computes the figures of all entries and not only of the named scenarios, so that
/// one file describes one state of the code.
Outcome update_baseline(const BaselineFlags& flags, const std::vector<std::string>& scenarios) {
  const fs::path directory = directory_of(flags.file);
  const FolderLock alone(directory);
  const auto before = existing_or_new(flags, scenarios);
  if (!before) return tl::unexpected(before.error());
  Baseline listed = *before;
  listed.holds_programs |= flags.programs;
  for (const std::string& scenario : scenarios) {
    const std::string name = entry_name(scenario, directory);
    if (!is_utf8(name)) {
      return bad_input(fmt::format(
          "{}: expected a name in UTF-8, which is all that the JSON of a baseline can hold; rename the file",
          shown_name(scenario)));
    }
    if (entry_of(listed, name) == listed.entries.end())
      listed.entries.push_back({.scenario = name, .figures = std::nullopt});
  }
  if (listed.entries.empty())
    return bad_input(fmt::format("{}: has no entries, and no scenario was given to add", flags.file));
  const auto measured = updated(listed, directory);
  if (!measured) return bad_input(measured.error());
  if (auto written = write_file(flags.file, to_json(*measured)); !written)
    return tl::unexpected(written.error());
  const std::string text = accepted_text(accepted_by(*before, *measured)) +
                           fmt::format("{}: figures of {} written\n", shown_name(flags.file),
                                       format_count(std::ssize(measured->entries), "scenario"));
  if (auto written = write_stdout(text); !written) return tl::unexpected(written.error());
  return ExitCode::ok;
}

/// Compares with the baseline. Returns exit code 1 if an entry failed, whatever could be written.
Outcome compare_with_baseline(const BaselineFlags& flags, const std::vector<std::string>& scenarios,
                              const OutputFlags& output) {
  if (auto place = check_github_summary(); !place) return tl::unexpected(place.error());
  const auto baseline = read_baseline(flags.file);
  if (!baseline) return bad_input(baseline.error());
  const auto chosen = chosen_entries(*baseline, flags, scenarios);
  if (!chosen) return tl::unexpected(chosen.error());
  const std::vector<BaselineVerdict> verdicts = compare(*chosen, directory_of(flags.file));
  const std::vector<OutputForm> forms = {{".json", [&] { return verdicts_json(verdicts); }},
                                         {".txt", [&] { return verdicts_text(verdicts); }},
                                         {".md", [&] { return verdicts_markdown(verdicts); }}};
  const std::string text = output.json ? verdicts_json(verdicts) : verdicts_text(verdicts);
  // If one of these outputs fails, the others are still written, because the comparison is the answer.
  const auto in_junit =
      flags.junit.empty() ? tl::expected<void, UserError>() : write_file(flags.junit, to_junit(verdicts));
  const auto on_github = tell_github(verdicts, flags.file);
  const auto answered = write_answer(output, forms, text);
  for (const auto* place : {&in_junit, &on_github, &answered}) {
    if (!*place) return tl::unexpected(place->error());
  }
  return std::ranges::any_of(verdicts, &BaselineVerdict::failed) ? ExitCode::check_failed : ExitCode::ok;
}

}  // namespace

Outcome check_baseline(const BaselineFlags& flags, const std::vector<std::string>& scenarios,
                       const OutputFlags& output) {
  return flags.update ? update_baseline(flags, scenarios) : compare_with_baseline(flags, scenarios, output);
}

}  // namespace penstock
