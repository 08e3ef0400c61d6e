// Makes one measurement from several executions of a program by any backend. It computes the deadline from
// the costs and drops the warm-up runs. It selects the run with the median makespan; if the number of runs
// is even, the shorter of the middle two. Then it computes the same figures as a prediction has. An
// average of several timelines would show a run that never happened. Tests:
// tests/backend/thread_run_test.cpp.

#include "backend/executor/measured_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "report/print/units.hpp"
#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {
namespace {

Ns longest_action_ns(const std::vector<StageCost>& stages) {
  Ns longest = 0;
  for (const StageCost& cost : stages) {
    for (const Ns duration :
         {cost.forward_ns, cost.backward_ns, cost.backward_input_ns, cost.backward_weight_ns,
          cost.recompute_ns, cost.step_ns, cost.overlapped_pair_ns}) {
      longest = std::max(longest, duration);
    }
  }
  return longest;
}

/// The shortest deadline for an action or message. The supervisor checks for late ranks at intervals of a
/// millisecond or more. In addition, messages between processes take time that the costs do not include.
constexpr std::chrono::milliseconds kShortestDeadline(10);

/// The shortest time to wait until all processes have joined. A launcher starts the processes one after the
/// other.
constexpr std::chrono::seconds kShortestToJoin(1);

/// Returns the deadline of an action or message in host time, which includes the time scale. The default is
/// at least 10 s, because costs may be 0 and the machine may be busy. The result is at most a year, so that
/// nanoseconds do not overflow.
std::chrono::nanoseconds deadline_of(const CostTable& costs, const LinkPace& pace,
                                     const RunOptions& options) {
  if (options.deadline.count() > 0)
    return std::max<std::chrono::nanoseconds>(options.deadline, kShortestDeadline);
  Ns longest = longest_action_ns(costs.stages);
  for (const MicrobatchCost& microbatch : costs.microbatches)
    longest = std::max(longest, longest_action_ns(microbatch.stages));
  for (std::size_t i = 0; i < pace.hold.size(); ++i) {
    longest = std::max(longest, pace.hold[i] + pace.latency[i]);
  }
  // Ten times the longest action is enough for a slow machine, and short enough to report a hang soon.
  const double scaled = 10 * static_cast<double>(longest) * options.time_scale;
  const auto most = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::hours(24 * 365));
  const std::chrono::nanoseconds least = std::chrono::seconds(10);
  return scaled < static_cast<double>(most.count())
             ? std::max(least, std::chrono::nanoseconds(std::llround(scaled)))
             : most;
}

/// Returns the notes that a user needs to understand the measured times and bytes. The scenario's own notes
/// come first.
std::vector<std::string> notes_of(const Experiment& experiment, const RunOptions& options,
                                  const ModuleFamily& family, const Runner& runner) {
  std::vector<std::string> notes = experiment.notes;
  notes.push_back(fmt::format("{}; median of {}, {} before them not counted", family.description(),
                              format_count(options.repeats, "run"), options.warmup));
  if (options.time_scale != 1) {
    notes.push_back(fmt::format("held {:g} times as long, and all times divided by it", options.time_scale));
  }
  if (experiment.channels.model != runner.channels.model) {
    notes.push_back(fmt::format("the scenario asks for {} channels; the {} transport has {} ones",
                                to_text(experiment.channels.model), runner.transport,
                                to_text(runner.channels.model)));
  }
  return notes;
}

/// Returns a note on the accuracy of the clocks, or nothing if all ranks share one host's clock.
std::optional<std::string> clock_note(const ExecutedRun& run) {
  if (!run.clock_error_ns) return std::nullopt;
  return fmt::format(
      "the ranks run on several hosts: their clocks are aligned by round trips before and after each run, "
      "and times of two ranks are right to {}",
      format_duration(*run.clock_error_ns));
}

/// Returns the run with the median makespan. Requires at least one run.
ExecutedRun median_of(std::vector<ExecutedRun> timed) {
  const auto middle = timed.begin() + (static_cast<std::ptrdiff_t>(timed.size()) - 1) / 2;
  std::ranges::nth_element(timed, middle, {},
                           [](const ExecutedRun& run) { return run.timeline.makespan_ns; });
  return std::move(*middle);
}

/// Returns the memory of each rank. The result is empty if the stage modules store nothing.
std::vector<RankMemory> memories_of(const std::vector<RankAccount>& accounts) {
  std::vector<RankMemory> memories;
  memories.reserve(accounts.size());
  for (const RankAccount& account : accounts) memories.push_back(account.memory.value_or(RankMemory{}));
  return memories;
}

/// Returns a note with the mean training loss, or nothing if no stage computed a loss. The mean is over all
/// microbatches of all ranks for which a loss was computed.
std::optional<std::string> loss_note(const std::vector<RankAccount>& accounts) {
  double sum = 0;
  std::size_t losses = 0;
  for (const RankAccount& account : accounts) {
    for (const auto& [microbatch, loss] : account.losses) sum += loss;
    losses += account.losses.size();
  }
  if (losses == 0) return std::nullopt;
  return fmt::format("mean loss of {} microbatches: {:.9g}", losses, sum / static_cast<double>(losses));
}

