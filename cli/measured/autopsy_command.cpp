// penstock autopsy: finds out what went wrong in a recorded run. It reads the actions that ran on all ranks,
// and compares the lists with the program that the run was meant to execute. Then it replays the run,
// explains its idle time and names the causes. It writes the recorded costs as a scenario. The exit code is 1
// if the recorded lists are not those of the meant program. Tests: tests/cli/transcripts/autopsy.txt.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
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
#include "cli/measured/autopsy_timers.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/print/table.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/autopsy/autopsy.hpp"
#include "sim/autopsy/recording.hpp"
#include "sim/autopsy/trace_formats.hpp"
#include "sim/hold/megatron_timers.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

struct AutopsyFlags {
  std::vector<std::string> files;
  InputFlags meant;  // the schedule that was meant, and its shape
  std::int64_t skip = 0;
  std::int32_t samples = 32;
  bool means = false;
  OutputFlags output;
};

/// The contents of all files of a recorded run, with one list for each kind of file.
struct Record {
  RecordedRows actions;
  /// The number of each rank and the use of its GPU, from traces of a profiler.
  std::vector<std::pair<std::int64_t, GpuWindow>> windows;
  std::vector<RankDump> posts;  ///< dumps of the flight recorder
  std::vector<RankTrace> traces;
  std::vector<NamedText> primus;
  std::optional<TimersLog> timers{};
};

void append(RecordedRows& all, RecordedRows more) {
  all.rows.insert(all.rows.end(), std::make_move_iterator(more.rows.begin()),
                  std::make_move_iterator(more.rows.end()));
  all.notes.insert(all.notes.end(), more.notes.begin(), more.notes.end());
  all.world_size = std::max(all.world_size, more.world_size);
}

/// Reads a file and adds its content to `record`. The format of the file is recognised from its content.
tl::expected<void, std::string> read_file(const std::string& file, Record& record) {
  auto text = read_trace_file(file, file);
  if (!text) return tl::unexpected(text.error());
  if (is_sqlite(*text) || is_kineto(*text)) {
    auto trace = is_sqlite(*text) ? read_nsys(*text, file) : read_kineto(*text, file);
    if (!trace) return tl::unexpected(trace.error());
    record.traces.push_back(*std::move(trace));
    return {};
  }
  const bool is_table = has_suffix(file, ".csv") || has_suffix(file, ".csv.gz");
  if (!is_table && text->size() > kLargestDump) {
    return tl::unexpected(
        fmt::format("{}: expected a dump of at most 128 MiB, got {} bytes", file, text->size()));
  }
  if (!is_table && is_flight_recorder(*text)) {
    auto dump = read_flight_recorder(*text, file);
    if (!dump) return tl::unexpected(dump.error());
    record.posts.push_back(*std::move(dump));
  } else if (!is_table && has_megatron_timers(*text)) {
    if (record.timers) return tl::unexpected(fmt::format("{}: expected one log with timers, got two", file));
    record.timers = TimersLog{.file = file, .text = *std::move(text)};
  } else if (!is_table && is_primus(*text)) {
    record.primus.push_back({file, *std::move(text)});
  } else {
    auto read = read_events(*text, file);
    if (!read) return tl::unexpected(read.error());
    append(record.actions, *std::move(read));
  }
  return {};
}

/// Adds the actions of all ranks' traces to the record.
tl::expected<void, std::string> join_traces(Record& record) {
  for (const RankTrace& trace : record.traces) {
    if (trace.gpu) record.windows.emplace_back(trace.rank, *trace.gpu);
  }
  auto joined = joined_traces(std::move(record.traces));
  // It is no error if no actions can be joined, as long as the traces show the use of a GPU.
  if (!joined && record.windows.empty()) return tl::unexpected(joined.error());
  if (joined) append(record.actions, *std::move(joined));
  for (const auto& [rank, window] : record.windows) record.actions.notes.push_back(gpu_text(rank, window));
  return {};
}

/// Reads all files of a recorded run.
tl::expected<Record, UserError> recorded_files(const std::vector<std::string>& files) {
  Record record;
  for (const std::string& file : files) {
    if (auto read = read_file(file, record); !read) return bad_input(read.error());
    if (record.actions.rows.size() > kMostRecorded)
      return bad_input(fmt::format("expected at most {} recorded actions, got more", kMostRecorded));
  }
  if (!record.primus.empty()) {
    auto read = read_primus(record.primus);
    if (!read) return bad_input(read.error());
    append(record.actions, *std::move(read));
  }
  if (!record.traces.empty()) {
    if (auto joined = join_traces(record); !joined) return bad_input(joined.error());
  }
  return record;
}

