// Compares current figures (`now`) with the figures in a baseline (`then`). A figure fails if it is worse
// by more than the tolerance:
//
//     makespan, peak bytes   now > then * (1 + tolerance)
//     bubble                 now > then + tolerance, and the idle time of a rank has grown, too
//     tokens a second, MFU   now < then / (1 + the makespan's tolerance)
//     hangs, crosses, valid  a new hang, newly crossed messages, no longer valid
//
// Tests: tests/sim/baseline_test.cpp.

#include "sim/hold/baseline.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <pugixml.hpp>
#include <tl/expected.hpp>

#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/why/explain.hpp"
#include "text/escaping.hpp"

namespace penstock {

namespace {

/// Records the channel models under which the program hangs. It checks all models and not only the scenario's
/// own. So a new hang is found even if the scenario uses another model today.
void find_hangs(Measurement& now, const Experiment& experiment) {
  for (const ChannelModel model : kChannelModels) {
    ChannelOptions options = experiment.channels;
    options.model = model;
    auto hang = find_hang(experiment.program, options, experiment.costs);
    now.figures.hangs[model] = hang && !hang->cycle.empty();
    if (!hang) continue;
    if (!hang->crossed.empty()) now.figures.crosses.insert(model);
    now.hangs[model] = std::move(hang->message);
  }
}

std::int64_t forwards_of(const Program& program) {
  std::int64_t forwards = 0;
  for (const auto& list : program.ranks) {
    forwards += std::ranges::count(list, ActionKind::forward, &Action::kind);
  }
  return forwards * program.iterations;
}

MemoryUnit memory_unit(const Result& result) {
  return result.ranks.empty() ? MemoryUnit::bytes : result.ranks.front().memory.unit;
}

StoredRun run_figures(const Result& result) {
  StoredRun figures{.makespan_ns = result.makespan_ns,
                    .idle_over_total = result.bubble.idle_over_total,
                    .peak_bytes = shown_amount(highest_peak_bytes(result), memory_unit(result))};
  if (const auto& model = result.throughput.model) {
    figures.rates = ReachedRates{.tokens_per_second = model->tokens_per_second,
                                 .tokens_per_second_per_device = model->tokens_per_second_per_device,
                                 .mfu = model->mfu};
  }
  return figures;
}

/// Returns the peak of the fullest rank, or of the first one if several ranks are equally full. Returns
/// nothing if there are no ranks.
std::optional<HeldPeak> peak_of(const Result& result) {
  const auto fullest = std::ranges::max_element(
      result.ranks, {}, [](const RankReport& rank) { return rank.memory.peak_bytes; });
  if (fullest == result.ranks.end()) return std::nullopt;
  const RankMemory& memory = fullest->memory;
  return HeldPeak{
      .rank = fullest->rank, .action = memory.peak_action, .unit = memory.unit, .held = memory.at_peak};
}

/// A function that returns a figure with its unit as text for people.
using Shown = std::function<std::string(double)>;

/// The differences between the stored figures (`then`) and the current figures (`now`) of one scenario in the
/// baseline.
class Differences {
 public:
  /// Compares two flags. `better` is the value of the better flag, so a change to it is an improvement.
  void flag(std::string figure, bool then, bool now, bool better, const std::string& why) {
    if (then == now) return;
    const std::string detail = why.empty() || better ? "" : ": " + in_one_line(why);
    add(std::move(figure), fmt::format("{}", then), fmt::format("{}{}", now, detail), !better);
  }

  /// Compares two numbers that should be small. The check fails if now > then * (1 + tolerance).
  void number(std::string figure, double then, double now, double tolerance, const Shown& shown) {
    if (then == now) return;
    // A change from 0 cannot be stated in percent. Any increase from 0 fails.
    const double change = then == 0 ? 0 : now / then - 1;
    const std::string percent = then == 0 ? "" : fmt::format(" ({:+.4g} %)", 100 * change);
    add_numbers(std::move(figure), then, now, shown, percent, now > then * (1 + tolerance));
  }

