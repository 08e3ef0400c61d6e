// penstock check: checks whether programs are valid, whether they can hang, and whether they are worse than
// their baseline (baseline_check.hpp).

#include <algorithm>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/commands/baseline_check.hpp"
#include "cli/commands/channel_verdict.hpp"
#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "scenarios/read/document.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/hold/baseline.hpp"
#include "sim/runs/simulate.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

struct CheckFlags {
  InputFlags input;
  std::vector<std::string> inputs;
  ChannelFlags channels;
  OutputFlags output;
  BaselineFlags baseline;
  VerdictOptions shown;
};

/// Returns the file suffixes that -o accepts. If a suffix is that of a program file, -o writes the smallest
/// failing program.
std::vector<std::string_view> suffixes(const CheckFlags& flags) {
  const bool is_one_program = flags.baseline.file.empty() && flags.inputs.size() < 2;
  if (!is_one_program || !flags.shown.smallest) return {".json", ".txt", ".md"};
  return {".json", ".txt", ".md", ".psched", ".csv"};
}

using Text = tl::expected<std::string, std::string>;

/// Returns the text of the smallest failing program, which `write` makes. Returns an error if there is no
/// such program; in this case no file is written.
Text smallest_program(const ChannelVerdict& verdict, Text (*write)(const Program&)) {
  if (verdict.smallest) return write(verdict.smallest->program);
  return tl::unexpected(std::string("there is no failure that could be shrunk to a program"));
}

/// The word at the end of a line about a file whose program is valid and cannot hang.
constexpr std::string_view kPassed = "passed";

/// Returns the verdict on a file in the form that the JUnit, Markdown and GitHub outputs need. `name` is
/// the name of the file.
BaselineVerdict reported_verdict(const std::string& name,
                                 const tl::expected<ChannelVerdict, UserError>& verdict) {
  BaselineVerdict reported{.scenario = name, .findings = {}, .error = {}};
  if (!verdict) {
    reported.error = verdict.error().message;
  } else if (!verdict->valid()) {
    reported.findings = {{.figure = "valid", .expected = "true", .actual = "false", .failed = true}};
    reported.reasons = {verdict->error};
  } else if (const auto& hang = verdict->hang(verdict->channels.model)) {
    const std::string figure = fmt::format("{} under {}", hang->cycle.empty() ? "messages cross" : "hangs",
                                           to_text(verdict->channels.model));
    reported.findings = {{.figure = figure, .expected = "false", .actual = "true", .failed = true}};
    std::istringstream lines(hang->message);
    for (std::string line; std::getline(lines, line);) reported.reasons.push_back(line);
  }
  return reported;
}

std::vector<OutputForm> forms_of(const ChannelVerdict& verdict, const VerdictOptions& shown) {
  return {{".json", [&] { return to_json(verdict, shown); }},
          {".txt", [&] { return to_text(verdict, shown); }},
          {".psched",
           [&] { return smallest_program(verdict, [](const Program& p) { return Text(to_text(p)); }); }},
          {".csv",
           [&] { return smallest_program(verdict, [](const Program& p) { return to_pytorch_csv(p); }); }}};
}

/// Returns the verdict on one scenario or program. Returns an error if it cannot be read, or if it is too
/// large to check.
tl::expected<ChannelVerdict, UserError> verdict_of_input(const InputFlags& input, const CheckFlags& flags) {
  const auto scenario = scenario_of(input, flags.channels);
  if (!scenario) return tl::unexpected(scenario.error());
  // This command computes no times, so notes about times are left out.
  write_reading_notes(*scenario, flags.output);
  if (auto refusal = check_refusal(*scenario)) return bad_input(*std::move(refusal));
  auto verdict = verdict_of(*scenario);
  if (verdict && flags.shown.smallest && !verdict->passed()) verdict->smallest = smallest_failure(*scenario);
  return verdict;
}

/// Checks one scenario or program. Returns exit code 1 if the program is invalid or hangs under the chosen
/// channels.
Outcome check_one(const CheckFlags& flags) {
  InputFlags input = flags.input;
  if (!flags.inputs.empty()) input.file = flags.inputs.front();
  const auto verdict = verdict_of_input(input, flags);
  if (!verdict) return tl::unexpected(verdict.error());
  const std::string text =
      flags.output.json ? to_json(*verdict, flags.shown) : to_text(*verdict, flags.shown);
  const BaselineVerdict reported = reported_verdict(input.file.empty() ? verdict->name : input.file, verdict);
  std::vector<OutputForm> forms = forms_of(*verdict, flags.shown);
  forms.push_back({".md", [&] { return verdicts_markdown({reported}, kPassed); }});
  return report_verdicts({reported}, {.junit = flags.baseline.junit, .good = kPassed}, flags.output, forms,
                         text);
}

