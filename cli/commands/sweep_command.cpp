// penstock sweep: one scenario over many schedules, K, v and M, by one process or by all that a launcher
// started. The points are the product of the lists that are given; each is simulated or has the reason why
// not, and rows come in the order of the lists whatever thread was first.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "backend/process/launch_environment.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/interruptible_sweep.hpp"
#include "cli/commands/shared_sweep.hpp"
#include "cli/commands/sweep_summary.hpp"
#include "cli/extensions.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/interrupt.hpp"
#include "cli/model_flags.hpp"
#include "cli/number_list.hpp"
#include "cli/other_executable.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/process_group.hpp"
#include "cli/progress_bar.hpp"
#include "cli/socket_group.hpp"
#include "cli/subcommand.hpp"
#include "cli/sweep_digest.hpp"
#include "cli/sweep_progress_file.hpp"
#include "cli/terminal.hpp"
#include "report/pages/html_report.hpp"
#include "report/print/escaping.hpp"
#include "report/print/units.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/host/memory_room.hpp"
#include "scenarios/model/device_model.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {
namespace {

struct SweepFlags {
  InputFlags input;  // schedule, pp_size, virtual_stages and num_microbatches stay empty: they are lists here
  ChannelFlags channels;
  OutputFlags output;
  std::string engine;
  std::vector<std::string> schedules;
  std::string pp_sizes;
  std::string virtual_stages;
  std::string microbatches;
  std::string hold;
  std::string resume;
  std::int64_t max_points = 100'000;
};

const std::vector<std::string_view> kSweepFiles = {".csv", ".json", ".html", ".txt"};

/// Error: the first axis of the grid that a program, which is one schedule of one shape, decides itself.
tl::expected<void, Failure> refuse_axes_of_program(const SweepFlags& flags) {
  for (const auto& [name, given] :
       {std::pair{"--schedule", !flags.schedules.empty()}, std::pair{"--pp-size", !flags.pp_sizes.empty()},
        std::pair{"--virtual-stages", !flags.virtual_stages.empty()},
        std::pair{"--num-microbatches", !flags.microbatches.empty()},
        std::pair{"--hold", !flags.hold.empty()}}) {
    if (given) {
      return bad_input(fmt::format(
          "{} does not go with a program, which says its schedule, K, v and M itself: leave the flag out, or "
          "sweep a scenario (program of {})",
          name, flags.input.file));
    }
  }
  if (flags.resume.empty()) return {};
  return bad_input("--resume keeps the points of a long sweep, and a program has one: leave the flag out");
}

/// The scenario that every point starts from, without the sizes that are flags: which of its own figures
/// those replace depends on each point's schedule. What a point sets itself need not be there.
tl::expected<Scenario, Failure> base_scenario(const SweepFlags& flags) {
  InputFlags input = flags.input;
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
  const bool says_m = !flags.microbatches.empty() || !flags.input.settings.empty() ||
                      (flags.input.micro_batch_size && flags.input.global_batch_size) ||
                      // On named devices a microbatch is one sample unless its size is stated.
                      (std::holds_alternative<DeviceModel>(scenario->model) && flags.input.global_batch_size);
  if (flags.input.file.empty() && (flags.pp_sizes.empty() || !says_m)) {
    return bad_input("expected a scenario file, or --pp-size and --num-microbatches beside --schedule");
  }
  return scenario;
}

/// All of them known, so that a misspelt one does not show as thousands of skipped points.
tl::expected<std::vector<std::string>, Failure> schedules_of(const SweepFlags& flags) {
  for (const std::string& name : flags.schedules) {
    if (auto known = known_schedule(name); !known) return tl::unexpected(known.error());
  }
  return flags.schedules;
}

/// The sizes that flags state, --set among them: each stays while M changes, where one of the scenario's own
/// may give way.
Batch stated_sizes(const SweepFlags& flags, const Scenario& scenario) {
  Batch stated = stated_batch(flags.input);
  for (const std::string& setting : flags.input.settings) {
    if (setting.starts_with("training.micro_batch_size=") && !stated.micro_batch_size)
      stated.micro_batch_size = scenario.batch.micro_batch_size;
    if (setting.starts_with("training.global_batch_size=") && !stated.global_batch_size)
      stated.global_batch_size = scenario.batch.global_batch_size;
  }
  return stated;
}

/// --hold: makes the size that is held a stated one, where the scenario only implies it (a global batch of M
/// microbatches). Error: the other size is stated, too, so that M could not change; or nobody says the size.
tl::expected<Batch, Failure> with_held_size(Batch stated, const SweepFlags& flags, const Scenario& scenario) {
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

/// The product of the lists. Error: a list, a schedule or a size that is none.
tl::expected<SweepGrid, Failure> grid_of(const SweepFlags& flags, const Scenario& scenario) {
  auto schedules = schedules_of(flags);
  if (!schedules) return tl::unexpected(schedules.error());
  auto stages = numbers_of_flag("--pp-size", flags.pp_sizes);
  if (!stages) return tl::unexpected(stages.error());
  auto virtual_stages = numbers_of_flag("--virtual-stages", flags.virtual_stages);
  if (!virtual_stages) return tl::unexpected(virtual_stages.error());
  auto microbatches = numbers_of_flag("--num-microbatches", flags.microbatches);
  if (!microbatches) return tl::unexpected(microbatches.error());
  tl::expected<Batch, Failure> batch = stated_sizes(flags, scenario);
  if (!flags.hold.empty()) batch = with_held_size(*batch, flags, scenario);
  if (!batch) return tl::unexpected(batch.error());
  return SweepGrid{.schedules = *std::move(schedules),
                   .stages = *std::move(stages),
                   .virtual_stages = *std::move(virtual_stages),
                   .microbatches = *std::move(microbatches),
                   .batch = *batch,
                   .engine = engine_of(flags.engine)};
}

/// Error: more points than --max-points, which guards against "1..1000000", or than their rows leave room
/// for, reasons and notes not counted.
tl::expected<void, Failure> check_size(const SweepFlags& flags, std::uint64_t points) {
  if (points > static_cast<std::uint64_t>(flags.max_points)) {
    return bad_input(
        fmt::format("the grid has {} points, more than {}: make its lists shorter, or lift the limit by "
                    "--max-points {}",
                    points, flags.max_points, points));
  }
  const double needed = static_cast<double>(points) * sizeof(std::optional<SweepPoint>);
  const auto within_reach = memory_within_reach();
  if (!within_reach || needed <= static_cast<double>(*within_reach)) return {};
  return bad_input(
      fmt::format("the grid has {} points, which take at least {} of memory, and {} are within reach: make "
                  "its lists shorter",
                  points, format_bytes(static_cast<Bytes>(needed)), format_bytes(*within_reach)));
}

/// What --resume names, with what it knows put into the grid; nothing without the flag.
tl::expected<std::unique_ptr<SweepProgressFile>, Failure> opened_progress(const SweepFlags& flags,
                                                                          const Scenario& scenario,
                                                                          SweepGrid& grid) {
  if (flags.resume.empty()) return nullptr;
  auto digest = sweep_digest(flags.input, scenario, grid);
  if (!digest) return tl::unexpected(digest.error());
  auto progress =
      SweepProgressFile::open(flags.resume, {.points = point_count(scenario, grid), .digest = *digest});
  if (!progress) return bad_input(progress.error());
  grid.known = (*progress)->known();
  // The digest knows all but what was built and never committed, and numbers may be of no point: some rows
  // are made again and held against those of the file.
  if (auto same = check_known(scenario, grid); !same)
    return bad_input(fmt::format("{}: {}; name another file", flags.resume, same.error()));
  return *std::move(progress);
}

/// Runs the points that are not known; an interrupt leaves the rest out.
Sweep run_points(const Scenario& scenario, SweepGrid grid, const OutputFlags& output, SweepProgressFile* kept,
                 const InterruptNoted& interrupt) {
  const bool draw = !output.quiet && stderr_is_terminal();
  ProgressBar bar(draw ? ProgressDisplay::on : ProgressDisplay::off);
  grid.progress = [&bar](std::size_t done, std::size_t total) { bar.show(done, total); };
  if (kept != nullptr)
    grid.finished = [kept](std::size_t number, const SweepPoint& point) { kept->add(number, point); };
  return sweep_until(interrupt, scenario, std::move(grid));
}

// --- the command -----------------------------------------------------------------------------------------

/// What Ctrl-C has left, and how to go on.
std::string interrupted_message(const SweepFlags& flags, const Sweep& swept) {
  if (!swept.interruption) return "penstock: interrupted when all points were done";
  const std::string& count = *swept.interruption;
  return flags.resume.empty()
             ? fmt::format("penstock: {}; --resume FILE keeps them for the next time", count)
             : fmt::format("penstock: {}; the same command goes on from {}", count, shown_name(flags.resume));
}

tl::expected<void, Failure> write_sweep(const SweepFlags& flags, const Sweep& swept) {
  const std::vector<OutputForm> forms = {{".csv", [&] { return sweep_csv(swept); }},
                                         {".json", [&] { return sweep_json(swept); }},
                                         {".html", [&] { return sweep_to_html(swept); }},
                                         {".txt", [&] { return sweep_table(swept); }}};
  const std::string text =
      flags.output.json ? sweep_json(swept) : sweep_summary(swept, flags.output.files, table_width());
  return write_answer(flags.output, forms, text);
}

enum class Answers : std::uint8_t { written, left_to_others };

/// All that is known before the first point is made.
struct PreparedSweep {
  Scenario scenario;
  SweepGrid grid;
  std::unique_ptr<SweepProgressFile> kept;
};

/// `answers`: whether this process writes files and progress.
tl::expected<PreparedSweep, Failure> prepared_sweep(const SweepFlags& flags, Answers answers) {
  if (answers == Answers::written) {
    std::vector<FileArgument> others = inputs_of(flags.input);
    others.push_back({"--resume", flags.resume});
    if (auto known = check_output_files(flags.output.files, kSweepFiles, std::move(others)); !known)
      return tl::unexpected(known.error());
  }
  auto scenario = base_scenario(flags);
  if (!scenario) return tl::unexpected(scenario.error());
  auto grid = grid_of(flags, *scenario);
  if (!grid) return tl::unexpected(grid.error());
  if (auto fits = check_size(flags, point_count(*scenario, *grid)); !fits)
    return tl::unexpected(fits.error());
  PreparedSweep prepared{.scenario = *std::move(scenario), .grid = *std::move(grid), .kept = nullptr};
  if (answers == Answers::left_to_others) return prepared;
  auto kept = opened_progress(flags, prepared.scenario, prepared.grid);
  if (!kept) return tl::unexpected(kept.error());
  prepared.kept = *std::move(kept);
  return prepared;
}

/// Of a sweep that came to its end: not ok where it has no figures at all. A hang is a check that failed, as
/// in `simulate`; a shape that cannot be is bad input.
Outcome outcome_of(const Sweep& swept) {
  if (std::ranges::any_of(swept.rows, was_simulated)) return ExitCode::ok;
  const bool all_failed =
      std::ranges::all_of(swept.rows, [](const SweepRow& row) { return row.status == SweepStatus::failed; });
  std::string reasons = refusals_text(swept);
  if (reasons.ends_with('\n')) reasons.pop_back();
  return tl::unexpected(Failure{.code = all_failed ? ExitCode::check_failed : ExitCode::bad_input,
                                .message = "sweep: no point could be simulated:\n" + reasons});
}

/// Writes what there is, also of an interrupted sweep, which then ends by the signal and does not return.
Outcome finish(const SweepFlags& flags, const Sweep& swept, const SweepProgressFile* kept,
               InterruptNoted& interrupt) {
  const auto written = write_sweep(flags, swept);
  if (interrupt.came()) {
    if (!written) write_stderr("penstock: " + written.error().message);
    write_stderr(interrupted_message(flags, swept));
    interrupt.end_if_it_came();
  }
  if (!written) return tl::unexpected(written.error());
  if (kept != nullptr) {
    if (auto state = kept->state(); !state) return bad_input(state.error());
  }
  return outcome_of(swept);
}

Outcome run_sweep(const SweepFlags& flags) {
  auto prepared = prepared_sweep(flags, Answers::written);
  if (!prepared) return tl::unexpected(prepared.error());
  InterruptNoted interrupt;
  SweepProgressFile* kept = prepared->kept.get();
  const Sweep swept =
      run_points(prepared->scenario, std::move(prepared->grid), flags.output, kept, interrupt);
  return finish(flags, swept, kept, interrupt);
}

/// Ends all processes where one cannot begin; the first one says why.
void stop_on_fault(const ProcessGroup& group, const std::string& fault) {
  // By rank; in the others there are none.
  const std::vector<std::string> faults = group.gather(fault.substr(0, kMostSaid));
  const auto first = std::ranges::find_if(faults, [](const std::string& text) { return !text.empty(); });
  if (first == faults.end()) return;
  write_stderr("penstock sweep: " + *first);
  group.abandon(ExitCode::bad_input);
}

tl::expected<ProcessGroup, Failure> group_of_torchrun() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
  const auto process = launched_process([](const char* name) { return std::getenv(name); });
  if (!process) return bad_input(process.error());
  if (!*process) return bad_input("torchrun started this process, but RANK does not say which of all it is");
  auto group = joined_by_sockets(**process);
  if (!group) return tl::unexpected(Failure{.code = ExitCode::run_failed, .message = group.error()});
  return *std::move(group);
}

/// In rank 0, of a sweep that another process has kept from its end: writes what there is, and ends all.
[[noreturn]] void end_with_loss(const SweepFlags& flags, const SharedSweep& shared, const ProcessGroup& group,
                                const SweepProgressFile* kept) {
  if (const auto written = write_sweep(flags, shared.sweep); !written)
    write_stderr("penstock: " + written.error().message);
  if (kept != nullptr) {
    if (const auto state = kept->state(); !state) write_stderr("penstock: " + state.error());
  }
  write_stderr("penstock: " + *shared.loss);
  write_stderr(interrupted_message(flags, shared.sweep));
  group.abandon(ExitCode::run_failed);
  std::abort();  // not reached: abandon() does not return
}

/// By all processes of a launcher: this function runs in each of them, and they meet in stop_on_fault() and
/// in shared_sweep(). Only rank 0 writes files and prints.
Outcome run_shared_sweep(const SweepFlags& flags, const Invocation& invocation, StartedBy launcher) {
  if (launcher == StartedBy::mpi_launcher && !invocation.extensions.processes)
    return tl::unexpected(become("penstock-mpi", invocation.arguments, "a sweep on several processes"));
  const auto joined = launcher == StartedBy::torchrun
                          ? group_of_torchrun()
                          : tl::expected<ProcessGroup, Failure>(invocation.extensions.processes());
  if (!joined) return tl::unexpected(joined.error());
  const ProcessGroup& group = *joined;
  auto prepared = prepared_sweep(flags, group.rank == 0 ? Answers::written : Answers::left_to_others);
  stop_on_fault(group, prepared ? "" : prepared.error().message);
  if (!prepared) {
    group.first_says("");  // until it has said what the matter is
    return tl::unexpected(prepared.error());
  }
  InterruptNoted interrupt;
  SweepProgressFile* kept = prepared->kept.get();
  const auto shared = shared_sweep(group, prepared->scenario, std::move(prepared->grid), kept, interrupt);
  if (!shared) return ExitCode::ok;  // rank 0 has the answer
  if (shared->loss && !interrupt.came()) end_with_loss(flags, *shared, group, kept);
  if (shared->loss) write_stderr("penstock: " + *shared->loss);
  return finish(flags, shared->sweep, kept, interrupt);
}

}  // namespace

Command sweep_command(CLI::App& root, const Invocation& invocation) {
  Subcommand app(root, "sweep", "Predict many schedules, K, v and M, and rank them.");
  const auto flags = std::make_shared<SweepFlags>();
  add_input_file(app, flags->input.file);
  const std::string group = "Grid (lists: 4 | 1,2,3 | 1..16 | 1,2,4..128; default: the scenario's own value)";
  app.add_words("--schedule", flags->schedules, "names of schedules, with commas between them")
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
      "-o k4.html");
  return {app, [flags, &invocation] {
            const StartedBy launcher = started_by();
            return launcher == StartedBy::user ? run_sweep(*flags)
                                               : run_shared_sweep(*flags, invocation, launcher);
          }};
}

}  // namespace penstock