/// Reads the program that the run was meant to execute from a file.
tl::expected<MeantProgram, UserError> meant_file(const std::string& file) {
  InputFlags input;
  input.file = file;
  auto scenario = load_input(input);
  if (!scenario) return tl::unexpected(scenario.error());
  return MeantProgram{.name = file, .program = *std::move(scenario->program)};
}

/// Generates the schedule that the run was meant to execute. If the flags do not give a part of its shape
/// (such as K or M), this part is taken from the recording.
tl::expected<MeantProgram, UserError> meant_schedule(InputFlags flags, const Recording& recording) {
  if (names_program(flags.schedule)) return meant_file(flags.schedule);
  if (!flags.pp_size) flags.pp_size = recording.ranks_of_copy();
  if (!flags.num_microbatches) flags.num_microbatches = recording.microbatches / recording.copies;
  const auto name = known_schedule(flags.schedule);
  if (!name) return tl::unexpected(name.error());
  const ScheduleInfo& schedule = *find_schedule(*name);
  if (!flags.virtual_stages && takes_chunks(schedule))
    flags.virtual_stages = std::max<std::int64_t>(1, recording.stages / *flags.pp_size);
  auto scenario = scenario_of(flags, {});
  if (!scenario) return tl::unexpected(scenario.error());
  Shape shape = scenario->shape;
  shape.microbatches = static_cast<std::int32_t>(*flags.num_microbatches);
  auto program = generate(schedule.name, shape);
  if (!program) return bad_input(program.error());
  return MeantProgram{.name = std::string(schedule.name), .program = *std::move(program), .shape = shape};
}

tl::expected<Autopsy, UserError> autopsy_for(const AutopsyFlags& flags, RecordedRows actions) {
  const std::string name =
      flags.files.size() == 1 ? flags.files.front() : fmt::format("{} files", flags.files.size());
  auto recording = recording_of(std::move(actions.rows), flags.skip);
  if (!recording) return bad_input(fmt::format("{}: {}", name, recording.error()));
  recording->notes.insert(recording->notes.begin(), actions.notes.begin(), actions.notes.end());
  AutopsyOptions options{.means = flags.means, .samples = flags.samples};
  if (!flags.meant.schedule.empty()) {
    auto meant = meant_schedule(flags.meant, *recording);
    if (!meant) return tl::unexpected(meant.error());
    options.meant = *std::move(meant);
  }
  auto autopsy = autopsy_of(*std::move(recording), name, options);
  if (!autopsy) return bad_input(fmt::format("{}: {}", name, autopsy.error()));
  return *std::move(autopsy);
}

/// Writes the recorded lists to a file beside a scenario. The scenario names this file, because no schedule
/// of the table has these lists. Returns the scenario as text.
tl::expected<std::string, UserError> scenario_with_lists(const Autopsy& autopsy, const std::string& file) {
  const auto place = autopsy.scenario.find(kListsFile);
  if (place == std::string::npos) return autopsy.scenario;
  const std::filesystem::path lists = std::filesystem::path(file).replace_extension(".psched");
  if (auto written = write_file(lists, to_text(autopsy.program)); !written)
    return tl::unexpected(written.error());
  std::string text = autopsy.scenario;
  return text.replace(place, std::string(kListsFile).size(), lists.filename().string());
}

/// Finds the reason why the recorded pipeline hangs, and prints it.
Outcome run_hang(const AutopsyFlags& flags, const Record& record) {
  if (auto known = check_output_files(flags.output.files, {".json", ".txt"}, {}); !known)
    return tl::unexpected(known.error());
  if (flags.meant.schedule.empty())
    return bad_input("the dumps name no actions: give --schedule and --num-microbatches, or a file of lists");
  std::optional<Program> program;
  if (names_program(flags.meant.schedule)) {
    auto meant = meant_file(flags.meant.schedule);
    if (!meant) return tl::unexpected(meant.error());
    program = std::move(meant->program);
  } else {
    InputFlags input = flags.meant;
    if (!input.num_microbatches) {
      return bad_input("the dumps do not say how many microbatches a step has: give --num-microbatches");
    }
    if (!input.pp_size) input.pp_size = ranks_of_dumps(record.posts);
    auto scenario = scenario_of(input, {});
    if (!scenario) return tl::unexpected(scenario.error());
    Shape shape = scenario->shape;
    shape.microbatches = static_cast<std::int32_t>(*input.num_microbatches);
    auto generated = generate(scenario->schedule, shape);
    if (!generated) return bad_input(generated.error());
    program = *std::move(generated);
  }
  const auto lowered = lower(*program);
  if (!lowered) return user_error(ErrorKind::check_failed, lowered.error());
  const auto verdict = find_recorded_hang(record.posts, *lowered);
  if (!verdict) return bad_input(verdict.error());
  const std::vector<OutputForm> forms = {{".json", [&] { return hang_to_json(*verdict); }},
                                         {".txt", [&] { return to_text(*verdict); }}};
  const auto written =
      write_answer(flags.output, forms, flags.output.json ? hang_to_json(*verdict) : to_text(*verdict));
  if (!written) return tl::unexpected(written.error());
  return *verdict ? ExitCode::check_failed : ExitCode::ok;
}

