// Compares scenarios with a baseline, or updates the baseline. Names of entries are relative to the baseline
// file and use '/', so they are valid in every working folder. If the user names no scenario, all entries are
// compared. --update computes all figures again and adds missing entries. Tests: tests/cli/names_test.cpp.

#include "cli/commands/baseline_check.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/terminal.hpp"
#include "report/print/units.hpp"
#include "sim/hold/baseline.hpp"
#include "text/escaping.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

namespace fs = std::filesystem;

/// Returns the folder that contains the baseline file. The path is empty for the working folder.
fs::path directory_of(const std::string& baseline) { return fs::path(baseline).parent_path(); }

/// Returns the name that `scenario` has in the baseline: its path relative to the baseline file, with '/'.
std::string entry_name(const std::string& scenario, const fs::path& directory) {
  std::error_code error;
  const fs::path relative = fs::proximate(scenario, directory.empty() ? "." : directory, error);
  // If no relative path exists, the path itself is the name.
  return (error ? fs::path(scenario) : relative).generic_string();
}

/// Returns an iterator to the baseline's entry with this name, or the end if there is none.
auto entry_of(const Baseline& baseline, const std::string& name) {
  return std::ranges::find(baseline.entries, name, &BaselineEntry::scenario);
}

/// Compares the scenarios that the user names, or all entries if no scenario is named. A scenario that is
/// not in the baseline fails, and the others are still compared.
tl::expected<std::vector<BaselineVerdict>, UserError> compared(const Baseline& baseline,
                                                               const BaselineFlags& flags,
                                                               const std::vector<std::string>& scenarios) {
  if (baseline.entries.empty()) {
    return bad_input(fmt::format(
        "{}: entries: expected at least one, got []; a check of nothing would always pass (--update with "
        "scenarios adds them)",
        flags.file));
  }
  const fs::path directory = directory_of(flags.file);
  if (scenarios.empty()) return compare(baseline, directory);
  std::vector<BaselineVerdict> verdicts;
  for (const std::string& scenario : scenarios) {
    const std::string name = entry_name(scenario, directory);
    const auto entry = entry_of(baseline, name);
    if (entry == baseline.entries.end()) {
      const std::string error = fmt::format("is not in the baseline {}; add it with --update", flags.file);
      verdicts.push_back({.scenario = name, .findings = {}, .error = error});
      continue;
    }
    const Baseline one{.tolerance = baseline.tolerance, .entries = {*entry}};
    std::ranges::move(compare(one, directory), std::back_inserter(verdicts));
  }
  return verdicts;
}

/// Returns the baseline to update. It is empty if the file does not exist yet.
tl::expected<Baseline, UserError> existing_or_new(const BaselineFlags& flags,
                                                  const std::vector<std::string>& scenarios) {
  std::error_code error;
  // If the user names no scenario to add, a missing file is probably a typing error in its name.
  const bool is_new = !fs::exists(flags.file, error) && !scenarios.empty();
  if (is_new) return Baseline{};
  auto baseline = read_baseline(flags.file);
  if (!baseline) return bad_input(baseline.error());
  return *std::move(baseline);
}

/// A lock on the folder of the baseline. Other updates in the same folder wait for it, so that no entry is
/// lost. The file itself is not locked, because each update replaces it.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : descriptor_(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    // Some file systems have no locks. In this case the update continues without a lock.
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

/// Updates the baseline. It computes the stored numbers of all entries again, so that all of them come from
/// the same version of the code.
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

/// Compares scenarios with the baseline. Returns exit code 1 if an entry failed, even if an output file
/// could not be written.
Outcome compare_with_baseline(const BaselineFlags& flags, const std::vector<std::string>& scenarios,
                              const OutputFlags& output) {
  if (auto place = check_github_summary(); !place) return tl::unexpected(place.error());
  const auto baseline = read_baseline(flags.file);
  if (!baseline) {
    std::error_code error;
    const bool is_missing = fs::status(flags.file, error).type() == fs::file_type::not_found;
    return bad_input(baseline.error() + (is_missing ? "; --update writes it" : ""));
  }
  const auto verdicts = compared(*baseline, flags, scenarios);
  if (!verdicts) return tl::unexpected(verdicts.error());
  const std::vector<OutputForm> forms = {{".json", [&] { return verdicts_json(*verdicts); }},
                                         {".txt", [&] { return verdicts_text(*verdicts); }},
                                         {".md", [&] { return verdicts_markdown(*verdicts); }}};
  const std::string text = output.json ? verdicts_json(*verdicts) : verdicts_text(*verdicts);
  return report_verdicts(*verdicts, {.directory = directory_of(flags.file), .junit = flags.junit}, output,
                         forms, text);
}

}  // namespace

