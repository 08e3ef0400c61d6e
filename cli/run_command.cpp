// penstock run: executes one program and measures it.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <tl/expected.hpp>

#include "backend/measured_run.hpp"
#include "backend/occupy_module.hpp"
#include "backend/process/launch_environment.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/process_run.hpp"
#include "backend/thread_run.hpp"
#include "cli/backend_choice.hpp"
#include "cli/commands.hpp"
#include "cli/extensions.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/result_output.hpp"
#include "report/result.hpp"
#include "report/result_json.hpp"
#include "report/result_table.hpp"
#include "report/units.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/channel_check.hpp"
#include "sim/engines.hpp"
#include "sim/memory.hpp"

namespace penstock {
namespace {

struct RunFlags {
  InputFlags input;
  ChannelFlags channels;
  OutputFlags output;
  std::string backend = "cpu-thread";
  std::int32_t warmup = 1;
  std::int32_t repeats = 5;
  double time_scale = 1;
  double jitter = 0;
  std::uint64_t seed = 1;
  double deadline_seconds = 0;
  bool occupy = false;
  bool timeline = false;
};

/// Memory is not measured where nothing is stored: it is the cost table's, at the measured times.
void add_memory(Result& result, const Experiment& experiment, const RunFlags& flags) {
  if (std::ranges::any_of(result.ranks, [](const RankReport& rank) { return rank.memory.peak_bytes > 0; })) {
    result.notes.emplace_back("memory: what the modules held, by their own account");
    return;
  }
  auto memories =
      memory_of(result.timeline, experiment, {.samples = wants_memory_samples(flags.output.files)});
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    result.ranks[rank].memory = std::move(memories[rank]);
    if (rank < experiment.cluster.devices().size())
      result.ranks[rank].device = experiment.cluster.devices()[rank].name;
  }
  result.notes.emplace_back("memory: the bytes that the costs say, at the measured times");
}

/// The rank that a launcher gave this process; nothing where this process starts the others by itself.
tl::expected<std::optional<ProcessPlace>, Failure> launched_place(const Experiment& experiment) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
  const auto launched = launched_process([](const char* name) { return std::getenv(name); });
  if (!launched) return bad_input(fmt::format("run: {}", launched.error()));
  if (!*launched) return std::nullopt;
  const std::int32_t ranks = experiment.program.rank_count();
  if ((*launched)->world_size != ranks) {
    return bad_input(
        fmt::format("run: the launcher started {} processes but the program has {}; start as many",
                    (*launched)->world_size, format_count(ranks, "rank")));
  }
  return (*launched)->place;
}

tl::unexpected<Failure> failure_of(RunError error) {
  switch (error.fault) {
    case RunFault::failed:
      return tl::unexpected(Failure{ExitCode::internal_error, std::move(error.message)});
    case RunFault::invalid:
      return tl::unexpected(Failure{ExitCode::check_failed, std::move(error.message)});
    case RunFault::unavailable:
      return tl::unexpected(Failure{ExitCode::not_available, std::move(error.message)});
  }
  return bad_input(std::move(error.message));
}

/// Nothing in all processes of a launcher but rank 0.
tl::expected<std::optional<Result>, Failure> run_by_backend(const BackendCall& call, const RunFlags& flags,
                                                            const Extensions& extensions) {
  if (const auto found = extensions.backends.find(flags.backend); found != extensions.backends.end()) {
    auto result = found->second(call);
    if (!result) return failure_of(std::move(result.error()));
    return *std::move(result);
  }
  const auto family = family_of(call.experiment, call.jitter, extensions);
  if (!family) return bad_input(family.error());
  if (flags.backend == "cpu-thread") {
    auto result = run_on_threads(call.experiment, call.pace, call.options, **family);
    if (!result) return failure_of(std::move(result.error()));
    return *std::move(result);
  }
  const auto place = launched_place(call.experiment);
  if (!place) return tl::unexpected(place.error());
  auto result = run_on_processes(call.experiment, call.pace, call.options, **family, *place);
  if (!result) return failure_of(std::move(result.error()));
  return *std::move(result);
}

/// Nothing in all processes of a launcher but rank 0.
tl::expected<std::optional<Result>, Failure> measured(const Experiment& experiment, const RunFlags& flags,
                                                      const Extensions& extensions) {
  const RunOptions options = {
      .warmup = flags.warmup,
      .repeats = flags.repeats,
      .time_scale = flags.time_scale,
      .deadline = std::chrono::nanoseconds(std::llround(flags.deadline_seconds * 1e9))};
  const PaceOfLinks pace = pace_of_links(experiment);
  const Jitter jitter{.fraction = flags.jitter, .seed = flags.seed};
  auto result = run_by_backend({experiment, pace, options, jitter}, flags, extensions);
  if (!result || !*result) return result;
  if (links_are_shared(experiment)) {
    (*result)->notes.emplace_back(
        "links are emulated for each message alone: their sharing of bandwidth is left out");
  }
  add_memory(**result, experiment, flags);
  return *std::move(result);
}

