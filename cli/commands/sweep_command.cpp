// penstock sweep: simulates one scenario for many schedules, K, v, M and values of other keys (--vary). The
// points are all combinations of the given lists. A point that cannot be simulated shows the reason. Points
// are printed in the order of the lists, although several threads compute them. Several processes can compute
// parts of a sweep without communication. Each process writes one shard of the points to a file, and --merge
// joins the files:
//
//   --shard 1/2 -o part-1.jsonl   points 0 2 4 ...  --+
//                                                      +-- --merge part-1.jsonl part-2.jsonl -o table.csv
//   --shard 2/2 -o part-2.jsonl   points 1 3 5 ...  --+

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/commands/sweep_variants.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/sweep_progress_file.hpp"
#include "cli/terminal.hpp"
#include "report/pages/html_report.hpp"
#include "report/print/units.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/host/process_limits.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"
#include "sim/sweep/sweep.hpp"
#include "sim/why/explain.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

struct SweepFlags {
  // The fields schedule, pp_size, virtual_stages and num_microbatches are empty here. The lists below replace
  // them.
  InputFlags input;
  ChannelFlags channels;
  OutputFlags output;
  std::string engine;
  std::vector<std::string> schedules;
  std::string pp_sizes;
  std::string virtual_stages;
  std::string microbatches;
  std::vector<std::string> vary;
  std::string hold;
  std::string resume;
  std::string shard;
  std::vector<std::string> parts;
  std::int64_t max_points = 100'000;

  friend bool operator==(const SweepFlags&, const SweepFlags&) = default;
};

const std::vector<std::string_view> kSweepFiles = {".csv", ".json", ".html", ".txt"};
constexpr std::string_view kPartSuffix = ".jsonl";

/// Returns an error if a flag lists values for something that the program file already fixes. A program
/// file has one schedule and one shape (ranks, stages and microbatches). The error is about the first such
/// flag.
tl::expected<void, UserError> refuse_axes_of_program(const SweepFlags& flags) {
  for (const auto& [name, given] :
       {std::pair{"--schedule", !flags.schedules.empty()}, std::pair{"--pp-size", !flags.pp_sizes.empty()},
        std::pair{"--virtual-stages", !flags.virtual_stages.empty()},
        std::pair{"--num-microbatches", !flags.microbatches.empty()},
        std::pair{"--hold", !flags.hold.empty()}}) {
    if (given) {
      return bad_input(fmt::format(
          "{} does not go with a program, which says its schedule, K, v and M itself (program of {}): "
          "leave the flag out, or give the program among the schedules, as in penstock sweep --schedule "
          "1f1b,{}",
          name, flags.input.file, flags.input.file.empty() ? "FILE.psched" : flags.input.file));
    }
  }
  if (flags.resume.empty() || !flags.vary.empty()) return {};
  return bad_input("--resume keeps the points of a long sweep, and a program has one: leave the flag out");
}

/// Returns the scenario from which every point with these input flags starts. It does not have the batch
/// sizes of the flags, because the schedule of a point decides which sizes they replace. Returns an error
/// if neither the scenario nor the flags give a value that each point needs.
tl::expected<Scenario, UserError> base_scenario(const SweepFlags& flags, InputFlags input) {
  input.micro_batch_size.reset();
  input.global_batch_size.reset();
  auto scenario = scenario_with_flags(input, flags.channels);
  if (!scenario) return scenario;
  if (scenario->program) {
    if (auto refused = refuse_axes_of_program(flags); !refused) return tl::unexpected(refused.error());
    return scenario;
  }
  const bool complete = !scenario->schedule.empty() || !flags.schedules.empty();
  if (!complete) return bad_input("expected --schedule NAME[,NAME...]: the scenario names none");
  const bool says_m = !flags.microbatches.empty() || !input.settings.empty() || !input.varied.empty() ||
                      (flags.input.micro_batch_size && flags.input.global_batch_size) ||
                      // On named devices, a microbatch is one sample if the user gives no size.
                      (std::holds_alternative<DeviceModel>(scenario->model) && flags.input.global_batch_size);
  if (flags.input.file.empty() && (flags.pp_sizes.empty() || !says_m)) {
    return bad_input("expected a scenario file, or --pp-size and --num-microbatches beside --schedule");
  }
  return scenario;
}

/// The programs of files among the schedules of --schedule, and the notes on how they were read.
struct SweptPrograms {
  std::map<std::string, Program> programs;
  std::vector<std::string> notes;
};

