// Runs an engine and gathers everything that a Result says.

#include "sim/simulate.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/metrics.hpp"
#include "report/result.hpp"
#include "report/timeline.hpp"
#include "scenarios/experiment.hpp"
#include "scenarios/scenario.hpp"
#include "schedules/action.hpp"
#include "schedules/channel.hpp"
#include "schedules/channel_check.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/program.hpp"
#include "sim/engines.hpp"
#include "sim/memory.hpp"
#include "sim/message_costs.hpp"
#include "sim/steady_state.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

/// Bytes over every link, from the messages of the timeline.
std::vector<LinkTraffic> link_traffic(const Timeline& timeline, const Experiment& experiment) {
  std::map<std::int32_t, Bytes> bytes_of_link;
  const auto add = [&](std::int32_t from, std::int32_t to, Bytes bytes) {
    for (const std::int32_t link : experiment.cluster.route(from, to).links) bytes_of_link[link] += bytes;
  };
  std::map<std::pair<std::int32_t, std::int32_t>, Bytes> bytes_of_pair;
  const Placement& placement = experiment.program.placement;
  for (const Span& span : timeline.spans) {
    if (is_send(span.action.kind)) {
      const std::int32_t to = placement.rank_of(span.action.peer, span.action.microbatch);
      bytes_of_pair[{span.rank, to}] += transfer_bytes(experiment.costs, span.action);
    } else if (is_collective(span.action.kind)) {
      const auto& group = placement.stages[static_cast<std::size_t>(span.action.stage)].ranks;
      const auto next = (static_cast<std::size_t>(span.replica) + 1) % group.size();
      bytes_of_pair[{span.rank, group[next]}] += collective_cost(experiment, span.action).bytes_per_link;
    }
  }
  for (const auto& [pair, bytes] : bytes_of_pair) add(pair.first, pair.second, bytes);
  std::vector<LinkTraffic> traffic;
  for (const auto& [link, bytes] : bytes_of_link) {
    if (bytes > 0)
      traffic.push_back({experiment.cluster.links()[static_cast<std::size_t>(link)].name, bytes});
  }
  return traffic;
}

void add_memory(Result& result, const Experiment& experiment, const MemoryOptions& options) {
  std::vector<RankMemory> memories = memory_of(result.timeline, experiment, options);
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    result.ranks[rank].memory = std::move(memories[rank]);
    if (rank < experiment.cluster.devices().size())
      result.ranks[rank].device = experiment.cluster.devices()[rank].name;
  }
}

double samples_per_second(const Period& period, double samples_per_microbatch) {
  return static_cast<double>(period.microbatches) * samples_per_microbatch * 1e9 /
         static_cast<double>(period.period_ns);
}

void add_steady_rate(Result& result, const Experiment& experiment, Engine engine) {
  const std::optional<Period> period = steady_period(experiment, engine);
  if (!period || period->period_ns == 0) return;
  result.throughput.steady_samples_per_second =
      samples_per_second(*period, experiment.samples_per_microbatch);
}

}  // namespace

tl::expected<Result, Hang> simulate(const Experiment& experiment, const SimulateOptions& options) {
  const Engine engine = resolve(experiment, options.engine);
  auto timeline = run_engine(experiment, engine);
  if (!timeline) return tl::unexpected(std::move(timeline.error()));
  Result result =
      summarize(std::move(*timeline), {.program = experiment.program,
                                       .costs = experiment.costs,
                                       .samples_per_microbatch = experiment.samples_per_microbatch});
  result.scenario = experiment.name;
  result.engine = std::string(to_text(engine));
  result.channel = std::string(to_text(experiment.channels.model));
  result.notes = experiment.notes;
  result.links = link_traffic(result.timeline, experiment);
  add_memory(result, experiment, options.memory);
  if (options.steady == SteadyState::find) add_steady_rate(result, experiment, engine);
  return result;
}

namespace {

/// The first rank whose device is too small for the experiment, in words.
std::optional<std::string> too_small(const Experiment& experiment, Engine engine) {
  const auto timeline = run_engine(experiment, engine);
  if (!timeline) return std::nullopt;
  const std::vector<RankMemory> memories = memory_of(*timeline, experiment, {.samples = false});
  for (std::size_t rank = 0; rank < memories.size(); ++rank) {
    if (!memories[rank].out_of_memory()) continue;
    return fmt::format("rank {} needs {} of {} bytes", rank, memories[rank].peak_bytes,
                       *memories[rank].capacity);
  }
  return std::nullopt;
}

/// Takes the steady rate from a stream of the scenario that is long enough to show a period. A stream that
/// fills the pipeline beyond a device's memory has no rate that anybody could reach, which a note says.
void add_steady_rate_of_longer_stream(Result& result, const Scenario& scenario, const Experiment& experiment,
                                      Engine engine) {
  const std::int32_t wanted = 12 * dependency_depth(experiment.program) + 64;
  Scenario longer = scenario;
  std::int32_t factor = wanted / experiment.program.microbatches + 1;
  for (int attempt = 0; attempt < 3; ++attempt, factor *= 4) {
    longer.shape.iterations = scenario.shape.iterations * factor;
    const auto prepared = prepare(longer);
    if (!prepared) return;
    const auto period = steady_period(*prepared, engine);
    if (!period || period->period_ns == 0) continue;
    if (const auto reason = too_small(*prepared, engine)) {
      result.notes.push_back(
          fmt::format("no steady rate: {} minibatches fit, but a stream that fills the pipeline does not: {}",
                      experiment.program.microbatches, *reason));
      return;
    }
    result.throughput.steady_samples_per_second =
        samples_per_second(*period, prepared->samples_per_microbatch);
    return;
  }
}

}  // namespace

tl::expected<Result, SimulateError> simulate_scenario(const Scenario& scenario,
                                                      const SimulateOptions& options) {
  const auto experiment = prepare(scenario);
  if (!experiment) {
    return tl::unexpected(
        SimulateError{experiment.error().message, experiment.error().invalid, std::nullopt});
  }
  auto result = simulate(*experiment, options);
  if (!result) return tl::unexpected(SimulateError{result.error().message, true, result.error()});
  const bool stream = experiment->program.update == UpdateRule::microbatch && !scenario.program;
  if (stream && options.steady == SteadyState::find && !result->throughput.steady_samples_per_second) {
    add_steady_rate_of_longer_stream(*result, scenario, *experiment, resolve(*experiment, options.engine));
  }
  return std::move(*result);
}

}  // namespace penstock
