#include "backend/measured_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/clock.hpp"
#include "backend/executor.hpp"
#include "backend/in_process_transport.hpp"
#include "backend/module_family.hpp"
#include "backend/transport.hpp"
#include "report/metrics.hpp"
#include "report/result.hpp"
#include "report/timeline.hpp"
#include "report/units.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/action.hpp"
#include "schedules/channel.hpp"
#include "schedules/channel_check.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/transports.hpp"

namespace penstock {
namespace {

Ns longest_action_ns(const CostTable& costs) {
  Ns longest = 0;
  for (const StageCost& cost : costs.stages) {
    for (const Ns duration :
         {cost.forward_ns, cost.backward_ns, cost.backward_input_ns, cost.backward_weight_ns,
          cost.recompute_ns, cost.step_ns, cost.overlapped_pair_ns}) {
      longest = std::max(longest, duration);
    }
  }
  return longest;
}

std::chrono::nanoseconds deadline_of(const CostTable& costs, const LinkPace& pace,
                                     const RunOptions& options) {
  if (options.deadline.count() > 0) return options.deadline;
  Ns longest = longest_action_ns(costs);
  for (std::size_t i = 0; i < pace.hold.size(); ++i) {
    longest = std::max(longest, pace.hold[i] + pace.latency[i]);
  }
  const double scaled = 10 * static_cast<double>(longest) * options.time_scale;
  const auto most = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::hours(24 * 365));
  const std::chrono::nanoseconds least = std::chrono::seconds(10);
  return scaled < static_cast<double>(most.count())
             ? std::max(least, std::chrono::nanoseconds(std::llround(scaled)))
             : most;
}

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

ExecutedRun median_of(std::vector<ExecutedRun> timed) {
  const auto middle = timed.begin() + (static_cast<std::ptrdiff_t>(timed.size()) - 1) / 2;
  std::ranges::nth_element(timed, middle, {},
                           [](const ExecutedRun& run) { return run.timeline.makespan_ns; });
  return std::move(*middle);
}

void add_accounts(Result& result, const std::vector<RankAccount>& accounts) {
  double sum = 0;
  std::size_t losses = 0;
  for (std::size_t rank = 0; rank < accounts.size(); ++rank) {
    if (accounts[rank].memory) result.ranks[rank].memory = *accounts[rank].memory;
    for (const auto& [microbatch, loss] : accounts[rank].losses) sum += loss;
    losses += accounts[rank].losses.size();
  }
  if (losses == 0) return;
  result.notes.push_back(
      fmt::format("mean loss of {} microbatches: {:.9g}", losses, sum / static_cast<double>(losses)));
}

}  // namespace

tl::expected<std::optional<Result>, RunError> measure(const Experiment& experiment, const PaceOfLinks& pace,
                                                      const RunOptions& options, const ModuleFamily& family,
                                                      const Runner& runner) {
  if (const auto hang = find_hang(experiment.program, runner.channels, experiment.costs)) {
    return tl::unexpected(
        RunError{.message = fmt::format("the program hangs on the {} transport ({} channels):\n{}",
                                        runner.transport, to_text(runner.channels.model), hang->message),
                 .fault = RunFault::invalid});
  }
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = runner.channels, .iterations = experiment.program.iterations});
  const LinkPace links = pace(flat);
  auto runs = runner.execute({.experiment = experiment,
                              .options = options,
                              .family = family,
                              .flat = flat,
                              .channels = runner.channels,
                              .pace = links,
                              .deadline = deadline_of(experiment.costs, links, options)});
  if (!runs) return tl::unexpected(RunError{.message = std::move(runs.error().message)});
  if (runs->empty()) return std::nullopt;
  runs->erase(runs->begin(), runs->begin() + options.warmup);
  ExecutedRun median = median_of(*std::move(runs));
  Result result =
      summarize(std::move(median.timeline), {.program = experiment.program,
                                             .costs = experiment.costs,
                                             .samples_per_microbatch = experiment.samples_per_microbatch});
  result.kind = ResultKind::measured;
  result.throughput.cost_per_million_samples = cost_per_million_samples(
      result.throughput, experiment.program.rank_count(), experiment.price_per_device_hour);
  result.scenario = experiment.name;
  result.engine = runner.engine;
  result.channel = std::string(to_text(runner.channels.model));
  result.notes = notes_of(experiment, options, family, runner);
  add_accounts(result, median.accounts);
  return result;
}

tl::expected<ExecutedRun, ExecutionError> execute_on_threads(const PreparedRun& run, StageModules& modules,
                                                             Transport& transport, const Clock& clock) {
  auto timeline = execute({.program = run.experiment.program,
                           .flat = run.flat,
                           .modules = modules,
                           .transport = transport,
                           .clock = clock,
                           .deadline = run.deadline});
  if (!timeline) return tl::unexpected(std::move(timeline.error()));
  ExecutedRun executed{.timeline = *std::move(timeline), .accounts = {}};
  for (std::int32_t rank = 0; rank < run.flat.rank_count; ++rank) {
    executed.accounts.push_back(run.family.account(rank, modules));
  }
  return executed;
}

tl::expected<ChannelOptions, std::string> declared_channels(const ChannelOptions& asked,
                                                            std::string_view transport) {
  const ChannelOptions declared = find_transport(transport)->channels;
  const auto refused = [&](std::string_view what) {
    return tl::unexpected(
        fmt::format("the {} transport has no {}; leave that out, or take cpu-thread", transport, what));
  };
  if (asked.blocking) return refused("blocking channels");
  if (asked.capacity != declared.capacity) return refused("bounded channels (capacity)");
  if (asked.eager_bytes != declared.eager_bytes) return refused("eager messages");
  return declared;
}

}  // namespace penstock