Outcome run_run(const RunFlags& flags, const Invocation& invocation) {
  if (auto known = check_output_files(flags.output.files, result_suffixes()); !known) {
    return tl::unexpected(known.error());
  }
  const auto scenario = scenario_of(flags.input, flags.channels);
  if (!scenario) return tl::unexpected(scenario.error());
  auto experiment = prepared(*scenario);
  if (!experiment) return tl::unexpected(experiment.error());
  if (flags.occupy) experiment->network.reset();
  if (const auto hang = find_hang(experiment->program, experiment->channels, experiment->costs)) {
    return tl::unexpected(Failure{ExitCode::check_failed, hang->message});
  }
  if (auto failure = hand_over("run", flags.backend, *experiment, invocation))
    return tl::unexpected(*std::move(failure));
  const auto measurement = measured(*experiment, flags, invocation.extensions);
  if (!measurement) return tl::unexpected(measurement.error());
  if (!*measurement) return ExitCode::ok;  // rank 0 answers
  const std::optional<Result>& result = *measurement;
  const ResultJsonOptions json = {.timeline = flags.timeline};
  const std::string table = result_to_table(*result);
  if (auto written = write_answer(flags.output, result_forms(*result, json, table),
                                  flags.output.json ? result_to_json(*result, json) : table);
      !written) {
    return tl::unexpected(written.error());
  }
  return ExitCode::ok;
}

void add_measuring_flags(CLI::App& app, RunFlags& flags) {
  const std::string group = "Measuring";
  add_choice(
      app, "--backend", flags.backend,
      {.words = {"cpu-thread", "cpu-process", "cuda-local", "nccl"},
       .help = "cpu-thread (default): a thread a rank, actions occupy it for their time; cpu-process: a "
               "process a rank, started by itself or by torchrun --no-python, mpirun or srun",
       .group = group,
       .type_name = "NAME"});
  app.add_flag("--occupy", flags.occupy,
               "hold each action for the time that the costs say, also where the model names a network")
      ->group(group);
  app.add_option("--warmup", flags.warmup, "runs of the whole program that do not count (default 1)")
      ->check(CLI::Range(0, 1'000'000).description(""))
      ->group(group)
      ->type_name("N");
  app.add_option("--repeats", flags.repeats, "runs that count; the median is the result (default 5)")
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->group(group)
      ->type_name("N");
  app.add_option(
         "--time-scale", flags.time_scale,
         "hold everything X times as long and divide the times by X: threads are exact from about 2 ms")
      ->check(CLI::Range(1e-9, 1e9).description(""))
      ->group(group)
      ->type_name("X");
  app.add_option("--jitter", flags.jitter, "vary durations evenly by this fraction either way (default 0)")
      ->check(CLI::Range(0.0, 1.0).description(""))
      ->group(group)
      ->type_name("FRACTION");
  app.add_option("--seed", flags.seed, "of the jitter (default 1)")->group(group)->type_name("N");
  app.add_option("--deadline", flags.deadline_seconds,
                 "seconds after which an action that does not end fails the run (default: ten times the "
                 "longest, at least 10)")
      ->check(CLI::Range(1e-3, 1e7).description(""))
      ->group(group)
      ->type_name("SECONDS");
}

}  // namespace

Command run_command(CLI::App& root, const Invocation& invocation) {
  CLI::App* app = root.add_subcommand("run", "Execute a program and measure it.");
  const auto flags = std::make_shared<RunFlags>();
  add_input_file(*app, flags->input.file);
  add_shape_flags(*app, flags->input);
  add_channel_flags(*app, flags->channels);
  add_measuring_flags(*app, *flags);
  add_output_flags(*app, flags->output, std::string(kResultSuffixes));
  app->add_flag("--timeline", flags->timeline, "JSON holds every action with its start and end")
      ->group("Output");
  app->footer(
      "Examples:\n"
      "  penstock run --schedule 1f1b --pp-size 4 --num-microbatches 8 --time-scale 3\n"
      "  penstock run scenarios/library/gnmt-cluster-a.yaml --backend cpu-thread --repeats 9 --timeline -o "
      "measured.json");
  return {app, [flags, &invocation] { return run_run(*flags, invocation); }};
}

}  // namespace penstock