/// Reads the programs of the files that --schedule names. Returns an error for an unknown schedule, because
/// otherwise a typing error would give thousands of skipped points, and for a file that has no program.
tl::expected<SweptPrograms, UserError> programs_of(const std::vector<std::string>& schedules) {
  SweptPrograms swept;
  for (const std::string& name : schedules) {
    if (!names_program(name)) {
      if (auto known = known_schedule(name); !known) return tl::unexpected(known.error());
      continue;
    }
    auto read = load_scenario_or_program(name);
    if (!read) return bad_input("--schedule: " + read.error());
    swept.programs.insert_or_assign(name, *std::move(read->program));
    for (const std::string& note : read->notes) swept.notes.push_back(fmt::format("{}: {}", name, note));
  }
  return swept;
}

/// Returns the text of a list for --pp-size or --num-microbatches. It has the K or M of each program, without
/// duplicates.
std::string numbers_of(const std::map<std::string, Program>& programs,
                       const std::function<std::int32_t(const Program&)>& number) {
  std::set<std::int32_t> numbers;
  for (const auto& [name, program] : programs) numbers.insert(number(program));
  return fmt::format("{}", fmt::join(numbers, ","));
}

/// Takes K and M from the programs of files if neither a scenario nor another flag can state them.
void add_sizes_of_programs(SweepFlags& flags, const std::map<std::string, Program>& programs) {
  if (programs.empty() || !flags.input.file.empty() || !flags.input.settings.empty()) return;
  if (flags.pp_sizes.empty()) flags.pp_sizes = numbers_of(programs, &Program::rank_count);
  if (flags.microbatches.empty() && !flags.input.global_batch_size)
    flags.microbatches = numbers_of(programs, &Program::microbatches);
}

/// Returns the batch sizes that the user gives with flags, --set or --vary. Such a size stays the same for
/// every M. A size that only the scenario file gives may change with M.
Batch stated_sizes(const InputFlags& input, const Scenario& scenario) {
  Batch stated = stated_batch(input);
  const auto is_set = [&](const std::string& key) {
    return std::ranges::find(input.varied, key, &Override::key) != input.varied.end() ||
           std::ranges::any_of(input.settings,
                               [&](const std::string& setting) { return setting.starts_with(key + "="); });
  };
  if (is_set("training.micro_batch_size") && !stated.micro_batch_size)
    stated.micro_batch_size = scenario.batch.micro_batch_size;
  if (is_set("training.global_batch_size") && !stated.global_batch_size)
    stated.global_batch_size = scenario.batch.global_batch_size;
  return stated;
}

/// Returns `stated` with the batch size that --hold names. If the user has not given this size, it is
/// computed from the scenario. Returns an error if the size is unknown. Also returns an error if the other
/// size is given as well, because then M cannot change.
tl::expected<Batch, UserError> with_held_size(Batch stated, const SweepFlags& flags,
                                              const Scenario& scenario) {
  const MicrobatchMeaning meaning = meaning_of_microbatch(scenario.schedule);
  const bool holds_global = flags.hold == "global-batch";
  if (holds_global ? stated.micro_batch_size.has_value() : stated.global_batch_size.has_value()) {
    return bad_input(fmt::format("--hold {} lets the other size follow from M: leave out {} or --hold",
                                 flags.hold, holds_global ? "--micro-batch-size" : "--global-batch-size"));
  }
  if (holds_global && !stated.global_batch_size) {
    const auto implied = global_batch_size_of(scenario.batch, meaning);
    if (!implied) return bad_input("--hold global-batch: " + implied.error());
    stated.global_batch_size = *implied;
    if (!stated.global_batch_size)
      return bad_input("--hold global-batch: expected --global-batch-size, or one in the scenario");
  }
  if (!holds_global && !stated.micro_batch_size) {
    stated.micro_batch_size = micro_batch_size_of(scenario.batch, meaning);
    if (!stated.micro_batch_size)
      return bad_input("--hold micro-batch: expected --micro-batch-size, or one in the scenario");
  }
  return stated;
}

/// Returns the batch sizes that stay constant for the points of this scenario while M changes.
tl::expected<Batch, UserError> constant_sizes(const SweepFlags& flags, const InputFlags& input,
                                              const Scenario& scenario) {
  const Batch stated = stated_sizes(input, scenario);
  return flags.hold.empty() ? stated : with_held_size(stated, flags, scenario);
}

