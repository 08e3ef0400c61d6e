// penstock diff: shows the differences between two programs, by rank and by time, or between two results.
// Each of the two sides is a file or the name of a schedule. The shape of a named schedule is taken from the
// flags, or from the file of the other side:
//
//     diff 1f1b zb-h1 --pp-size 4 --num-microbatches 8       both of K = 4, M = 8
//     diff ours.csv zb-v                                     zb-v with K and M of ours.csv
//
// Two programs are also simulated, because programs whose lists differ in many lines may take the same time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "report/compare/result_diff.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/result/result_json.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/asked_schedule.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/why/explain.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

struct DiffFlags {
  std::string before;
  std::string after;
  InputFlags shape;
  std::int32_t most = 10;
  bool why = false;
  OutputFlags output;
};

/// One of the two sides of a comparison: a result, and the program and scenario if they are known.
struct Side {
  std::optional<Program> program;
  Result result;
  std::optional<Scenario> scenario{};
  std::optional<MeanBill> bill{};  ///< present if --why is given
};

/// Reads a side from a result file or from standard input. It has the digest of its program but not the
/// program. Returns nothing if the text has no key schema_version. Such a text is a scenario or a program.
tl::expected<std::optional<Side>, UserError> result_side(const std::string& file, bool why) {
  const auto text = read_text_file(file, file);
  if (!text) return bad_input(text.error());
  if (text->find("\"schema_version\"") == std::string::npos) return std::nullopt;
  auto result = result_from_json(*text, file);
  if (!result) return bad_input(result.error());
  Side side{.program = std::nullopt, .result = *std::move(result)};
  if (why) {
    const auto run = caused_run(side.result);
    if (!run) return bad_input(fmt::format("{}: {}", file, run.error()));
    side.bill = mean_bill(explained(*run, {.chains = false, .alone = false}));
  }
  return side;
}

/// Returns true if `name` is a schedule with the option v (chunks on each rank). Schedules with a V
/// placement always have two chunks and do not have this option. Returns false for a file.
bool takes_virtual_stages(const std::string& name) {
  const ScheduleInfo* schedule = find_schedule(name);
  return schedule != nullptr && takes_chunks(*schedule);
}

/// Returns the input flags (the shape) for one side. --virtual-stages applies only to a schedule that has
/// this option. Therefore schedules with and without chunks can be compared.
InputFlags shape_for(const std::string& name, const DiffFlags& flags) {
  InputFlags shape = flags.shape;
  const bool some_side_takes_it = takes_virtual_stages(flags.before) || takes_virtual_stages(flags.after);
  if (some_side_takes_it && !takes_virtual_stages(name)) shape.virtual_stages.reset();
  return shape;
}

/// Returns true if `name` is a file. If a file and a schedule have the same name, the file is meant. A name
/// that is too long or in an unreadable folder is not a file.
bool is_file(const std::string& name) {
  std::error_code unusable;
  return std::filesystem::exists(name, unusable);
}

/// Returns true if `name` is a schedule and not a file. A word that is neither is reported as a missing file.
bool is_schedule(const std::string& name) { return !is_file(name) && find_schedule(name) != nullptr; }

tl::expected<Side, UserError> simulated(Scenario scenario, bool why) {
  auto experiment = prepared(scenario);
  if (!experiment) return tl::unexpected(experiment.error());
  auto result = simulate(*experiment, {.memory = {.samples = false}, .steady = SteadyState::skip});
  if (!result) return user_error(ErrorKind::check_failed, result.error().message);
  Side side{.program = std::nullopt, .result = *std::move(result)};
  // The simulation above has run the program, so it does not hang.
  if (why)
    side.bill = mean_bill(explained(caused_run(*experiment).value(), {.chains = false, .alone = false}));
  side.program = std::move(experiment->program);
  side.scenario = std::move(scenario);
  return side;
}