/// Prints what a record of some ranks tells.
Outcome run_partial(const AutopsyFlags& flags, const RecordedRows& actions) {
  if (auto known = check_output_files(flags.output.files, {".json", ".txt"}, {}); !known) {
    return bad_input(
        "expected the records of all ranks, because other files than .json and .txt need them; leave out -o "
        "to see what the record tells");
  }
  std::optional<MeantProgram> meant;
  if (!flags.meant.schedule.empty()) {
    // The shape is taken from what is known: K from the flag or the job, and M from the passes.
    Recording known;
    std::int32_t microbatches = 0;
    std::int64_t ranks = actions.world_size;
    for (const RecordedRow& row : actions.rows) {
      ranks = std::max(ranks, row.rank + 1);
      for (const Action& action : row.actions) {
        microbatches = std::max(microbatches, action.microbatch + 1);
        known.stages = std::max(known.stages, action.stage + 1);
      }
    }
    InputFlags input = flags.meant;
    if (!input.pp_size) input.pp_size = ranks;
    if (!input.num_microbatches) input.num_microbatches = microbatches;
    auto read = meant_schedule(input, known);
    if (!read) return tl::unexpected(read.error());
    meant = *std::move(read);
  }
  const PartialRecord record =
      partial_record(actions.rows, actions.world_size, meant ? &meant->program : nullptr);
  std::string notes;
  for (const std::string& note : actions.notes) notes += fmt::format("note: {}\n", shown_name(note));
  const auto json = [&] { return partial_record_to_json(record); };
  const std::vector<OutputForm> forms = {{".json", json}, {".txt", [&] { return to_text(record) + notes; }}};
  const auto written =
      write_answer(flags.output, forms, flags.output.json ? json() : to_text(record, table_width()) + notes);
  if (!written) return tl::unexpected(written.error());
  const bool differs = std::ranges::any_of(
      record.ranks, [](const PartialRank& rank) { return !rank.as_meant.value_or(true); });
  return differs ? ExitCode::check_failed : ExitCode::ok;
}

/// Writes the answer and the files of -o. The exit code says whether the run followed the meant program.
Outcome write_autopsy(const AutopsyFlags& flags, const Autopsy& autopsy) {
  std::string scenario = autopsy.scenario;
  for (const std::string& file : flags.output.files) {
    if (!has_suffix(file, ".yaml") && !has_suffix(file, ".yml")) continue;
    auto text = scenario_with_lists(autopsy, file);
    if (!text) return tl::unexpected(text.error());
    scenario = *std::move(text);
  }
  const auto json = [&](const TextSink& sink) { write_autopsy_json(autopsy, sink); };
  const std::vector<OutputForm> forms = {{".json", TextInPieces(json)},
                                         {".yaml", [&] { return scenario; }},
                                         {".yml", [&] { return scenario; }},
                                         {".html", [&] { return autopsy_to_html(autopsy); }},
                                         {".csv", [&] { return events_to_csv(autopsy.recording); }},
                                         {".psched", [&] { return to_text(autopsy.program); }},
                                         {".txt", [&] { return autopsy_to_text(autopsy); }}};
  const auto written = flags.output.json
                           ? write_answer(flags.output, forms, TextInPieces(json))
                           : write_answer(flags.output, forms, autopsy_to_text(autopsy, table_width()));
  if (!written) return tl::unexpected(written.error());
  return autopsy.as_meant() ? ExitCode::ok : ExitCode::check_failed;
}