/// Returns the grid of points: all combinations of the lists, except those of --vary. Returns an error if a
/// list or a schedule is wrong.
tl::expected<SweepGrid, UserError> grid_of(const SweepFlags& flags,
                                           const std::map<std::string, Program>& programs) {
  auto stages = numbers_of_flag("--pp-size", flags.pp_sizes);
  if (!stages) return tl::unexpected(stages.error());
  auto virtual_stages = numbers_of_flag("--virtual-stages", flags.virtual_stages);
  if (!virtual_stages) return tl::unexpected(virtual_stages.error());
  auto microbatches = numbers_of_flag("--num-microbatches", flags.microbatches);
  if (!microbatches) return tl::unexpected(microbatches.error());
  return SweepGrid{.schedules = flags.schedules,
                   .programs = programs,
                   .stages = *std::move(stages),
                   .virtual_stages = *std::move(virtual_stages),
                   .microbatches = *std::move(microbatches),
                   .engine = engine_of(flags.engine)};
}

/// Returns true if the message is about a value that --vary gives, and no readable variant has this value.
/// The value is then a typing error.
bool is_wrong_value(const SweepVariant& refused, const std::vector<SweepVariant>& all) {
  return std::ranges::any_of(refused.values, [&](const auto& value) {
    return refused.refusal.starts_with(fmt::format("--vary {}", value.first)) &&
           std::ranges::none_of(all, [&](const SweepVariant& variant) {
             return variant.refusal.empty() &&
                    std::ranges::find(variant.values, value) != variant.values.end();
           });
  });
}

/// Adds to the grid the scenario of each combination of --vary's values. `inputs` has the input flags of
/// each combination. If values are valid one by one, but not together, the variant only has the reason.
/// Returns an error if a key or a value is wrong, or if no combination is possible.
tl::expected<void, UserError> add_variants(SweepGrid& grid, const SweepFlags& flags,
                                           const std::vector<InputFlags>& inputs) {
  const SweepVariant* readable = nullptr;
  grid.variants.reserve(inputs.size());
  for (const InputFlags& input : inputs) {
    SweepVariant& variant = grid.variants.emplace_back();
    for (const Override& change : input.varied) variant.values.emplace_back(change.key, change.value);
    auto scenario = base_scenario(flags, input);
    if (!scenario) {
      variant.refusal = scenario.error().message;
      continue;
    }
    const auto batch = constant_sizes(flags, input, *scenario);
    if (!batch) return tl::unexpected(batch.error());
    variant.scenario = *std::move(scenario);
    variant.batch = *batch;
    if (readable == nullptr) readable = &variant;
  }
  for (SweepVariant& variant : grid.variants) {
    if (variant.refusal.empty()) continue;
    if (readable == nullptr || is_wrong_value(variant, grid.variants)) return bad_input(variant.refusal);
    variant.scenario = readable->scenario;
    variant.batch = readable->batch;
  }
  return {};
}

/// Returns one set of input flags for each combination of the values of --vary. Without --vary there is one
/// set.
tl::expected<std::vector<InputFlags>, UserError> varied_inputs(const SweepFlags& flags) {
  const auto keys = varied_keys(flags.vary);
  if (!keys) return tl::unexpected(keys.error());
  auto combinations = combinations_of(*keys, static_cast<std::size_t>(flags.max_points));
  if (!combinations) return tl::unexpected(combinations.error());
  std::vector<InputFlags> inputs;
  for (std::vector<Override>& combination : *combinations) {
    inputs.push_back(flags.input);
    inputs.back().varied = std::move(combination);
  }
  return inputs;
}

/// Moves the values of some keys from --vary into the lists of their own flags. The keys are schedule.name,
/// schedule.stages, schedule.virtual_stages and schedule.microbatches. Returns an error if a list is wrong,
/// or if its flag is given as well.
tl::expected<void, UserError> move_lists_of_vary(SweepFlags& flags) {
  const auto given_twice = [](const std::string& key, std::string_view flag) {
    return bad_input(
        fmt::format("--vary {} and {} give the same list: put all values into one of them", key, flag));
  };
  for (const auto& [key, flag, list] :
       {std::tuple{"schedule.stages", "--pp-size", &flags.pp_sizes},
        {"schedule.virtual_stages", "--virtual-stages", &flags.virtual_stages},
        {"schedule.microbatches", "--num-microbatches", &flags.microbatches}}) {
    auto text = taken_values(flags.vary, key);
    if (!text) continue;
    if (!list->empty()) return given_twice(key, flag);
    if (auto read = numbers_of_flag(fmt::format("--vary {}", key), *text); !read)
      return tl::unexpected(read.error());
    *list = *std::move(text);
  }
  if (auto names = taken_values(flags.vary, "schedule.name")) {
    if (!flags.schedules.empty()) return given_twice("schedule.name", "--schedule");
    flags.schedules = values_between_commas(*names);
  }
  for (const std::string& text : flags.vary) {
    if (auto single = refuse_flag_of("--vary", text.substr(0, text.find('=')), flags.input, flags.channels);
        !single)
      return single;
  }
  return {};
}

