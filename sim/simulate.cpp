// Runs an engine and gathers everything that a Result says.

#include "sim/simulate.hpp"

#include <algorithm>
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
#include "report/units.hpp"
#include "scenarios/experiment.hpp"
#include "scenarios/scenario.hpp"
#include "schedules/action.hpp"
#include "schedules/channel.hpp"
#include "schedules/channel_check.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/program.hpp"
#include "sim/endless_stream.hpp"
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

void add_steady_rate(Result& result, const Experiment& experiment, Engine engine) {
  const std::optional<Period> period = steady_period(experiment, engine);
  if (!period || period->period_ns == 0) return;
  result.throughput.steady_samples_per_second =
      samples_per_second(*period, experiment.samples_per_microbatch);
}

void add_cost(Result& result, const Experiment& experiment) {
  result.throughput.cost_per_million_samples = cost_per_million_samples(
      result.throughput, experiment.program.rank_count(), experiment.price_per_device_hour);
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
  add_cost(result, experiment);
  return result;
}

namespace {

/// That the rate of a stream is given although a device is too small for it; nothing when all are large
/// enough, or when the run itself does not fit, which is reported anyway.
std::optional<std::string> steady_memory_note(const Result& result, const EndlessStream& stream) {
  for (const RankReport& rank : result.ranks) {
    if (rank.memory.out_of_memory()) return std::nullopt;
  }
  const auto rank = first_out_of_memory(stream.memories);
  if (!rank) return std::nullopt;
  const RankMemory& memory = stream.memories[*rank];
  return fmt::format(
      "this run fits in memory, but the stream's steady state needs {} on rank {} ({}), which has {}: the "
      "steady rate is what it would be with enough memory",
      format_bytes(memory.peak_bytes), *rank, result.ranks[*rank].device, format_bytes(*memory.capacity));
}

}  // namespace

std::optional<std::size_t> first_out_of_memory(const std::vector<RankMemory>& memories) {
  const auto found =
      std::ranges::find_if(memories, [](const RankMemory& memory) { return memory.out_of_memory(); });
  if (found == memories.end()) return std::nullopt;
  return static_cast<std::size_t>(found - memories.begin());
}

tl::expected<Prediction, SimulateError> predict(const Scenario& scenario, const SimulateOptions& options) {
  const auto experiment = prepare(scenario);
  if (!experiment) {
    return tl::unexpected(
        SimulateError{experiment.error().message, experiment.error().invalid, std::nullopt});
  }
  const bool is_stream = experiment->program.update == UpdateRule::microbatch;
  SimulateOptions run_options = options;
  if (is_stream) run_options.steady = SteadyState::skip;
  auto result = simulate(*experiment, run_options);
  if (!result) return tl::unexpected(SimulateError{result.error().message, true, result.error()});
  Prediction prediction{.result = *std::move(result), .stream = std::nullopt};
  if (!is_stream || options.steady == SteadyState::skip) return prediction;
  prediction.stream = endless_stream(scenario, *experiment, options.engine);
  if (prediction.stream && prediction.stream->samples_per_second) {
    prediction.result.throughput.steady_samples_per_second = prediction.stream->samples_per_second;
  } else {
    add_steady_rate(prediction.result, *experiment, resolve(*experiment, options.engine));
  }
  add_cost(prediction.result, *experiment);  // at another rate than before
  return prediction;
}

tl::expected<Result, SimulateError> simulate_scenario(const Scenario& scenario,
                                                      const SimulateOptions& options) {
  auto prediction = predict(scenario, options);
  if (!prediction) return tl::unexpected(prediction.error());
  Result& result = prediction->result;
  if (prediction->stream) {
    if (auto note = steady_memory_note(result, *prediction->stream)) result.notes.push_back(*std::move(note));
  }
  return std::move(result);
}

}  // namespace penstock
