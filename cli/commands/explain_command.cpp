// penstock explain: says why each rank is idle. It runs the experiment that the flags describe, or reads
// the JSON of a run with its timeline. It divides the idle time among its causes. It prints the bill (the
// makespan divided into causes), what to correct first, and a line for each rank. --rank, --action, --at,
// --from and --to print single waits instead. Tests: tests/cli/transcripts/explain.txt.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/pages/html_report.hpp"
#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "report/result/result_json.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/quantities.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/why/explain.hpp"

namespace penstock {
namespace {

struct ExplainFlags {
  PredictionFlags prediction;
  std::optional<std::int64_t> rank;
  std::string action;
  std::string at;
  std::string from;
  std::string to;
  std::int32_t samples = 32;
  std::int32_t levers = 10;
  std::vector<std::string> what_if;
  std::optional<double> search_seconds;
  OutputFlags output;
};

/// Reads the value of a flag as a time. Returns nothing if the flag is not given.
tl::expected<std::optional<Ns>, UserError> time_of(const std::string& flag, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto time = parse_duration(text);
  if (!time) return bad_input(fmt::format("{}: {}", flag, time.error()));
  return *time;
}

/// Returns the idle intervals that the flags select.
tl::expected<ShownIntervals, UserError> shown_intervals(const ExplainFlags& flags) {
  ShownIntervals shown{.action = flags.action};
  if (flags.rank) shown.rank = static_cast<std::int32_t>(*flags.rank);
  for (const auto& [flag, text, time] :
       {std::tuple{"--at", &flags.at, &shown.at_ns}, std::tuple{"--from", &flags.from, &shown.from_ns},
        std::tuple{"--to", &flags.to, &shown.to_ns}}) {
    const auto read = time_of(flag, *text);
    if (!read) return tl::unexpected(read.error());
    *time = *read;
  }
  return shown;
}

/// Returns an error if the program has more actions than an explanation stores.
std::optional<std::string> refusal_of(const Scenario& scenario) {
  const double actions = compute_actions(scenario);
  if (actions <= static_cast<double>(kMostExplained)) return std::nullopt;
  const auto begun = begin_preparation(scenario);
  std::string text = fmt::format(
      "explain stores every action and takes at most {} compute actions, and this program has about {:.0f}",
      kMostExplained, actions);
  const double microbatches = begun ? begun->in_force.batch.microbatches : 0;
  const auto most = static_cast<std::int64_t>(microbatches * static_cast<double>(kMostExplained) / actions);
  if (most > 0) text += fmt::format("; it would fit with --num-microbatches {}", most);
  return text;
}

/// Returns an error if the program does not have the rank or the action that the user selected.
std::optional<std::string> unknown_selection(const ShownIntervals& shown, const Program& program) {
  if (shown.rank && *shown.rank >= program.rank_count())
    return fmt::format("--rank: expected 0 to {}, got {}", program.rank_count() - 1, *shown.rank);
  const auto is_it = [&](const Action& action) {
    return is_compute(action.kind) && to_text(action) == shown.action;
  };
  const auto has_it = [&](const std::vector<Action>& list) { return std::ranges::any_of(list, is_it); };
  // Numbers of microbatches continue from one iteration to the next, so only the first iteration is searched.
  if (!shown.action.empty() && program.iterations == 1 && std::ranges::none_of(program.ranks, has_it)) {
    return fmt::format("--action: expected an action that some rank computes, such as 0F0, got {}",
                       shown.action);
  }
  return std::nullopt;
}

/// Returns one scenario for each flag --what-if, with the change that this flag states.
tl::expected<std::vector<WhatIf>, UserError> what_ifs(const ExplainFlags& flags) {
  std::vector<WhatIf> scenarios;
  for (const std::string& setting : flags.what_if) {
    InputFlags input = flags.prediction.input;
    ChannelFlags channels = flags.prediction.channels;
    // A flag of the present run must not replace the value that is tried.
    clear_flag_of(setting.substr(0, setting.find('=')), input, channels);
    input.settings.push_back(setting);
    auto scenario = scenario_of(input, channels);
    if (!scenario) return tl::unexpected(scenario.error());
    scenarios.push_back({.name = setting, .scenario = *std::move(scenario)});
  }
  return scenarios;
}

/// An explanation, and the run that its HTML page shows. The run is null if no page is wanted.
struct RunAndWhy {
  Explanation why;
  std::optional<Result> run{};
};

bool wants_page(const ExplainFlags& flags) {
  return std::ranges::any_of(flags.output.files,
                             [](const std::string& file) { return has_suffix(file, ".html"); });
}

/// Explains the experiment that the flags describe.
tl::expected<RunAndWhy, UserError> explained_experiment(const ExplainFlags& flags,
                                                        const ShownIntervals& shown) {
  const auto scenario = scenario_of(flags.prediction.input, flags.prediction.channels);
  if (!scenario) return tl::unexpected(scenario.error());
  if (auto refusal = refusal_of(*scenario)) return bad_input(*std::move(refusal));
  const auto experiment = prepared(*scenario);
  if (!experiment) return tl::unexpected(experiment.error());
  if (auto unknown = unknown_selection(shown, experiment->program)) return bad_input(*std::move(unknown));
  const auto run = caused_run(*experiment, engine_of(flags.prediction.engine));
  if (!run) return user_error(ErrorKind::check_failed, run.error().message);
  Explanation why = explained(*run, {.samples = flags.samples});
  why.name = experiment->name;
  why.notes = experiment->notes;
  const auto own = what_ifs(flags);
  if (!own) return tl::unexpected(own.error());
  // Levers are changes that could shorten the run. They take longer to compute than the rest, so they are
  // left out with single waits.
  const bool wants_levers = shown.shows_all() || flags.output.json || !flags.output.files.empty();
  if (wants_levers && (flags.levers > 0 || !own->empty())) {
    if (auto added = add_levers(why, *run, *scenario, *experiment, *own, index(flags.levers)); !added)
      return tl::unexpected(added.error());
  }
  if (flags.search_seconds) {
    if (auto added = add_memory_limit_cost(why, *scenario, *experiment, *flags.search_seconds); !added)
      return tl::unexpected(added.error());
  }
  if (!wants_page(flags)) return RunAndWhy{.why = std::move(why)};
  auto result = simulate_scenario(
      *scenario,
      {.engine = engine_of(flags.prediction.engine), .memory = {.samples = true}, .band = SharingBand::find});
  if (!result) return tl::unexpected(result.error());
  return RunAndWhy{.why = std::move(why), .run = *std::move(result)};
}

/// Explains a result that was read from a file. The file has only the spans of the run. So no levers
/// (possible improvements) are computed that would change the shape or the order.
tl::expected<RunAndWhy, UserError> explained_result(const std::string& text, const ExplainFlags& flags,
                                                    const ShownIntervals& shown) {
  const std::string& file = flags.prediction.input.file;
  InputFlags only_file;
  only_file.file = file;
  if (flags.prediction.input != only_file || flags.prediction.channels != ChannelFlags{} ||
      !flags.prediction.engine.empty() || !flags.what_if.empty() || flags.search_seconds) {
    return bad_input(
        fmt::format("{} is a result, whose run is over: expected no flags that change a scenario", file));
  }
  auto result = result_from_json(text, file);
  if (!result) return bad_input(result.error());
  const auto run = caused_run(*result);
  if (!run) return bad_input(fmt::format("{}: {}", file, run.error()));
  if (auto unknown = unknown_selection(shown, run->program)) return bad_input(*std::move(unknown));
  Explanation why = explained(*run, {.samples = flags.samples});
  why.name = file;
  why.notes = result->notes;
  const bool has_messages = std::ranges::find(run->graph.kinds, NodeKind::transfer) != run->graph.kinds.end();
  if (has_messages && result->kind == ResultKind::measured) {
    why.notes.emplace_back(
        "a measurement does not say how long a message held its channel, so the whole time of a message "
        "counts "
        "as latency");
  }
  if (flags.levers > 0) list_levers(why, cost_levers(*run, nullptr), {}, index(flags.levers));
  return RunAndWhy{.why = std::move(why), .run = *std::move(result)};
}

/// Explains the run that the flags name: an experiment or a result file.
tl::expected<RunAndWhy, UserError> explanation_for(const ExplainFlags& flags, const ShownIntervals& shown) {
  const std::string& file = flags.prediction.input.file;
  if (file != kStandardInput && !has_suffix(file, ".json")) return explained_experiment(flags, shown);
  const auto text = read_text_file(file, file);
  if (!text) return bad_input(text.error());
  // A text without this key is a scenario or a program.
  if (text->find("\"schema_version\"") == std::string::npos) return explained_experiment(flags, shown);
  return explained_result(*text, flags, shown);
}

Outcome run_explain(const ExplainFlags& flags) {
  if (auto known = check_output_files(flags.output.files, {".json", ".csv", ".html", ".txt"},
                                      inputs_of(flags.prediction.input));
      !known)
    return tl::unexpected(known.error());
  const auto shown = shown_intervals(flags);
  if (!shown) return tl::unexpected(shown.error());
  const auto explanation = [&] {
    ProgressBar bar(display_for(flags.output));
    bar.say("explaining", kShownFrom);
    return explanation_for(flags, *shown);
  }();
  if (!explanation) return tl::unexpected(explanation.error());
  const Explanation& why = explanation->why;
  const auto json = [&](const TextSink& sink) { write_explanation_json(why, sink); };
  const auto csv = [&](const TextSink& sink) { write_explanation_csv(why, sink); };
  const std::vector<OutputForm> forms = {{".json", TextInPieces(json)},
                                         {".csv", TextInPieces(csv)},
                                         {".html", [&] { return result_to_html(*explanation->run, &why); }},
                                         {".txt", [&] { return explanation_to_text(why, *shown); }}};
  const auto written =
      flags.output.json ? write_answer(flags.output, forms, TextInPieces(json))
                        : write_answer(flags.output, forms, explanation_to_text(why, *shown, table_width()));
  if (!written) return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace

Command explain_command(CLI::App& root) {
  Subcommand app(root, "explain", "Say why each rank is idle, and what to mend first.");
  const auto flags = std::make_shared<ExplainFlags>();
  add_prediction_flags(app, flags->prediction);
  add_search_flags(app, flags->prediction.input);
  app.add_option("--levers", flags->levers,
                 "changes to list at most, the best first; 0 lists none (default 10)")
      .range(0, 1'000'000)
      .group("Changes")
      .type_name("N");
  app.add_option("--what-if", flags->what_if,
                 "a change of your own, as --set has it: model.stages.forward.2=1.2ms; may be repeated")
      .one_value_each()
      .group("Changes")
      .type_name("KEY=VALUE");
  app.add_option("--search", flags->search_seconds,
                 "search for better orders for so many seconds, and say what the memory limit costs")
      .range(0.1, 1e6)
      .group("Changes")
      .type_name("SECONDS");
  const std::string group = "Single waits, in place of the tables";
  app.add_option("--rank", flags->rank, "the waits of one rank")
      .range(std::int64_t{0}, std::int64_t{2'147'483'647})
      .group(group)
      .type_name("R");
  app.add_option("--action", flags->action, "the wait before this action, such as 3F5")
      .group(group)
      .type_name("ACTION");
  app.add_option("--at", flags->at, "the waits at this time, such as 21.3ms").group(group).type_name("TIME");
  app.add_option("--from", flags->from, "the waits after this time").group(group).type_name("TIME");
  app.add_option("--to", flags->to, "the waits before this time").group(group).type_name("TIME");
  app.add_option("--samples", flags->samples,
                 "points between the ideal run and this run at which causes are found (default 32)")
      .range(2, 4096)
      .group("Output")
      .type_name("N");
  add_output_flags(app, flags->output, ".json .csv .html .txt");
  app.footer(
      "Examples:\n"
      "  penstock explain --schedule 1f1b --pp-size 4 --num-microbatches 8\n"
      "  penstock explain scenarios/library/gnmt-cluster-a.yaml --rank 2 -o waits.csv\n"
      "  penstock explain --schedule zb-h1 --pp-size 4 --num-microbatches 8 --search 2\n"
      "A result of `run --timeline` or `simulate --timeline` is explained, too: penstock explain "
      "measured.json");
  return {app, [flags] { return run_explain(*flags); }};
}

}  // namespace penstock