/// Returns an error if there are more points than --max-points, or more than fit into memory. The limit
/// catches typing errors such as "1..1000000". The memory for reasons and notes is not counted.
tl::expected<void, UserError> check_size(const SweepFlags& flags, std::uint64_t points) {
  if (points > static_cast<std::uint64_t>(flags.max_points)) {
    return bad_input(
        fmt::format("the grid has {} points, more than {}: make its lists shorter, or lift the limit by "
                    "--max-points {}",
                    points, flags.max_points, points));
  }
  const double needed = static_cast<double>(points) * sizeof(std::optional<SweepPoint>);
  auto refusal = lack_of_memory(fmt::format("the {} points of the grid", points), needed,
                                memory_within_reach(), "make its lists shorter");
  if (refusal) return bad_input(*std::move(refusal));
  return {};
}

/// Opens the file that stores finished points, and adds its points to the grid. Returns a null pointer if
/// `file` is an empty name.
tl::expected<std::unique_ptr<SweepProgressFile>, UserError> opened_progress(
    const std::string& file, const std::vector<InputFlags>& inputs, const Scenario& scenario,
    SweepGrid& grid) {
  if (file.empty()) return nullptr;
  auto digest = sweep_digest(inputs, scenario, grid);
  if (!digest) return tl::unexpected(digest.error());
  SweepHead head = sweep_head(scenario, grid);
  head.digest = *std::move(digest);
  auto progress = SweepProgressFile::open(file, head);
  if (!progress) return bad_input(progress.error());
  grid.known = (*progress)->known();
  // The digest in the file contains the commit of the code, but it does not show changes that are not
  // committed. Therefore check_known() computes some points again and compares them with the file.
  if (auto same = check_known(scenario, grid); !same)
    return bad_input(fmt::format("{}: {}; name another file", file, same.error()));
  return *std::move(progress);
}

/// Computes the points that the progress file does not have yet. After an interrupt, no further points are
/// started.
Sweep run_points(const Scenario& scenario, SweepGrid grid, const OutputFlags& output, SweepProgressFile* kept,
                 const InterruptNoted& interrupt) {
  ProgressBar bar(display_for(output));
  grid.progress = [&bar](std::size_t done, std::size_t total) { bar.show(done, total); };
  if (kept != nullptr)
    grid.finished = [kept](std::size_t number, const SweepPoint& point) { kept->add(number, point); };
  return sweep_until(interrupt, scenario, std::move(grid));
}

/// Returns the message that is shown after Ctrl-C. It says how many points are finished and how to
/// continue. `file` is the file that stores the points, or an empty text if there is none.
std::string interrupted_message(const std::string& file, const Sweep& swept) {
  if (!swept.interruption) return "penstock: interrupted when all points were done";
  const std::string& count = *swept.interruption;
  return file.empty()
             ? fmt::format("penstock: {}; --resume FILE keeps them for the next time", count)
             : fmt::format("penstock: {}; the same command goes on from {}", count, shown_name(file));
}

tl::expected<void, UserError> write_sweep(const SweepFlags& flags, const Sweep& swept) {
  const std::vector<OutputForm> forms = {{".csv", [&] { return sweep_csv(swept); }},
                                         {".json", [&] { return sweep_json(swept); }},
                                         {".html", [&] { return sweep_to_html(swept); }},
                                         {".txt", [&] { return sweep_table(swept); }}};
  const std::string text =
      flags.output.json ? sweep_json(swept) : sweep_summary(swept, flags.output.files, table_width());
  return write_answer(flags.output, forms, text);
}

