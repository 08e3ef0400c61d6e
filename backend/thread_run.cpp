#include "backend/thread_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/clock.hpp"
#include "backend/executor.hpp"
#include "backend/in_process_transport.hpp"
#include "backend/occupy_module.hpp"
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

constexpr std::string_view kTransport = "in-process";

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
                                     const ThreadRunOptions& options) {
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

std::vector<std::string> notes_of(const Experiment& experiment, const ThreadRunOptions& options) {
  std::vector<std::string> notes = experiment.notes;
  notes.push_back(
      fmt::format("occupy modules: each action holds its thread for the time that the costs "
                  "say; median of {}, {} before them not counted",
                  format_count(options.repeats, "run"), options.warmup));
  if (options.time_scale != 1) {
    notes.push_back(fmt::format("held {:g} times as long, and all times divided by it", options.time_scale));
  }
  if (options.jitter.fraction > 0) {
    notes.push_back(fmt::format("durations vary by {} either way (seed {})",
                                format_percent(options.jitter.fraction), options.jitter.seed));
  }
  if (experiment.channels.model != thread_channels(experiment.channels).model) {
    notes.push_back(fmt::format("the scenario asks for {} channels; the {} transport has {} ones",
                                to_text(experiment.channels.model), kTransport,
                                to_text(thread_channels(experiment.channels).model)));
  }
  return notes;
}

/// Runs one experiment as often as it is asked to.
class Repeater {
 public:
  Repeater(const Experiment& experiment, const PaceOfLinks& pace, const ThreadRunOptions& options)
      : experiment_(experiment),
        options_(options),
        channels_(thread_channels(experiment.channels)),
        flat_(flatten(experiment.program, experiment.costs,
                      {.channels = channels_, .iterations = experiment.program.iterations})),
        pace_(pace(flat_)),
        deadline_(deadline_of(experiment.costs, pace_, options)) {}

  tl::expected<Timeline, ThreadRunError> median() const {
    std::vector<Timeline> timed;
    for (std::int32_t i = 0; i < options_.warmup + options_.repeats; ++i) {
      auto timeline = once();
      if (!timeline) return tl::unexpected(ThreadRunError{.message = std::move(timeline.error().message)});
      if (i >= options_.warmup) timed.push_back(*std::move(timeline));
    }
    const auto middle = timed.begin() + (options_.repeats - 1) / 2;
    std::ranges::nth_element(timed, middle, {}, &Timeline::makespan_ns);
    return std::move(*middle);
  }

 private:
  tl::expected<Timeline, ExecutionError> once() const {
    const SteadyClock clock(options_.time_scale);
    StageModules modules = occupy_modules(experiment_.program, experiment_.costs, clock, options_.jitter);
    InProcessTransport transport(flat_, channels_, pace_, clock);
    return execute({.program = experiment_.program,
                    .flat = flat_,
                    .modules = modules,
                    .transport = transport,
                    .clock = clock,
                    .deadline = deadline_});
  }

  const Experiment& experiment_;
  const ThreadRunOptions& options_;
  ChannelOptions channels_;
  FlatProgram flat_;
  LinkPace pace_;
  std::chrono::nanoseconds deadline_;
};

}  // namespace

ChannelOptions thread_channels(const ChannelOptions& asked) {
  ChannelOptions channels = asked;
  channels.model = find_transport(kTransport)->channels.model;
  return channels;
}

tl::expected<Result, ThreadRunError> run_on_threads(const Experiment& experiment, const PaceOfLinks& pace,
                                                    const ThreadRunOptions& options) {
  const ChannelOptions channels = thread_channels(experiment.channels);
  if (const auto hang = find_hang(experiment.program, channels, experiment.costs)) {
    return tl::unexpected(
        ThreadRunError{.message = fmt::format("the program hangs on the {} transport ({} channels):\n{}",
                                              kTransport, to_text(channels.model), hang->message),
                       .invalid = true});
  }
  auto timeline = Repeater(experiment, pace, options).median();
  if (!timeline) return tl::unexpected(std::move(timeline.error()));
  Result result =
      summarize(*std::move(timeline), {.program = experiment.program,
                                       .costs = experiment.costs,
                                       .samples_per_microbatch = experiment.samples_per_microbatch});
  result.kind = ResultKind::measured;
  result.scenario = experiment.name;
  result.engine = "cpu-thread";
  result.channel = std::string(to_text(channels.model));
  result.notes = notes_of(experiment, options);
  return result;
}

}  // namespace penstock