Outcome check_baseline(const BaselineFlags& flags, const std::vector<std::string>& scenarios,
                       const OutputFlags& output) {
  return flags.update ? update_baseline(flags, scenarios) : compare_with_baseline(flags, scenarios, output);
}

Outcome report_verdicts(const std::vector<BaselineVerdict>& verdicts, const VerdictPlaces& places,
                        const OutputFlags& output, const std::vector<OutputForm>& forms,
                        const std::string& text) {
  // If one output fails, the others are still written, because the user needs the result of the comparison.
  const auto in_junit =
      places.junit.empty() ? tl::expected<void, UserError>() : write_file(places.junit, to_junit(verdicts));
  const auto on_github = tell_github(verdicts, places);
  const auto answered = write_answer(output, forms, text);
  for (const auto* place : {&in_junit, &on_github, &answered}) {
    if (!*place) return tl::unexpected(place->error());
  }
  return std::ranges::any_of(verdicts, &BaselineVerdict::failed) ? ExitCode::check_failed : ExitCode::ok;
}

// Prints verdicts in five forms. Two of them are for GitHub. Log lines "::error ...::" become annotations of
// the pull request. The file named by GITHUB_STEP_SUMMARY becomes a page (docs.github.com, "Workflow commands
// for GitHub Actions").

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSummary = "GITHUB_STEP_SUMMARY";

/// Returns the word that outputs show for a verdict. "changed" means that figures are better, or that they
/// are worse but within the tolerance.
std::string_view word_of(const BaselineVerdict& verdict) {
  if (verdict.failed()) return "FAILED";
  return verdict.findings.empty() ? "ok" : "changed";
}

std::string_view word_of_update(const BaselineVerdict& verdict) {
  if (verdict.error) return "new";
  return verdict.findings.empty() ? "ok" : "changed";
}

/// Returns a text that says how many verdicts are not failures, such as "2 of 3 within tolerance". `good` is
/// the end of this text.
std::string count_text(const std::vector<BaselineVerdict>& verdicts, std::string_view good) {
  const auto failed = std::ranges::count_if(verdicts, &BaselineVerdict::failed);
  return fmt::format("{} of {} {}\n", verdicts.size() - static_cast<std::size_t>(failed), verdicts.size(),
                     good);
}

/// Returns the error, the findings and the reasons of a verdict as separate lines. Only the error may
/// contain line breaks.
std::vector<std::string> lines_of(const BaselineVerdict& verdict) {
  std::vector<std::string> lines;
  if (verdict.error) lines.push_back(*verdict.error);
  for (const BaselineFinding& finding : verdict.findings) {
    lines.push_back(shown_name(fmt::format("{} {}: expected {}, is {}", finding.failed ? "FAIL" : "note",
                                           shown_figure(finding.figure), finding.expected, finding.actual)));
  }
  for (const std::string& reason : verdict.reasons) lines.push_back(fmt::format("  {}", shown_name(reason)));
  for (const std::string& note : verdict.notes) lines.push_back(fmt::format("note: {}", shown_name(note)));
  return lines;
}

/// Returns a figure as a JSON number, or as text if it has no number. Whole numbers have no decimals.
Json value_json(const std::optional<double>& number, const std::string& text) {
  constexpr double kLargestExact = 9007199254740992;  // 2^53
  if (!number) return text;
  if (std::abs(*number) < kLargestExact && std::trunc(*number) == *number)
    return static_cast<std::int64_t>(*number);
  return *number;
}