  /// Compares the bubbles of two runs. The check fails if now > then + tolerance and a rank is idle for
  /// longer. If stages become faster, their bubble is a larger part of a shorter run, which is no loss.
  void bubble(const StoredRun& then, const StoredRun& now, double tolerance) {
    // Floating-point results differ slightly between machines, so this difference is allowed.
    constexpr double kRounding = 1e-12;
    if (std::abs(now.idle_over_total - then.idle_over_total) <= kRounding) return;
    const auto idle = [](const StoredRun& run) {
      return run.idle_over_total * static_cast<double>(run.makespan_ns);
    };
    add_numbers("idle_over_total", then.idle_over_total, now.idle_over_total, format_percent, "",
                now.idle_over_total > then.idle_over_total + tolerance + kRounding &&
                    idle(now) > idle(then) * (1 + kRounding));
  }

  /// Compares two rates that should be large. The check fails if now < then / (1 + tolerance).
  void rate(std::string figure, double then, double now, double tolerance, const Shown& shown) {
    // Floating-point results differ slightly between machines, so this relative difference is allowed.
    constexpr double kRounding = 1e-9;
    if (std::abs(now - then) <= kRounding * then) return;
    add_numbers(std::move(figure), then, now, shown, "", now * (1 + tolerance) * (1 + kRounding) < then);
  }

  void add(std::string figure, std::string expected, std::string actual, bool failed) {
    findings_.push_back({.figure = std::move(figure),
                         .expected = std::move(expected),
                         .actual = std::move(actual),
                         .failed = failed});
  }

  std::vector<BaselineFinding> take() { return std::move(findings_); }

 private:
  /// Adds a difference between two numbers. If both would be shown as the same text, all their digits are
  /// shown.
  void add_numbers(std::string figure, double then, double now, const Shown& shown, const std::string& change,
                   bool failed) {
    const bool is_exact = shown(then) == shown(now);
    const auto text = [&](double value) { return is_exact ? shortest_number(value) : shown(value); };
    findings_.push_back({.figure = std::move(figure),
                         .expected = text(then),
                         .actual = text(now) + change,
                         .failed = failed,
                         .expected_number = then,
                         .actual_number = now});
  }

