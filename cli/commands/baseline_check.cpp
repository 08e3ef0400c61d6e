// Entries of a baseline are named relative to the file that holds them, with '/', so that a repository's
// baseline means the same from every folder. Without scenarios all entries are compared; with them only
// those; --update writes figures anew and adds what is not there yet. Every finding is printed, not only the
// first.

#include "cli/commands/baseline_check.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "sim/baseline/baseline.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

fs::path directory_of(const std::string& baseline) { return fs::path(baseline).parent_path(); }

/// The name of `scenario` in a baseline file: relative to that file, with '/'.
std::string entry_name(const std::string& scenario, const fs::path& directory) {
  std::error_code error;
  const fs::path relative = fs::proximate(scenario, directory.empty() ? "." : directory, error);
  return (error ? fs::path(scenario) : relative).generic_string();
}

/// The entry of that name; the end when there is none.
auto entry_of(const Baseline& baseline, const std::string& name) {
  return std::ranges::find(baseline.entries, name, &BaselineEntry::scenario);
}

/// The entries that the command names, all when it names none.
tl::expected<Baseline, Failure> chosen_entries(const Baseline& baseline, const BaselineFlags& flags,
                                               const std::vector<std::string>& scenarios) {
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

/// A baseline that --update may start from: an empty one when there is no file yet.
tl::expected<Baseline, Failure> existing_or_new(const BaselineFlags& flags,
                                                const std::vector<std::string>& scenarios) {
  std::error_code error;
  const bool is_new = !fs::exists(flags.file, error) && !scenarios.empty();
  if (is_new) return Baseline{};
  auto baseline = read_baseline(flags.file);
  if (!baseline) return bad_input(baseline.error());
  return *std::move(baseline);
}

Outcome update_baseline(const BaselineFlags& flags, const std::vector<std::string>& scenarios) {
  auto baseline = existing_or_new(flags, scenarios);
  if (!baseline) return tl::unexpected(baseline.error());
  const fs::path directory = directory_of(flags.file);
  for (const std::string& scenario : scenarios) {
    const std::string name = entry_name(scenario, directory);
    if (entry_of(*baseline, name) == baseline->entries.end())
      baseline->entries.push_back({name, std::nullopt});
  }
  const auto measured = updated(*baseline, directory);
  if (!measured) return bad_input(measured.error());
  if (auto written = write_file(flags.file, to_json(*measured)); !written)
    return tl::unexpected(written.error());
  const std::string line = fmt::format(
      "{}: figures of {} written\n", flags.file,
      measured->entries.size() == 1 ? "1 scenario" : fmt::format("{} scenarios", measured->entries.size()));
  if (auto written = write_stdout(line); !written) return tl::unexpected(written.error());
  return ExitCode::ok;
}

std::string line_of(const BaselineFinding& finding) {
  return fmt::format("    {} {}: expected {}, is {}\n", finding.failed ? "FAIL" : "note", finding.figure,
                     finding.expected, finding.actual);
}

std::string text_of(const std::vector<BaselineVerdict>& verdicts) {
  std::string text;
  for (const BaselineVerdict& verdict : verdicts) {
    const bool unchanged = !verdict.error && verdict.findings.empty();
    text += fmt::format("{:<8} {}\n",
                        verdict.failed() ? "FAILED"
                        : unchanged      ? "ok"
                                         : "changed",
                        verdict.scenario);
    if (verdict.error) text += fmt::format("    {}\n", *verdict.error);
    for (const BaselineFinding& finding : verdict.findings) text += line_of(finding);
  }
  const auto failed = std::ranges::count_if(verdicts, &BaselineVerdict::failed);
  return text + fmt::format("{} of {} within tolerance\n", verdicts.size() - static_cast<std::size_t>(failed),
                            verdicts.size());
}

Json json_of(const BaselineFinding& finding) {
  return {{"figure", finding.figure},
          {"expected", finding.expected},
          {"actual", finding.actual},
          {"failed", finding.failed}};
}

std::string json_of(const std::vector<BaselineVerdict>& verdicts) {
  Json entries = Json::array();
  for (const BaselineVerdict& verdict : verdicts) {
    Json entry = {{"scenario", verdict.scenario}, {"failed", verdict.failed()}, {"findings", Json::array()}};
    for (const BaselineFinding& finding : verdict.findings) entry["findings"].push_back(json_of(finding));
    entry["error"] = verdict.error ? Json(*verdict.error) : Json(nullptr);
    entries.push_back(std::move(entry));
  }
  const Json document = {{"schema_version", 1},
                         {"kind", "baseline_check"},
                         {"passed", std::ranges::none_of(verdicts, &BaselineVerdict::failed)},
                         {"entries", std::move(entries)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

Outcome compare_with_baseline(const BaselineFlags& flags, const std::vector<std::string>& scenarios,
                              const OutputFlags& output) {
  const auto baseline = read_baseline(flags.file);
  if (!baseline) return bad_input(baseline.error());
  const auto chosen = chosen_entries(*baseline, flags, scenarios);
  if (!chosen) return tl::unexpected(chosen.error());
  const std::vector<BaselineVerdict> verdicts = compare(*chosen, directory_of(flags.file));
  if (!flags.junit.empty()) {
    if (auto written = write_file(flags.junit, to_junit(verdicts)); !written)
      return tl::unexpected(written.error());
  }
  const std::vector<OutputForm> forms = {{".json", [&] { return json_of(verdicts); }},
                                         {".txt", [&] { return text_of(verdicts); }}};
  const std::string text = output.json ? json_of(verdicts) : text_of(verdicts);
  if (auto written = write_answer(output, forms, text); !written) return tl::unexpected(written.error());
  return std::ranges::any_of(verdicts, &BaselineVerdict::failed) ? ExitCode::check_failed : ExitCode::ok;
}

}  // namespace

Outcome check_baseline(const BaselineFlags& flags, const std::vector<std::string>& scenarios,
                       const OutputFlags& output) {
  return flags.update ? update_baseline(flags, scenarios) : compare_with_baseline(flags, scenarios, output);
}

}  // namespace penstock