/// The data of a sweep before its first point is computed.
struct PreparedSweep {
  Scenario scenario;
  SweepGrid grid;
  bool is_part = false;   ///< True if only one shard is computed and written to `kept`.
  std::string kept_name;  ///< The name of the file `kept`; empty if there is none.
  std::unique_ptr<SweepProgressFile> kept;
};

/// Returns the name of the file into which a shard is written: the name of -o, in which the shard's number
/// replaces {shard}. Returns an error if another flag cannot be combined with a shard.
tl::expected<std::string, UserError> part_file(const SweepFlags& flags, const StatedShard& stated) {
  const std::string who = fmt::format("shard {} ({})", to_text(stated.shard), stated.stated_by);
  const std::string whole = stated.stated_by == "--shard"
                                ? ""
                                : fmt::format(", or unset {} to make the whole sweep here", stated.stated_by);
  // Points are appended to the file of a shard, which can therefore be neither compressed nor printed.
  if (flags.output.files.size() != 1 || !flags.output.files.front().ends_with(kPartSuffix) ||
      names_standard_output(flags.output.files.front())) {
    return bad_input(fmt::format(
        "{} goes into one file, which --merge reads: expected -o with a name such as part-{{shard}}.jsonl{}",
        who, whole));
  }
  if (flags.output.json) return bad_input(fmt::format("{}: --json prints a whole sweep{}", who, whole));
  if (!flags.resume.empty()) {
    return bad_input(fmt::format("{} goes on from what its file has: leave out --resume{}", who, whole));
  }
  std::string file = flags.output.files.front();
  constexpr std::string_view kPlace = "{shard}";
  if (const std::size_t at = file.find(kPlace); at != std::string::npos)
    file.replace(at, kPlace.size(), std::to_string(stated.shard.index + 1));
  return file;
}

/// Returns an error if an output file cannot be written, or if the sweep uses the same file for something
/// else.
tl::expected<void, UserError> check_files(const SweepFlags& flags, const PreparedSweep& prepared) {
  std::vector<FileArgument> others = inputs_of(flags.input);
  for (const std::string& name : flags.schedules) {
    if (names_program(name)) others.push_back({"--schedule", name});
  }
  if (prepared.is_part) return check_output_files({prepared.kept_name}, {kPartSuffix}, std::move(others));
  others.push_back({"--resume", flags.resume});
  return check_output_files(flags.output.files, kSweepFiles, std::move(others));
}

tl::expected<PreparedSweep, UserError> prepared_sweep(SweepFlags flags) {
  PreparedSweep prepared;
  const auto swept = programs_of(flags.schedules);
  if (!swept) return tl::unexpected(swept.error());
  add_sizes_of_programs(flags, swept->programs);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
  const auto shard = shard_of_process(flags.shard, [](const char* name) { return std::getenv(name); });
  if (!shard) return tl::unexpected(shard.error());
  prepared.is_part = shard->has_value();
  auto kept_name = prepared.is_part ? part_file(flags, **shard) : flags.resume;
  if (!kept_name) return tl::unexpected(kept_name.error());
  prepared.kept_name = *std::move(kept_name);
  if (auto known = check_files(flags, prepared); !known) return tl::unexpected(known.error());
  const auto inputs = varied_inputs(flags);
  if (!inputs) return tl::unexpected(inputs.error());
  auto grid = grid_of(flags, swept->programs);
  if (!grid) return tl::unexpected(grid.error());
  if (auto added = add_variants(*grid, flags, *inputs); !added) return tl::unexpected(added.error());
  std::vector<std::string>& notes = grid->variants.front().scenario.notes;
  notes.insert(notes.end(), swept->notes.begin(), swept->notes.end());
  // The first scenario has the name of the file, and the channels of all points.
  const Scenario scenario = grid->variants.front().scenario;
  if (auto fits = check_size(flags, point_count(scenario, *grid)); !fits) return tl::unexpected(fits.error());
  if (prepared.is_part) grid->shard = (*shard)->shard;
  auto kept = opened_progress(prepared.kept_name, *inputs, scenario, *grid);
  if (!kept) return tl::unexpected(kept.error());
  prepared.kept = *std::move(kept);
  prepared.scenario = scenario;
  prepared.grid = *std::move(grid);
  return prepared;
}