Outcome run_autopsy(const AutopsyFlags& flags) {
  std::vector<FileArgument> inputs;
  inputs.reserve(flags.files.size());
  for (const std::string& file : flags.files) inputs.push_back({"the input", file});
  if (auto known = check_output_files(flags.output.files,
                                      {".yaml", ".yml", ".html", ".json", ".csv", ".psched", ".txt"}, inputs);
      !known)
    return tl::unexpected(known.error());
  auto record = recorded_files(flags.files);
  if (!record) return tl::unexpected(record.error());
  if (record->timers) {
    if (flags.files.size() > 1)
      return bad_input("autopsy: expected a log with timers alone, got other files beside it");
    return run_timers(*record->timers, flags.meant, flags.output);
  }
  if (!record->posts.empty()) {
    if (!record->actions.rows.empty())
      return bad_input("expected either recorded actions or dumps of the flight recorder, got both");
    return run_hang(flags, *record);
  }
  if (record->actions.rows.empty() && !record->windows.empty()) {
    std::string text;
    for (const auto& [rank, window] : record->windows) text += gpu_text(rank, window) + '\n';
    if (auto written = write_stdout(text); !written) return tl::unexpected(written.error());
    return ExitCode::ok;
  }
  if (is_partial(record->actions.rows, record->actions.world_size))
    return run_partial(flags, record->actions);
  const auto autopsy = autopsy_for(flags, std::move(record->actions));
  if (!autopsy) return tl::unexpected(autopsy.error());
  return write_autopsy(flags, *autopsy);
}

}  // namespace

Command autopsy_command(CLI::App& root) {
  Subcommand app(root, "autopsy", "Take a recorded run apart: what ran, why ranks waited, what is to blame.");
  const auto flags = std::make_shared<AutopsyFlags>();
  app.add_option(
         "FILES", flags->files,
         "tables of events, traces of PyTorch's profiler, SQLite files of Nsight Systems, dumps of Primus "
         "or of PyTorch's flight recorder, or a log with Megatron's timers of all ranks; also compressed "
         "by gzip; - for standard input")
      .required()
      .type_name("FILE...");
  const std::string group = "The program that was meant (its shape is taken from the record)";
  app.add_option("--schedule", flags->meant.schedule,
                 "name of a schedule, or a .psched or .csv file of lists")
      .group(group)
      .type_name("NAME | FILE");
  for (const auto& [name, value, help] :
       {std::tuple{"--pp-size", &flags->meant.pp_size, "K, ranks of one copy of the pipeline"},
        std::tuple{"--num-microbatches", &flags->meant.num_microbatches, "M, microbatches of one copy"},
        std::tuple{"--virtual-stages", &flags->meant.virtual_stages, "v, model chunks a rank"},
        std::tuple{"--group-size", &flags->meant.group_size, "microbatches of one group"}}) {
    app.add_option(name, *value, help)
        .range(std::int64_t{1}, std::int64_t{1'048'576})
        .group(group)
        .type_name("N");
  }
  app.add_option("--skip", flags->skip, "leave out the first N steps, such as those that warm up (default 0)")
      .range(std::int64_t{0}, std::int64_t{1'000'000'000})
      .group("Record")
      .type_name("N");
  app.add_flag("--means", flags->means,
               "write one mean a stage and copy into the scenario, in place of every duration")
      .group("Output");
  app.add_option("--samples", flags->samples,
                 "points between the ideal run and this run at which causes are found (default 32)")
      .range(2, 4096)
      .group("Output")
      .type_name("N");
  add_output_flags(app, flags->output, ".yaml .html .json .csv .psched .txt");
  app.footer(
      "Examples:\n"
      "  penstock autopsy tests/sim/traces/slow-stage.csv --schedule 1f1b -o recorded.yaml\n"
      "  penstock autopsy tests/sim/traces/trace_rank_0.json tests/sim/traces/trace_rank_1.json\n"
      "  penstock autopsy tests/sim/traces/megatron-timers.log -o stages.yaml\n"
      "The .yaml is a scenario with the recorded costs; the .json is a measured result that compare, explain "
      "and\n"
      "diff read; the .html is a page with the causes and the timeline; the .csv has the recorded actions. A "
      "table of events has a header such as\n"
      "  step,copy,rank,action,start_us,end_us\n"
      "where step and copy may be left out. Exit status 1: the lists are not those that were meant, or the "
      "dumps of the\n"
      "flight recorder show a hang. --json of dumps: {\"hang\": {rank, action, iteration, kind}}.\n"
      "If the records of some ranks are missing, the answer has the times and lists of the others.");
  return {app, [flags] { return run_autopsy(*flags); }};
}

}  // namespace penstock