Json json_of(const BaselineFinding& finding) {
  return {{"figure", finding.figure},
          {"expected", value_json(finding.expected_number, finding.expected)},
          {"actual", value_json(finding.actual_number, finding.actual)},
          {"failed", finding.failed}};
}

/// Returns the rows of the Markdown table for one entry. The text is empty if nothing changed.
std::string table_rows(const BaselineVerdict& verdict) {
  std::string rows;
  const auto row = [&](std::string_view word, std::string_view figure, std::string_view then,
                       std::string_view now) {
    rows += fmt::format("| {} | {} | {} | {} | {} |\n", word, markdown_escaped(verdict.scenario),
                        markdown_escaped(figure), markdown_escaped(then), markdown_escaped(now));
  };
  if (verdict.error) {
    std::string error = *verdict.error;
    std::ranges::replace(error, '\n', ' ');
    row("FAIL", "error", "", error);
  }
  for (const BaselineFinding& finding : verdict.findings)
    row(finding.failed ? "FAIL" : "note", shown_figure(finding.figure), finding.expected, finding.actual);
  return rows;
}

/// Returns the reasons of a verdict as a collapsed section of Markdown, because a summary has many entries.
/// The fence of its code block is longer than any fence in the reasons.
std::string folded_reasons(const BaselineVerdict& verdict) {
  if (verdict.reasons.empty()) return "";
  std::string text = fmt::format("\n<details><summary>Why: {}</summary>\n\n~~~~~~~~text\n",
                                 markdown_escaped(verdict.scenario));
  for (const std::string& reason : verdict.reasons) text += fmt::format("{}\n", shown_name(reason));
  return text + "~~~~~~~~\n\n</details>\n";
}

// GitHub's escapes begin with '%', so '%' itself must also be escaped.
constexpr std::string_view kEscapedInText = "%\r\n";
constexpr std::string_view kEscapedInProperty = "%\r\n:,";

/// Returns `text` with escapes for a workflow command of GitHub. For example, two lines become "a%0Ab".
std::string escaped_command(std::string_view text, std::string_view special) {
  std::string escaped;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) {
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

/// A place in a file at which GitHub shows an annotation.
struct AnnotatedPlace {
  std::string file;
  std::int64_t line = 1;
};

/// Returns the line number that an error message names after the file, such as 7 for "a.yaml:7: ...".
std::optional<std::int64_t> line_in_message(std::string_view message, std::string_view file) {
  if (file.empty() || !message.starts_with(file)) return std::nullopt;
  message.remove_prefix(file.size());
  if (!message.starts_with(':')) return std::nullopt;
  const std::string_view digits = message.substr(1, message.find_first_not_of("0123456789", 1) - 1);
  return number_of_text<std::int64_t>(digits);
}

/// Returns the number of the first line with a word `schedule`, or 1 if there is none. A change of figures
/// is usually about this line: "schedule: {...}" of a scenario, or "schedule NAME" of a program.
std::int64_t schedule_line(const fs::path& file) {
  std::ifstream stream(file);
  std::int64_t number = 1;
  for (std::string line; std::getline(stream, line); ++number) {
    const std::size_t begin = line.find_first_not_of(" \t{,\"");
    if (begin != std::string::npos && line.compare(begin, 8, "schedule") == 0) return number;
  }
  return 1;
}

AnnotatedPlace place_of_verdict(const BaselineVerdict& verdict, const fs::path& directory) {
  const fs::path file = directory / verdict.scenario;
  AnnotatedPlace place{.file = file.lexically_normal().generic_string()};
  if (verdict.error) {
    place.line = line_in_message(*verdict.error, file.string()).value_or(1);
  } else {
    place.line = schedule_line(file);
  }
  return place;
}

/// Returns a workflow command of the form "::error file=SCENARIO,line=N,title=...::FINDINGS". GitHub shows
/// this error at the line of the scenario that is at fault or that names its schedule.
std::string annotation_of(const BaselineVerdict& verdict, const fs::path& directory) {
  const std::vector<std::string> lines = lines_of(verdict);
  const AnnotatedPlace place = place_of_verdict(verdict, directory);
  std::string text;
  for (const std::string& line : lines) text += fmt::format("{}{}", text.empty() ? "" : "\n", line);
  return fmt::format("::error file={},line={},title={}::{}", escaped_command(place.file, kEscapedInProperty),
                     place.line,
                     escaped_command(fmt::format("penstock check: {}", verdict.scenario), kEscapedInProperty),
                     escaped_command(text, kEscapedInText));
}

}  // namespace