/// Returns the outcome of a complete sweep. It is an error only if no point could be simulated. If all
/// points hang, the error is a failed check, as in `simulate`. Otherwise it is an error in the input.
Outcome outcome_of(const Sweep& swept) {
  if (std::ranges::any_of(swept.rows, was_simulated)) return ExitCode::ok;
  const bool all_failed =
      std::ranges::all_of(swept.rows, [](const SweepRow& row) { return row.status == SweepStatus::failed; });
  std::string reasons = refusals_text(swept);
  if (reasons.ends_with('\n')) reasons.pop_back();
  return user_error(all_failed ? ErrorKind::check_failed : ErrorKind::bad_input,
                    "sweep: no point could be simulated:\n" + reasons);
}

/// Prints the name of the file with the shard, and a sentence that `--merge` joins the shards.
tl::expected<void, UserError> write_part_line(const PreparedSweep& prepared, const Sweep& swept) {
  const SweepHead head = sweep_head(prepared.scenario, prepared.grid);
  return write_stdout(fmt::format(
      "shard {} with {} of {} points is in {}; `penstock sweep --merge` puts the "
      "files of all {} shards together\n",
      to_text(head.shard), swept.rows.size(), head.points, shown_name(prepared.kept_name), head.shard.count));
}

/// Adds the bills of the best point and of the runner-up to the sweep, if it is a shard or has a page. Those
/// of a shard are also added to its file. Requires that all points of the sweep or shard are finished.
void add_bills(const SweepFlags& flags, const PreparedSweep& prepared, Sweep& swept) {
  const bool has_page = std::ranges::any_of(
      flags.output.files, [](const std::string& file) { return has_suffix(file, ".html"); });
  if (!prepared.is_part && !has_page) return;
  const auto [first, step] = prepared.grid.shard;
  for (const std::size_t row : best_two(swept)) {
    const std::size_t number = static_cast<std::size_t>(first) + row * static_cast<std::size_t>(step);
    if (prepared.is_part && prepared.kept->known_bills().contains(number)) continue;
    const auto scenario = scenario_of_point(prepared.scenario, prepared.grid, number);
    const auto bill = scenario ? bill_of_scenario(*scenario) : std::nullopt;
    if (!bill) continue;
    swept.bills[row] = *bill;
    if (prepared.is_part) prepared.kept->add(number, *bill);
  }
}

/// Writes the output files with all finished points. After an interrupt, it then ends the process by the
/// signal and does not return.
Outcome finish(const SweepFlags& flags, const PreparedSweep& prepared, Sweep swept,
               InterruptNoted& interrupt) {
  if (!swept.interruption) add_bills(flags, prepared, swept);
  const auto written = prepared.is_part ? write_part_line(prepared, swept) : write_sweep(flags, swept);
  if (interrupt.came()) {
    if (!written) write_stderr("penstock: " + written.error().message);
    write_stderr(interrupted_message(prepared.kept_name, swept));
    interrupt.end_if_it_came();
  }
  if (!written) return tl::unexpected(written.error());
  if (prepared.kept) {
    if (auto state = prepared.kept->state(); !state) return bad_input(state.error());
  }
  return prepared.is_part ? ExitCode::ok : outcome_of(swept);
}

Outcome run_sweep(SweepFlags flags) {
  if (auto moved = move_lists_of_vary(flags); !moved) return tl::unexpected(moved.error());
  auto prepared = prepared_sweep(flags);
  if (!prepared) return tl::unexpected(prepared.error());
  InterruptNoted interrupt;
  Sweep swept = run_points(prepared->scenario, prepared->grid, flags.output, prepared->kept.get(), interrupt);
  return finish(flags, *prepared, std::move(swept), interrupt);
}

/// Returns an error if --merge is combined with a flag of the scenario or of the grid. The merged files
/// already contain these values.
tl::expected<void, UserError> refuse_flags_beside_merge(const SweepFlags& flags) {
  SweepFlags merge_alone;
  merge_alone.parts = flags.parts;
  merge_alone.output = flags.output;
  if (flags == merge_alone) return {};
  return bad_input(
      "--merge takes the scenario and the grid from the parts: leave out all but --merge PART..., -o "
      "FILE, --json and --quiet");
}

Outcome run_merge(const SweepFlags& flags) {
  if (auto alone = refuse_flags_beside_merge(flags); !alone) return tl::unexpected(alone.error());
  std::vector<FileArgument> others;
  others.reserve(flags.parts.size());
  for (const std::string& part : flags.parts) others.push_back({"--merge", part});
  if (auto known = check_output_files(flags.output.files, kSweepFiles, std::move(others)); !known)
    return tl::unexpected(known.error());
  const auto swept = merged_sweep(flags.parts);
  if (!swept) return tl::unexpected(swept.error());
  if (auto written = write_sweep(flags, *swept); !written) return tl::unexpected(written.error());
  return outcome_of(*swept);
}

}  // namespace