/// One of several files that are checked. It has the verdict, or the reason why the file could not be
/// checked.
struct CheckedFile {
  std::string name;
  tl::expected<ChannelVerdict, UserError> verdict;
};

/// Returns ", but under rank and pair" for a program that hangs, or whose messages cross, only under channel
/// models that the user did not choose. Returns an empty text if there is no such model.
std::string elsewhere_text(const ChannelVerdict& verdict) {
  std::vector<std::string_view> models;
  for (const ChannelModel model : kChannelModels) {
    if (verdict.hang(model)) models.push_back(to_text(model));
  }
  return models.empty() ? "" : fmt::format(", but under {}", fmt::join(models, " and "));
}

/// Returns one line with a verdict for each file. Below a verdict that is not good, the text shows all that
/// is known about it.
std::string files_text(const std::vector<CheckedFile>& files, const VerdictOptions& shown,
                       const std::vector<BaselineVerdict>& reported) {
  std::string text;
  for (const CheckedFile& file : files) {
    const bool is_good = file.verdict && file.verdict->passed();
    const std::string about =
        file.verdict ? to_text(*file.verdict, shown) : file.verdict.error().message + "\n";
    // The first line of a valid program begins with its name. With further findings, all lines are shown.
    const bool is_short = is_good && !shown.smallest && !shown.versions;
    if (is_short) {
      text +=
          fmt::format("{:<8} {}{}\n", "ok", about.substr(0, about.find('\n')), elsewhere_text(*file.verdict));
      continue;
    }
    text += fmt::format("{:<8} {}\n", is_good ? "ok" : "FAILED", shown_name(file.name));
    std::istringstream lines(about);
    for (std::string line; std::getline(lines, line);) text += line.empty() ? "\n" : "    " + line + "\n";
  }
  const auto failed = std::ranges::count_if(reported, &BaselineVerdict::failed);
  return text + fmt::format("{} of {} {}\n", std::ssize(files) - failed, files.size(), kPassed);
}

/// Returns one JSON document about several files. Its entries are the documents of the single files.
std::string files_json(const std::vector<CheckedFile>& files, const VerdictOptions& shown) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  bool passed = true;
  for (const CheckedFile& file : files) {
    passed &= file.verdict && file.verdict->passed();
    entries.push_back(file.verdict ? nlohmann::ordered_json::parse(to_json(*file.verdict, shown))
                                   : nlohmann::ordered_json{{"schema_version", 1},
                                                            {"kind", "check"},
                                                            {"name", file.name},
                                                            {"valid", nullptr},
                                                            {"error", file.verdict.error().message}});
  }
  const nlohmann::ordered_json document = {
      {"schema_version", 1}, {"kind", "checks"}, {"passed", passed}, {"entries", std::move(entries)}};
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

/// Checks several scenarios and programs. A file that cannot be read fails, and the others are still checked.
Outcome check_files(const CheckFlags& flags) {
  if (flags.input != InputFlags{}) {
    return bad_input(
        "check: several files are checked as they are: leave the flags of schedule and model out, or name "
        "one file");
  }
  std::vector<CheckedFile> files;
  std::vector<BaselineVerdict> reported;
  for (const std::string& name : flags.inputs) {
    InputFlags input;
    input.file = name;
    files.push_back({.name = name, .verdict = verdict_of_input(input, flags)});
    reported.push_back(reported_verdict(name, files.back().verdict));
  }
  const auto text = [&] { return files_text(files, flags.shown, reported); };
  const auto json = [&] { return files_json(files, flags.shown); };
  const std::vector<OutputForm> forms = {
      {".json", json}, {".txt", text}, {".md", [&] { return verdicts_markdown(reported, kPassed); }}};
  return report_verdicts(reported, {.junit = flags.baseline.junit, .good = kPassed}, flags.output, forms,
                         flags.output.json ? json() : text());
}

/// Checks that each program is valid and cannot hang, without a baseline.
Outcome check_without_baseline(const CheckFlags& flags) {
  if (flags.baseline.update || flags.baseline.programs)
    return bad_input("check: --update and --programs need --baseline FILE");
  if (auto place = check_github_summary(); !place) return tl::unexpected(place.error());
  return flags.inputs.size() > 1 ? check_files(flags) : check_one(flags);
}

