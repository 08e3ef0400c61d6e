#include "backend/measured_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/in_process_transport.hpp"
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
                                  const Runner& runner) {
  std::vector<std::string> notes = experiment.notes;
  notes.push_back(
      fmt::format("occupy modules: each action holds its {} for the time that the costs "
                  "say; median of {}, {} before them not counted",
                  runner.worker, format_count(options.repeats, "run"), options.warmup));
  if (options.time_scale != 1) {
    notes.push_back(fmt::format("held {:g} times as long, and all times divided by it", options.time_scale));
  }
  if (options.jitter.fraction > 0) {
    notes.push_back(fmt::format("durations vary by {} either way (seed {})",
                                format_percent(options.jitter.fraction), options.jitter.seed));
  }
  if (experiment.channels.model != runner.channels.model) {
    notes.push_back(fmt::format("the scenario asks for {} channels; the {} transport has {} ones",
                                to_text(experiment.channels.model), runner.transport,
                                to_text(runner.channels.model)));
  }
  return notes;
}

Timeline median_of(std::vector<Timeline> timed) {
  const auto middle = timed.begin() + (static_cast<std::ptrdiff_t>(timed.size()) - 1) / 2;
  std::ranges::nth_element(timed, middle, {}, &Timeline::makespan_ns);
  return std::move(*middle);
}

}  // namespace

tl::expected<std::optional<Result>, RunError> measure(const Experiment& experiment, const PaceOfLinks& pace,
                                                      const RunOptions& options, const Runner& runner) {
  if (const auto hang = find_hang(experiment.program, runner.channels, experiment.costs)) {
    return tl::unexpected(
        RunError{.message = fmt::format("the program hangs on the {} transport ({} channels):\n{}",
                                        runner.transport, to_text(runner.channels.model), hang->message),
                 .invalid = true});
  }
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = runner.channels, .iterations = experiment.program.iterations});
  const LinkPace links = pace(flat);
  auto timelines = runner.execute({.experiment = experiment,
                                   .options = options,
                                   .flat = flat,
                                   .channels = runner.channels,
                                   .pace = links,
                                   .deadline = deadline_of(experiment.costs, links, options)});
  if (!timelines) return tl::unexpected(RunError{.message = std::move(timelines.error().message)});
  if (timelines->empty()) return std::nullopt;
  timelines->erase(timelines->begin(), timelines->begin() + options.warmup);
  Result result = summarize(median_of(*std::move(timelines)),
                            {.program = experiment.program,
                             .costs = experiment.costs,
                             .samples_per_microbatch = experiment.samples_per_microbatch});
  result.kind = ResultKind::measured;
  result.scenario = experiment.name;
  result.engine = runner.engine;
  result.channel = std::string(to_text(runner.channels.model));
  result.notes = notes_of(experiment, options, runner);
  return result;
}

}  // namespace penstock