Result result_of(ExecutedRun run, const Experiment& experiment, const Runner& runner,
                 std::vector<std::string> notes) {
  return summarize(std::move(run.timeline),
                   {.program = experiment.program,
                    .costs = experiment.costs,
                    .samples_per_microbatch = experiment.samples_per_microbatch,
                    .copies = experiment.copies,
                    .kind = ResultKind::measured,
                    .scenario = experiment.name,
                    .engine = std::string(runner.engine),
                    .channels = runner.channels,
                    .price_per_device_hour = experiment.price_per_device_hour,
                    .devices = rank_devices(experiment),
                    .memories = memories_of(run.accounts),
                    .notes = std::move(notes),
                    .pipeline_size = experiment.pipeline_size,
                    .tokens_per_sample = static_cast<double>(experiment.prompt_tokens),
                    .clock_error_ns = run.clock_error_ns});
}

}  // namespace

// A deadline that the user sets also limits how long the run waits for a rank that does not start.
std::optional<std::chrono::nanoseconds> patience_to_join(const RunOptions& options) {
  if (options.deadline.count() <= 0) return std::nullopt;
  return std::max<std::chrono::nanoseconds>(options.deadline, kShortestToJoin);
}

tl::expected<std::optional<Result>, UserError> measure(const Experiment& experiment, const PaceOfLinks& pace,
                                                       const RunOptions& options, const ModuleFamily& family,
                                                       const Runner& runner) {
  if (const auto hang = find_hang(experiment.program, runner.channels, experiment.costs)) {
    return user_error(ErrorKind::check_failed,
                      fmt::format("the program {} on the {} transport ({} channels):\n{}",
                                  hang->crossed.empty() ? "hangs" : "has messages that cross",
                                  runner.transport, to_text(runner.channels.model), hang->message));
  }
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = runner.channels, .iterations = experiment.program.iterations});
  const bool has_copies =
      std::ranges::any_of(flat.actions, [](const Action& action) { return is_host_copy(action.kind); });
  if (has_copies && !family.moves_activations()) {
    return user_error(
        ErrorKind::bad_input,
        fmt::format(
            "the lists have OFFLOAD and RELOAD, but the modules of this run on the {} transport do not "
            "move activations; take cpu-thread or cpu-process with a model that states its times, or "
            "leave schedule.offload out",
            runner.transport));
  }
  if (auto refusal = runner.refusal ? runner.refusal(flat) : std::nullopt)
    return user_error(ErrorKind::bad_input, *std::move(refusal));
  // The link times are computed for the flat program that runs. Their index is a message number, and
  // transports number the messages of a program in different orders.
  const LinkPace links = pace(flat);
  auto runs = runner.execute({.experiment = experiment,
                              .options = options,
                              .family = family,
                              .flat = flat,
                              .channels = runner.channels,
                              .pace = links,
                              .deadline = deadline_of(experiment.costs, links, options)});
  if (!runs) return user_error(ErrorKind::run_failed, std::move(runs.error().message));
  // If the process of another rank collects the result, this process has none.
  if (runs->empty()) return std::nullopt;
  runs->erase(runs->begin(), runs->begin() + options.warmup);
  ExecutedRun median = median_of(*std::move(runs));
  std::vector<std::string> notes = notes_of(experiment, options, family, runner);
  if (auto note = loss_note(median.accounts)) notes.push_back(*std::move(note));
  if (auto note = clock_note(median)) notes.push_back(*std::move(note));
  return result_of(std::move(median), experiment, runner, std::move(notes));
}

tl::expected<ExecutedRun, ExecutionError> execute_on_threads(const PreparedRun& run, StageModules& modules,
                                                             Transport& transport, const Clock& clock,
                                                             std::span<ComputeQueue* const> queues) {
  auto timeline = execute({.program = run.experiment.program,
                           .flat = run.flat,
                           .modules = modules,
                           .transport = transport,
                           .clock = clock,
                           .deadline = run.deadline,
                           .queues = queues});
  if (!timeline) return tl::unexpected(std::move(timeline.error()));
  ExecutedRun executed{.timeline = *std::move(timeline), .accounts = {}};
  for (std::int32_t rank = 0; rank < run.flat.rank_count; ++rank) {
    executed.accounts.push_back(run.family.account(rank, modules));
  }
  return executed;
}

tl::expected<ChannelOptions, std::string> declared_channels(const ChannelOptions& asked,
                                                            std::string_view transport) {
  ChannelOptions declared = find_transport(transport)->channels;
  const auto refused = [&](std::string_view what) {
    return tl::unexpected(
        fmt::format("the {} transport has no {}; leave that out, or take cpu-thread", transport, what));
  };
  // A prediction uses the channel options of the scenario. If the transport ignored an option, the run could
  // not be compared with the prediction. So the run is rejected.
  if (asked.blocking == Blocking::each) return refused("blocking channels");
  if (asked.capacity != declared.capacity) return refused("bounded channels (capacity)");
  if (asked.eager_bytes != declared.eager_bytes) return refused("eager messages");
  declared.blocking = asked.blocking;
  return declared;
}

}  // namespace penstock