  std::vector<BaselineFinding> findings_;
};

void compare_hangs(Differences& differences, const BaselineFigures& expected, const Measurement& now) {
  for (const auto& [model, then] : expected.hangs) {
    const auto found = now.figures.hangs.find(model);
    // A channel model that the baseline does not list is not compared.
    if (found == now.figures.hangs.end()) continue;
    differences.flag(fmt::format("hangs under {}", to_text(model)), then, found->second, !found->second, "");
    const bool crosses = now.figures.crosses.contains(model);
    differences.flag(fmt::format("messages cross under {}", to_text(model)), expected.crosses.contains(model),
                     crosses, !crosses, "");
  }
}

void compare_rates(Differences& differences, const ReachedRates& then, const ReachedRates& now,
                   double tolerance) {
  differences.rate("tokens_per_second", then.tokens_per_second, now.tokens_per_second, tolerance,
                   format_rate);
  differences.rate("tokens_per_second_per_device", then.tokens_per_second_per_device,
                   now.tokens_per_second_per_device, tolerance, format_rate);
  differences.rate("mfu", then.mfu, now.mfu, tolerance, format_percent);
}

void compare_runs(Differences& differences, const BaselineFigures& expected, const Measurement& now,
                  const BaselineTolerance& tolerance) {
  if (!expected.run && !now.figures.run) return;
  if (!now.figures.run) {
    differences.add("runs", "true", fmt::format("false: {}", in_one_line(now.problem)), true);
  } else if (!expected.run) {
    // The stored program could not run, so it has no figures. Now it runs, which is an improvement.
    differences.add("runs", "false", "true", false);
  } else {
    differences.number("makespan_ns", static_cast<double>(expected.run->makespan_ns),
                       static_cast<double>(now.figures.run->makespan_ns), tolerance.makespan,
                       [](double ns) { return format_duration(std::llround(ns)); });
    differences.bubble(*expected.run, *now.figures.run, tolerance.bubble);
    differences.number("peak_bytes", expected.run->peak_bytes, now.figures.run->peak_bytes,
                       tolerance.peak_bytes, [unit = now.memory_unit](double amount) {
                         return format_memory(amount_of_shown(amount, unit), unit);
                       });
    if (expected.run->rates && now.figures.run->rates)
      compare_rates(differences, *expected.run->rates, *now.figures.run->rates, tolerance.makespan);
  }
}

void add_lines(std::vector<std::string>& lines, const std::string& text) {
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
}

/// Returns the complete messages about new problems, such as a hang. The findings have only one line for each
/// problem.
std::vector<std::string> problems_of(const BaselineFigures& expected, const Measurement& now) {
  std::vector<std::string> lines;
  add_lines(lines, now.problem);
  for (const auto& [model, message] : now.hangs) {
    const auto then = expected.hangs.find(model);
    if (then == expected.hangs.end()) continue;
    const bool newly_hangs = !then->second && now.figures.hangs.at(model);
    const bool newly_crosses = !expected.crosses.contains(model) && now.figures.crosses.contains(model);
    const bool is_new = newly_hangs || newly_crosses;
    if (is_new && message != now.problem) add_lines(lines, message);
  }
  return lines;
}

/// Adds reasons for the findings to the verdict. They are the changes of the bill, and those of the program
/// and its longest path if the baseline stores them.
void explain(BaselineVerdict& verdict, const BaselineEntry& entry, const Measurement& now) {
  verdict.reasons = problems_of(*entry.figures, now);
  if (!entry.held || verdict.findings.empty() || !now.run) return;
  const auto lines = explanation_of(*entry.held, *now.run);
  verdict.reasons.insert(verdict.reasons.end(), lines.begin(), lines.end());
}

/// Returns the notes of a program file's import. Returns none for a scenario file, whose notes only state
/// its assumptions.
std::vector<std::string> import_notes(const Scenario& scenario) {
  return scenario.program ? scenario.notes : std::vector<std::string>{};
}

/// Measures the entry's scenario again, and returns the differences. Reasons are computed only if there are
/// differences, because they need the span of every action.
BaselineVerdict verdict_of(const BaselineEntry& entry, const BaselineTolerance& tolerance,
                           const std::filesystem::path& directory) {
  BaselineVerdict verdict{.scenario = entry.scenario, .findings = {}, .error = {}};
  auto now = measure(directory / entry.scenario);
  if (!now) {
    verdict.error = now.error();
    return verdict;
  }
  verdict.notes = now->notes;
  if (!entry.figures) {
    verdict.error = "is listed without figures: measure it with `penstock check --baseline FILE --update`";
  } else {
    verdict.findings = findings_of(*entry.figures, *now, tolerance);
    if (verdict.findings.empty()) return verdict;
    if (entry.held) {
      now =
          measure(directory / entry.scenario, entry.held->program.empty() ? RunHeld::bill : RunHeld::program);
      if (!now) {
        verdict.error = now.error();
        return verdict;
      }
    }
    explain(verdict, entry, *now);
  }
  return verdict;
}

SimulateOptions simulate_options() {
  return {.memory = {.samples = false}, .steady = SteadyState::skip, .timeline = TimelineKept::none};
}

}  // namespace

std::string_view shown_figure(std::string_view figure) {
  if (figure == "makespan_ns") return "makespan";
  if (figure == "idle_over_total") return "bubble";
  if (figure == "peak_bytes") return "peak memory";
  return figure;
}

bool BaselineVerdict::failed() const {
  return error.has_value() || std::ranges::any_of(findings, &BaselineFinding::failed);
}

tl::expected<Measurement, std::string> measure(const std::filesystem::path& scenario, RunHeld held) {
  const auto loaded = load_scenario_or_program(scenario);
  if (!loaded) return tl::unexpected(loaded.error());
  if (auto refusal = memory_refusal(*loaded, simulate_options())) return tl::unexpected(*std::move(refusal));
  const auto experiment = prepare(*loaded);
  // A file that cannot be read has no figures. A program that breaks a rule has one figure: it is not valid.
  if (!experiment && experiment.error().kind == ErrorKind::bad_input)
    return tl::unexpected(experiment.error().message);
  if (!experiment) {
    Measurement invalid;
    invalid.notes = import_notes(*loaded);
    invalid.figures.valid = false;
    invalid.problem = experiment.error().message;
    if (held == RunHeld::program && loaded->program)
      invalid.run = HeldRun{.program = to_text(*loaded->program), .path = {}};
    return invalid;
  }
  Measurement now{
      .figures = {.digest = digest(experiment->program), .forwards = forwards_of(experiment->program)},
      .problem = {},
      .hangs = {},
      .notes = import_notes(*loaded)};
  find_hangs(now, *experiment);
  const auto result = simulate(*experiment, simulate_options());
  if (held != RunHeld::none) now.run = HeldRun{};
  if (held == RunHeld::program) now.run->program = to_text(experiment->program);
  if (!result) {
    now.problem = result.error().message;
    return now;
  }
  now.figures.run = run_figures(*result);
  now.memory_unit = memory_unit(*result);
  if (!now.run) return now;
  if (compute_actions(*loaded) <= static_cast<double>(kMostExplained)) {
    if (const auto caused = caused_run(*experiment); caused) {
      const Explanation why = explained(*caused, {.chains = false, .alone = false});
      if (held == RunHeld::program) now.run->path = longest_path(why);
      now.run->bill = mean_bill(why);
    }
  }
  now.run->peak = peak_of(*result);
  return now;
}

std::vector<BaselineFinding> findings_of(const BaselineFigures& expected, const Measurement& now,
                                         const BaselineTolerance& tolerance) {
  Differences differences;
  // An invalid program fails, also if the baseline stores it as invalid. It has no other figures.
  if (!now.figures.valid) {
    const std::string why = now.problem.empty() ? "" : ": " + in_one_line(now.problem);
    differences.add("valid", "true", "false" + why, true);
    return differences.take();
  }
  differences.flag("valid", expected.valid, true, true, "");
  compare_hangs(differences, expected, now);
  // If the stored program is invalid, the baseline has neither a digest nor an amount of work (`forwards`).
  if (expected.valid && expected.digest != now.figures.digest) {
    differences.add("digest", expected.digest, now.figures.digest, tolerance.digest);
  }
  if (expected.valid && expected.forwards != now.figures.forwards) {
    differences.add("forwards", fmt::format("{}", expected.forwards), fmt::format("{}", now.figures.forwards),
                    true);
  }
  compare_runs(differences, expected, now, tolerance);
  return differences.take();
}

std::vector<BaselineVerdict> compare(const Baseline& baseline, const std::filesystem::path& directory) {
  std::vector<BaselineVerdict> verdicts;
  verdicts.reserve(baseline.entries.size());
  for (const BaselineEntry& entry : baseline.entries) {
    verdicts.push_back(verdict_of(entry, baseline.tolerance, directory));
  }
  return verdicts;
}

tl::expected<Baseline, std::string> updated(const Baseline& baseline,
                                            const std::filesystem::path& directory) {
  Baseline now = baseline;
  // The entries keep the order of the file, so that a diff of two files shows only real changes.
  for (BaselineEntry& entry : now.entries) {
    auto measurement =
        measure(directory / entry.scenario, now.holds_programs ? RunHeld::program : RunHeld::bill);
    if (!measurement) {
      // If a scenario cannot be read, the update fails, so that its stored figures are not lost. If the file
      // does not exist, the message says how to remove the entry.
      std::error_code error;
      const bool is_gone = !std::filesystem::exists(directory / entry.scenario, error);
      return tl::unexpected(
          measurement.error() +
          (is_gone && entry.figures ? "\nif it is gone for good, take its entry out of the baseline" : ""));
    }
    entry.figures = std::move(measurement->figures);
    // Only a valid program is stored, because later programs are compared with it.
    entry.held = entry.figures->valid ? std::move(measurement->run) : std::nullopt;
    // A program that hangs has no bill. If the baseline stores no texts of programs either, nothing is left
    // to store.
    if (entry.held == HeldRun{}) entry.held.reset();
    entry.notes = std::move(measurement->notes);
    entry.memory_unit = measurement->memory_unit;
  }
  return now;
}

std::vector<BaselineVerdict> accepted_by(const Baseline& before, const Baseline& after) {
  std::vector<BaselineVerdict> verdicts;
  for (const BaselineEntry& entry : after.entries) {
    const auto then = std::ranges::find(before.entries, entry.scenario, &BaselineEntry::scenario);
    if (then == before.entries.end() || !then->figures) {
      verdicts.push_back(
          {.scenario = entry.scenario, .findings = {}, .error = "is new", .notes = entry.notes});
      if (entry.figures && !entry.figures->valid)
        verdicts.back().reasons = {"it is not valid, so every check of it fails"};
      continue;
    }
    BaselineVerdict verdict{.scenario = entry.scenario, .findings = {}, .error = {}, .notes = entry.notes};
    verdict.findings =
        // The tolerance is 0, so that the result contains every difference that the update accepts.
        findings_of(*then->figures,
                    {.figures = *entry.figures, .problem = {}, .memory_unit = entry.memory_unit},
                    BaselineTolerance{});
    if (then->held && entry.held && !verdict.findings.empty())
      verdict.reasons = explanation_of(*then->held, *entry.held);
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

// Writes JUnit XML that GitHub, GitLab and Jenkins can read. An entry with a failed figure is a failure. An
// entry that cannot be measured is an error.

namespace {

std::string lines_of(const BaselineVerdict& verdict) {
  std::string lines;
  for (const BaselineFinding& finding : verdict.findings) {
    lines += fmt::format("{}: {}: expected {}, is {}\n", finding.failed ? "FAIL" : "note",
                         shown_figure(finding.figure), finding.expected, finding.actual);
  }
  for (const std::string& reason : verdict.reasons) lines += reason + '\n';
  return lines;
}

/// Returns a description of the first failed finding.
std::string summary_of(const BaselineVerdict& verdict) {
  const auto failed = std::ranges::find_if(verdict.findings, &BaselineFinding::failed);
  return fmt::format("{}: expected {}, is {}", shown_figure(failed->figure), failed->expected,
                     failed->actual);
}

void add_case(pugi::xml_node suite, const BaselineVerdict& verdict) {
  pugi::xml_node test = suite.append_child("testcase");
  test.append_attribute("classname") = "penstock.check";
  test.append_attribute("name") = xml_text(verdict.scenario).c_str();
  const auto add = [&](const char* kind, const std::string& message, const std::string& text) {
    pugi::xml_node node = test.append_child(kind);
    if (!message.empty()) node.append_attribute("message") = xml_text(message).c_str();
    node.append_child(pugi::node_pcdata).set_value(xml_text(text).c_str());
  };
  if (verdict.error) {
    add("error", verdict.error->substr(0, verdict.error->find('\n')), *verdict.error);
  } else if (verdict.failed()) {
    add("failure", summary_of(verdict), lines_of(verdict));
  } else if (!verdict.findings.empty()) {
    add("system-out", "", lines_of(verdict));
  }
}

}  // namespace

std::string to_junit(const std::vector<BaselineVerdict>& verdicts) {
  const auto errors =
      std::ranges::count_if(verdicts, [](const auto& verdict) { return verdict.error.has_value(); });
  const auto failed = std::ranges::count_if(verdicts, &BaselineVerdict::failed);
  pugi::xml_document document;
  pugi::xml_node declaration = document.append_child(pugi::node_declaration);
  declaration.append_attribute("version") = "1.0";
  declaration.append_attribute("encoding") = "UTF-8";
  pugi::xml_node suite = document.append_child("testsuites").append_child("testsuite");
  suite.append_attribute("name") = "penstock check";
  suite.append_attribute("tests") = static_cast<unsigned>(verdicts.size());
  // BaselineVerdict::failed() is also true for errors, which have their own attribute.
  suite.append_attribute("failures") = static_cast<unsigned>(failed - errors);
  suite.append_attribute("errors") = static_cast<unsigned>(errors);
  for (const BaselineVerdict& verdict : verdicts) add_case(suite, verdict);
  std::ostringstream text;
  document.save(text, "  ");
  return text.str();
}

}  // namespace penstock