std::string verdicts_text(const std::vector<BaselineVerdict>& verdicts, std::string_view good) {
  std::string text;
  for (const BaselineVerdict& verdict : verdicts) {
    text += fmt::format("{:<8} {}\n", word_of(verdict), shown_name(verdict.scenario));
    for (const std::string& line : lines_of(verdict)) text += fmt::format("    {}\n", line);
  }
  return text + count_text(verdicts, good);
}

std::string verdicts_json(const std::vector<BaselineVerdict>& verdicts) {
  Json entries = Json::array();
  for (const BaselineVerdict& verdict : verdicts) {
    Json entry = {{"scenario", verdict.scenario}, {"failed", verdict.failed()}, {"findings", Json::array()}};
    for (const BaselineFinding& finding : verdict.findings) entry["findings"].push_back(json_of(finding));
    entry["reasons"] = verdict.reasons;
    entry["notes"] = verdict.notes;
    entry["error"] = verdict.error ? Json(*verdict.error) : Json(nullptr);
    entries.push_back(std::move(entry));
  }
  const Json document = {{"schema_version", 1},
                         {"kind", "baseline_check"},
                         {"passed", std::ranges::none_of(verdicts, &BaselineVerdict::failed)},
                         {"entries", std::move(entries)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string verdicts_markdown(const std::vector<BaselineVerdict>& verdicts, std::string_view good) {
  std::string rows;
  for (const BaselineVerdict& verdict : verdicts) rows += table_rows(verdict);
  std::string text = fmt::format("### penstock check: {}", count_text(verdicts, good));
  if (rows.empty()) return text;
  text += fmt::format("\n| | scenario | figure | expected | is |\n|---|---|---|---|---|\n{}", rows);
  for (const BaselineVerdict& verdict : verdicts) text += folded_reasons(verdict);
  return shown_text(text);
}

std::string accepted_text(const std::vector<BaselineVerdict>& accepted) {
  std::string text;
  for (const BaselineVerdict& verdict : accepted) {
    const std::string_view word = word_of_update(verdict);
    if (word == "ok" && verdict.notes.empty()) continue;
    text += fmt::format("{:<8} {}\n", word, shown_name(verdict.scenario));
    for (const BaselineFinding& finding : verdict.findings) {
      text +=
          fmt::format("    accepted, {}: {}: {} -> {}\n", finding.failed ? "worse" : "not worse",
                      shown_figure(finding.figure), shown_name(finding.expected), shown_name(finding.actual));
    }
    for (const std::string& reason : verdict.reasons) text += fmt::format("      {}\n", shown_name(reason));
    for (const std::string& note : verdict.notes) text += fmt::format("    note: {}\n", shown_name(note));
  }
  return text;
}

tl::expected<void, UserError> check_github_summary() {
  const std::string summary = environment(kSummary);
  std::error_code error;
  // An existing file only gets more text, so it suffices that the file itself is writable. A new file also
  // needs a writable folder.
  if (summary.empty() ||
      (std::filesystem::is_regular_file(summary, error) && std::ofstream(summary, std::ios::app)))
    return {};
  return check_output_place({kSummary, summary}, {});
}

tl::expected<void, UserError> tell_github(const std::vector<BaselineVerdict>& verdicts,
                                          const VerdictPlaces& places) {
  if (environment("GITHUB_ACTIONS") == "true") {
    for (const BaselineVerdict& verdict : verdicts) {
      if (verdict.failed()) write_command(annotation_of(verdict, places.directory));
    }
  }
  const std::string summary = environment(kSummary);
  if (summary.empty()) return {};
  std::ofstream file(summary,
                     // The text is appended, because other steps of the job may have written to the file.
                     std::ios::app);
  if (file << verdicts_markdown(verdicts, places.good) << std::flush) return {};
  return bad_input(fmt::format("{}: cannot be written ({})", summary, kSummary));
}

}  // namespace penstock