/// Returns the side that a file describes: a result, a program or a scenario. `flags.shape` is used for a
/// scenario. It is not used for a program if the other side is a named schedule.
tl::expected<Side, UserError> side_of_file(const std::string& name, const DiffFlags& flags) {
  if (name == kStandardInput || (is_file(name) && has_suffix(name, ".json"))) {
    auto side = result_side(name, flags.why);
    if (!side) return tl::unexpected(side.error());
    if (*side) return **std::move(side);
  }
  InputFlags input = shape_for(name, flags);
  const bool is_beside_schedule = is_schedule(flags.before) || is_schedule(flags.after);
  if (is_beside_schedule && names_program(name)) input = InputFlags{};
  input.file = name;
  auto scenario = scenario_of(input, {});
  if (!scenario) return tl::unexpected(scenario.error());
  write_reading_notes(*scenario, flags.output);
  return simulated(*std::move(scenario), flags.why);
}

/// Completes the shape of a named schedule from the file of the other side. It takes the values that the
/// flags do not give: K, M, v if the schedule has this option, and the number of pipeline copies.
void take_shape(InputFlags& shape, const std::string& schedule, const Side& file) {
  const ProgramReport& program = file.result.program;
  const std::int32_t ranks = std::max(1, pipeline_size(program));
  if (!shape.pp_size) shape.pp_size = ranks;
  if (!shape.num_microbatches) shape.num_microbatches = program.microbatches;
  if (!shape.virtual_stages && takes_virtual_stages(schedule) && program.stages > ranks)
    shape.virtual_stages = program.stages / ranks;
  const std::int32_t copies = program.ranks / ranks;
  const bool is_by_flag = !copies_are_replicas(*find_schedule(schedule));
  if (copies > 1 && is_by_flag && !shape.data_parallel) shape.data_parallel = copies;
  if (program.iterations > 1) shape.iterations = program.iterations;
}

/// Returns the side for the name of a schedule. If the other side is a file, the schedule uses the costs
/// and the shape of that file.
tl::expected<Side, UserError> side_of_schedule(const std::string& name, const DiffFlags& flags,
                                               const std::optional<Side>& file) {
  InputFlags input = shape_for(name, flags);
  input.schedule = name;
  if (file) take_shape(input, name, *file);
  auto scenario = scenario_of(input, {});
  if (!scenario) return tl::unexpected(scenario.error());
  if (!file || !file->scenario) return simulated(*std::move(scenario), flags.why);
  // This side has the model, cluster and training of the file, but the named schedule.
  Scenario base = *file->scenario;
  base.program.reset();
  base.schedule = name;
  base.shape = scenario->shape;
  // A scenario file states its own batch, so the batch of the flags is used only if the user gave it.
  if (flags.shape.num_microbatches || file->scenario->program)
    base.batch.microbatches = scenario->batch.microbatches;
  if (!file->scenario->program) base.shape.data_parallel = file->scenario->shape.data_parallel;
  return simulated(std::move(base), flags.why);
}

struct Sides {
  Side before;
  Side after;
};

/// Makes both sides of the comparison. A side that is a file is made first, because a schedule on the other
/// side needs its shape.
tl::expected<Sides, UserError> both_sides(const DiffFlags& flags) {
  std::optional<Side> before;
  std::optional<Side> after;
  const auto make_file = [&](std::optional<Side>& side,
                             const std::string& name) -> tl::expected<void, UserError> {
    if (is_schedule(name)) return {};
    auto made = side_of_file(name, flags);
    if (!made) return tl::unexpected(made.error());
    side = *std::move(made);
    return {};
  };
  if (auto made = make_file(before, flags.before); !made) return tl::unexpected(made.error());
  if (auto made = make_file(after, flags.after); !made) return tl::unexpected(made.error());
  if (!before) {
    auto made = side_of_schedule(flags.before, flags, after);
    if (!made) return tl::unexpected(made.error());
    before = *std::move(made);
    // If the second side is also missing, both sides are schedules.
    if (!after) {
      made = side_of_schedule(flags.after, flags, std::nullopt);
      if (!made) return tl::unexpected(made.error());
      after = *std::move(made);
    }
  } else if (!after) {
    auto made = side_of_schedule(flags.after, flags, before);
    if (!made) return tl::unexpected(made.error());
    after = *std::move(made);
  }
  return Sides{.before = *std::move(before), .after = *std::move(after)};
}