/// Returns true if the user gave a flag that describes a single experiment. Such a flag cannot be used with
/// a baseline, which has several experiments.
bool states_an_experiment(const CheckFlags& flags) {
  return flags.input != InputFlags{} || flags.channels != ChannelFlags{};
}

/// Checks, before the command does its work, that the files of -o and --junit can be written.
tl::expected<void, UserError> check_outputs(const CheckFlags& flags) {
  std::vector<FileArgument> others = inputs_of(flags.input);
  for (const std::string& input : flags.inputs) others.push_back({"the input", input});
  others.push_back({"--baseline", flags.baseline.file});
  const FileArgument junit = {"--junit", flags.baseline.junit};
  if (!junit.file.empty()) {
    if (auto place = check_output_place(junit, others); !place) return place;
  }
  others.push_back(junit);
  return check_output_files(flags.output.files, suffixes(flags), std::move(others));
}

Outcome run_check(const CheckFlags& flags) {
  if (auto known = check_outputs(flags); !known) return tl::unexpected(known.error());
  if (flags.baseline.file.empty()) return check_without_baseline(flags);
  if (states_an_experiment(flags) || flags.shown.smallest || flags.shown.versions) {
    return bad_input(
        "check: --baseline compares files as they are: leave the flags of schedule, channels and findings "
        "out");
  }
  if (flags.baseline.programs && !flags.baseline.update)
    return bad_input("check: --programs changes what --update writes: add --update");
  if (flags.baseline.update && flags.baseline.file == kStandardInput)
    return bad_input("check: --update writes the baseline: name its file in place of -");
  if (flags.baseline.update && !(flags.baseline.junit.empty() && flags.output.files.empty()))
    return bad_input("check: --update writes the baseline and compares nothing: leave --junit and -o out");
  return check_baseline(flags.baseline, flags.inputs, flags.output);
}

}  // namespace

Command check_command(CLI::App& root) {
  Subcommand app(root, "check", "Prove that a program is valid and cannot hang; compare with a baseline.");
  const auto flags = std::make_shared<CheckFlags>();
  app.add_option(
         "INPUT", flags->inputs,
         "scenarios or programs, any number; a file that cannot be read fails and does not end the check")
      .type_name("FILE");
  add_shape_flags(app, flags->input);
  add_search_flags(app, flags->input);
  add_channel_flags(app, flags->channels);
  add_transport_flag(app, flags->channels);
  const std::string findings = "Findings";
  app.add_flag(
         "--shrink", flags->shown.smallest,
         "also find the smallest program that fails in the same way: fewest ranks, then microbatches, then "
         "actions; -o FILE.psched or FILE.csv writes it")
      .group(findings);
  app.add_flag(
         "--versions", flags->shown.versions,
         "also say which version of the weights every microbatch meets on each stage, and how many updates "
         "old it is")
      .group(findings);
  const std::string group = "Baseline (regression of schedules in a CI)";
  app.add_option(
         "--baseline", flags->baseline.file,
         "compare with the figures in FILE: exit 1 when one is worse than the file's `tolerance` allows, or "
         "when the work has changed; `digest: true` there holds the program itself; - for standard input")
      .group(group)
      .type_name("FILE");
  app.add_flag("--update", flags->baseline.update,
               "write today's figures to the baseline, with the given scenarios added to its list, and print "
               "what that accepts")
      .group(group);
  app.add_flag("--programs", flags->baseline.programs,
               "with --update: also store the programs and their longest paths, so that a failure says what "
               "changed and where")
      .group(group);
  app.add_option("--junit", flags->baseline.junit, "also write the verdicts as JUnit XML")
      .group(group)
      .type_name("FILE");
  add_output_flags(app, flags->output, ".json .txt .md, with --shrink .psched .csv");
  app.footer(
      "Examples:\n"
      "  penstock check --schedule zb-h1 --pp-size 4 --num-microbatches 8 --channel pair --shrink\n"
      "  penstock check --schedule pipedream-2bw --pp-size 4 --num-microbatches 8 --iterations 3 --versions\n"
      "  penstock check scenarios/library/*.yaml --junit library.xml\n"
      "  penstock check scenarios/library/vgg16-cluster-a.yaml --baseline vgg16.json --update\n"
      "  penstock check --baseline vgg16.json --junit vgg16.xml");
  return {app, [flags] { return run_check(*flags); }};
}

}  // namespace penstock
