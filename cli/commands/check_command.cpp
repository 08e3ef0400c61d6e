// penstock check: checks whether a program is valid, whether it can hang, and whether it is worse than its
// baseline (baseline_check.hpp).

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "cli/commands/baseline_check.hpp"
#include "cli/commands/channel_verdict.hpp"
#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/text/program_text.hpp"
#include "schedules/text/pytorch_csv.hpp"
#include "sim/runs/memory_need.hpp"

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

/// Returns the allowed suffixes of -o. If a suffix is that of a program file, -o writes the smallest failing
/// program.
std::vector<std::string_view> suffixes(const CheckFlags& flags) {
  if (!flags.baseline.file.empty()) return {".json", ".txt", ".md"};
  if (!flags.shown.smallest) return {".json", ".txt"};
  return {".json", ".txt", ".psched", ".csv"};
}

using Text = tl::expected<std::string, std::string>;

/// Returns the text that `write` makes of the smallest failing program. Returns an error if there is none; in
/// this case no file is written.
Text smallest_program(const ChannelVerdict& verdict, Text (*write)(const Program&)) {
  if (verdict.smallest) return write(verdict.smallest->program);
  return tl::unexpected(std::string("there is no failure that could be shrunk to a program"));
}

std::vector<OutputForm> forms_of(const ChannelVerdict& verdict, const VerdictOptions& shown) {
  return {{".json", [&] { return to_json(verdict, shown); }},
          {".txt", [&] { return to_text(verdict, shown); }},
          {".psched",
           [&] { return smallest_program(verdict, [](const Program& p) { return Text(to_text(p)); }); }},
          {".csv",
           [&] { return smallest_program(verdict, [](const Program& p) { return to_pytorch_csv(p); }); }}};
}

/// Checks one scenario or program. Returns exit code 1 if the program is invalid or hangs under the chosen
/// channels.
Outcome check_one(const CheckFlags& flags) {
  InputFlags input = flags.input;
  if (flags.inputs.size() > 1)
    return bad_input("check: expected one scenario or program, or --baseline FILE for several");
  if (!flags.inputs.empty()) input.file = flags.inputs.front();
  if (flags.baseline.update || flags.baseline.programs || !flags.baseline.junit.empty()) {
    return bad_input("check: --update, --programs and --junit need --baseline FILE");
  }
  const auto scenario = scenario_of(input, flags.channels);
  if (!scenario) return tl::unexpected(scenario.error());
  // This command computes no times, so notes about times are left out.
  write_reading_notes(*scenario, flags.output);
  if (auto refusal = check_refusal(*scenario)) return bad_input(*std::move(refusal));
  auto verdict = verdict_of(*scenario);
  if (!verdict) return tl::unexpected(verdict.error());
  if (flags.shown.smallest && !verdict->passed()) verdict->smallest = smallest_failure(*scenario);
  const std::string text =
      flags.output.json ? to_json(*verdict, flags.shown) : to_text(*verdict, flags.shown);
  if (auto written = write_answer(flags.output, forms_of(*verdict, flags.shown), text); !written) {
    return tl::unexpected(written.error());
  }
  return verdict->passed() ? ExitCode::ok : ExitCode::check_failed;
}

/// Returns true if a flag describes a single experiment. A baseline has several.
bool states_an_experiment(const CheckFlags& flags) {
  return flags.input != InputFlags{} || flags.channels != ChannelFlags{};
}

/// Checks that the files of -o and --junit can be written.
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
  if (flags.baseline.file.empty()) return check_one(flags);
  if (states_an_experiment(flags) || flags.shown.smallest || flags.shown.versions) {
    return bad_input(
        "check: --baseline compares files as they are: leave the flags of schedule, channels and findings "
        "out");
  }
  if (flags.baseline.programs && !flags.baseline.update)
    return bad_input("check: --programs changes what --update writes: add --update");
  if (flags.baseline.update && !(flags.baseline.junit.empty() && flags.output.files.empty()))
    return bad_input("check: --update writes the baseline and compares nothing: leave --junit and -o out");
  return check_baseline(flags.baseline, flags.inputs, flags.output);
}

}  // namespace

Command check_command(CLI::App& root) {
  Subcommand app(root, "check", "Prove that a program is valid and cannot hang; compare with a baseline.");
  const auto flags = std::make_shared<CheckFlags>();
  app.add_option("INPUT", flags->inputs, "a scenario or program; with --baseline any number, without it one")
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
         "when the work has changed; `digest: true` there holds the program itself")
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
  app.add_option("--junit", flags->baseline.junit, "also write the comparison as JUnit XML")
      .group(group)
      .type_name("FILE");
  add_output_flags(app, flags->output, ".json .txt, with --baseline .md, with --shrink .psched .csv");
  app.footer(
      "Examples:\n"
      "  penstock check --schedule zb-h1 --pp-size 4 --num-microbatches 8 --channel pair --shrink\n"
      "  penstock check --schedule pipedream-2bw --pp-size 4 --num-microbatches 8 --iterations 3 --versions\n"
      "  penstock check scenarios/library/vgg16-cluster-a.yaml --baseline vgg16.json --update\n"
      "  penstock check --baseline vgg16.json --junit vgg16.xml");
  return {app, [flags] { return run_check(*flags); }};
}

}  // namespace penstock