/// Returns the differences between the lists of each rank as JSON. Each change has its position in the
/// first list, the removed actions and the added actions.
Json changes_json(const ProgramDiff& diff) {
  Json ranks = Json::array();
  for (const RankChanges& rank : diff.ranks) {
    Json changes = Json::array();
    for (const ListChange& change : rank.changes) {
      changes.push_back(
          {{"position", change.position}, {"removed", change.removed}, {"added", change.added}});
    }
    ranks.push_back({{"rank", rank.rank}, {"changes", std::move(changes)}});
  }
  return {{"settings", diff.settings}, {"ranks", std::move(ranks)}};
}

/// Returns the actions that both programs have but run at different times, as JSON.
Json moved_json(const ResultDiff& diff) {
  Json moved = Json::array();
  for (const MovedAction& action : diff.moved) {
    moved.push_back({{"rank", action.rank},
                     {"action", action.action},
                     {"before_start_ns", action.before_start_ns},
                     {"before_end_ns", action.before_end_ns},
                     {"after_start_ns", action.after_start_ns},
                     {"after_end_ns", action.after_end_ns}});
  }
  return moved;
}

/// The differences between two sides. `programs` is absent if at least one side is a result file.
struct Difference {
  std::optional<ProgramDiff> programs;
  ResultDiff results;
  std::string note;                  ///< lines before the text; empty if there are none
  std::optional<MeanBill> before{};  ///< the bills, if --why is given
  std::optional<MeanBill> after{};

  bool empty() const { return (!programs || programs->empty()) && results.empty(); }
};

/// Returns a note about `--unit stage`. With this unit every stage takes the same time, so a program with
/// more stages has more work.
std::string note_on_stages(const DiffFlags& flags, const Result& before, const Result& after) {
  if (flags.shape.unit != "stage" || before.program.stages == after.program.stages) return "";
  return fmt::format(
      "note: {} before and {} after; each takes F = 1 ms a sample, whatever its part of a model\n",
      format_count(before.program.stages, "stage"), format_count(after.program.stages, "stage"));
}

/// Returns a note if only one side simulates the sharing of links. In this case a part of the difference does
/// not come from the program.
std::string note_on_links(const Result& before, const Result& after) {
  const auto leaves_out = [](const Result& result) { return result.link_sharing == LinkSharing::left_out; };
  const auto counts = [](const Result& result) { return result.link_sharing == LinkSharing::counted; };
  if (!(leaves_out(before) && counts(after)) && !(counts(before) && leaves_out(after))) return "";
  return fmt::format("note: several messages cross some link at once; they share its bandwidth only {}\n",
                     counts(before) ? "before" : "after");
}

