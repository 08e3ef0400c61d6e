// penstock run: executes one program and measures it. First it checks that the program does not hang under
// the scenario's channels. Then it finds an executable that can run the program (measuring.hpp) and starts
// the workers. The workers check the program again, with the channels of the transport. If a launcher has
// started the processes, only rank 0 prints the answer.

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/executor/measured_run.hpp"
#include "backend/process/process_execution.hpp"
#include "cli/commands/commands.hpp"
#include "cli/executable.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/measuring.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"

namespace penstock {
namespace {

struct RunFlags {
  InputFlags input;
  ChannelFlags channels;
  MeasuringFlags measuring;
  ResultFlags result;
};

/// Adds the memory use of each rank to the result. If the modules report no memory, it is computed from the
/// cost table and the measured times. A note says which of the two was used.
void add_memory(Result& result, const Experiment& experiment, const RunFlags& flags) {
  if (std::ranges::any_of(result.ranks, [](const RankReport& rank) { return rank.memory.peak_bytes > 0; })) {
    result.notes.emplace_back("memory: what the modules held, by their own account");
    return;
  }
  auto memories =
      memory_of(result.timeline, experiment, {.samples = wants_memory_samples(flags.result.output.files)});
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    result.ranks[rank].memory = std::move(memories[rank]);
  }
  result.notes.emplace_back("memory: the bytes that the costs say, at the measured times");
}

/// Returns the rank and the place that a launcher gave to this process. Returns nothing if this process
/// starts the other ranks.
tl::expected<std::optional<ProcessPlace>, UserError> own_place(const Experiment& experiment,
                                                               const RunFlags& flags) {
  if (flags.measuring.backend != "cpu-process") return std::nullopt;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
  const Environment environment = [](const char* name) { return std::getenv(name); };
  const auto place = launched_place(environment, experiment.program.rank_count());
  if (!place) return bad_input(fmt::format("run: {}", place.error()));
  return *place;
}

/// Runs and measures the program. If a launcher has started the processes, only rank 0 gets a result.
tl::expected<std::optional<Result>, UserError> measured(const Experiment& experiment, const RunFlags& flags,
                                                        const Extensions& extensions) {
  const auto place = own_place(experiment, flags);
  if (!place) return tl::unexpected(place.error());
  ProgressBar bar(display_for(flags.result.output));
  RunOptions options = run_options(flags.measuring);
  options.progress = [&](std::size_t done, std::size_t total) { bar.show(done, total); };
  auto result = measure_by_backend(experiment, flags.measuring, options, *place, extensions);
  if (!result) return tl::unexpected(std::move(result.error()));
  if (!*result) return std::nullopt;
  // With NCCL, messages use real links, which share their bandwidth. Only emulated links need the note below.
  const bool emulates_links = flags.measuring.backend != "nccl";
  if (emulates_links && links_are_shared(experiment)) {
    (*result)->link_sharing = LinkSharing::left_out;
    (*result)->notes.emplace_back(
        "links are emulated for each message separately: their sharing of bandwidth is left out");
  }
  add_memory(**result, experiment, flags);
  return *std::move(result);
}

Outcome run_run(const RunFlags& flags, const Invocation& invocation) {
  if (auto known = check_result_files(flags.result, inputs_of(flags.input)); !known)
    return tl::unexpected(known.error());
  auto experiment = experiment_of(flags.input, flags.channels);
  if (!experiment) return tl::unexpected(experiment.error());
  if (flags.measuring.occupy) experiment->network.reset();
  experiment->channels.launch_order |= asks_for_launch_order(flags.measuring);
  if (const auto hang = find_hang(experiment->program, experiment->channels, experiment->costs)) {
    return user_error(ErrorKind::check_failed, hang->message);
  }
  if (auto failure = hand_over("run", flags.measuring.backend, *experiment, invocation))
    return tl::unexpected(*std::move(failure));
  const auto measurement = measured(*experiment, flags, invocation.extensions);
  if (!measurement) return tl::unexpected(measurement.error());
  if (!*measurement) return ExitCode::ok;  // another rank; only rank 0 prints the answer
  const ResultTexts texts = {.printed = result_to_table(**measurement, {.width = table_width()}),
                             .file = result_to_table(**measurement)};
  if (auto written = write_result(**measurement, flags.result, texts); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace

Command run_command(CLI::App& root, const Invocation& invocation) {
  Subcommand app(root, "run", "Execute a program and measure it.");
  const auto flags = std::make_shared<RunFlags>();
  add_input_file(app, flags->input.file);
  add_shape_flags(app, flags->input);
  add_channel_flags(app, flags->channels);
  add_measuring_flags(app, flags->measuring,
                      {.processes = ", started by itself or by torchrun --no-python, mpirun or srun",
                       .warmup = "runs of the whole program that do not count",
                       .count_flag = "--repeats",
                       .counted = "runs that count; the median is the result"});
  add_result_flags(app, flags->result);
  app.footer(
      "Examples:\n"
      "  penstock run --schedule 1f1b --pp-size 4 --num-microbatches 8 --time-scale 3\n"
      "  penstock run scenarios/library/gnmt-cluster-a.yaml --backend cpu-thread --repeats 9 --timeline -o "
      "measured.json");
  return {app, [flags, &invocation] { return run_run(*flags, invocation); }};
}

}  // namespace penstock