Command sweep_command(CLI::App& root) {
  Subcommand app(root, "sweep", "Predict many schedules, K, v, M and values of other keys, and rank them.");
  const auto flags = std::make_shared<SweepFlags>();
  add_input_file(app, flags->input.file);
  const std::string group = "Grid (lists: 4 | 1,2,3 | 1..16 | 1,2,4..128; default: the scenario's own value)";
  app.add_words(
         "--schedule", flags->schedules,
         "names of schedules and files of programs (.psched, PyTorch's .csv), with commas between them")
      .words(schedule_names())
      .group(group)
      .type_name("NAMES");
  app.add_option("--pp-size", flags->pp_sizes, "K, ranks of the pipeline").group(group).type_name("NUMBERS");
  app.add_option("--virtual-stages", flags->virtual_stages,
                 "v, model chunks a rank, for the schedules that take it; others run with their own")
      .group(group)
      .type_name("NUMBERS");
  app.add_option("--num-microbatches", flags->microbatches, "M, microbatches of one minibatch")
      .group(group)
      .type_name("NUMBERS");
  app.add_option("--vary", flags->vary,
                 "values of any key of the scenario, with their units: cluster.latency=1us,4us; may be "
                 "repeated; values "
                 "that do not go together make a skipped point")
      .one_value_each()
      .group(group)
      .type_name("KEY=VALUES");
  add_choice(
      app, "--hold", flags->hold,
      {.words = {"global-batch", "micro-batch"},
       .help = "the size that stays while M changes: global-batch or micro-batch (default: the one that is "
               "a flag, else the scenario's global batch where it has one)",
       .group = group,
       .type_name = "SIZE"});
  const std::string long_ones = "Long sweeps";
  app.add_option(
         "--resume", flags->resume,
         "keep each point that is done in FILE, and take from it what an earlier run of the same sweep did")
      .group(long_ones)
      .type_name("FILE");
  app.add_option(
         "--shard", flags->shard,
         "make every N-th point from the I-th on, and keep them in the -o file (.jsonl; {shard} in its "
         "name becomes I), from which the same command goes on; default: from the variables of torchrun, "
         "mpirun, srun or a job array of Slurm")
      .group(long_ones)
      .type_name("I/N");
  app.add_option("--merge", flags->parts,
                 "put the files of all shards together, with the bytes of one process; - for standard input")
      .group(long_ones)
      .type_name("PART");
  app.add_option("--max-points", flags->max_points, "refuse grids of more points (default 100000)")
      .range(std::int64_t{1}, std::int64_t{1'000'000'000})
      .group(long_ones)
      .type_name("N");
  add_schedule_option_flags(app, flags->input);
  add_batch_flags(app, flags->input);
  add_model_flags(app, flags->input.model);
  add_channel_flags(app, flags->channels);
  add_engine_flag(app, flags->engine);
  add_output_flags(app, flags->output, ".csv .json .html .txt");
  app.footer(
      "Examples:\n"
      "  penstock sweep --schedule gpipe,1f1b,zb-h1 --pp-size 4,8 --num-microbatches 1,2,4..64\n"
      "  penstock sweep --schedule 1f1b,interleaved --virtual-stages 1,2,4 --pp-size 4 --num-microbatches 8\n"
      "  penstock sweep scenarios/library/gpipe-transformer-k4.yaml --num-microbatches 1,2,4..32 -o k4.csv "
      "-o k4.html\n"
      "  penstock sweep scenarios/library/gpipe-transformer-k4.yaml --vary cluster.latency=5us,50us --vary "
      "schedule.microbatches=4,8\n"
      "  penstock sweep --schedule gpipe,1f1b --pp-size 4,8 --num-microbatches 8 --shard 1/2 -o "
      "part-1.jsonl\n"
      "  penstock sweep --schedule gpipe,1f1b --pp-size 4,8 --num-microbatches 8 --shard 2/2 -o "
      "part-2.jsonl\n"
      "  penstock sweep --merge part-1.jsonl part-2.jsonl -o table.csv");
  return {app, [flags] { return flags->parts.empty() ? run_sweep(*flags) : run_merge(*flags); }};
}

}  // namespace penstock