std::string to_json(const Difference& difference) {
  Json figures = Json::array();
  for (const auto& row : difference.results.figures.rows) {
    figures.push_back({{"figure", row[0].text}, {"before", *row[1].value}, {"after", *row[2].value}});
  }
  Json document = {{"schema_version", 1}, {"kind", "diff"}, {"equal", difference.empty()}};
  document["program"] = difference.programs ? changes_json(*difference.programs) : Json(nullptr);
  document["figures"] = std::move(figures);
  document["moved"] = moved_json(difference.results);
  document["only_before"] = difference.results.only_before;
  document["only_after"] = difference.results.only_after;
  if (difference.before && difference.after) {
    Json lines = Json::array();
    for (const BillChange& change : changes_of(*difference.before, *difference.after)) {
      lines.push_back(
          {{"cause", change.cause}, {"before_ns", change.before_ns}, {"after_ns", change.after_ns}});
    }
    document["why"] = {{"makespan_before_ns", difference.before->makespan_ns},
                       {"makespan_after_ns", difference.after->makespan_ns},
                       {"causes", std::move(lines)}};
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string to_text(const Difference& difference, std::size_t most) {
  if (difference.empty()) return "no difference\n";
  std::string text = difference.note;
  if (difference.programs) text += to_text(*difference.programs, most);
  const std::string times = to_text(difference.results, most);
  if (!text.empty() && !times.empty()) text += '\n';
  text += times;
  if (difference.before && difference.after)
    text += fmt::format("\n{}\n", fmt::join(change_lines(*difference.before, *difference.after), "\n"));
  return text;
}

Outcome run_diff(const DiffFlags& flags) {
  if (auto known = check_output_files(flags.output.files, {".json", ".txt"},
                                      {{"BEFORE", flags.before}, {"AFTER", flags.after}});
      !known)
    return tl::unexpected(known.error());
  const auto sides = both_sides(flags);
  if (!sides) return tl::unexpected(sides.error());
  const auto& [before, after] = *sides;
  Difference difference{.programs = std::nullopt,
                        .results = diff_results(before.result, after.result),
                        .note = note_on_stages(flags, before.result, after.result) +
                                note_on_links(before.result, after.result)};
  if (before.program && after.program) difference.programs = diff_programs(*before.program, *after.program);
  difference.before = before.bill;
  difference.after = after.bill;
  const auto most = static_cast<std::size_t>(flags.most);
  const std::vector<OutputForm> forms = {{".json", [&] { return to_json(difference); }},
                                         {".txt", [&] { return to_text(difference, most); }}};
  const std::string text = flags.output.json ? to_json(difference) : to_text(difference, most);
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return difference.empty() ? ExitCode::ok : ExitCode::check_failed;
}

}  // namespace

Command diff_command(CLI::App& root) {
  Subcommand app(root, "diff", "Show what differs between two programs or two results.");
  const auto flags = std::make_shared<DiffFlags>();
  const std::string side = "a scenario, a program, JSON of simulate or run, or the name of a schedule";
  app.add_option("BEFORE", flags->before, side).required().type_name("");
  app.add_option("AFTER", flags->after, "the same").required().type_name("");
  const std::string group = "Shape of named schedules (default: that of the file on the other side)";
  const auto add_count = [&](const std::string& name, std::optional<std::int64_t>& count,
                             const std::string& help) {
    app.add_option(name, count, help)
        .range(std::int64_t{1}, std::int64_t{2'147'483'647})
        .group(group)
        .type_name("N");
  };
  add_count("--pp-size", flags->shape.pp_size, "K, the number of pipeline stages");
  add_count("--num-microbatches", flags->shape.num_microbatches, "M");
  add_count("--virtual-stages", flags->shape.virtual_stages,
            "v, model chunks a rank, for schedules that take it (default 1, of interleaved schedules 2)");
  add_unit_flag(app, flags->shape);
  app.add_option("--most", flags->most,
                 "changes to print of each rank, and actions at other times (default 10)")
      .range(0, 1'000'000)
      .group("Output")
      .type_name("N");
  app.add_flag("--why", flags->why, "also say which causes of idle time change the makespan, and by how much")
      .group("Output");
  add_output_flags(app, flags->output, ".json .txt");
  app.footer(
      "Exit status: 0 no difference, 1 some.\n"
      "Examples:\n"
      "  penstock diff 1f1b zb-h1 --pp-size 4 --num-microbatches 8\n"
      "  penstock diff old.psched new.psched --most 3\n"
      "  penstock diff ours.csv zb-v\n"
      "  penstock diff monday.json tuesday.json");
  return {app, [flags] { return run_diff(*flags); }};
}

}  // namespace penstock
